"""A broker with a slow disk leaves what others can do without it, and nothing else (RL133)."""

from data_plane.controller.step_aside import steps_aside
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Put
from penstock.contract.ids import BrokerId, TopicPartition

from .setup import ORDERS, Store, record

ONE = BrokerId(1)


def after(store: Store, limit: int = 10) -> PartitionRecord:
    """Broker 1 has stepped aside: the record of the first partition."""
    for write in steps_aside(store.image, ONE, limit):
        assert store.txn(write.compares, (Put(write.key, write.value),))
    found = store.image.partition(TopicPartition(ORDERS, 0))
    assert found is not None
    return found


def test_a_leader_hands_over_and_leaves_in_one_write() -> None:
    store = Store()
    store.topic(record())
    left = after(store)
    assert (left.leader, left.in_sync, left.leader_epoch, left.partition_epoch) == (2, (2, 3), 6, 8)
    assert steps_aside(store.image, ONE, 10) == []


def test_a_follower_leaves_and_the_leader_stays() -> None:
    store = Store()
    store.topic(record(leader=2))
    left = after(store)
    assert (left.leader, left.in_sync, left.leader_epoch, left.partition_epoch) == (2, (2, 3), 5, 8)


def test_nobody_leaves_whom_the_others_need() -> None:
    store = Store()
    store.topic(record((1, 2)), record((1,), partition=1))
    assert steps_aside(store.image, ONE, 10) == []


def test_only_those_who_are_alive_count_as_others() -> None:
    store = Store()
    store.topic(record())
    store.broker(3, draining=True)
    assert steps_aside(store.image, ONE, 10) == []


def test_a_broker_that_was_fenced_meanwhile_changes_nothing() -> None:
    store = Store()
    store.topic(record())
    (write,) = steps_aside(store.image, ONE, 10)
    store.register(1, "another incarnation")
    assert not store.txn(write.compares, (Put(write.key, write.value),))


def test_no_more_cells_are_written_at_once_than_asked_for() -> None:
    store = Store()
    store.topic(*(record(partition=100 * number) for number in range(5)))
    assert len(steps_aside(store.image, ONE, 3)) == 3
