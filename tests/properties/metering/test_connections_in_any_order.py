"""Calls on shared connections that end in any order: what is billed and counted, against a walk of all calls."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from data_plane.metering.connection_time import LOOK_MS_MAX, ConnectionTime
from data_plane.node.admission.connections import OpenConnections
from penstock.contract.ids import TenantId

TENANTS = (TenantId("a"), TenantId("b"))


@dataclass(frozen=True, slots=True)
class Call:
    tenant: TenantId
    principal: int
    connection: str


CALLS = st.builds(
    Call,
    tenant=st.sampled_from(TENANTS),
    principal=st.integers(1, 2),
    connection=st.sampled_from(("c1", "c2", "c3")),
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from((0, 1, 400, 900)),
        st.one_of(CALLS, st.integers(0, 9), st.none()),
    ),
    min_size=1,
    max_size=40,
)
"""(milliseconds that pass, then: a call begins, one of those open ends, or time is taken)."""


@given(EVENTS)
def test_connections_are_timed_and_counted_in_any_order_of_their_calls(
    events: list[tuple[int, Call | int | None]],
) -> None:
    time, connections = ConnectionTime(), OpenConnections()
    open_calls: list[Call] = []
    expected: dict[tuple[TenantId, int], int] = {}
    taken: dict[tuple[TenantId, int], int] = {}
    now_ms = taken_ms = 0
    looked_ms: dict[tuple[TenantId, int], int] = {}

    def pass_until(whose: tuple[TenantId, int]) -> None:
        """Time is looked at for this principal: each connection that it has a call on has been open since."""
        held = {call.connection for call in open_calls if (call.tenant, call.principal) == whose}
        passed_ms = min(now_ms - looked_ms.get(whose, now_ms), LOOK_MS_MAX)
        expected[whose] = expected.get(whose, 0) + len(held) * passed_ms
        looked_ms[whose] = now_ms

    def take() -> None:
        for tenant, principal, ms in time.take(now_ms):
            assert ms > 0
            taken[tenant, principal] = taken.get((tenant, principal), 0) + ms

    for passed_ms, event in events:
        now_ms += passed_ms
        for whose in {(call.tenant, call.principal) for call in open_calls}:
            pass_until(whose)
        if now_ms - taken_ms > LOOK_MS_MAX // 2:  # more often than longer times are cut
            take()
            taken_ms = now_ms
        if isinstance(event, Call):
            pass_until((event.tenant, event.principal))
            time.begin(event.tenant, event.principal, event.connection, now_ms)
            connections.begin(event.tenant, event.connection)
            open_calls.append(event)
        elif isinstance(event, int) and open_calls:
            call = open_calls[event % len(open_calls)]
            pass_until((call.tenant, call.principal))
            open_calls.remove(call)
            time.end(call.tenant, call.principal, call.connection, now_ms)
            connections.end(call.tenant, call.connection)
        elif event is None:
            take()
        held = {(call.tenant, call.connection) for call in open_calls}
        assert connections.total == len(held)
        for tenant in TENANTS:
            assert connections.of(tenant) == sum(owner == tenant for owner, _ in held)
            for connection in ("c1", "c2", "c3"):
                assert connections.has(tenant, connection) == ((tenant, connection) in held)
    take()
    assert taken == {whose: ms for whose, ms in expected.items() if ms}
