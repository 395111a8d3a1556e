"""Moving leaders back to their preferred replicas: when, how many, and what is left alone."""

import pytest

from data_plane.controller.leader_return import LOOK_MS, MOVES_MAX, STEADY_MS, LeaderReturn, moved_back
from data_plane.metadata import model
from data_plane.metadata.port import Delete, Put
from penstock.contract.ids import NO_BROKER

from .setup import ORDERS, Store, record


def settle(returns: LeaderReturn, store: Store, now_ms: float) -> int:
    """Apply what is due; how many partitions moved."""
    moved = 0
    for write in returns.due(store.image, now_ms):
        assert store.txn(write.compares, (Put(write.key, write.value),))
        moved += len(write.transitions)
    return moved


def leaders(store: Store) -> list[int]:
    return [partition.leader for partition in store.image.partitions_of(ORDERS)]


def test_a_leader_is_moved_back_once_the_preferred_one_was_in_sync_for_a_while() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    assert settle(returns, store, 0) == 0
    assert settle(returns, store, STEADY_MS - 1) == 0
    assert settle(returns, store, STEADY_MS + LOOK_MS) == 1
    (now,) = store.image.partitions_of(ORDERS)
    assert (now.leader, now.leader_epoch, now.in_sync) == (1, 6, (1, 2, 3))
    assert settle(returns, store, 3 * STEADY_MS) == 0


@pytest.mark.parametrize(
    "stays",
    [
        record(leader=1),
        record(leader=NO_BROKER),
        record((2, 3), leader=2),
        record((1, 2), leader=2),
    ],
)
def test_what_is_led_as_wanted_or_is_not_whole_stays(stays: model.PartitionRecord) -> None:
    assert moved_back(stays, alive=lambda broker: True) is None


def test_a_preferred_leader_that_drains_or_is_fenced_gets_nothing() -> None:
    assert moved_back(record(leader=2), alive=lambda broker: broker != 1) is None


def test_a_change_in_between_begins_the_wait_anew() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    settle(returns, store, 0)
    cell = model.cell_key(ORDERS, 0)
    store.put(cell, model.encode_cell({0: record((2, 3), leader=2, partition_epoch=8)}))
    settle(returns, store, LOOK_MS)
    store.put(cell, model.encode_cell({0: record(leader=2, partition_epoch=9)}))
    assert settle(returns, store, 2 * LOOK_MS) == 0
    assert settle(returns, store, STEADY_MS + LOOK_MS) == 0
    assert settle(returns, store, STEADY_MS + 2 * LOOK_MS) == 1


def test_few_are_moved_at_a_time_until_all_are_where_they_belong() -> None:
    store, returns = Store(), LeaderReturn()
    count = 2 * MOVES_MAX + 3
    store.topic(*(record(partition=number, leader=2) for number in range(count)))
    settle(returns, store, 0)
    moves, now_ms = [], float(STEADY_MS)
    while moved := settle(returns, store, now_ms):
        moves.append(moved)
        assert settle(returns, store, now_ms + LOOK_MS - 1) == 0, "not before the next look"
        now_ms += LOOK_MS
    assert moves == [MOVES_MAX, MOVES_MAX, 3]
    assert leaders(store) == [1] * count


def test_a_broker_that_is_fenced_meanwhile_is_not_given_leadership() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    settle(returns, store, 0)
    (write,) = returns.due(store.image, STEADY_MS)
    assert store.txn((), (Delete(model.live_key(1)),))
    assert not store.txn(write.compares, (Put(write.key, write.value),))


def test_a_controller_that_lost_its_seat_forgets() -> None:
    store, returns = Store(), LeaderReturn()
    store.topic(record(leader=2))
    settle(returns, store, 0)
    returns.forget()
    assert settle(returns, store, STEADY_MS) == 0
    assert settle(returns, store, 2 * STEADY_MS) == 1
