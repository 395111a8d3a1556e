"""Seconds in which a partition had no leader count as requests that nobody could take."""

from data_plane.metering.increments import Increments, RequestsKey, RequestTally
from data_plane.metering.unserved import Unserved
from penstock.contract.ids import TopicPartition
from penstock.rules.service_levels import PRODUCE
from tests.unit.controller.setup import ACME, ORDERS

FIRST = TopicPartition(ORDERS, 0)
HERE = {FIRST}


def test_each_full_second_without_a_leader_counts_once() -> None:
    unserved = Unserved()
    looks = [
        (HERE, 500.0),
        (HERE, 1_400.0),
        (HERE, 1_600.0),
        (HERE, 1_700.0),
        (HERE, 5_499.0),
        (HERE, 5_500.0),
    ]
    assert [unserved.look(*look).get(FIRST, 0) for look in looks] == [0, 0, 1, 0, 3, 1]


def test_a_moment_without_a_leader_is_none_and_a_second_time_begins_anew() -> None:
    unserved = Unserved()
    assert unserved.look(HERE, 0.0) == {}
    assert unserved.look(set(), 900.0) == {}
    assert unserved.look(HERE, 1_800.0) == {}
    assert unserved.look(HERE, 2_700.0) == {}
    assert unserved.look(HERE, 2_900.0) == {FIRST: 1}


def test_each_partition_counts_by_itself() -> None:
    unserved = Unserved()
    second = TopicPartition(ORDERS, 1)
    unserved.look({FIRST}, 0.0)
    unserved.look({FIRST, second}, 1_500.0)
    assert unserved.look({FIRST, second}, 3_000.0) == {FIRST: 2, second: 1}


def test_they_are_requests_that_failed() -> None:
    tally, increments = RequestTally(ACME, PRODUCE), Increments()
    tally.count(0)
    tally.fail(3)
    increments.gather(tally, 7 * 60_000)
    ((key, sums),) = increments.take_requests(9)
    assert (key, sums.valid, sums.bad) == (RequestsKey(ACME, PRODUCE, 7), 4, 3)
