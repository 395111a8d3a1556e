"""Moves off a drained broker and towards a new one: what they keep, and what they refuse."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.placement.moves import PlacedPartition, PlannedMove, moves_off, rebalance, towards
from data_plane.placement.planner import BrokerView, PlacementRefused, plan
from penstock.rules.domains import Location, locations

from .clusters import closer_than_needed, clusters, unevenness


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


def test_a_broker_that_joined_is_filled_until_nobody_holds_two_more_than_another() -> None:
    partitions = placed(plan(12, 3, views(3)))
    moves = rebalance(partitions, views(4))
    counts = spread(after(partitions, moves))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert counts[4] == len(moves) == 9
    assert rebalance(partitions, views(3)) == ()


def test_nothing_is_moved_onto_a_broker_that_is_away() -> None:
    assert rebalance(placed(plan(12, 3, views(3))), views(4, b4="draining")) == ()


def test_evening_out_never_crowds_a_zone() -> None:
    brokers = [BrokerView(id=1, zone="a"), BrokerView(id=2, zone="b"), BrokerView(id=3, zone="a")]
    partitions = placed(((1, 2),) * 4)
    now = after(partitions, rebalance(partitions, brokers))
    assert all({"a", "b"} == {brokers[b - 1].zone for b in held} for held in now)
    assert spread(now)[3] == 2


def test_the_plan_does_not_depend_on_the_order_of_what_it_is_told() -> None:
    partitions = placed(plan(9, 3, views(3)))
    assert rebalance(partitions, views(4)) == rebalance(partitions[::-1], views(4)[::-1])
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


@given(clusters(), st.lists(st.permutations(range(12)), min_size=1, max_size=8), st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_evening_out_spreads_what_was_placed_without_regard_to_zones_and_hosts(
    views: list[BrokerView], orders: list[list[int]], replication: int
) -> None:
    replication = min(replication, len(views))
    held = placed(
        tuple(tuple(views[n].id for n in order if n < len(views))[:replication] for order in orders)
    )
    where = locations(views)
    moves = rebalance(held, views)
    for _ in range(20):
        now = after(held, moves)
        for before, then in zip(held, now, strict=True):
            assert measured(then, where) <= measured(before.replicas, where)
            assert len(set(before.replicas) - set(then)) <= 1
        held = placed(tuple(now))
        moves = rebalance(held, views)
        if not moves:
            break
    assert not moves
    assert not any(closer_than_needed(partition.replicas, views) for partition in held)


def measured(replicas: tuple[int, ...], where: Mapping[int, Location]) -> tuple[int, int]:
    return unevenness(replicas, [where[n].zone for n in replicas], [where[n].host for n in replicas])


def test_evening_out_moves_no_more_than_what_is_too_close() -> None:
    brokers = [BrokerView(id=n, host=f"h{n // 2}") for n in range(6)]
    (move,) = rebalance(placed(((0, 2, 4), (0, 1, 3), (5, 2, 1))), brokers)
    assert move.partition.partition == 1
    assert (move.source, move.destination) == (1, 4)


def test_a_copy_less_is_one_that_shares_its_host() -> None:
    brokers = [BrokerView(id=1, host="x"), BrokerView(id=2, host="y"), BrokerView(id=3, host="y")]
    (move,) = towards(2, placed(((1, 2, 3),)), brokers)
    assert move.target == (1, 2)


def test_a_copy_less_is_never_the_preferred_leaders_even_where_it_is_too_close() -> None:
    brokers = [BrokerView(id=1, host="x"), BrokerView(id=2, host="x", replicas=9), BrokerView(id=3, host="y")]
    (move,) = towards(2, placed(((2, 1, 3),)), brokers)
    assert (move.target, move.source) == ((2, 3), 1)
