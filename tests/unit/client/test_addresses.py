"""Which addresses a client asks, in which order, and which replica counts as near: each address and name alone."""

from __future__ import annotations

import pytest

from penstock.client.cluster_view import ClusterView, PartitionView
from penstock.contract.v1 import log_pb2
from tests.unit.client.runner import Runner


def view(**brokers: tuple[str, str]) -> ClusterView:
    """A cluster of brokers `b0`, `b1`, ... with their hosts and zones."""
    cluster = ClusterView()
    response = log_pb2.MetadataResponse(cluster_id="c", revision=1)
    for name, (host, zone) in brokers.items():
        response.brokers.add(id=int(name[1:]), address=name, host=host, zone=zone)
    cluster.apply(response)
    return cluster


def test_the_leader_is_read_where_followers_are_as_near() -> None:
    cluster = view(b0=("h0", "east"), b1=("h1", "east"), b2=("h2", "west"))
    for leader in (0, 1):
        partition = PartitionView(leader=leader, in_sync=(0, 1, 2))
        assert [cluster.nearest(number, partition, "east") for number in range(4)] == [leader] * 4
        assert cluster.nearest(0, partition, "west") == 2


def test_a_name_of_a_host_and_of_a_zone_means_the_host() -> None:
    cluster = view(b0=("h0", "far"), b1=("h1", "m"), b2=("m", "far"))
    assert cluster.nearest(0, PartitionView(leader=0, in_sync=(0, 1, 2)), "m") == 2
    assert cluster.nearest(0, PartitionView(leader=0, in_sync=(0, 1)), "m") == 1


@pytest.mark.parametrize("alive", range(3))
@pytest.mark.parametrize("seed", range(3))
def test_any_one_address_that_answers_is_enough(alive: int, seed: int) -> None:
    runner = Runner(brokers=3, seed=seed)
    runner.cluster.create("t", 1)
    for broker in range(3):
        if broker != alive:
            runner.down[broker] = None
    runner.producer().route("t")
    runner.run(2_000)
    assert runner.core.view.topics["t"].partitions, f"only b{alive} is up, and nothing is known"


def test_a_client_whose_brokers_all_moved_away_asks_the_addresses_it_was_given() -> None:
    """All brokers that it knows got others' addresses; a name that it was given leads to the new ones."""
    runner = Runner(brokers=3, seed=1)
    runner.cluster.create("t", 1)
    producer = runner.producer()
    producer.route("t")
    runner.run(100)
    runner.cluster.registered = {1: "b1", 2: "b2"}
    runner.cluster.changed()
    runner.run(100)
    assert set(runner.core.view.brokers) == {1, 2}
    for broker in (1, 2):
        runner.lose_streams(broker)
        runner.down[broker] = None
    runner.cluster.registered = {0: "b0"}
    runner.cluster.topics["t"].partitions[0].leader = 0
    runner.lose_streams(0)
    delivery = runner.send(producer, "t", b"m")
    runner.run(5_000)
    assert delivery.receipt().partition == 0
    assert runner.core.view.brokers == {0: "b0"}


def test_clients_begin_at_different_addresses() -> None:
    """All of a fleet would ask the first one else."""
    first = set()
    for seed in range(20):
        core = Runner(brokers=3, seed=seed).core
        first.add(core.address_for(None))
    assert first == {"b0", "b1", "b2"}


@pytest.mark.parametrize("left", ["b0", "b1", "b2"])
def test_the_address_that_was_not_tried_is_asked_next(left: str) -> None:
    for seed in range(4):
        core = Runner(brokers=3, seed=seed).core
        tried = [address for address in ("b0", "b1", "b2") if address != left]
        assert [core.address_for(None, tried) for _ in range(4)] == [left] * 4
