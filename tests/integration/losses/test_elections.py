"""Partitions that nobody can lead without a risk: they heal by themselves, or an operator decides; never silently."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as pb
from penstock.contract.errors import InvalidRequest, LogTruncated
from penstock.contract.ids import TopicId
from penstock.contract.topic_settings import Durability
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def acme(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_acme")


@pytest.fixture(autouse=True)
def _all_run(cluster: Brokers) -> Iterator[None]:
    cluster.start()
    yield
    cluster.start()


def produce(cluster: Brokers, tenant: Tenant, topic: str, numbers: range) -> None:
    """One batch a message, each acknowledged by all in sync."""
    with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number).result(timeout=PATIENCE_S)


def consumed(cluster: Brokers, tenant: Tenant, topic: str, count: int) -> list[int]:
    found: list[int] = []
    with cluster.client(tenant) as client, client.consumer([topic], auto_offset_reset="earliest") as consumer:

        def all_read() -> bool:
            found.extend(int(m.value or b"") for m in consumer.poll(timeout=1))
            return len(found) >= count

        cluster.wait_until(f"{count} messages of {topic} read", all_read)
    return found


def losses(cluster: Brokers, topic_id: TopicId) -> list[pb.DeclaredLoss]:
    return [
        loss for loss in cluster.admin.describe_cluster(partitions=True).losses if loss.topic_id == topic_id
    ]


def events(cluster: Brokers, topic_id: TopicId) -> list[dict[str, Any]]:
    """What the brokers' logs say of losses of the topic."""
    lines = [line for number in cluster.ids for line in cluster.output(number).splitlines()]
    events = [json.loads(line) for line in lines if "a loss was declared" in line]
    return [event["loss"] for event in events if event["loss"]["where"].startswith(topic_id.hex())]


def test_a_relaxed_topic_whose_brokers_were_all_killed_is_led_again_when_all_are_back(
    cluster: Brokers, acme: Tenant
) -> None:
    topic_id = cluster.create_topic(acme, "relaxed", durability=Durability.REPLICATED)
    produce(cluster, acme, "relaxed", range(50))
    cluster.kill()
    cluster.start(1, 2)
    # Until its session has expired, a broker that is gone still stands there as the leader.
    cluster.wait_until("it has no leader", lambda: cluster.partitions(topic_id)[0].leader == -1)
    assert cluster.partitions(topic_id)[0].log_generation == 1
    cluster.start()
    cluster.wait_until("the partition is whole", lambda: cluster.whole(topic_id))
    produce(cluster, acme, "relaxed", range(50, 60))
    assert consumed(cluster, acme, "relaxed", 60) == list(range(60))
    (loss,) = losses(cluster, topic_id)
    assert (loss.kind, loss.log_generation, loss.offset, loss.asked_by) == (
        "longest log of the last known replicas",
        2,
        50,
        "",
    )
    assert cluster.partitions(topic_id)[0].log_generation == 2
    (event,) = events(cluster, topic_id)
    assert (event["offset"], event["log_generation"]) == (50, 2)
    assert sum(cluster.metric(n, "penstock_declared_losses_total") for n in cluster.ids) >= 1


def test_an_operator_forces_an_election_and_everybody_follows_what_is_left(
    cluster: Brokers, acme: Tenant
) -> None:
    topic_id = cluster.create_topic(acme, "strict", assignments=[[1, 2, 3]])
    produce(cluster, acme, "strict", range(70))
    cluster.wait_until("all hold it", lambda: cluster.whole(topic_id))
    cluster.kill(3)
    cluster.wait_until("broker 3 is out", lambda: list(cluster.partitions(topic_id)[0].in_sync) == [1, 2])
    produce(cluster, acme, "strict", range(70, 100))
    with (
        cluster.client(acme) as client,
        client.consumer(["strict"], auto_offset_reset="earliest") as reader,
    ):
        seen: list[int] = []

        def all_seen() -> bool:
            seen.extend(m.offset for m in reader.poll(timeout=1))
            return len(seen) == 100

        cluster.wait_until("all is read", all_seen)
        with pytest.raises(InvalidRequest, match="broker 1 leads it"):
            cluster.admin.declare_loss(topic_id, 0, 2, accept=True)
        cluster.kill(1, 2)
        cluster.start(3)
        cluster.wait_until("nobody leads", lambda: cluster.leader(topic_id) == -1)
        assumed = cluster.admin.declare_loss(topic_id, 0, 3, accept=False)
        assert (assumed.declared, assumed.loss.offset, assumed.loss.known_end_offset) == (False, 70, 70)
        assert losses(cluster, topic_id) == []
        done = cluster.admin.declare_loss(topic_id, 0, 3, accept=True, asked_by="olga")
        assert (done.declared, done.loss.asked_by) == (True, "olga")
        cluster.wait_until("broker 3 leads", lambda: cluster.leader(topic_id) == 3)
        cluster.start()
        cluster.wait_until("the others follow", lambda: cluster.whole(topic_id))
        produce(cluster, acme, "strict", range(200, 205))
        with pytest.raises(LogTruncated, match=r"the logs part at 70; .*log generation 2") as cut:
            cluster.wait_until("the reader is told", lambda: bool(reader.poll(timeout=1)))
        assert cut.value.divergence_offset == 70
    assert consumed(cluster, acme, "strict", 75) == [*range(70), *range(200, 205)]
    (loss,) = losses(cluster, topic_id)
    assert (loss.kind, loss.log_generation, loss.leader) == ("forced election", 2, 3)
    with cluster.client(acme) as client:
        assert [p.log_generation for p in client.topic("strict", timeout=PATIENCE_S).partitions] == [2]
