"""Time of connections: the sum over connections of how long each was open, whenever it is looked at."""

from hypothesis import given
from hypothesis import strategies as st

from data_plane.metering.connection_time import LOOK_MS_MAX, ConnectionTime
from penstock.contract.ids import TenantId

ACME, HOOLI = TenantId("tn_acme"), TenantId("tn_hooli")


def test_a_connection_counts_once_however_many_calls_are_open_on_it() -> None:
    time = ConnectionTime()
    time.begin(ACME, 1, "c1", 0)
    time.begin(ACME, 1, "c1", 1_000)
    time.end(ACME, 1, "c1", 2_000)
    assert time.take(5_000) == [(ACME, 1, 5_000)]
    time.end(ACME, 1, "c1", 6_000)
    assert time.take(9_000) == [(ACME, 1, 1_000)]
    assert time.take(10_000) == []


def test_each_connection_and_each_principal_counts() -> None:
    time = ConnectionTime()
    for principal, connection in ((1, "c1"), (1, "c2"), (2, "c1")):
        time.begin(ACME, principal, connection, 0)
    time.begin(HOOLI, 1, "c3", 500)
    assert time.take(1_000) == [(ACME, 1, 2_000), (ACME, 2, 1_000), (HOOLI, 1, 500)]


def test_a_broker_that_stood_still_counts_little_of_that_time_and_a_clock_that_goes_back_nothing() -> None:
    time = ConnectionTime()
    time.begin(ACME, 1, "c1", 0)
    assert time.take(3_600_000) == [(ACME, 1, LOOK_MS_MAX)]
    assert time.take(3_000_000) == []
    assert time.take(3_000_100) == [(ACME, 1, 100)]


def test_nothing_is_remembered_of_connections_that_are_gone() -> None:
    time = ConnectionTime()
    for number in range(100):
        time.begin(ACME, number, "c", 0)
        time.end(ACME, number, "c", 0)
    time.take(1)
    assert not time._open


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 300), st.integers(1, 300)), min_size=1, max_size=20
    ),
    st.sets(st.integers(0, 600), max_size=8),
)
def test_time_is_the_union_of_the_calls_of_each_connection(
    calls: list[tuple[str, int, int]], looks: set[int]
) -> None:
    """Beside a count of each millisecond."""
    time, total = ConnectionTime(), 0
    events = [(begin, 1, name) for name, begin, _ in calls]
    events += [(begin + long, 0, name) for name, begin, long in calls]
    events += [(look, 2, "") for look in looks]
    for at, kind, name in sorted(events, key=lambda event: (event[0], -event[1])):
        if kind == 1:
            time.begin(ACME, 1, name, at)
        elif kind == 0:
            time.end(ACME, 1, name, at)
        else:
            total += sum(taken[2] for taken in time.take(at))
    total += sum(taken[2] for taken in time.take(10_000))
    open_ms = {(name, ms) for name, begin, long in calls for ms in range(begin, begin + long)}
    assert total == len(open_ms)
