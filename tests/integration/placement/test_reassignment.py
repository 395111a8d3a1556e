"""Partitions change their brokers under load: nothing is lost, refused for good or left behind."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.replica_files import differences, stored_batches
from penstock import Client, Delivery
from penstock.contract.errors import BrokerUnavailable, NotFound
from penstock.contract.ids import TopicId, TopicPartition
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

PARTITIONS = 4
SEND_EVERY_S = 0.002
VALUE = b"." * 2_000
SLOW_BYTES_PER_S = 600_000
LEADER_MOVES = 8


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Four brokers that catch up slowly enough to be met in the middle of it."""
    settings = {
        "limits": {"catch_up_bytes_per_s": SLOW_BYTES_PER_S, "push_bytes_max": 16_384, "replica_open_max": 2}
    }
    with brokers(tmp_path_factory.mktemp("cluster"), 4, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_moved")


class Sender:
    """Sends numbered messages from a thread of its own within the block; then everything has been acknowledged."""

    def __init__(self, client: Client, topic: str, partitions: int = PARTITIONS) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.deliveries: list[Delivery] = []

    def _run(self) -> None:
        producer = self._client.producer(linger_ms=1, delivery_timeout_ms=60_000)
        while not self._stop.wait(SEND_EVERY_S):
            number = len(self.deliveries)
            self.deliveries.append(
                producer.send(self._topic, b"%d:" % number + VALUE, partition=number % self._partitions)
            )

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def places(self) -> list[tuple[int, int]]:
        """(partition, offset) of each message, all acknowledged."""
        receipts = [delivery.result(PATIENCE_S) for delivery in self.deliveries]
        return [(receipt.partition, receipt.offset) for receipt in receipts]


def filled(cluster: Brokers, tenant: Tenant, name: str, places: list[list[int]], messages: int) -> TopicId:
    """A topic with something to catch up in every partition."""
    topic_id = cluster.create_topic(tenant, name, len(places), assignments=places)
    with cluster.client(tenant) as client:
        producer = client.producer(linger_ms=5, compression="none")
        sent = [producer.send(name, b"-" * 2_000, partition=n % len(places)) for n in range(messages)]
        for delivery in sent:
            delivery.result(PATIENCE_S)
    return topic_id


def check_everything_is_there(
    cluster: Brokers,
    tenant: Tenant,
    topic_id: TopicId,
    name: str,
    before: int,
    sender: Sender,
    partitions: int,
) -> None:
    """Each message once, at its offset; replicas equal to the byte; nothing on other brokers."""
    places = sender.places()
    assert len(set(places)) == len(places)
    for partition in range(partitions):
        offsets = [offset for at, offset in places if at == partition]
        assert offsets == list(range(before, before + len(offsets)))
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
    with cluster.client(tenant) as client, client.consumer([name]) as consumer:
        ends = consumer.end_offsets()
    for described in cluster.partitions(topic_id):
        where = TopicPartition(topic_id, described.partition)
        end = next(end for place, end in ends.items() if place[1] == described.partition)
        cluster.wait_until("all of it is stored", partial(_stored, cluster, described, where, end))
        stored = {
            broker: stored_batches(cluster.directory.log_directory(broker), where, end)
            for broker in described.replicas
        }
        assert not differences(stored)
        for broker in cluster.ids:
            if broker not in described.replicas and cluster.runs(broker):
                gone = cluster.partition_directory(broker, where)
                cluster.wait_until("the old replica is removed", partial(_removed, gone))


def _removed(directory: Path) -> bool:
    return not directory.exists()


def _stored(cluster: Brokers, described: Any, where: TopicPartition, end: int) -> bool:
    logs = [stored_batches(cluster.directory.log_directory(b), where, end) for b in described.replicas]
    return all(log and log[-1].end_offset == end for log in logs)


def placed(cluster: Brokers, topic_id: TopicId) -> list[list[int]]:
    return [list(partition.replicas) for partition in cluster.partitions(topic_id)]


def is_at(cluster: Brokers, topic_id: TopicId, brokers: list[int]) -> bool:
    return placed(cluster, topic_id) == [brokers]


def test_replicas_move_under_load_while_their_source_and_their_target_are_killed(
    cluster: Brokers, tenant: Tenant
) -> None:
    places = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]
    topic_id = filled(cluster, tenant, "moved", places, 800)
    wanted = [[4, 2, 3], [2, 4, 3], [3, 4, 2], [4, 3, 2]]
    epochs = [partition.leader_epoch for partition in cluster.partitions(topic_id)]
    with cluster.client(tenant) as client:
        with Sender(client, "moved") as sender:
            for partition, target in enumerate(wanted):
                cluster.admin.alter_replicas(topic_id, partition, target)
            wait_until_seen_to_move(cluster)
            cluster.wait_until(
                "what is caught up is counted",
                lambda: (
                    sum(cluster.metric(number, "penstock_catch_up_bytes_total") for number in (1, 2, 3)) > 0
                ),
            )
            cluster.kill(4)
            cluster.start(4)
            cluster.kill(1)
            cluster.start(1)
            cluster.wait_until("all are where they shall be", lambda: placed(cluster, topic_id) == wanted)
        assert cluster.admin.describe_moves() == []
        check_everything_is_there(cluster, tenant, topic_id, "moved", 200, sender, PARTITIONS)
    assert all(p.leader_epoch > epoch for p, epoch in zip(cluster.partitions(topic_id), epochs, strict=True))


def wait_until_seen_to_move(cluster: Brokers) -> None:
    """Until the moves from broker 1 to broker 4 say how much is left. One that has ended is no longer among them."""
    told: set[tuple[int, tuple[int, ...], tuple[int, ...]]] = set()

    def seen() -> bool:
        moves = cluster.admin.describe_moves()
        told.update((move.partition, tuple(move.adding), tuple(move.removing)) for move in moves)
        assert moves, "all ended before one said how much is left"
        return any(step.bytes_left > 0 for move in moves for step in move.progress)

    cluster.wait_until("it is seen how much is left", seen)
    assert told and told <= {(partition, (4,), (1,)) for partition in range(PARTITIONS)}


def test_a_reassignment_is_cancelled_and_leaves_nothing_behind(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = filled(cluster, tenant, "cancelled", [[1, 2, 3]], 1_000)
    cluster.admin.alter_replicas(topic_id, 0, [4, 2, 3])
    where = TopicPartition(topic_id, 0)
    cluster.wait_until("broker 4 has begun", lambda: cluster.partition_directory(4, where).exists())
    cluster.admin.alter_replicas(topic_id, 0, None)
    cluster.wait_until("it is as before", lambda: placed(cluster, topic_id) == [[1, 2, 3]])
    cluster.wait_until("broker 4 has removed it", lambda: not cluster.partition_directory(4, where).exists())
    assert cluster.admin.describe_moves() == []


def test_a_replica_that_comes_back_is_a_new_one_and_is_filled_anew(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = filled(cluster, tenant, "to-and-fro", [[1, 2, 3]], 20)
    where = TopicPartition(topic_id, 0)
    for target in ([4, 2, 3], [1, 2, 3]):
        cluster.admin.alter_replicas(topic_id, 0, target)
        cluster.wait_until("it has moved", partial(is_at, cluster, topic_id, target))
    identity = json.loads((cluster.partition_directory(1, where) / "partition.json").read_text())
    assert identity["replica_generation"] > 1
    with cluster.client(tenant) as client, Sender(client, "to-and-fro", 1) as sender:
        cluster.wait_until("messages flow", lambda: len(sender.deliveries) > 20)
    check_everything_is_there(cluster, tenant, topic_id, "to-and-fro", 20, sender, 1)


def test_leaders_are_handed_over_under_load_and_no_outcome_is_unknown(
    cluster: Brokers, tenant: Tenant
) -> None:
    topic_id = filled(cluster, tenant, "handed", [[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2]], 8)

    def unknown() -> float:
        return sum(cluster.metric(number, "penstock_outcomes_unknown_total") for number in cluster.ids)

    def led_by(broker: int) -> int:
        return [partition.leader for partition in cluster.partitions(topic_id)].count(broker)

    with cluster.client(tenant) as client:
        with Sender(client, "handed") as sender:
            cluster.wait_until("messages flow", lambda: len(sender.deliveries) > 20)
            before = unknown()
            for number in range(LEADER_MOVES):
                described = cluster.partitions(topic_id)[number % PARTITIONS]
                to = next(broker for broker in described.replicas if broker != described.leader)
                cluster.admin.move_leader(topic_id, described.partition, to)
                assert cluster.leader(topic_id, described.partition) == to
            cluster.admin.cordon_broker(3, True)
            cluster.wait_until("broker 3 leads nothing", lambda: led_by(3) == 0)
            assert unknown() == before
            cluster.admin.cordon_broker(3, False)
            cluster.stop(2)
            assert cluster.status(2) == 0
            assert led_by(2) == 0
            cluster.start(2)
        check_everything_is_there(cluster, tenant, topic_id, "handed", 2, sender, PARTITIONS)


def test_a_leader_stays_where_nobody_can_take_over_and_says_why(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = cluster.create_topic(tenant, "stays", assignments=[[1, 2, 3]])
    with pytest.raises(BrokerUnavailable, match="broker 4 is no other in-sync replica"):
        cluster.admin.move_leader(topic_id, 0, 4, timeout_s=5)
    with pytest.raises(NotFound):
        cluster.admin.move_leader(bytes(16), 0, 1)
