"""Plans over a whole image: which blocks are written, what each write compares, when there is nothing to do."""

from data_plane.controller.elections import departures, fence_changes, lost_by_crash, plan, strip_replica
from data_plane.metadata import broker_records, model
from data_plane.metadata.port import Compare, Delete, Put
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition
from penstock.contract.topic_settings import Durability

from .setup import LOGS, ORDERS, Store, every_block, record

FIRST = TopicPartition(ORDERS, 0)


def fence(store: Store, broker: int) -> None:
    changes = fence_changes(store.image, BrokerId(broker))
    assert changes is not None
    assert store.txn(*changes)


def apply_plan(store: Store) -> int:
    writes = plan(store.image, every_block(store.image))
    for write in writes:
        assert store.txn(write.compares, (Put(write.key, write.value),))
    return len(writes)


def test_nothing_is_planned_while_all_is_well() -> None:
    store = Store()
    store.topic(record())
    assert plan(store.image, every_block(store.image)) == []


def test_a_fenced_leader_is_replaced_and_then_nothing_is_left_to_do() -> None:
    store = Store()
    store.topic(record(), record((2, 3), partition=1, leader=2))
    fence(store, 1)
    (write,) = plan(store.image, every_block(store.image))
    assert [(t.before.partition, t.after.leader, t.reason) for t in write.transitions] == [
        (0, 2, "leader replaced")
    ]
    assert apply_plan(store) == 1
    now = store.image.partition(FIRST)
    assert now is not None
    assert (now.leader, now.in_sync, now.leader_epoch) == (2, (2, 3), 6)
    assert plan(store.image, every_block(store.image)) == []


def test_one_cell_is_written_once_with_all_its_changes() -> None:
    store = Store()
    store.topic(*(record(partition=number, leader=1 + number % 3) for number in range(9)))
    fence(store, 1)
    (write,) = plan(store.image, every_block(store.image))
    assert len(write.transitions) == 9
    assert {t.reason for t in write.transitions} == {"leader replaced", "in-sync set shrunk"}


def test_an_election_compares_the_cell_and_the_registration_of_the_elected() -> None:
    store = Store()
    store.topic(record())
    fence(store, 1)
    (write,) = plan(store.image, every_block(store.image))
    assert write.compares == (
        Compare(write.key, write.block_revision),
        Compare(broker_records.live_key(2), store.image.epoch_of(2)),
    )
    fence(store, 2)
    assert not store.txn(write.compares, (Put(write.key, write.value),))


def test_a_returned_replica_is_elected_once_it_is_registered() -> None:
    store = Store()
    store.topic(record((), leader=NO_BROKER, eligible=(3,)))
    fence(store, 3)
    assert plan(store.image, every_block(store.image)) == []
    store.register(3)
    assert apply_plan(store) == 1
    now = store.image.partition(FIRST)
    assert now is not None
    assert (now.leader, now.in_sync) == (3, (3,))


def test_a_draining_leader_is_moved_away() -> None:
    store = Store()
    store.topic(record())
    store.broker(1, draining=True)
    assert apply_plan(store) == 1
    now = store.image.partition(FIRST)
    assert now is not None
    assert (now.leader, now.in_sync) == (2, (1, 2, 3))


def test_cells_of_a_deleted_topic_are_left_alone() -> None:
    store = Store()
    store.topic(record())
    store.txn((), (Delete(model.topic_key(ORDERS)),))
    fence(store, 1)
    assert plan(store.image, every_block(store.image)) == []


def test_transitions_tell_why() -> None:
    store = Store()
    store.topic(record((1,)), record((2, 3), partition=1, leader=NO_BROKER))
    fence(store, 1)
    (write,) = plan(store.image, every_block(store.image))
    assert [t.reason for t in write.transitions] == ["leader lost, no candidate", "leader elected"]


# -- fencing --------------------------------------------------------------------------------------------


def test_fencing_compares_the_registration_that_was_suspected() -> None:
    store = Store()
    changes = fence_changes(store.image, BrokerId(2))
    assert changes is not None
    store.register(2, "anew")
    assert not store.txn(*changes)
    assert store.image.epoch_of(2) != 0


def test_a_fenced_broker_is_not_fenced_again() -> None:
    store = Store()
    fence(store, 2)
    assert fence_changes(store.image, BrokerId(2)) is None


# -- departures -----------------------------------------------------------------------------------------


def depart(store: Store, broker: int, *, lost: bool = False) -> int:
    writes = departures(store.image, BrokerId(broker), every_block(store.image), data_lost=lambda topic: lost)
    for write in writes:
        assert store.txn(write.compares, (Put(write.key, write.value),))
    return len(writes)


def test_a_restarting_broker_leaves_all_it_led_before_it_registers() -> None:
    store = Store()
    store.topic(record(), record((1,), partition=1), record((2, 3), partition=2, leader=2))
    fence(store, 1)
    assert depart(store, 1) == 1
    assert [(p.leader, p.in_sync, p.eligible) for p in store.image.partitions_of(ORDERS)] == [
        (NO_BROKER, (2, 3), ()),
        (NO_BROKER, (), (1,)),
        (2, (2, 3), ()),
    ]
    assert depart(store, 1) == 0


def test_departures_stop_as_soon_as_the_broker_is_registered() -> None:
    store = Store()
    store.topic(record())
    fence(store, 1)
    (write,) = departures(store.image, BrokerId(1), every_block(store.image), data_lost=lambda topic: False)
    store.register(1)
    assert not store.txn(write.compares, (Put(write.key, write.value),))


def test_what_a_crash_lost_is_not_eligible() -> None:
    store = Store()
    store.topic(record((1,), eligible=(2,)))
    fence(store, 1)
    assert depart(store, 1, lost=True) == 1
    now = store.image.partition(FIRST)
    assert now is not None
    assert (now.in_sync, now.eligible, now.last_known) == ((), (2,), (1,))
    assert depart(store, 1, lost=True) == 0


def test_a_damaged_replica_alone_is_stripped() -> None:
    store = Store()
    store.topic(record((1,)), record((1,), partition=1))
    fence(store, 1)
    (write,) = departures(
        store.image,
        BrokerId(1),
        every_block(store.image),
        data_lost=lambda topic: False,
        damaged=lambda where: where.partition == 1,
    )
    assert store.txn(write.compares, (Put(write.key, write.value),))
    assert [(p.eligible, p.last_known) for p in store.image.partitions_of(ORDERS)] == [((1,), ()), ((), (1,))]


def test_a_crash_loses_data_of_relaxed_topics_alone() -> None:
    store = Store()
    store.topic(record())
    store.topic(record(), topic_id=LOGS, name="logs", durability=Durability.REPLICATED)
    assert not lost_by_crash(store.image, ORDERS)
    assert lost_by_crash(store.image, LOGS)


def test_a_broker_gives_up_a_damaged_replica_under_its_own_registration() -> None:
    store = Store()
    store.topic(record(), record(partition=1))
    write = strip_replica(store.image, BrokerId(1), FIRST)
    assert write is not None
    assert Compare(broker_records.live_key(1), store.image.epoch_of(1)) in write.compares
    assert store.txn(write.compares, (Put(write.key, write.value),))
    assert [(p.leader, p.in_sync) for p in store.image.partitions_of(ORDERS)] == [
        (NO_BROKER, (2, 3)),
        (1, (1, 2, 3)),
    ]
    assert strip_replica(store.image, BrokerId(1), FIRST._replace(topic_id=LOGS)) is None
    assert strip_replica(store.image, BrokerId(7), FIRST) is None


def test_what_is_decided_of_a_replica_given_up_while_it_was_out_of_sync_comes_too_late() -> None:
    store = Store()
    store.topic(record(in_sync=(BrokerId(2), BrokerId(3)), leader=BrokerId(2)))
    (before,) = store.image.partitions_of(ORDERS)
    taken_in = Compare(model.block_key(ORDERS, 0), store.image.blocks[ORDERS][0].revision)
    write = strip_replica(store.image, BrokerId(1), FIRST)
    assert write is not None
    assert store.txn(write.compares, (Put(write.key, write.value),))
    assert list(store.image.partitions_of(ORDERS)) == [before.changed()]
    assert not store.txn((taken_in,), (Put(write.key, write.value),))
