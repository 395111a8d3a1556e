"""Several coroutines as one: our own fault is never hidden behind a lost connection (RL140). Long loops let others
run."""

import asyncio
from collections.abc import Sequence

import pytest

from data_plane.broker.clock import SystemRng
from data_plane.node.ports import ConnectionLost
from data_plane.node.tasks import TURN_MS, Turn, in_turns, together


async def _fails(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


def test_an_unexpected_error_is_told_before_an_expected_one() -> None:
    for parts in ((ConnectionLost("gone"), KeyError("ours")), (KeyError("ours"), ConnectionLost("gone"))):
        with pytest.raises((KeyError, ConnectionLost)) as raised:
            asyncio.run(together(*(_fails(part) for part in parts)))
        assert isinstance(raised.value, KeyError), "what is our own fault ends the process"


def test_an_expected_error_is_raised_as_itself() -> None:
    with pytest.raises(ConnectionLost, match="gone"):
        asyncio.run(together(_fails(ConnectionLost("gone")), asyncio.sleep(60)))


def test_a_failed_part_leaves_no_trace_in_the_task_and_a_later_timeout_is_one() -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLost):
            await together(_fails(ConnectionLost("gone")), asyncio.sleep(60))
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)

    asyncio.run(story())


def test_whoever_is_cancelled_ends_although_a_part_takes_it_for_a_lost_connection() -> None:
    ended: list[str] = []

    async def loses_its_connection() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("part")
            raise ConnectionLost("cancelled") from None

    async def story() -> None:
        task = asyncio.create_task(together(loses_its_connection(), asyncio.sleep(60)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["part"], "all parts have ended by then"

    asyncio.run(story())


def test_what_was_wrong_is_told_even_to_whoever_is_cancelled() -> None:
    async def fails_at_its_end() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise KeyError("ours")

    async def story() -> None:
        task = asyncio.create_task(together(fails_at_its_end()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(KeyError):
            await task

    asyncio.run(story())


def test_parts_of_a_long_list_come_in_turns_between_which_others_run() -> None:
    seen: list[object] = []

    async def other() -> None:
        for _ in range(2):
            seen.append("other")
            await asyncio.sleep(0)

    async def story() -> None:
        others = asyncio.create_task(other())
        async for part in in_turns([1, 2, 3, 4, 5], 2):
            seen.append(list(part))
        await others

    asyncio.run(story())
    assert seen == [[1, 2], "other", [3, 4], "other", [5]]


def test_nothing_has_no_parts() -> None:
    none: list[int] = []

    async def story() -> list[Sequence[int]]:
        return [part async for part in in_turns(none, 2)]

    assert asyncio.run(story()) == []


class Ticking:
    """A clock that is moved."""

    def __init__(self) -> None:
        self.passed_ms = 0.0

    def now_ms(self) -> int:
        return int(self.passed_ms)

    def monotonic_ms(self) -> float:
        return self.passed_ms


def test_a_turn_is_over_after_some_time_and_the_next_one_has_its_whole_time() -> None:
    clock = Ticking()
    turn = Turn(clock, SystemRng())
    assert not turn.is_over
    clock.passed_ms += TURN_MS
    assert turn.is_over
    asyncio.run(turn.give_way())
    assert not turn.is_over
    clock.passed_ms += TURN_MS - 1
    assert not turn.is_over
