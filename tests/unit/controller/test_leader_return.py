"""Moving leaders back to their preferred replicas: when, how many, and what is left alone."""

import pytest

from data_plane.controller.elections import alive_in
from data_plane.controller.leader_return import (
    LOOK_MS,
    MOVES_MAX,
    MOVES_OFF_MAX,
    STEADY_MS,
    LeaderReturn,
    handed_over,
    move_back_to,
    move_off_to,
)
from data_plane.metadata import broker_records, model
from data_plane.metadata.port import Delete
from penstock.contract.ids import NO_BROKER, BrokerId

from .setup import ORDERS, Store, record


def moves_at(returns: LeaderReturn, store: Store, now_ms: float) -> int:
    """Have leaders hand over what is due; how many partitions moved."""
    moves = returns.due(store.image, now_ms)
    for move in moves:
        before = store.image.partition(move.where)
        assert before is not None
        assert (before.leader, before.leader_epoch) == (move.leader, move.leader_epoch)
        after = handed_over(before, move.to, alive=alive_in(store.image))
        block = store.image.block_of(move.where)
        assert after is not None and block is not None
        store.put(block.key, model.encode_block({**block.partitions, after.partition: after}))
    return len(moves)


def leaders(store: Store) -> list[int]:
    return [partition.leader for partition in store.image.partitions_of(ORDERS)]


def test_a_leader_is_moved_back_once_the_preferred_one_was_in_sync_for_a_while() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    assert moves_at(returns, store, 0) == 0
    assert moves_at(returns, store, STEADY_MS - 1) == 0
    assert moves_at(returns, store, STEADY_MS + LOOK_MS) == 1
    (now,) = store.image.partitions_of(ORDERS)
    assert (now.leader, now.leader_epoch, now.in_sync) == (1, 6, (1, 2, 3))
    assert moves_at(returns, store, 3 * STEADY_MS) == 0


@pytest.mark.parametrize(
    "stays",
    [
        record(leader=1),
        record(leader=NO_BROKER),
        record((2, 3), leader=2),
        record((1, 2), leader=2),
        record(
            leader=2, target=(1, 2, 4), replicas=(1, 2, 3, 4), replica_generations=(1, 1, 1, 8), adding=(4,)
        ),
    ],
)
def test_what_is_led_as_wanted_or_is_not_whole_stays(stays: model.PartitionRecord) -> None:
    assert move_back_to(stays, alive=lambda broker: True) == NO_BROKER


def test_a_preferred_leader_that_drains_or_is_fenced_gets_nothing() -> None:
    assert move_back_to(record(leader=2), alive=lambda broker: broker != 1) == NO_BROKER


def test_a_change_in_between_begins_the_wait_anew() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    moves_at(returns, store, 0)
    block = model.block_key(ORDERS, 0)
    store.put(block, model.encode_block({0: record((2, 3), leader=2, partition_epoch=8)}))
    moves_at(returns, store, LOOK_MS)
    store.put(block, model.encode_block({0: record(leader=2, partition_epoch=9)}))
    assert moves_at(returns, store, 2 * LOOK_MS) == 0
    assert moves_at(returns, store, STEADY_MS + LOOK_MS) == 0
    assert moves_at(returns, store, STEADY_MS + 2 * LOOK_MS) == 1


def test_few_are_moved_at_a_time_until_all_are_where_they_belong() -> None:
    store, returns = Store(), LeaderReturn()
    count = 2 * MOVES_MAX + 3
    store.topic(*(record(partition=number, leader=2) for number in range(count)))
    moves_at(returns, store, 0)
    moves, now_ms = [], float(STEADY_MS)
    while moved := moves_at(returns, store, now_ms):
        moves.append(moved)
        assert moves_at(returns, store, now_ms + LOOK_MS - 1) == 0, "not before the next look"
        now_ms += LOOK_MS
    assert moves == [MOVES_MAX, MOVES_MAX, 3]
    assert leaders(store) == [1] * count


def test_what_was_not_moved_is_asked_for_again_though_nothing_has_changed() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    assert returns.due(store.image, 0.0) == []
    moves = returns.due(store.image, float(STEADY_MS))
    assert [(move.leader, move.to) for move in moves] == [(2, 1)]
    assert returns.due(store.image, float(STEADY_MS + LOOK_MS)) == moves


def test_a_broker_that_is_fenced_meanwhile_is_not_given_leadership() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    moves_at(returns, store, 0)
    (move,) = returns.due(store.image, STEADY_MS)
    assert store.txn((), (Delete(broker_records.live_key(1)),))
    (now,) = store.image.partitions_of(ORDERS)
    assert handed_over(now, move.to, alive=alive_in(store.image)) is None


def test_a_controller_that_lost_its_seat_forgets() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    moves_at(returns, store, 0)
    returns.forget()
    assert moves_at(returns, store, STEADY_MS) == 0
    assert moves_at(returns, store, 2 * STEADY_MS) == 1


def cordon(store: Store, *brokers: int) -> None:
    for broker in brokers:
        cordoned = broker_records.CordonRecord(broker_id=BrokerId(broker), cordoned=True)
        store.put(broker_records.cordon_key(broker), cordoned.encode())


def test_what_a_cordoned_broker_leads_is_moved_off_at_once_and_not_back() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(*(record((1, 2), partition=number) for number in range(MOVES_OFF_MAX + 2)))
    cordon(store, 1)
    assert moves_at(returns, store, 0) == MOVES_OFF_MAX
    assert moves_at(returns, store, LOOK_MS) == 2
    assert leaders(store) == [2] * (MOVES_OFF_MAX + 2)
    assert moves_at(returns, store, 3 * STEADY_MS) == 0


def test_a_cordoned_broker_leads_on_while_nobody_else_is_in_sync_and_in_use() -> None:
    def cordoned(broker: int) -> bool:
        return broker in (1, 3)

    assert move_off_to(record((1, 3)), alive=lambda broker: True, kept_off=cordoned) == NO_BROKER
    assert move_off_to(record(), alive=lambda broker: broker != 2, kept_off=cordoned) == NO_BROKER
    assert move_off_to(record(), alive=lambda broker: True, kept_off=cordoned) == 2


@pytest.mark.parametrize("to", [1, 3, 4])
def test_only_another_in_sync_replica_that_is_alive_is_handed_leadership(to: int) -> None:
    before = record((1, 2, 4), replicas=(1, 2, 3, 4), replica_generations=(1, 1, 1, 1))
    assert handed_over(before, BrokerId(to), alive=lambda broker: broker != 4) is None
    after = handed_over(before, BrokerId(2), alive=lambda broker: broker != 4)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (2, 6, 8)
    assert after.in_sync == before.in_sync


def test_an_unfit_broker_hands_over_at_once_takes_nothing_back_and_leads_again_when_it_is_fit() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record())
    one = (BrokerId(1),)
    assert returns.due(store.image, 0) == []
    (move,) = returns.due(store.image, LOOK_MS, one)
    assert (move.leader, move.to) == (1, 2)
    block = model.block_key(ORDERS, 0)
    store.put(block, model.encode_block({0: record(leader=2, partition_epoch=8)}))
    for look in range(2, 20):
        assert returns.due(store.image, look * LOOK_MS, one) == []
    assert returns.due(store.image, 20 * LOOK_MS) == []
    (back,) = returns.due(store.image, 20 * LOOK_MS + STEADY_MS)
    assert (back.leader, back.to) == (2, 1)


def test_where_every_broker_in_sync_is_unfit_the_leader_stays() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record((1, 2)))
    assert returns.due(store.image, 0, (BrokerId(1), BrokerId(2))) == []


@pytest.mark.parametrize("unfit", [(), (BrokerId(2),)])
def test_leaders_of_a_topic_that_is_gone_are_not_moved(unfit: tuple[BrokerId, ...]) -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(*(record(leader=2, partition=number) for number in range(MOVES_OFF_MAX + 1)))
    assert len(returns.due(store.image, 0, unfit)) == (MOVES_OFF_MAX if unfit else 0)
    store.txn((), (Delete(model.topic_key(ORDERS)),))
    assert returns.due(store.image, STEADY_MS, unfit) == []
    store.topic(record(partition=0))
    assert returns.due(store.image, 2 * STEADY_MS, unfit) == []
