"""The SDK against three real brokers with real disks."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

import penstock
import penstock.asyncio
from penstock.contract import limits
from penstock.contract.topic_settings import TopicSettings
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.both_cores, pytest.mark.processes]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    path = tmp_path_factory.mktemp("sdk") / "cluster"
    with brokers(path, settings={"metering": True}, internal_topics=True) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_sdk")


@pytest.fixture
def client(cluster: Brokers, tenant: Tenant) -> Iterator[penstock.Client]:
    with cluster.client(tenant) as made:
        yield made


def read(consumer: penstock.Consumer, count: int) -> list[penstock.Message]:
    """At least `count` messages, or those that came until none did."""
    messages: list[penstock.Message] = []
    while len(messages) < count:
        found = consumer.poll(max_messages=10_000, timeout=PATIENCE_S)
        if not found:
            break
        messages += found
    return messages


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sent_is_read_in_every_compression(
    cluster: Brokers, tenant: Tenant, client: penstock.Client, compression: str
) -> None:
    topic = f"packed-{compression}"
    cluster.create_topic(tenant, topic, 3)
    with client.producer(compression=compression) as producer:
        deliveries = [
            producer.send(
                topic, b"value %d " % number * 10, key=b"k%d" % (number % 7), headers=[("n", b"%d" % number)]
            )
            for number in range(1_000)
        ]
        places = [delivery.result(PATIENCE_S)[1:3] for delivery in deliveries]
    with client.consumer(topic) as consumer:
        messages = read(consumer, 1_000)
    found = {(message.partition, message.offset): message for message in messages}
    assert len(found) == len(messages) == 1_000
    for number, place in enumerate(places):
        message = found[place]
        assert message.value == b"value %d " % number * 10
        assert message.key == b"k%d" % (number % 7)
        assert message.headers == [("n", b"%d" % number)]


def test_the_largest_message_passes_and_one_more_byte_is_refused_here(
    cluster: Brokers, tenant: Tenant, client: penstock.Client
) -> None:
    cluster.create_topic(tenant, "large")
    with client.producer(compression="none") as producer:
        assert producer.send("large", bytes(1024 * 1024)).result(PATIENCE_S).offset == 0
        with pytest.raises(penstock.MessageTooLarge, match="message of 1048577 bytes, at most 1048576"):
            producer.send("large", bytes(1024 * 1024 + 1))
    with client.consumer("large") as consumer:
        (message,) = consumer.poll(timeout=PATIENCE_S)
    assert message.value == bytes(1024 * 1024)


def test_positions_by_time_and_end_hold_on_real_logs(
    cluster: Brokers, tenant: Tenant, client: penstock.Client
) -> None:
    cluster.create_topic(tenant, "timed")
    now = int(time.time() * 1000)
    with client.producer(batch_messages=10) as producer:
        for number in range(100):
            producer.send("timed", b"%d" % number, timestamp_ms=now - 100_000 + number)
        producer.flush(PATIENCE_S)
    with client.consumer("timed") as consumer:
        consumer.seek("timed", 0, timestamp_ms=now - 100_000 + 42)
        assert consumer.poll(max_messages=1, timeout=PATIENCE_S)[0].value == b"42"
        assert consumer.end_offsets() == {("timed", 0): 100}
        consumer.seek("timed", to="end")
        assert consumer.poll(timeout=0.2) == []
        consumer.seek("timed", 0, offset=200)
        with pytest.raises(penstock.OffsetOutOfRange, match="offset 200 is beyond the log's end 100"):
            consumer.poll(timeout=PATIENCE_S)
        assert client.delete_records({("timed", 0): 50}) == {("timed", 0): 50}
        consumer.seek("timed", 0, offset=20)
        # Before the start: `auto_offset_reset` says earliest.
        assert read(consumer, 50)[0].offset == 50


def test_the_asyncio_surface_does_the_same(cluster: Brokers, tenant: Tenant) -> None:
    cluster.create_topic(tenant, "awaited", 3)

    async def scene() -> None:
        async with penstock.asyncio.Client(cluster.bootstrap, api_key=tenant.api_key) as client:
            async with client.producer() as producer:
                deliveries = [await producer.send("awaited", b"%d" % number) for number in range(500)]
                receipts = [await delivery for delivery in deliveries]
            values = {}
            async with client.consumer("awaited") as consumer:
                async for message in consumer:
                    values[message.partition, message.offset] = message.value
                    if len(values) == 500:
                        break
            assert [values[receipt[1:3]] for receipt in receipts] == [b"%d" % number for number in range(500)]

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_another_tenants_view_and_a_wrong_key_are_refused(cluster: Brokers, tenant: Tenant) -> None:
    key = tenant.api_key
    wrong = key[:-8] + "".join("a" if letter != "a" else "b" for letter in key[-8:])
    with penstock.Client(bootstrap=cluster.bootstrap, api_key=wrong) as client:
        with pytest.raises(penstock.Unauthenticated):
            client.topics()
        with pytest.raises(penstock.Unauthenticated):
            client.producer().send("awaited", b"x")


@pytest.mark.slow
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "pause"])
def test_a_leader_that_dies_or_stops_costs_seconds_and_no_message(
    cluster: Brokers, tenant: Tenant, client: penstock.Client, fault: signal.Signals
) -> None:
    topic = f"hit-by-{fault.name}"
    topic_id = cluster.create_topic(tenant, topic)
    with client.producer() as producer, client.consumer(topic) as consumer:
        before = [producer.send(topic, b"%d" % number) for number in range(100)]
        before[-1].result(PATIENCE_S)
        leader = cluster.leader(topic_id)
        cluster.signal(fault, leader)
        try:
            began = time.monotonic()
            after = [producer.send(topic, b"%d" % number) for number in range(100, 200)]
            offsets = [delivery.result(PATIENCE_S).offset for delivery in before + after]
            silence_s = time.monotonic() - began
            print(f"a leader ended by {fault.name}: all was acknowledged after {silence_s:.1f} s")
            messages = read(consumer, 200)
        finally:
            if fault is signal.SIGSTOP:
                cluster.signal(signal.SIGCONT, leader)
            else:
                cluster.status(leader)
            cluster.start()
    assert offsets == list(range(200)), "every message once and in order"
    assert [message.value for message in messages] == [b"%d" % number for number in range(200)]
    assert silence_s < 100, f"{silence_s:.1f} s without an acknowledgement"


def test_one_client_may_have_more_streams_at_a_broker_than_one_connection_takes(
    cluster: Brokers, tenant: Tenant, client: penstock.Client
) -> None:
    cluster.create_topic(tenant, "many-producers", 1)
    producers = [client.producer() for _ in range(limits.STREAMS_PER_CONNECTION_MAX + 30)]
    deliveries = [producer.send("many-producers", b"one") for producer in producers]
    assert sorted(delivery.result(PATIENCE_S).offset for delivery in deliveries) == list(
        range(len(producers))
    )


def test_one_asyncio_client_may_have_more_streams_at_a_broker_than_one_connection_takes(
    cluster: Brokers, tenant: Tenant
) -> None:
    cluster.create_topic(tenant, "many-asyncio", 1)
    many = limits.STREAMS_PER_CONNECTION_MAX + 30

    async def story() -> list[int]:
        async with penstock.asyncio.Client(bootstrap=cluster.bootstrap, api_key=tenant.api_key) as client:
            producers = [client.producer() for _ in range(many)]
            deliveries = [await producer.send("many-asyncio", b"one") for producer in producers]
            return [(await asyncio.wait_for(delivery, PATIENCE_S)).offset for delivery in deliveries]

    assert sorted(asyncio.run(story())) == list(range(many))


def test_a_broker_that_was_stopped_takes_the_first_message_of_a_topic_made_meanwhile(
    cluster: Brokers, tenant: Tenant
) -> None:
    """The client asks only this broker, and its question waits there from before the broker runs again."""
    last, others = cluster.ids[-1], cluster.ids[:-1]
    bootstrap = [cluster.spec.broker(last).client_address]
    settings = TopicSettings(replication=2, min_insync_replicas=1)
    with (
        penstock.Client(bootstrap=bootstrap, api_key=tenant.api_key) as client,
        client.producer() as producer,
        cluster.paused(last),
        ThreadPoolExecutor(1) as pool,
    ):
        made = cluster.admin.create_topic(tenant.name, "meanwhile", settings, [others])
        assert not made.outcome.error
        sending = pool.submit(producer.send, "meanwhile", b"first")
        assert wait([sending], timeout=3.0).not_done, "the only broker that the client knows stands still"
        cluster.signal(signal.SIGCONT, last)
        assert sending.result(PATIENCE_S).result(PATIENCE_S).offset == 0
