"""Reading from the nearest replica in sync, against a fake cluster in virtual time."""

from __future__ import annotations

import pytest

from penstock.client.cluster_view import ClusterView, PartitionView
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.consuming.fetch_position import LEADER_MS
from penstock.contract import methods
from tests.unit.client.consuming.test_consuming import expected, fill, filled, values
from tests.unit.client.runner import Runner


def apart(count: int = 10) -> Runner:
    """Broker 0 leads the only partition, in zone z0; 1 and 2 follow in zones of their own, and serve."""
    runner = filled(count)
    runner.cluster.zones = {0: "z0", 1: "z1", 2: "z2"}
    runner.cluster.serving = {1: None, 2: None}
    runner.cluster.changed()
    return runner


def read_from(runner: Runner) -> list[int]:
    """Brokers that have the partition open."""
    return sorted(
        stream.broker
        for stream in runner.streams.values()
        if stream.method == methods.CONSUME and stream.session is not None and stream.session.opened
    )


def settled(runner: Runner, consumer: ConsumerCore) -> list[int]:
    runner.run(LEADER_MS * 2)
    return read_from(runner)


def test_a_reader_in_a_zone_reads_from_the_follower_there_and_others_from_the_leader() -> None:
    runner = apart()
    near, far, without = (runner.consumer("orders", zone=zone) for zone in ("z2", "z9", None))
    assert values(runner, near) == expected(range(10))
    assert read_from(runner) == [2]
    assert values(runner, far) == values(runner, without) == expected(range(10))
    assert read_from(runner) == [0, 0, 2]


def test_the_leader_is_read_where_it_is_in_the_zone_itself() -> None:
    runner = apart()
    runner.cluster.zones = {0: "z0", 1: "z0", 2: "z2"}
    runner.cluster.changed()
    assert values(runner, runner.consumer("orders", zone="z0")) == expected(range(10))
    assert read_from(runner) == [0]


def test_what_a_follower_refuses_the_leader_serves_at_once_and_the_follower_is_tried_again_later() -> None:
    runner = apart()
    runner.cluster.serving.clear()
    consumer = runner.consumer("orders", zone="z1")
    began = runner.now
    assert values(runner, consumer) == expected(range(10))
    assert runner.now - began < 100, "no backoff for what is no fault"
    assert read_from(runner) == [0]
    runner.cluster.serving[1] = None
    assert settled(runner, consumer) == [1]
    fill(runner, 5, start=10)
    assert values(runner, consumer) == expected(range(10, 15))


def test_a_follower_that_never_serves_is_tried_less_and_less() -> None:
    runner = apart()
    runner.cluster.serving.clear()
    consumer = runner.consumer("orders", zone="z1")
    assert values(runner, consumer) == expected(range(10))
    refusing = next(
        stream.session for stream in runner.streams.values() if stream.broker == 1 and stream.session
    )
    runner.run(LEADER_MS * 15 + 1_000)
    assert len(refusing.opens) == 5, "at once, and after 10, 30, 70 and 150 s"
    assert read_from(runner) == [0]


def test_a_zone_without_any_broker_is_named_in_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    runner = apart()
    consumer = runner.consumer("orders", zone="z9")
    assert values(runner, consumer) == expected(range(10))
    runner.cluster.move("orders", 0, 1)
    runner.run(1_000)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "penstock"]
    assert "no broker is in a zone or on a host named 'z9'" in line


def test_a_follower_that_stops_serving_in_the_middle_loses_and_repeats_nothing() -> None:
    runner = apart()
    consumer = runner.consumer("orders", zone="z1")
    assert values(runner, consumer, 4) == expected(range(4))
    runner.cluster.serving.clear()
    runner.cluster.tell_consumers()
    fill(runner, 5, start=10)
    assert values(runner, consumer) == expected(range(4, 15))
    assert read_from(runner) == [0]


def test_a_follower_that_dies_is_left_for_the_leader_before_the_metadata_says_so() -> None:
    runner = apart()
    consumer = runner.consumer("orders", zone="z1")
    assert values(runner, consumer, 4) == expected(range(4))
    runner.down[1] = None
    runner.lose_streams(1)
    fill(runner, 5, start=10)
    began = runner.now
    assert values(runner, consumer) == expected(range(4, 15))
    assert runner.now - began < 2_000
    assert read_from(runner) == [0]


def test_a_reader_moves_when_the_in_sync_set_does() -> None:
    runner = apart()
    consumer = runner.consumer("orders", zone="z1")
    assert values(runner, consumer) == expected(range(10))
    assert read_from(runner) == [1]
    runner.cluster.unregister(1)
    runner.run(50)
    assert read_from(runner) == [0]
    fill(runner, 5, start=10)
    assert values(runner, consumer) == expected(range(10, 15))
    runner.cluster.registered[1] = "b1"
    runner.cluster.changed()
    runner.run(50)
    assert read_from(runner) == [1]


def test_a_host_is_nearer_than_a_zone_and_partitions_take_turns_among_equals() -> None:
    view = ClusterView()
    view.domains = {1: ("h1", "east"), 2: ("h2", "east"), 3: ("h3", "west"), 4: ("east", "west")}
    partition = PartitionView(leader=3, leader_epoch=1, replicas=(1, 2, 3), in_sync=(3, 2, 1))
    assert [view.nearest(number, partition, "east") for number in range(4)] == [1, 2, 1, 2]
    assert view.nearest(0, partition, "west") == 3
    assert view.nearest(0, partition, "h2") == 2
    assert view.nearest(0, partition, "") == view.nearest(0, partition, "north") == 3
    partition.in_sync = (1, 2, 3, 4)
    assert view.nearest(0, partition, "east") == 4, "a host of that name"
    partition.leader = -1
    assert view.nearest(0, partition, "east") == -1
