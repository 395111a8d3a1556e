"""Eligible replicas: kept while the watermark stands still, dropped as soon as it may move on without them."""

from data_plane.replication.eligibility import eligible_after, with_in_sync
from penstock.contract.ids import BrokerId

from .setup import record


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def test_whoever_leaves_a_set_that_falls_below_the_minimum_is_eligible() -> None:
    assert eligible_after(record((1, 2)), brokers(1), 2) == ((2,), ())
    assert eligible_after(record((1,), eligible=(2,)), brokers(), 2) == ((1, 2), ())


def test_whoever_leaves_a_set_that_stays_large_enough_is_not() -> None:
    assert eligible_after(record((1, 2, 3)), brokers(1, 2), 2) == ((), ())


def test_reaching_the_minimum_clears_both_lists() -> None:
    before = record((1,), eligible=(2,), last_known=(3,))
    assert eligible_after(before, brokers(1, 2), 2) == ((), ())


def test_a_last_known_replica_is_remembered_until_it_is_in_sync_again() -> None:
    before = record((1,), eligible=(2,), last_known=(3,))
    assert eligible_after(before, brokers(1), 2) == ((2,), (3,))
    assert eligible_after(before, brokers(1, 3), 3) == ((2,), ())


def test_the_successor_keeps_order_of_preference_and_raises_the_partition_epoch() -> None:
    after = with_in_sync(record((1,)), brokers(3, 1), 2)
    assert (after.in_sync, after.partition_epoch) == ((1, 3), 8)
