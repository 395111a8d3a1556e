"""What is put aside between its readings is looked at when that is due, and not before."""

from collections.abc import Iterator

import pytest

from data_plane.node.metering.looks import ASIDE_MS_MAX, Looks

from .test_rounds import Metered


@pytest.fixture
def metered() -> Iterator[Metered]:
    made = Metered()
    with made.usage:
        yield made


@pytest.fixture
def looks(metered: Metered) -> Looks:
    """With the one partition in it, which is looked at."""
    found = Looks(metered.replicas.changes())
    found.look(metered.replica)
    assert found.begin(0, 7) == [metered.replica]
    return found


def test_nothing_is_put_aside_for_longer_than_a_seal_may_wait(metered: Metered, looks: Looks) -> None:
    looks.put_aside(metered.replica, metered.replica.leading, 100, 1e12)
    assert looks.begin(100 + ASIDE_MS_MAX - 1, 7) == []
    assert looks.begin(100 + ASIDE_MS_MAX + 250, 7) == [metered.replica]


def test_all_is_looked_at_once_when_a_minute_begins(metered: Metered, looks: Looks) -> None:
    looks.put_aside(metered.replica, metered.replica.leading, 0, 5_000)
    assert looks.begin(1, 8) == [metered.replica]
    looks.put_aside(metered.replica, metered.replica.leading, 2, 5_000)
    assert looks.begin(3, 8) == [], "the minute has begun before"


def test_what_rests_meanwhile_is_not_looked_at_when_its_time_comes(metered: Metered, looks: Looks) -> None:
    looks.put_aside(metered.replica, metered.replica.leading, 0, 5_000)
    looks.look(metered.replica)
    assert looks.begin(1, 7) == [metered.replica]
    looks.let_rest(metered.replica)
    assert looks.begin(6_000, 7) == [] and len(looks) == 0


def test_what_waits_for_any_change_is_looked_at_when_it_is_led_no_more(
    metered: Metered, looks: Looks
) -> None:
    looks.put_aside(metered.replica, None, 0, 5_000)
    metered.replica.rest()
    metered.replicas.changed(metered.replica)
    assert looks.begin(1, 7) == [metered.replica]


@pytest.mark.parametrize("why", ["another leadership", "a seal", "a loss", "nothing"])
def test_only_time_makes_the_next_reading_due_unless_something_happened(metered: Metered, why: str) -> None:
    replica, clock = metered.replica, metered.clock
    metered.round_after(0)
    metered.produce()
    record = replica.record
    assert metered.round_after(1_000) == [] and record is not None
    if why == "another leadership":
        replica.rest()
        replica.lead(record.changed(leader_epoch=record.leader_epoch + 1))
    elif why == "a seal":
        replica.sealed_offset = replica.log.usage.sealed_end_offset - 1
    elif why == "a loss":
        replica.metered_generation = replica.log.usage.log_generation - 1
    assert metered.metering.readings.is_early(replica, clock.monotonic_ms(), 0) == (why == "nothing")
