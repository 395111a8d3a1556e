"""What brokers carry counts for new topics, and old reports send not all of them to one broker."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from data_plane.placement.planner import BrokerView, plan
from data_plane.placement.pressure import less_of_two, serving, storing

from .clusters import closer_than_needed, clusters


def views(count: int, replicas: int = 0, leaders: int = 0) -> list[BrokerView]:
    return [BrokerView(id=n, zone=f"z{n}", replicas=replicas, leaders=leaders) for n in range(1, count + 1)]


def test_without_reports_replicas_and_leaders_count_alone() -> None:
    brokers = [BrokerView(id=1, replicas=7, leaders=2), BrokerView(id=2, replicas=1)]
    assert storing(brokers) == {1: 7, 2: 1}
    assert serving(brokers) == {1: 2, 2: 0}


def test_a_broker_whose_disk_is_full_or_that_is_busy_gets_less() -> None:
    brokers = [replace(b, log_bytes=90 if b.id == 1 else 5) for b in views(3, replicas=30, leaders=10)]
    assert storing(brokers) == {1: 55, 2: 17, 3: 17}
    assert plan(1, 2, brokers) == ((2, 3),)
    busy = [replace(b, bytes_per_s=90 if b.id == 1 else 5) for b in views(3, replicas=30, leaders=10)]
    assert {replicas[0] for replicas in plan(2, 3, busy)} == {2, 3}


def test_many_topics_placed_by_one_old_report_do_not_all_go_to_the_emptiest_broker() -> None:
    brokers = [replace(b, replicas=0 if b.id == 1 else 20) for b in views(10)]
    placed = Counter(plan(1, 1, brokers, draw=b"topic %d" % n)[0][0] for n in range(1_000))
    assert placed[1] < 300, "by the least load all 1,000 would go to it"
    assert placed[1] > max(placed[n] for n in range(2, 11))


def test_one_topic_is_placed_the_same_way_again() -> None:
    assert plan(9, 2, views(6), draw=b"a") == plan(9, 2, views(6)[::-1], draw=b"a")


@given(clusters(), st.integers(1, 12), st.integers(1, 5), st.binary(min_size=1, max_size=16))
def test_a_draw_keeps_the_rules_of_zones_and_evenness(
    brokers: list[BrokerView], partitions: int, replication: int, draw: bytes
) -> None:
    if sum(broker.state == "active" for broker in brokers) < replication:
        return
    for replicas in plan(partitions, replication, brokers, draw):
        assert len(set(replicas)) == replication
        assert not closer_than_needed(replicas, brokers)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.binary(max_size=8), st.integers(0, 99))
def test_the_one_with_most_is_never_taken_where_there_are_others(
    loads: list[int], draw: bytes, turn: int
) -> None:
    among = list(range(len(loads)))
    taken = less_of_two(among, dict(enumerate(loads)), draw, turn)
    assert len(loads) == 1 or loads[taken] < max(loads) or loads.count(max(loads)) > 1
