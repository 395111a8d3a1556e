"""The gate: a tenant's calls and streams are counted while they are open, and bounded."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from data_plane.authz.access import Principal
from data_plane.node.admission.gate import Gate
from data_plane.node.ports import Caller, CallFailed
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from penstock.contract import limits
from penstock.contract.errors import ErrorCode, Unauthenticated
from penstock.contract.ids import PrincipalNumber, TenantId


class Keys:
    """In place of the authenticator: the credential is the tenant's name."""

    def __init__(self) -> None:
        self.asked = 0
        self.revoked = False
        self.expire_at_ms: dict[str, int] = {}
        """By tenant; a tenant that is not named has keys that never expire."""

    def authenticate(self, authorization: str, **_: Any) -> Principal:
        self.asked += 1
        return Principal(
            tenant=TenantId(authorization),
            number=PrincipalNumber(1),
            key_id="key",
            key_revision=1,
            expires_at_ms=0,
        )

    def check_still_valid(self, principal: Principal, now_ms: int) -> None:
        expires_at_ms = self.expires_at_ms(principal)
        if self.revoked or (expires_at_ms and now_ms >= expires_at_ms):
            raise Unauthenticated("the API key was revoked")

    def expires_at_ms(self, principal: Principal) -> int:
        return self.expire_at_ms.get(principal.tenant, 0)


class Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return 0.0


def gate() -> tuple[Gate, Keys]:
    keys = Keys()
    return Gate(cast(Any, keys), Clock(), NodeStats(), lambda: 0.0), keys


def of(tenant: str, principal: Principal | None = None, *, peer: str = "p", connection: str = "") -> Caller:
    return Caller(
        peer=peer,
        authorization=tenant,
        cluster_secret="",
        internal=False,
        connection=connection,
        principal=principal,
    )


@pytest.mark.pure
def test_a_tenant_has_so_many_calls_open_and_no_more_and_others_have_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CALLS_PER_TENANT_MAX", 2)
    door, _ = gate()
    with door.enter(of("a")):
        with door.enter(of("a")):
            with pytest.raises(CallFailed, match="2 streams and calls open") as refused, door.enter(of("a")):
                pass
            assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
            with door.enter(of("b")):
                pass
        with door.enter(of("a")) as principal:
            assert principal.tenant == "a"
    assert not door._calls


@pytest.mark.pure
def test_who_was_admitted_is_not_asked_for_his_secret_again_but_whether_his_key_still_counts() -> None:
    door, keys = gate()
    with door.enter(of("a")) as principal:
        assert door.admit(of("", principal)) is principal
        assert keys.asked == 1
        keys.revoked = True
        with pytest.raises(CallFailed, match="was revoked"):
            door.admit(of("", principal))


@pytest.mark.pure
def test_a_tenant_has_calls_on_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_PER_TENANT_MAX", 2)
    door, _ = gate()
    told = "the tenant has 2 connections with calls open at this broker, at most 2 allowed"
    with door.enter(of("a", connection="p:1")), door.enter(of("a", connection="p:1")):
        with door.enter(of("a", peer="q", connection="q:2")):
            with pytest.raises(CallFailed, match=told) as refused, door.enter(of("a", connection="p:3")):
                pass
            assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
            with door.enter(of("b", connection="p:3")), door.enter(of("a", connection="p:1")):
                assert door.connections == 3
        with door.enter(of("a", connection="p:3")):
            pass
    assert (door.connections, door._stats.calls_over_limits) == (0, 1)


@pytest.mark.pure
def test_an_address_with_too_many_connections_is_refused_before_its_key_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_PER_ADDRESS_MAX", 1)
    door, keys = gate()
    with door.enter(of("a", connection="p:1")):
        with (
            pytest.raises(CallFailed, match="the address has 1 connections"),
            door.enter(of("b", connection="p:2")),
        ):
            pass
        assert keys.asked == 1
        with door.enter(of("b", peer="q", connection="q:2")), door.enter(of("a", connection="p:1")):
            pass
    with door.enter(of("b", connection="p:2")):
        pass


class Open:
    """Conversations that say nothing, at a gate that runs; what ended each."""

    def __init__(self, loop: SimLoop) -> None:
        self.clock = SimClock(loop)
        self.keys, self.stats = Keys(), NodeStats()
        self.door = Gate(cast(Any, self.keys), self.clock, self.stats, lambda: 0.0)
        self.tasks: list[asyncio.Task[Any]] = [loop.create_task(self.door.run())]

    def begin(self, tenant: str, conversation: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        principal = self.door.admit(of(tenant))
        task = asyncio.get_running_loop().create_task(self.door.during(principal, conversation))
        self.tasks.append(task)
        return task

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


def _run(story: "Coroutine[Any, Any, None]", loop: SimLoop) -> None:
    try:
        loop.run_until_complete(story)
        assert not loop.failures
    finally:
        loop.close()


async def silence() -> None:
    await asyncio.sleep(3_600)


@pytest.mark.pure
def test_a_key_that_expires_ends_its_open_streams_in_time_and_those_of_no_other_key() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)
        other = here.begin("b", silence())
        await asyncio.sleep(10)
        for _ in range(2):
            expires_at_ms = here.clock.now_ms() + 5_000
            here.keys.expire_at_ms["a"] = expires_at_ms
            streams = [here.begin("a", silence()) for _ in range(2)]
            done, _ = await asyncio.wait(streams)
            assert 0 <= here.clock.now_ms() - expires_at_ms <= 300
            for stream in done:
                with pytest.raises(CallFailed) as refused:
                    stream.result()
                assert refused.value.code == ErrorCode.UNAUTHENTICATED
        assert not other.done()
        assert len(here.door._open) == 1
        await here.stop()

    _run(story(), loop)


@pytest.mark.pure
def test_a_change_of_keys_ends_at_once_every_stream_whose_key_was_revoked_however_many() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)
        streams = [here.begin("a", silence()) for _ in range(1_201)]
        await asyncio.sleep(1)
        here.door.recheck()
        await asyncio.sleep(1)
        assert not any(stream.done() for stream in streams)
        here.keys.revoked = True
        await asyncio.sleep(1)
        assert not any(stream.done() for stream in streams), "it looks when it is told to"
        here.door.recheck()
        began = loop.time()
        await asyncio.wait(streams)
        assert loop.time() - began < 0.1
        assert all(isinstance(stream.exception(), CallFailed) for stream in streams)
        assert not here.door._open
        await here.stop()

    _run(story(), loop)


@pytest.mark.pure
def test_a_stream_that_ends_by_itself_is_forgotten_and_its_own_end_is_told() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)

        async def said() -> None:
            await asyncio.sleep(1)

        await here.begin("a", said())
        assert not here.door._open

        async def broken() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await here.begin("a", broken())
        assert not here.door._open
        await here.stop()

    _run(story(), loop)


@pytest.mark.pure
def test_a_key_revoked_while_its_stream_is_being_ended_is_no_failure_of_ours() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)

        async def lingering() -> None:
            try:
                await silence()
            finally:
                await asyncio.sleep(2)

        stream = here.begin("a", lingering())
        await asyncio.sleep(1)
        stream.cancel()
        await asyncio.sleep(1)
        here.keys.revoked = True
        here.door.recheck()
        await asyncio.wait([stream])
        assert stream.cancelled() and not here.door._open
        await here.stop()

    _run(story(), loop)
    gc.collect()  # an exception that nobody has looked at would be told now
    assert not loop.failures


@pytest.mark.pure
def test_a_call_with_a_key_that_is_not_known_is_counted_each_time() -> None:
    door, keys = gate()

    def refuse(authorization: str, **_: Any) -> Principal:
        raise Unauthenticated("no such key")

    keys.authenticate = refuse  # type: ignore[method-assign]
    for count in (1, 2):
        with pytest.raises(CallFailed, match="no such key") as refused, door.enter(of("a")):
            pass
        assert refused.value.code == ErrorCode.UNAUTHENTICATED
        assert door._stats.authentication_failures == count
    assert door.connections == 0
