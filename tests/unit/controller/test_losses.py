"""Declared losses: who is waited for, whose log goes on, what an operator may demand, and what is written down."""

from collections.abc import Sequence

import pytest

from data_plane.controller.elections import departures, plan
from data_plane.controller.losses import (
    LossWrite,
    ReplicaEnd,
    awaits_last_known,
    begins_below,
    declared_here,
    elect_longest,
    force_election,
    repair,
    waiting_in,
    why_not,
)
from data_plane.metadata import broker_records, model
from data_plane.metadata.losses import LossKind, LossRecord
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Compare, Delete, Put
from data_plane.replication.eligibility import with_in_sync
from penstock.contract.errors import BrokerUnavailable, InvalidRequest, NotFound
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition

from .setup import LOGS, ORDERS, Store, every_block, record

FIRST = TopicPartition(ORDERS, 0)
NOON_MS = 1_795_176_000_000


def lost(last_known: Sequence[int] = (2, 3), **changes: object) -> PartitionRecord:
    return record((), leader=NO_BROKER, last_known=tuple(last_known), **changes)


def cluster(partition: PartitionRecord) -> Store:
    store = Store()
    store.topic(partition)
    return store


def fenced(broker: int) -> tuple[Delete]:
    return (Delete(broker_records.live_key(broker)),)


def end(store: Store, broker: int, epoch: int, offset: int, damage: str = "", sound: int = -1) -> ReplicaEnd:
    return ReplicaEnd(
        broker=BrokerId(broker),
        broker_epoch=store.image.epoch_of(broker),
        last_epoch=epoch,
        log_end_offset=offset,
        damage=damage,
        sound_end_offset=sound,
    )


def elected(store: Store, *ends: ReplicaEnd) -> LossWrite | None:
    return elect_longest(store.image, FIRST, ends, declared_ms=NOON_MS)


def applied(store: Store, write: LossWrite | None) -> tuple[PartitionRecord, LossRecord]:
    assert write is not None
    assert store.txn(write.compares, write.changes)
    after = store.image.partition(FIRST)
    assert after is not None
    return after, store.image.losses[FIRST][after.log_generation]


# -- by itself (RL47) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "partition",
    [
        record((), leader=NO_BROKER, eligible=(2,), last_known=(3,)),
        record((2,), leader=NO_BROKER, last_known=(3,)),
        record((1,), leader=1, last_known=(3,)),
        lost(()),
    ],
    ids=["an eligible one is left", "one is in sync", "it is led", "nobody is known to wait for"],
)
def test_nothing_is_risked_while_somebody_else_may_lead_or_nobody_is_known(
    partition: PartitionRecord,
) -> None:
    assert not awaits_last_known(partition)
    store = cluster(partition)
    assert waiting_in(store.image) == []
    assert elected(store, end(store, 1, 9, 99), end(store, 2, 9, 99), end(store, 3, 9, 99)) is None


def test_a_partition_waits_until_every_last_known_replica_is_alive() -> None:
    store = cluster(lost())
    assert waiting_in(store.image) == [FIRST]
    store.broker(3, draining=True)
    assert waiting_in(store.image) == []


def test_nobody_is_elected_before_all_last_known_replicas_have_answered() -> None:
    store = cluster(lost())
    assert elected(store, end(store, 2, 5, 70)) is None
    assert elected(store, end(store, 2, 5, 70), end(store, 1, 5, 90)) is None


def test_an_answer_under_a_registration_that_is_over_does_not_count() -> None:
    store = cluster(lost())
    old = end(store, 3, 5, 70)
    store.register(3, "again")
    assert elected(store, end(store, 2, 5, 60), old) is None


def test_a_damaged_replica_leaves_the_choice_to_an_operator() -> None:
    store = cluster(lost())
    assert elected(store, end(store, 2, 5, 70), end(store, 3, 5, 90, "offsets 4 to 9", 4)) is None


def test_the_longest_log_of_the_highest_epoch_is_elected() -> None:
    store = cluster(lost())
    after, loss = applied(store, elected(store, end(store, 2, 5, 70), end(store, 3, 5, 90)))
    assert (after.leader, after.in_sync, after.eligible, after.last_known) == (3, (3,), (), ())
    assert (after.leader_epoch, after.partition_epoch) == (6, 8)
    assert (loss.kind, loss.leader, loss.offset, loss.known_end_offset) == (LossKind.LONGEST, 3, 90, 90)


def test_a_higher_epoch_wins_over_a_longer_log() -> None:
    store = cluster(lost())
    after, loss = applied(store, elected(store, end(store, 2, 5, 70), end(store, 3, 4, 90)))
    assert (after.leader, loss.offset, loss.known_end_offset) == (2, 70, 90)


def test_of_equals_the_first_in_order_of_preference_is_elected() -> None:
    store = cluster(lost((1, 2, 3), replicas=(3, 1, 2)))
    after, _ = applied(store, elected(store, *(end(store, broker, 5, 70) for broker in (1, 2, 3))))
    assert after.leader == 3


def test_the_election_begins_a_log_generation_and_is_written_down_in_the_same_transaction() -> None:
    store = cluster(lost(log_generation=4, generation_epoch=3))
    after, loss = applied(store, elected(store, end(store, 2, 5, 70), end(store, 3, 5, 60)))
    assert (after.log_generation, after.generation_epoch) == (5, 6)
    assert loss == LossRecord(
        tenant="acme",
        topic="orders",
        kind=LossKind.LONGEST,
        log_generation=5,
        leader=BrokerId(2),
        leader_epoch=6,
        offset=70,
        known_end_offset=70,
        last_known=(BrokerId(2), BrokerId(3)),
        ends=((BrokerId(2), 5, 70), (BrokerId(3), 5, 60)),
        asked_by="",
        declared_ms=NOON_MS,
    )
    assert LossRecord.decode(loss.encode()) == loss


def test_the_election_fails_when_one_of_those_asked_has_been_fenced_since() -> None:
    store = cluster(lost())
    write = elected(store, end(store, 2, 5, 70), end(store, 3, 5, 60))
    assert write is not None
    store.register(3, "again")
    assert not store.txn(write.compares, write.changes)


def test_two_replicas_that_crash_one_after_the_other_are_both_waited_for() -> None:
    store = Store()
    store.topic(record((1, 2, 3)))
    for broker in (1, 2, 3):
        store.txn((), fenced(broker))
        for write in plan(store.image, every_block(store.image)):
            assert store.txn(write.compares, (Put(write.key, write.value),))
    assert store.image.partition(FIRST).in_sync == ()  # type: ignore[union-attr]
    for broker in (1, 2, 3):
        writes = departures(
            store.image, BrokerId(broker), every_block(store.image), data_lost=lambda topic: True
        )
        for write in writes:
            assert store.txn(write.compares, (Put(write.key, write.value),))
        store.register(broker, "again")
        for write in plan(store.image, every_block(store.image)):
            assert store.txn(write.compares, (Put(write.key, write.value),))
    found = store.image.partition(FIRST)
    assert found is not None
    assert (found.leader, found.in_sync, found.eligible, found.last_known) == (NO_BROKER, (), (), (2, 3))
    assert waiting_in(store.image) == [FIRST]


@pytest.mark.parametrize(
    "known", [lost((1, 2)), record((), leader=NO_BROKER, eligible=(1,), last_known=(2,))]
)
def test_nobody_waits_for_an_emptied_log_directory(known: PartitionRecord) -> None:
    store = cluster(known)
    store.txn((), fenced(1))
    (write,) = departures(
        store.image, BrokerId(1), every_block(store.image), data_lost=lambda topic: True, emptied=True
    )
    assert store.txn(write.compares, (Put(write.key, write.value),))
    after = store.image.partition(FIRST)
    assert after is not None
    assert (after.in_sync, after.eligible, after.last_known) == ((), (), (2,))
    assert (
        departures(
            store.image, BrokerId(1), every_block(store.image), data_lost=lambda topic: True, emptied=True
        )
        == []
    )


def test_a_replica_that_was_not_last_known_is_not_elected_however_far_its_log_goes() -> None:
    store = cluster(lost())
    after, loss = applied(
        store, elected(store, end(store, 1, 5, 90), end(store, 2, 5, 40), end(store, 3, 5, 50))
    )
    assert after.leader == 3 and loss.offset == 50


# -- by an operator (RL48, RL122) -----------------------------------------------------------------------


def forced(store: Store, chosen: ReplicaEnd, where: TopicPartition = FIRST) -> LossWrite:
    return force_election(store.image, where, chosen, asked_by="olga", declared_ms=NOON_MS)


def test_an_operator_may_name_a_replica_when_a_last_known_one_never_returns() -> None:
    store = cluster(lost())
    store.txn((), fenced(2))
    after, loss = applied(store, forced(store, end(store, 1, 4, 50)))
    assert (after.leader, after.in_sync, after.eligible, after.last_known) == (1, (1,), (), ())
    assert (after.log_generation, after.generation_epoch) == (2, 6)
    assert (loss.kind, loss.asked_by, loss.offset, loss.last_known) == (LossKind.FORCED, "olga", 50, (2, 3))


def test_an_operator_may_name_a_replica_over_in_sync_ones_that_are_gone() -> None:
    store = cluster(record((2,), leader=NO_BROKER, eligible=(3,)))
    store.txn((), fenced(2))
    store.txn((), fenced(3))
    after, loss = applied(store, forced(store, end(store, 1, 5, 60)))
    assert (after.leader, after.in_sync, after.eligible) == (1, (1,), ())
    assert loss.offset == 60


def test_a_named_replica_that_is_damaged_goes_on_where_it_is_whole() -> None:
    store = cluster(lost((1,)))
    _, loss = applied(store, forced(store, end(store, 1, 5, 90, "offsets 40 to 50", 40)))
    assert (loss.offset, loss.known_end_offset) == (40, 90)


@pytest.mark.parametrize(
    ("partition", "broker", "refusal", "words"),
    [
        (record((1, 2, 3)), 2, InvalidRequest, "broker 1 leads it"),
        (record((2, 3), leader=NO_BROKER), 1, InvalidRequest, "broker 2 is elected without any loss"),
        (record((), leader=NO_BROKER, eligible=(3,)), 1, InvalidRequest, "broker 3 is elected without"),
        (lost(replicas=(2, 3), replica_generations=(1, 1)), 1, InvalidRequest, "holds no replica; 2, 3 do"),
    ],
)
def test_an_election_that_is_not_needed_or_not_possible_is_refused(
    partition: PartitionRecord, broker: int, refusal: type[Exception], words: str
) -> None:
    store = cluster(partition)
    with pytest.raises(refusal, match=words):
        forced(store, end(store, broker, 5, 60))
    assert store.image.losses == {}


def test_a_loss_is_never_risked_without_need() -> None:
    alive = {1, 2, 3}.__contains__
    assert why_not(record((2, 3), leader=NO_BROKER), BrokerId(1), alive)
    assert why_not(record((1, 2, 3)), BrokerId(2), alive)
    assert why_not(lost(), BrokerId(4), alive)
    assert why_not(lost(), BrokerId(1), alive) == ""


def test_a_broker_that_is_fenced_or_has_come_anew_cannot_be_made_leader() -> None:
    store = cluster(lost())
    known = end(store, 1, 5, 60)
    store.register(1, "again")
    with pytest.raises(BrokerUnavailable, match="broker 1 is not active"):
        forced(store, known)
    store.broker(2, draining=True)
    with pytest.raises(BrokerUnavailable, match="broker 2 is not active"):
        forced(store, end(store, 2, 5, 60))


def test_a_partition_that_does_not_exist_is_not_found() -> None:
    store = cluster(lost())
    with pytest.raises(NotFound):
        forced(store, end(store, 1, 5, 60), TopicPartition(LOGS, 0))


def test_the_only_copy_is_repaired_where_its_damage_begins() -> None:
    store = cluster(record((1,), replicas=(1,), replica_generations=(1,)))
    damaged = end(store, 1, 5, 90, "offsets 40 to 50: bad", 40)
    after, loss = applied(store, repair(store.image, FIRST, damaged, asked_by="olga", declared_ms=NOON_MS))
    assert (after.leader, after.in_sync, after.leader_epoch, after.log_generation) == (1, (1,), 6, 2)
    assert (loss.kind, loss.offset, loss.known_end_offset) == (LossKind.REPAIR, 40, 90)


def test_nothing_is_repaired_that_is_whole_or_that_others_hold() -> None:
    store = cluster(record((1,)))
    with pytest.raises(InvalidRequest, match="nothing of it is known to be damaged"):
        repair(store.image, FIRST, end(store, 1, 5, 90), asked_by="", declared_ms=NOON_MS)
    with pytest.raises(BrokerUnavailable, match="does not lead it any more"):
        repair(store.image, FIRST, end(store, 2, 5, 90, "bad", 4), asked_by="", declared_ms=NOON_MS)
    store = cluster(record((1, 2)))
    with pytest.raises(InvalidRequest, match="brokers 1, 2 are in sync"):
        repair(store.image, FIRST, end(store, 1, 5, 90, "bad", 4), asked_by="", declared_ms=NOON_MS)


# -- what follows ---------------------------------------------------------------------------------------


def test_a_log_may_be_cut_below_its_watermark_only_until_it_has_begun_the_new_generation() -> None:
    store = cluster(lost())
    after, loss = applied(store, elected(store, end(store, 2, 5, 70), end(store, 3, 5, 60)))
    assert begins_below(after, last_epoch=5)
    assert not begins_below(after, last_epoch=6)
    assert not begins_below(record(), last_epoch=0)
    assert declared_here(store.image, FIRST, after, last_epoch=5) == loss
    assert declared_here(store.image, FIRST, after, last_epoch=6) is None


def test_after_the_loss_eligibility_goes_on_as_ever() -> None:
    store = cluster(lost())
    after, _ = applied(store, elected(store, end(store, 2, 5, 70), end(store, 3, 5, 60)))
    joined = with_in_sync(after, (BrokerId(2), BrokerId(3)), 2)
    alone = with_in_sync(joined, (BrokerId(3),), 2)
    assert (alone.in_sync, alone.eligible, alone.last_known) == ((3,), (2,), ())
    assert alone.log_generation == 2


def test_a_loss_is_kept_by_partition_and_generation_and_never_written_twice() -> None:
    store = cluster(lost())
    write = elected(store, end(store, 2, 5, 70), end(store, 3, 5, 60))
    assert write is not None
    assert Compare(model.loss_key(ORDERS, 0, 2), 0) in write.compares
    _, loss = applied(store, write)
    assert store.image.losses == {FIRST: {2: loss}}
    listing = list(store.items.values())
    store.image.load(listing, store.revision)
    assert store.image.losses == {FIRST: {2: loss}}


@pytest.mark.parametrize(("recorded", "begins"), [(0, 0), (60, 60), (100, 80)])
def test_after_a_loss_the_log_begins_no_earlier_than_told_and_no_later_than_what_is_left_ends(
    recorded: int, begins: int
) -> None:
    store = cluster(lost((2,), log_start=recorded))
    write = elected(store, end(store, 2, 5, 80))
    assert write is not None
    assert write.transition.after.log_start == begins
