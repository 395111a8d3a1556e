"""Moves off a drained broker and towards a new one: what they keep, and what they refuse."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.placement.moves import (
    PlacedPartition,
    PlannedMove,
    copied_bytes,
    into_cell,
    moves_off,
    towards,
)
from data_plane.placement.planner import BrokerView, PlacementRefused, plan

from .clusters import closer_than_needed, clusters


def views(count: int, **states: str) -> list[BrokerView]:
    return [BrokerView(id=n, zone=f"z{n}", state=states.get(f"b{n}", "active")) for n in range(1, count + 1)]


def placed(assignments: tuple[tuple[int, ...], ...]) -> list[PlacedPartition]:
    return [
        PlacedPartition(topic_id="aa", topic="orders", partition=number, replicas=replicas)
        for number, replicas in enumerate(assignments)
    ]


def after(partitions: list[PlacedPartition], moves: tuple[PlannedMove, ...]) -> list[tuple[int, ...]]:
    targets = {move.partition.partition: move.target for move in moves}
    return [targets.get(partition.partition, partition.replicas) for partition in partitions]


def spread(replicas: list[tuple[int, ...]]) -> Counter[int]:
    return Counter(broker for held in replicas for broker in held)


def test_a_drained_broker_holds_nothing_and_the_others_about_equally_much() -> None:
    brokers = views(5)
    partitions = placed(plan(20, 3, brokers))
    seen = [BrokerView(id=b.id, zone=b.zone, replicas=12) for b in brokers]
    now = after(partitions, moves_off(2, partitions, seen))
    counts = spread(now)
    assert counts[2] == 0
    assert max(counts.values()) - min(counts[b] for b in (1, 3, 4, 5)) <= 2
    assert all(len(set(held)) == 3 for held in now)


def test_the_replica_that_comes_takes_the_place_of_the_one_that_goes() -> None:
    (move,) = moves_off(2, placed(((2, 1, 3), (1, 3, 4))), views(4))
    assert (move.target, move.source, move.destination) == ((4, 1, 3), 2, 4)


def test_a_drain_that_the_rest_cannot_hold_is_refused_by_name() -> None:
    with pytest.raises(
        PlacementRefused, match="orders-0 needs 3 brokers, without it 1, 3 would be left"
    ) as told:
        moves_off(2, placed(((2, 1, 3),)), views(4, b4="fenced"))
    assert "broker 4 is fenced" in told.value.message


def test_a_zone_that_holds_a_copy_already_is_the_last_choice() -> None:
    brokers = [
        BrokerView(id=1, zone="a"),
        BrokerView(id=2, zone="b"),
        BrokerView(id=3, zone="a"),
        BrokerView(id=4, zone="c", replicas=100),
    ]
    (move,) = moves_off(2, placed(((1, 2),)), brokers)
    assert move.destination == 4


def test_the_plan_does_not_depend_on_the_order_of_what_it_is_told() -> None:
    partitions = placed(plan(9, 3, views(3)))
    assert moves_off(1, partitions, views(4)) == moves_off(1, partitions[::-1], views(4)[::-1])


def test_a_copy_more_goes_to_an_empty_zone_then_to_the_emptiest_broker() -> None:
    brokers = [
        BrokerView(id=1, zone="a"),
        BrokerView(id=2, zone="a"),
        BrokerView(id=3, zone="b", replicas=9),
        BrokerView(id=4, zone="b", replicas=5, state="draining"),
    ]
    one = placed(((1,), (3,)))
    moves = towards(3, one, brokers)
    assert after(one, moves) == [(1, 3), (3, 1)]
    assert [(move.source, move.destination) for move in moves] == [(None, 3), (None, 1)]
    two = placed(((1, 3), (3, 1)))
    assert after(two, towards(3, two, brokers)) == [(1, 3, 2), (3, 1, 2)]
    three = placed(((1, 3, 2),))
    assert towards(3, three, brokers) == ()
    with pytest.raises(PlacementRefused, match="orders-0: 5 copies need 5 active brokers, there are 3"):
        towards(5, three, brokers)


def test_a_copy_less_leaves_the_preferred_leader_and_takes_what_is_away_first() -> None:
    held = placed(((1, 2, 3), (2, 3, 1)))
    moves = towards(2, held, [BrokerView(id=n, zone="a", replicas=n) for n in (1, 2, 3)])
    assert after(held, moves) == [(1, 2), (2, 1)]
    assert [(move.source, move.destination) for move in moves] == [(3, None), (3, None)]
    away = [BrokerView(id=n, zone="a", replicas=n, state="active" if n != 2 else "fenced") for n in (1, 2, 3)]
    (move,) = towards(2, held[:1], away)
    assert (move.target, move.source) == ((1, 3), 2)


@given(clusters(), st.integers(1, 12), st.integers(1, 5), st.data())
@settings(max_examples=200, deadline=None)
def test_a_drain_never_puts_a_copy_closer_to_others_than_it_must_be(
    views: list[BrokerView], partitions: int, replication: int, data: st.DataObject
) -> None:
    active = [view for view in views if view.state == "active"]
    if len(active) < replication + 1:
        return
    held = placed(plan(partitions, replication, views))
    gone = data.draw(st.sampled_from(active)).id
    rest = [view for view in views if view.id != gone]
    for move in moves_off(gone, held, views):
        assert move.source == gone
        others = [n for n in move.target if n != move.destination]
        assert set(others) == {n for n in move.partition.replicas if n != gone}
        assert not [to for source, to in closer_than_needed(move.target, rest) if source == move.destination]


@given(clusters(), st.integers(1, 12), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_one_copy_more_is_as_far_from_the_others_as_it_can_be(
    views: list[BrokerView], partitions: int, replication: int
) -> None:
    if sum(view.state == "active" for view in views) <= replication:
        return
    held = placed(plan(partitions, replication, views))
    moves = towards(replication + 1, held, views)
    assert len(moves) == partitions
    for move in moves:
        assert not [to for source, to in closer_than_needed(move.target, views) if source == move.destination]


def test_a_copy_less_is_one_that_shares_its_host() -> None:
    brokers = [BrokerView(id=1, host="x"), BrokerView(id=2, host="y"), BrokerView(id=3, host="y")]
    (move,) = towards(2, placed(((1, 2, 3),)), brokers)
    assert move.target == (1, 2)


def test_a_copy_less_is_never_the_preferred_leaders_even_where_it_is_too_close() -> None:
    brokers = [BrokerView(id=1, host="x"), BrokerView(id=2, host="x", replicas=9), BrokerView(id=3, host="y")]
    (move,) = towards(2, placed(((2, 1, 3),)), brokers)
    assert (move.target, move.source) == ((2, 3), 1)


def in_cell(replicas: tuple[int, ...], cell: tuple[int, ...], size: int = 0) -> PlacedPartition:
    return PlacedPartition(
        topic_id="aa", topic="orders", partition=0, replicas=replicas, within=cell, log_bytes=size
    )


def test_a_drain_and_a_copy_more_stay_within_the_cell_or_are_refused() -> None:
    (move,) = moves_off(1, [in_cell((1, 2), (1, 2, 5))], views(5))
    assert move.target == (5, 2)
    with pytest.raises(
        PlacementRefused, match="needs 2 brokers of its tenant's cell, without it 2 would be left"
    ):
        moves_off(1, [in_cell((1, 2), (1, 2))], views(5))
    (more,) = towards(3, [in_cell((1, 2), (1, 2, 5))], views(5))
    assert more.target == (1, 2, 5)
    with pytest.raises(PlacementRefused, match="3 active brokers of its tenant's cell, there are 2"):
        towards(3, [in_cell((1, 2), (1, 2))], views(5))


def test_a_tenants_partitions_go_into_its_cell_and_what_is_there_stays() -> None:
    (move,) = into_cell([in_cell((1, 2, 4), (3, 4, 5), size=10)], views(5))
    assert (move.target, copied_bytes(move)) == ((3, 5, 4), 20)
    assert into_cell([in_cell((3, 4), (3, 4, 5))], views(5)) == ()
    with pytest.raises(
        PlacementRefused, match="orders-0: its 3 copies do not fit on the active brokers of its"
    ):
        into_cell([in_cell((1, 2, 4), (4, 5))], views(5))
