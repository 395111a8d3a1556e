"""The gate: a tenant's calls and streams are counted while they are open, and bounded."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from data_plane.authz.access import Principal
from data_plane.metadata.model import TenantQuotas
from data_plane.metering.connection_time import ConnectionTime
from data_plane.node.admission.gate import Gate
from data_plane.node.ports import Caller, CallFailed
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from tests.unit.authz.setup import ACME, GLOBEX, NOW_MS, Tenants, key_number

INITECH, HOOLI = TenantId("initech"), TenantId("hooli")
NUMBERS = {ACME: 1, GLOBEX: 2, INITECH: 3, HOOLI: 4}
"""Of the tenants' keys."""


class Clock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> float:
        return 0.0


def own_quotas(tenant: TenantId) -> TenantQuotas:
    """One tenant has limits of its own."""
    return TenantQuotas(connections_max=2 if tenant == HOOLI else 0)


def gate(
    quotas: Callable[[TenantId], TenantQuotas] = own_quotas, time: ConnectionTime | None = None
) -> tuple[Gate, Tenants]:
    tenants = Tenants()
    for tenant in (INITECH, HOOLI):
        tenants.add_key(NUMBERS[tenant], tenant)
    return Gate(
        tenants.authenticator, Clock(), NodeStats(), lambda: 0.0, quotas, time or ConnectionTime()
    ), tenants


def bearer(number: int) -> str:
    return f"Bearer {key_number(number).reveal()}"


def of(
    tenant: TenantId, principal: Principal | None = None, *, peer: str = "p", connection: str = ""
) -> Caller:
    """With the tenant's key, or as one that was admitted and shows no key."""
    return Caller(
        peer=peer,
        authorization="" if principal else bearer(NUMBERS[tenant]),
        identity=None,
        connection=connection,
        principal=principal,
    )


def unknown(*, peer: str = "p", connection: str = "") -> Caller:
    """With a key that no tenant has."""
    return Caller(peer=peer, authorization=bearer(9), identity=None, connection=connection)


def test_a_tenant_has_so_many_calls_open_and_no_more_and_others_have_theirs() -> None:
    door, _ = gate()
    admitted = door.admit(of(ACME))
    told = f"{limits.CALLS_PER_TENANT_MAX} streams and calls open"
    with ExitStack() as most:
        for _ in range(limits.CALLS_PER_TENANT_MAX - 1):
            most.enter_context(door.enter(of(ACME, admitted)))
        with door.enter(of(ACME)):
            with pytest.raises(CallFailed, match=told) as refused, door.enter(of(ACME)):
                pass
            assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
            with door.enter(of(GLOBEX)):
                pass
        with door.enter(of(ACME)) as principal:
            assert principal.tenant == ACME
    assert not door._calls


def test_connections_are_timed_by_principal_while_a_call_is_open() -> None:
    time = ConnectionTime()
    door, _ = gate(time=time)
    principal = door.admit(of(HOOLI))
    with door.enter(of(HOOLI, connection="c1")), door.enter(of(HOOLI, connection="c1")):
        assert time.take(3_000) == [(HOOLI, principal.number, 3_000)]
        with door.enter(of(HOOLI, connection="c2")):
            pass
    assert time.take(9_000) == [], "the gate's own clock stands, so no more came"


def test_who_was_admitted_is_not_asked_for_his_secret_again_but_whether_his_key_still_counts() -> None:
    door, tenants = gate()
    with door.enter(of(ACME)) as principal:
        again = of(ACME, principal)
        assert not again.authorization
        assert door.admit(again) is principal
        tenants.change_key(NUMBERS[ACME], revoked=True)
        with pytest.raises(CallFailed, match="was revoked"):
            door.admit(again)


def test_a_tenant_has_calls_on_so_many_connections_and_no_more() -> None:
    door, _ = gate()
    admitted = door.admit(of(ACME))
    most = limits.CONNECTIONS_PER_TENANT_MAX
    told = f"the tenant has {most} connections with calls open at this broker, at most {most} allowed"
    with ExitStack() as others:
        for number in range(most - 2):
            others.enter_context(door.enter(of(ACME, admitted, peer="o", connection=f"o:{number}")))
        with door.enter(of(ACME, connection="p:1")), door.enter(of(ACME, connection="p:1")):
            with door.enter(of(ACME, peer="q", connection="q:2")):
                with pytest.raises(CallFailed, match=told) as refused, door.enter(of(ACME, connection="p:3")):
                    pass
                assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
                assert refused.value.message.endswith("not used"), "nobody has a higher one"
                with door.enter(of(GLOBEX, connection="p:3")), door.enter(of(ACME, connection="p:1")):
                    assert door.connections == most + 1
            with door.enter(of(ACME, connection="p:3")):
                pass
    assert (door.connections, door._stats.calls_over_limits) == (0, 1)


def test_a_tenants_own_limit_of_connections_is_the_lower_one_and_is_counted() -> None:
    door, _ = gate()
    said = "connections_max: the tenant has 2 connections with calls open at this broker, at most 2 allowed; close"
    with door.enter(of(HOOLI, connection="p:1")), door.enter(of(HOOLI, connection="p:2")):
        for _ in range(2):
            with pytest.raises(CallFailed, match=said) as refused, door.enter(of(HOOLI, connection="p:3")):
                pass
            assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
            assert refused.value.message.endswith("not used, or ask for a higher limit")
        with door.enter(of(HOOLI, connection="p:2")), door.enter(of(ACME, connection="p:3")):
            pass
    with door.enter(of(HOOLI, connection="p:3")):
        pass
    assert door._stats.limit_refusals.of(HOOLI, "connections_max") == 2


def test_a_limit_below_what_is_open_takes_nothing_from_the_connections_that_are() -> None:
    most = 3
    door, _ = gate(lambda tenant: TenantQuotas(connections_max=most))
    with ExitStack() as opened:
        for number in range(3):
            opened.enter_context(door.enter(of(HOOLI, connection=f"p:{number}")))
        most = 1
        with door.enter(of(HOOLI, connection="p:2")):
            pass
        with pytest.raises(CallFailed, match="connections_max"), door.enter(of(HOOLI, connection="p:4")):
            pass


def test_an_address_with_too_many_connections_is_refused_before_its_key_is_looked_at() -> None:
    door, _ = gate()
    admitted = [door.admit(of(tenant)) for tenant in NUMBERS if tenant != HOOLI]
    most = limits.CONNECTIONS_PER_ADDRESS_MAX
    with ExitStack() as others:
        for number in range(most - 1):
            principal = admitted[number % len(admitted)]
            others.enter_context(door.enter(of(principal.tenant, principal, connection=f"p:o{number}")))
        with door.enter(of(GLOBEX, connection="p:1")):
            with (
                pytest.raises(CallFailed, match=f"the address has {most} connections"),
                door.enter(unknown(connection="p:2")),
            ):
                pass
            assert door._stats.authentication_failures == 0
            with (
                door.enter(of(ACME, peer="q", connection="q:2")),
                door.enter(of(GLOBEX, connection="p:1")),
            ):
                pass
        with door.enter(of(ACME, connection="p:2")):
            pass


class Open:
    """Conversations that say nothing, at a gate that runs; what ended each."""

    def __init__(self, loop: SimLoop) -> None:
        self.clock = SimClock(loop)
        self.tenants = Tenants()
        self.stats = NodeStats()
        self.door = Gate(
            self.tenants.authenticator, self.clock, self.stats, lambda: 0.0, own_quotas, ConnectionTime()
        )
        self.tasks: list[asyncio.Task[Any]] = [loop.create_task(self.door.run())]

    def begin(self, tenant: TenantId, conversation: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
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


def test_a_key_that_expires_ends_its_open_streams_in_time_and_those_of_no_other_key() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)
        other = here.begin(GLOBEX, silence())
        await asyncio.sleep(10)
        for _ in range(2):
            expires_at_ms = here.clock.now_ms() + 5_000
            here.tenants.change_key(NUMBERS[ACME], expires_at_ms=expires_at_ms)
            streams = [here.begin(ACME, silence()) for _ in range(2)]
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


def test_a_change_of_keys_ends_at_once_every_stream_whose_key_was_revoked_however_many() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)
        streams = [here.begin(ACME, silence()) for _ in range(1_201)]
        await asyncio.sleep(1)
        here.door.recheck()
        await asyncio.sleep(1)
        assert not any(stream.done() for stream in streams)
        here.tenants.change_key(NUMBERS[ACME], revoked=True)
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


def test_a_stream_that_ends_by_itself_is_forgotten_and_its_own_end_is_told() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)

        async def said() -> None:
            await asyncio.sleep(1)

        await here.begin(ACME, said())
        assert not here.door._open

        async def broken() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await here.begin(ACME, broken())
        assert not here.door._open
        await here.stop()

    _run(story(), loop)


def test_a_key_revoked_while_its_stream_is_being_ended_is_no_failure_of_ours() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        here = Open(loop)

        async def lingering() -> None:
            try:
                await silence()
            finally:
                await asyncio.sleep(2)

        stream = here.begin(ACME, lingering())
        await asyncio.sleep(1)
        stream.cancel()
        await asyncio.sleep(1)
        here.tenants.change_key(NUMBERS[ACME], revoked=True)
        here.door.recheck()
        await asyncio.wait([stream])
        assert stream.cancelled() and not here.door._open
        await here.stop()

    _run(story(), loop)
    gc.collect()  # an exception that nobody has looked at would be told now
    assert not loop.failures


def test_a_call_with_a_key_that_is_not_known_is_counted_each_time() -> None:
    door, _ = gate()
    for count in (1, 2):
        with pytest.raises(CallFailed, match="the API key is not valid") as refused, door.enter(unknown()):
            pass
        assert refused.value.code == ErrorCode.UNAUTHENTICATED
        assert door._stats.authentication_failures == count
    assert door.connections == 0


def test_connections_that_begin_faster_than_the_tenants_rate_are_refused_before_anything_else_and_counted() -> (
    None
):
    door, _ = gate(lambda tenant: TenantQuotas(connection_attempts_per_s=3 if tenant == HOOLI else 0))
    for number in range(3):
        with door.enter(of(HOOLI, connection=f"p:{number}")):
            pass
    said = (
        "connection_attempts_per_s: 3 connections of the tenant a second may begin at this broker, all used; keep them"
        " open, a client needs one here; clears in 334 ms, or once an operator of the service raises it"
    )
    for _ in range(2):
        with pytest.raises(CallFailed, match=said) as refused, door.enter(of(HOOLI, connection="p:3")):
            raise AssertionError("it is let in")
        assert refused.value.code == ErrorCode.THROTTLED
    assert door._stats.limit_refusals.of(HOOLI, "connection_attempts_per_s") == 2
    with door.enter(of(HOOLI, connection="p:1")), door.enter(of(INITECH, connection="p:9")):
        assert door.connections == 2, "what is known goes on, and other tenants do not notice"


def test_a_wrong_key_takes_nothing_of_the_rate_of_the_tenant_it_names() -> None:
    door, _ = gate(lambda tenant: TenantQuotas(connection_attempts_per_s=1))
    right = of(HOOLI, connection="p:1")
    wrong = replace(right, authorization=right.authorization[:-3] + "xyz", connection="p:2")
    for _ in range(10):
        with pytest.raises(CallFailed), door.enter(wrong):
            raise AssertionError("it is let in")
    with door.enter(right):
        pass
