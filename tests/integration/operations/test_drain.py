"""A broker that is told to stop hands over first: clients notice nothing, and it leaves a clean directory."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from penstock import Client, Delivery
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.bystander import Bystander
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

TOPIC = "drained"
PARTITIONS = 6
PAUSE_S = 0.002
"""Between two messages: some hundred a second."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_drained")


class Sender(threading.Thread):
    """Sends numbered messages until it is told to stop."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self._producer = client.producer(linger_ms=1)
        self._ended = threading.Event()
        self.deliveries: list[Delivery] = []

    def run(self) -> None:
        while not self._ended.wait(PAUSE_S):
            number = len(self.deliveries)
            value = b"%d" % number
            self.deliveries.append(self._producer.send(TOPIC, value, partition=number % PARTITIONS))

    def acknowledged(self) -> int:
        """How many messages in a row from the first are acknowledged."""
        return next(
            (n for n, delivery in enumerate(self.deliveries) if not delivery.done()), len(self.deliveries)
        )

    def stop(self) -> None:
        self._ended.set()
        self.join(PATIENCE_S)


def leaders(cluster: Brokers, topic_id: bytes) -> list[int]:
    return [partition.leader for partition in cluster.partitions(topic_id)]


@pytest.mark.slow
def test_brokers_restarted_in_turn_are_noticed_by_no_producer_and_no_consumer(
    cluster: Brokers, tenant: Tenant
) -> None:
    topic_id = cluster.create_topic(tenant, TOPIC, PARTITIONS)
    with cluster.client(tenant) as client, cluster.client(tenant) as reading:
        sender = Sender(client)
        consumer = reading.consumer([TOPIC])
        read: list[list[int]] = [[] for _ in range(PARTITIONS)]

        def read_some() -> int:
            for message in consumer.poll(timeout=0.02):
                read[message.partition].append(int(message.value or b""))
            return sum(map(len, read))

        def goes_on(floor: int) -> bool:
            return sender.acknowledged() > floor

        def has_ended(number: int) -> bool:
            read_some()
            return not cluster.runs(number)

        sender.start()
        for number in cluster.ids:
            cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
            led = leaders(cluster, topic_id).count(number)
            floor = len(sender.deliveries)
            cluster.wait_until("sending goes on", partial(goes_on, floor))
            cluster.stop(number)
            # With status 0: one that could not drain in its time ends with another one by itself.
            cluster.wait_until("it has ended", partial(has_ended, number))
            assert cluster.status(number) == 0, cluster.output(number)[-4_000:]
            assert led == 0 or number not in leaders(cluster, topic_id)
            clean = cluster.directory.log_directory(number) / "clean"
            assert json.loads(clean.read_text())["broker_epoch"] > 0
            floor = len(sender.deliveries)
            cluster.wait_until("sending goes on without it", partial(goes_on, floor))
            cluster.start(number)
            assert not clean.exists()
        sender.stop()
        for number, delivery in enumerate(sender.deliveries):
            receipt = delivery.result(PATIENCE_S)
            assert (receipt.partition, receipt.offset) == (number % PARTITIONS, number // PARTITIONS)
        sent = len(sender.deliveries)
        cluster.wait_until("everything is read", lambda: read_some() >= sent)
    assert read == [list(range(partition, sent, PARTITIONS)) for partition in range(PARTITIONS)]


def test_a_broker_that_drains_says_so_and_leads_nothing(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = cluster.create_topic(tenant, "handed-over", assignments=[[2, 1, 3]])
    cluster.wait_until("broker 2 leads", lambda: cluster.leader(topic_id) == 2)
    cluster.stop(2)
    assert cluster.status(2) == 0
    try:
        assert cluster.leader(topic_id) in (1, 3)
        lines = [json.loads(line)["message"] for line in cluster.output(2).splitlines()]
        # Between the two it may tell what it sees of the cluster.
        assert "draining" in lines and lines[-1] == "drained"
        wanted = {1: "active", 2: "fenced", 3: "active"}
        cluster.wait_until(
            "it is fenced, and the others are not",
            lambda: {one.id: one.state for one in cluster.admin.describe_cluster().brokers} == wanted,
        )
    finally:
        cluster.start(2)


@contextmanager
def as_slow_to_drain(cluster: Brokers) -> Iterator[None]:
    """Brokers that are started within the block would wait for others to take over longer than any test waits."""
    before = cluster.settings
    cluster.settings = {**before, "timings": {"drain_ms": int(2 * PATIENCE_S * 1000)}}
    try:
        yield
    finally:
        cluster.settings = before


def test_a_second_signal_ends_a_broker_at_once_and_nothing_is_lost(cluster: Brokers, tenant: Tenant) -> None:
    victim = 1
    with as_slow_to_drain(cluster):
        cluster.kill(victim)
        cluster.start(victim)
    topic_id = cluster.create_topic(tenant, "cut-short", assignments=[[1, 2, 3]])
    cluster.wait_until("it leads", lambda: cluster.leader(topic_id) == victim)
    with cluster.client(tenant) as client:
        producer = client.producer(linger_ms=0)
        producer.send("cut-short", b"before").result(PATIENCE_S)
        with cluster.paused(*(number for number in cluster.ids if number != victim)):
            before = cluster.output(victim).count('"draining"')
            cluster.stop(victim)
            cluster.wait_until("it drains", lambda: cluster.output(victim).count('"draining"') > before)
            cluster.stop(victim)
            assert cluster.status(victim) == 1
        assert not (cluster.directory.log_directory(victim) / "clean").exists()
        assert producer.send("cut-short", b"after").result(PATIENCE_S).offset == 1
    cluster.start(victim)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))


def test_all_brokers_stopped_at_once_end_cleanly_and_serve_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with brokers(tmp_path_factory.mktemp("cluster")) as cluster, Bystander(cluster) as bystander:
        cluster.signal(signal.SIGTERM)
        assert [cluster.status(number) for number in cluster.ids] == [0, 0, 0]
        for number in cluster.ids:
            assert (cluster.directory.log_directory(number) / "clean").exists()
        cluster.start()
        bystander.check()
