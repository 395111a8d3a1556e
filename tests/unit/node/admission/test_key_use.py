"""When keys were last used: noted by calls and by what is said on streams, forgotten after an hour, told in pages."""

import asyncio
from contextlib import ExitStack

import pytest

from data_plane.node.admission import key_use
from data_plane.node.admission.key_use import REMEMBERED_MS, KeyUse
from data_plane.node.ports import CallFailed
from tests.unit.authz.setup import ACME, GLOBEX, key_number

from .test_gate import NUMBERS, Clock, gate, of, unknown


def test_a_page_holds_the_first_keys_behind_one_with_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_use, "PAGE", 2)
    use = KeyUse()
    for at_ms, key_id in ((10, "c"), (20, "a"), (30, "b"), (40, "c")):
        use.note(key_id, at_ms)
    assert use.page(after="", within_ms=1_000, now_ms=100) == [("a", 80), ("b", 70)]
    assert use.page(after="b", within_ms=1_000, now_ms=100) == [("c", 60)]
    assert use.page(after="", within_ms=65, now_ms=100) == [("c", 60)]
    assert use.page(after="c", within_ms=1_000, now_ms=100) == []


def test_a_clock_that_was_set_back_makes_no_age_below_nothing() -> None:
    use = KeyUse()
    use.note("a", 500)
    assert use.page(after="", within_ms=1_000, now_ms=400) == [("a", 0)]


def test_uses_are_forgotten_after_an_hour() -> None:
    use = KeyUse()
    use.note("old", 0)
    use.note("new", 1)
    assert use.page(after="", within_ms=2 * REMEMBERED_MS, now_ms=REMEMBERED_MS + 1) == [
        ("new", REMEMBERED_MS)
    ]
    assert list(use._used_ms) == ["new"]


def test_calls_and_what_is_said_on_streams_are_uses_and_refusals_are_none() -> None:
    async def story() -> None:
        door, _ = gate()
        with ExitStack() as calls:
            principal = calls.enter_context(door.enter(of(ACME)))
            with pytest.raises(CallFailed), door.enter(unknown()):
                pass
            assert _used(door.key_use) == [key_number(NUMBERS[ACME]).key_id]
            other = calls.enter_context(door.enter(of(GLOBEX)))
            door.key_use._used_ms.clear()
            door.check(principal)
            assert _used(door.key_use) == [principal.key_id] != [other.key_id]

    asyncio.run(story())


def test_a_look_at_idle_streams_is_no_use() -> None:
    async def story() -> None:
        door, _ = gate()
        with door.enter(of(ACME)) as principal:
            conversation = asyncio.create_task(door.during(principal, asyncio.sleep(30)))
            looking = asyncio.create_task(door.run())
            await asyncio.sleep(0)
            door.key_use._used_ms.clear()
            door.recheck()
            for _ in range(5):
                await asyncio.sleep(0)
            assert _used(door.key_use) == []
            for task in (conversation, looking):
                task.cancel()
            await asyncio.gather(conversation, looking, return_exceptions=True)

    asyncio.run(story())


def _used(use: KeyUse) -> list[str]:
    return [key_id for key_id, _ in use.page(after="", within_ms=1_000, now_ms=Clock().now_ms())]
