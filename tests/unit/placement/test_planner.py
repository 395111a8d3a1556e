"""The planner: distinct brokers, spread over zones and hosts, even in replicas and leaders, the same every time."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.placement.planner import Assignment, BrokerView, PlacementRefused, plan
from penstock.contract.errors import InvalidRequest

from .clusters import closer_than_needed, clusters


def brokers(count: int, zones: int = 0) -> list[BrokerView]:
    """`count` empty active brokers in turn over `zones` zones; 0 zones = each its own."""
    return [BrokerView(id=n, zone=f"z{n % zones}" if zones else "") for n in range(1, count + 1)]


def added(views: Sequence[BrokerView], assignments: Sequence[Assignment]) -> list[BrokerView]:
    """The brokers after the plan was carried out."""
    replicas = Counter(number for assignment in assignments for number in assignment)
    leaders = Counter(assignment[0] for assignment in assignments)
    return [
        BrokerView(
            id=view.id,
            zone=view.zone,
            host=view.host,
            state=view.state,
            replicas=view.replicas + replicas[view.id],
            leaders=view.leaders + leaders[view.id],
        )
        for view in views
    ]


def gap(counts: Sequence[int]) -> int:
    return max(counts) - min(counts)


@given(clusters(), st.integers(1, 40), st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_no_two_copies_share_a_zone_or_a_host_while_another_could_take_one(
    views: list[BrokerView], partitions: int, replication: int
) -> None:
    active = {view.id: view for view in views if view.state == "active"}
    if len(active) < replication:
        with pytest.raises(PlacementRefused, match=f"{replication} brokers required, {len(active)} active"):
            plan(partitions, replication, views)
        return
    assignments = plan(partitions, replication, views)
    assert len(assignments) == partitions
    for assignment in assignments:
        assert len(set(assignment)) == replication
        assert set(assignment) <= set(active)
        assert not closer_than_needed(assignment, views)


@given(clusters(), st.integers(1, 30), st.integers(1, 5), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_in_which_brokers_are_listed_changes_nothing(
    views: list[BrokerView], partitions: int, replication: int, random: object
) -> None:
    if sum(view.state == "active" for view in views) < replication:
        return
    shuffled = list(views)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan(partitions, replication, views) == plan(partitions, replication, shuffled)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 3)), max_size=12),
)
@settings(max_examples=150, deadline=None)
def test_brokers_in_equal_zones_differ_by_at_most_one_replica_whatever_topics_were_placed(
    zones: int, zone_size: int, topics: list[tuple[int, int]]
) -> None:
    views = brokers(zones * zone_size, zones)
    for partitions, replication in topics:
        if replication > len(views):
            continue
        assignments = plan(partitions, replication, views)
        views = added(views, assignments)
        assert gap([view.replicas for view in views]) <= 1
        of_topic = added(brokers(len(views), zones), assignments)
        assert gap([view.replicas for view in of_topic]) <= 1
        assert gap([view.leaders for view in of_topic]) <= 1


@pytest.mark.parametrize(("count", "zones"), [(3, 3), (4, 0), (5, 0), (9, 3), (7, 0), (12, 4)])
def test_skew_of_leaders_and_replicas_stays_under_ten_percent(count: int, zones: int) -> None:
    views = brokers(count, zones)
    for topic in range(240):
        views = added(views, plan(1 + topic * 7 % 13, 1 + topic % 3, views))
    for counts in ([view.leaders for view in views], [view.replicas for view in views]):
        mean = sum(counts) / len(counts)
        assert max(abs(count - mean) for count in counts) < 0.1 * mean


def test_a_broker_that_joins_empty_is_not_given_all_of_a_topic() -> None:
    views = [BrokerView(id=n, replicas=900, leaders=300) for n in (1, 2, 3)] + [BrokerView(id=4)]
    after = added([BrokerView(id=n) for n in (1, 2, 3, 4)], plan(8, 3, views))
    assert [view.replicas for view in after] == [6, 6, 6, 6]
    assert [view.leaders for view in after] == [2, 2, 2, 2]


def test_topics_of_one_partition_go_to_the_broker_that_leads_least() -> None:
    views = [
        BrokerView(id=1, replicas=5, leaders=4),
        BrokerView(id=2, replicas=5, leaders=1),
        BrokerView(id=3, replicas=5),
    ]
    assert plan(1, 3, views)[0][0] == 3
    assert plan(1, 2, views)[0] == (2, 1)


def test_followers_of_one_leader_take_turns_to_be_next() -> None:
    assignments = plan(30, 3, brokers(3))
    followers = Counter((assignment[0], assignment[1]) for assignment in assignments)
    assert set(followers.values()) == {5}


def test_unequal_zones_still_hold_one_copy_each() -> None:
    views = [BrokerView(id=1, zone="a"), BrokerView(id=2, zone="b")]
    views += [BrokerView(id=n, zone="c") for n in (3, 4, 5, 6)]
    assignments = plan(20, 3, views)
    assert all({1, 2} < set(assignment) for assignment in assignments)
    after = added(views, assignments)
    assert [view.replicas for view in after[2:]] == [5, 5, 5, 5]
    assert gap([view.leaders for view in after]) <= 1


def test_brokers_on_one_host_hold_no_two_copies_while_another_host_can() -> None:
    views = [BrokerView(id=n, zone="abc"[n // 4], host=f"h{n // 2}") for n in range(12)]
    for assignment in plan(30, 3, views):
        assert len({views[number].zone for number in assignment}) == 3
    for assignment in plan(30, 5, views):
        assert len({views[number].host for number in assignment}) == 5
    after = added(views, plan(30, 3, views))
    assert gap([view.replicas for view in after]) <= 1
    assert gap([view.leaders for view in after]) <= 1


def test_a_zone_with_more_hosts_takes_the_copies_that_would_share_a_host_elsewhere() -> None:
    views = [BrokerView(id=1, zone="a", host="x"), BrokerView(id=2, zone="a", host="x")]
    views += [BrokerView(id=3, zone="b", host="y"), BrokerView(id=4, zone="b", host="z")]
    assert {tuple(sorted(assignment)) for assignment in plan(8, 3, views)} == {(1, 3, 4), (2, 3, 4)}


def test_every_zone_has_a_copy_before_one_has_two() -> None:
    views = [BrokerView(id=n, zone=zone) for n, zone in enumerate("aabbcd")]
    for assignment in plan(40, 5, views):
        assert {views[number].zone for number in assignment} == {"a", "b", "c", "d"}


def test_the_refusal_names_what_is_missing_and_why() -> None:
    views = [BrokerView(id=1), BrokerView(id=2, state="fenced"), BrokerView(id=3, state="draining")]
    with pytest.raises(PlacementRefused) as refused:
        plan(1, 3, views)
    assert refused.value.message == "replication: 3 brokers required, 1 active (2 is fenced, 3 is draining)"
    assert "Start more brokers" in refused.value.remedy


@pytest.mark.parametrize(("partitions", "replication"), [(0, 1), (10_001, 1), (1, 0), (1, 6)])
def test_numbers_out_of_bounds_are_refused_by_name(partitions: int, replication: int) -> None:
    with pytest.raises(InvalidRequest, match="is not within"):
        plan(partitions, replication, brokers(6))


def test_the_largest_topic_is_planned_evenly() -> None:
    after = added(brokers(12, 4), plan(10_000, 3, brokers(12, 4)))
    assert gap([view.replicas for view in after]) <= 1
    assert gap([view.leaders for view in after]) <= 1
