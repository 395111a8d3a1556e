"""Evening out: every skew below its bound where that is possible, little is moved, and what is balanced stays."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.placement.balance import (
    AIM_PERCENT,
    TRIGGER_PERCENT,
    _State,
    rebalance,
    skew_after,
    skew_of,
)
from data_plane.placement.moves import PlacedPartition, PlannedMove, copied_bytes, moves_off
from data_plane.placement.planner import BrokerView, plan
from penstock.rules.domains import Location, locations

from .clusters import closer_than_needed, clusters, unevenness
from .test_moves import placed, views

MIB = 2**20


def weighed(
    assignments: Sequence[tuple[int, ...]], sizes: Sequence[int], loads: Sequence[int] = ()
) -> list[PlacedPartition]:
    return [
        PlacedPartition(
            topic_id="aa",
            topic="orders",
            partition=number,
            replicas=replicas,
            log_bytes=sizes[number % len(sizes)],
            bytes_per_s=loads[number % len(loads)] if loads else 0,
        )
        for number, replicas in enumerate(assignments)
    ]


def carried_out(partitions: Sequence[PlacedPartition], moves: Sequence[PlannedMove]) -> list[PlacedPartition]:
    targets = {(m.partition.topic_id, m.partition.partition): m.target for m in moves}
    return [
        PlacedPartition(
            topic_id=p.topic_id,
            topic=p.topic,
            partition=p.partition,
            replicas=targets.get((p.topic_id, p.partition), p.replicas),
            log_bytes=p.log_bytes,
            bytes_per_s=p.bytes_per_s,
            within=p.within,
        )
        for p in partitions
    ]


def copied(moves: Sequence[PlannedMove]) -> int:
    return sum(copied_bytes(move) for move in moves)


def test_a_broker_that_joined_gets_its_share_of_everything_with_little_movement() -> None:
    partitions = weighed(plan(60, 3, views(3)), [30 * MIB, 10 * MIB, 50 * MIB], [1_000, 200])
    found = rebalance(partitions, views(4))
    assert found.before.worst == 100
    assert found.after.worst <= TRIGGER_PERCENT
    assert skew_after(partitions, views(4), found.moves) == found.after
    total = sum(3 * partition.log_bytes for partition in partitions)
    assert copied(found.moves) <= 1.15 * total / 4, "a quarter of everything has to move, and little more"
    assert rebalance(carried_out(partitions, found.moves), views(4)).moves == ()


def test_after_a_drain_the_rest_is_balanced() -> None:
    partitions = weighed(plan(60, 3, views(4)), [30 * MIB, 10 * MIB], [100])
    left = carried_out(partitions, moves_off(4, partitions, views(5)))
    found = rebalance(left, views(5, b4="draining"))
    assert found.after.worst <= TRIGGER_PERCENT


def test_a_hot_spot_is_relieved_by_moving_leaders_which_copies_nothing() -> None:
    assignments = plan(12, 3, views(3))
    hot = [5_000 if replicas[0] == 1 else 500 for replicas in assignments]
    partitions = weighed(assignments, [MIB], hot)
    found = rebalance(partitions, views(3))
    assert found.before.bytes_per_s > 100
    assert found.after.bytes_per_s < 40 and found.after.leaders <= TRIGGER_PERCENT
    assert copied(found.moves) == 0
    assert all(sorted(move.target) == sorted(move.partition.replicas) for move in found.moves)


def test_large_partitions_on_one_broker_change_places_with_small_ones() -> None:
    assignments = [(1,), (1,), (2,), (2,), (3,), (3,)]
    found = rebalance(weighed(assignments, [90, 90, 10, 10, 10, 10]), views(3))
    assert found.before.log_bytes > 100
    assert found.after.log_bytes < 30 or found.after.log_bytes < found.before.log_bytes / 2
    assert found.after.replicas <= TRIGGER_PERCENT


def test_a_cell_is_evened_out_over_its_own_brokers() -> None:
    mine = [
        PlacedPartition(topic_id="aa", topic="t", partition=n, replicas=(1,), within=(1, 2), log_bytes=10)
        for n in range(10)
    ]
    found = rebalance(mine, views(4))
    assert {move.destination for move in found.moves} == {2}
    assert Counter(p.replicas for p in carried_out(mine, found.moves)) == {(1,): 5, (2,): 5}


def test_nothing_is_moved_onto_a_broker_that_is_away() -> None:
    assert rebalance(placed(plan(12, 3, views(3))), views(4, b4="draining")).moves == ()


def test_a_skew_between_aim_and_trigger_moves_nothing() -> None:
    partitions = weighed([(1,)] * 27 + [(2,)] * 25 + [(3,)] * 23, [MIB])
    skew = skew_of(partitions, views(3))
    assert AIM_PERCENT < skew.replicas < TRIGGER_PERCENT
    assert rebalance(partitions, views(3)).moves == ()


def test_evening_out_never_crowds_a_zone() -> None:
    brokers = [BrokerView(id=1, zone="a"), BrokerView(id=2, zone="b"), BrokerView(id=3, zone="a")]
    partitions = placed(((1, 2),) * 4)
    now = carried_out(partitions, rebalance(partitions, brokers).moves)
    assert all({"a", "b"} == {brokers[b - 1].zone for b in p.replicas} for p in now)
    assert Counter(b for p in now for b in p.replicas)[3] == 2


def test_evening_out_moves_no_more_than_what_is_too_close() -> None:
    brokers = [BrokerView(id=n, host=f"h{n // 2}") for n in range(6)]
    moves = rebalance(placed(((0, 2, 4), (0, 1, 3), (5, 2, 1))), brokers).moves
    copying = [move for move in moves if move.source is not None]
    assert [(m.partition.partition, m.source, m.destination) for m in copying] == [(1, 1, 4)]


def test_the_plan_does_not_depend_on_the_order_of_what_it_is_told() -> None:
    partitions = weighed(plan(9, 3, views(3)), [5, 9, 1], [7, 3])
    assert rebalance(partitions, views(4)) == rebalance(partitions[::-1], views(4)[::-1])


@given(
    clusters(),
    st.lists(st.permutations(range(12)), min_size=1, max_size=14),
    st.integers(1, 5),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_evening_out_keeps_the_rules_gets_better_and_ends(
    brokers: list[BrokerView], orders: list[list[int]], replication: int, data: st.DataObject
) -> None:
    replication = min(replication, len(brokers))
    sizes = data.draw(st.lists(st.integers(0, 100), min_size=1, max_size=14))
    loads = data.draw(st.lists(st.integers(0, 1_000), min_size=1, max_size=14))
    held = weighed(
        [tuple(brokers[n].id for n in order if n < len(brokers))[:replication] for order in orders],
        sizes,
        loads,
    )
    where = locations(brokers)
    active = {broker.id for broker in brokers if broker.state == "active"}
    for _ in range(20):
        found = rebalance(held, brokers)
        for move in found.moves:
            came = set(move.target) - set(move.partition.replicas)
            assert len(move.target) == len(set(move.target)) == replication
            assert len(came) <= 1 and came <= active
            assert measured(move.target, where) <= measured(move.partition.replicas, where)
        assert found.after == skew_after(held, brokers, found.moves)
        held = carried_out(held, found.moves)
        if not found.moves:
            break
    else:
        pytest.fail("twenty plans, and the next one moves something still")
    if len(active) > 1:
        assert not any(closer_than_needed(partition.replicas, brokers) for partition in held)


@given(st.integers(2, 8), st.integers(20, 60), st.integers(1, 3), st.data())
@settings(max_examples=60, deadline=None)
def test_a_cluster_of_many_partitions_ends_within_the_bound(
    count: int, partitions: int, replication: int, data: st.DataObject
) -> None:
    replication = min(replication, count)
    sizes = data.draw(st.lists(st.integers(80, 120), min_size=1, max_size=9))
    held = weighed(plan(partitions * count, replication, views(count)), sizes, sizes)
    brokers = views(count + 1)
    for _ in range(3):
        found = rebalance(held, brokers)
        held = carried_out(held, found.moves)
    assert skew_of(held, brokers).worst <= TRIGGER_PERCENT


def test_leaderships_are_passed_on_where_no_two_brokers_can_help_each_other() -> None:
    # A broker that leads large ones stores none that the brokers which lead small ones could give it.
    sizes = [115, 80]
    held = weighed(plan(160, 3, views(8)), sizes, sizes)
    after = rebalance(held, views(9)).after
    assert max(after.leaders, after.bytes_per_s) <= TRIGGER_PERCENT


@given(
    st.integers(3, 8),
    st.lists(st.permutations(range(8)), min_size=4, max_size=40),
    st.integers(1, 3),
    st.integers(0, 12),
    st.booleans(),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_a_plan_of_few_moves_is_all_of_the_ways_that_it_begins(
    count: int,
    orders: list[list[int]],
    replication: int,
    moves_max: int,
    leaders_only: bool,
    data: st.DataObject,
) -> None:
    """Half of an exchange or of a chain would leave a broker with more than it had."""
    loads = data.draw(st.lists(st.integers(1, 1_000), min_size=1, max_size=14))
    brokers = views(count)
    held = weighed(
        [tuple(brokers[n].id for n in order if n < count)[:replication] for order in orders], loads, loads
    )
    found = rebalance(held, brokers, moves_max, leaders_only=leaders_only)
    assert len(found.moves) <= moves_max
    assert all(sorted(move.target) == sorted(set(move.target)) for move in found.moves)
    assert found.after == skew_after(held, brokers, found.moves), "what it says is what it does"
    assert weight(carried_out(held, found.moves), brokers) <= weight(held, brokers) + 1e-6


@pytest.mark.parametrize(
    ("replicas", "loads"),
    [
        (((1, 2), (1, 2), (2, 1), (2, 1)), (100, 30, 80, 10)),
        (((1, 2), (2, 3), (3, 1), (1,), (2,), (3,)), (100, 90, 80, 70, 50, 60)),
    ],
    ids=["two leaderships change places", "three are passed on in a circle"],
)
def test_leaderships_that_change_together_are_not_begun_where_one_does_not_fit(
    replicas: tuple[tuple[int, ...], ...], loads: tuple[int, ...]
) -> None:
    brokers = views(len({number for row in replicas for number in row}))
    held = weighed(replicas, [1], loads)
    together = len(brokers)
    assert len(rebalance(held, brokers, together, leaders_only=True).moves) == together
    for fewer in range(together):
        found = rebalance(held, brokers, fewer, leaders_only=True)
        assert skew_of(carried_out(held, found.moves), brokers) == found.before, f"{fewer} moves at most"


@pytest.mark.pure  # it looks at how often a step was refused
def test_a_plan_that_takes_no_more_is_not_searched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search for a step goes over all brokers, and a plan of a large cluster is made inside a request."""
    refused: list[int] = []
    takes = _State.takes

    def noted(state: _State, indices: Iterable[int]) -> bool:
        fits = takes(state, indices)
        refused.extend([] if fits else [1])
        return fits

    monkeypatch.setattr(_State, "takes", noted)
    brokers = views(9)
    held = weighed(
        [(number % 3 + 1, number % 9 + 1) for number in range(3, 183) if number % 9 > 2], [7, 90], [50, 3, 11]
    )
    found = rebalance(held, brokers, 20, leaders_only=True)
    assert 15 <= len(found.moves) <= 20
    assert len(refused) <= 2, "a leadership, and a chain"


def weight(partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView]) -> float:
    """What evening out makes less: the sum of squares of each broker's part of each thing."""
    parts = {broker.id: [0, 0, 0, 0] for broker in brokers}
    for partition in partitions:
        for number in partition.replicas:
            parts[number][0] += 1
            parts[number][1] += partition.log_bytes
        parts[partition.replicas[0]][2] += 1
        parts[partition.replicas[0]][3] += partition.bytes_per_s
    means = [sum(part[thing] for part in parts.values()) / len(parts) for thing in range(4)]
    return sum((part[thing] / means[thing]) ** 2 for part in parts.values() for thing in range(4))


def measured(replicas: tuple[int, ...], where: Mapping[int, Location]) -> tuple[int, int]:
    return unevenness(replicas, [where[n].zone for n in replicas], [where[n].host for n in replicas])
