"""Reassignment of replicas: grow, shrink, cancel, and when the end may be written (RL39, RL52)."""

from dataclasses import replace

import pytest

from data_plane.controller.reassignment import alter_replicas, finished, may_finish, retargeted
from data_plane.metadata import broker_records, model
from data_plane.metadata.model import PartitionRecord
from penstock.contract.errors import BrokerUnavailable, InvalidRequest, NotFound
from penstock.contract.ids import BrokerId, TopicId, TopicPartition

from .setup import ORDERS, Store, record

WHERE = TopicPartition(ORDERS, 0)


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def grown(target: tuple[int, ...] = (2, 3, 4), **changes: object) -> PartitionRecord:
    after = retargeted(record(**changes), brokers(*target))  # type: ignore[arg-type]
    assert after is not None
    return after


def joined(before: PartitionRecord, *in_sync: int) -> PartitionRecord:
    return before.changed(in_sync=brokers(*in_sync))


def end(
    before: PartitionRecord, *, dead: tuple[int, ...] = (), min_insync: int = 2
) -> PartitionRecord | None:
    return finished(before, alive=lambda broker: broker not in dead, min_insync=min_insync)


def test_growing_adds_behind_those_that_are_there_and_changes_nothing_else() -> None:
    before, after = record(), grown((4, 2, 3))
    assert after.replicas == (1, 2, 3, 4)
    assert (after.target, after.adding, after.removing) == ((4, 2, 3), (4,), (1,))
    assert after.replica_generations == (*before.replica_generations, before.partition_epoch + 1)
    assert (after.leader, after.leader_epoch, after.in_sync) == (1, before.leader_epoch, (1, 2, 3))
    assert after.partition_epoch == before.partition_epoch + 1
    assert retargeted(after, brokers(4, 2, 3)) is None, "a repetition changes nothing"


def test_it_ends_only_with_every_added_replica_in_sync() -> None:
    growing = grown((3, 4, 5))
    assert end(growing) is None
    assert end(joined(growing, 1, 2, 3, 4)) is None
    after = end(joined(growing, 1, 2, 3, 4, 5))
    assert after is not None
    assert (after.replicas, after.in_sync) == ((3, 4, 5), (3, 4, 5))
    assert (after.target, after.adding) == ((), ())
    assert (after.leader, after.leader_epoch) == (3, growing.leader_epoch + 1)


def test_a_leader_that_stays_leads_on_in_the_next_epoch() -> None:
    after = end(joined(grown((4, 1, 2)), 1, 2, 3, 4))
    assert after is not None
    assert (after.leader, after.leader_epoch, after.replicas) == (1, 6, (4, 1, 2))


def test_it_does_not_end_below_the_number_in_sync_that_is_demanded() -> None:
    growing = joined(grown((2, 3, 4)), 1, 4)
    assert not may_finish(growing, 2), "of the target only broker 4 is in sync"
    assert may_finish(growing, 1)
    assert may_finish(joined(growing, 1, 3, 4), 2)


def test_a_cancel_goes_back_to_the_replicas_before_and_obeys_the_same_bound() -> None:
    growing = joined(grown((3, 4, 5)), 3, 4, 5)
    cancelled = retargeted(growing, growing.settled_replicas)
    assert cancelled is not None
    assert (cancelled.target, cancelled.removing) == ((1, 2, 3), (4, 5))
    assert end(cancelled) is None, "of those before only broker 3 is in sync, 2 are required"
    after = end(joined(cancelled, 2, 3, 4, 5))
    assert after is not None
    assert (after.replicas, after.in_sync, after.leader_epoch) == ((1, 2, 3), (2, 3), 6)
    assert after.leader == 2, "broker 1 led and is not in sync any more"


def test_an_ended_reassignment_has_nobody_else_eligible() -> None:
    growing = replace(joined(grown(), 2, 3, 4), leader=BrokerId(2), eligible=brokers(1))
    after = end(growing)
    assert after is not None
    assert (after.eligible, after.last_known) == ((), ())


def test_without_anybody_alive_of_the_target_it_waits() -> None:
    assert end(joined(grown((3, 4, 5)), 1, 3, 4, 5), dead=(3, 4, 5)) is None


def test_a_replica_that_comes_back_is_a_new_one() -> None:
    before = record()
    gone = end(joined(grown((2, 3, 4)), 1, 2, 3, 4))
    assert gone is not None
    again = retargeted(gone, brokers(1, 2, 3))
    assert again is not None
    assert again.generation_of(BrokerId(1)) > before.generation_of(BrokerId(1))
    assert again.generation_of(BrokerId(4)) == gone.generation_of(BrokerId(4))


def test_a_replica_wanted_again_before_it_went_is_the_same_one() -> None:
    growing = grown((2, 3, 4))
    other = retargeted(growing, brokers(2, 3, 5))
    assert other is not None
    again = retargeted(other, brokers(2, 3, 4))
    assert again is not None
    assert again.generation_of(BrokerId(4)) == growing.generation_of(BrokerId(4))
    assert again.adding == (4, 5)


def test_another_order_of_the_same_replicas_is_settled_at_once() -> None:
    after = retargeted(record((1, 2)), brokers(3, 2, 1))
    assert after is not None
    assert (after.replicas, after.in_sync, after.target) == ((3, 2, 1), (2, 1), ())
    assert after.leader_epoch == 5


def test_a_record_under_reassignment_is_read_back_as_it_was() -> None:
    growing = grown()
    assert model.decode_block(model.encode_block({0: growing})) == {0: growing}


# -- what an operator asks for ------------------------------------------------------------------------------


def store_of_four() -> Store:
    store = Store((1, 2, 3, 4))
    store.topic(record())
    return store


def test_altering_is_one_compare_and_set_of_the_cell() -> None:
    store = store_of_four()
    change = alter_replicas(store.image, WHERE, [2, 3, 4])
    late = alter_replicas(store.image, WHERE, [1, 3, 4])
    assert store.txn(change.compares, change.changes)
    assert not store.txn(late.compares, late.changes)
    assert not alter_replicas(store.image, WHERE, [2, 3, 4]).changes
    cancel = alter_replicas(store.image, WHERE, None)
    assert store.txn(cancel.compares, cancel.changes)
    now = store.image.partition(WHERE)
    assert now is not None and now.target == (1, 2, 3)


def test_cancelling_nothing_changes_nothing() -> None:
    assert not alter_replicas(store_of_four().image, WHERE, None).changes


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ([1, 2], "2 replicas named, replication is 3"),
        ([1, 2, 2], "broker 2 is named twice"),
        ([1, 2, 9], "broker 9 is not known"),
    ],
)
def test_a_target_that_cannot_be_is_refused_by_name(target: list[int], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        alter_replicas(store_of_four().image, WHERE, target)


@pytest.mark.parametrize(
    ("replication", "allowed", "refused"),
    [(5, [[1, 2, 3], [1, 2, 3, 4]], [[1, 2]]), (1, [[1], [1, 2]], [[1, 2, 3, 4]])],
)
def test_a_partition_goes_towards_another_replication_and_never_past_it(
    replication: int, allowed: list[list[int]], refused: list[list[int]]
) -> None:
    store = store_of_four()
    topic = store.image.topics[WHERE.topic_id]
    settings = replace(topic.settings, replication=replication, min_insync_replicas=1)
    store.put(model.topic_key(WHERE.topic_id), replace(topic, settings=settings).encode())
    for target in allowed:
        alter_replicas(store.image, WHERE, target)
    for target in refused:
        with pytest.raises(InvalidRequest, match=f"replication is {replication} and there are 3"):
            alter_replicas(store.image, WHERE, target)


def test_a_broker_that_is_away_or_being_drained_takes_no_replica() -> None:
    store = store_of_four()
    store.put(
        broker_records.cordon_key(4),
        broker_records.CordonRecord(broker_id=BrokerId(4), cordoned=True).encode(),
    )
    with pytest.raises(InvalidRequest, match="broker 4 is being drained"):
        alter_replicas(store.image, WHERE, [1, 2, 4])
    store.broker(5)
    with pytest.raises(BrokerUnavailable, match="broker 5 is not active"):
        alter_replicas(store.image, WHERE, [1, 2, 5])


def test_an_unknown_partition_is_not_found() -> None:
    with pytest.raises(NotFound):
        alter_replicas(store_of_four().image, TopicPartition(TopicId(bytes(16)), 0), [1, 2, 3])
