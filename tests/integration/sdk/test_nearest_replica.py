"""Reading from a follower in the reader's zone, on real brokers: the leader delivers nothing, and nothing is lost."""

import asyncio
from collections.abc import Iterator

import pytest

from penstock import Consumer
from penstock.asyncio import Client as AwaitedClient
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.metering.usage import Metered, metered
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

MESSAGES = 3_000


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def produce(cluster: Brokers, tenant: Tenant, numbers: range) -> None:
    with cluster.client(tenant) as client, client.producer(linger_ms=5, batch_bytes=4_000) as producer:
        for number in numbers:
            producer.send("orders", b"%06d" % number)
        producer.flush()


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [message.value for message in consumer.poll(max_messages=500, timeout=PATIENCE_S)]
    return found


def expected(numbers: range) -> list[bytes]:
    return [b"%06d" % number for number in numbers]


def test_a_reader_in_a_followers_zone_costs_the_leader_nothing_and_survives_that_follower(
    cluster: Brokers,
) -> None:
    tenant = cluster.tenant("tn_near")
    topic_id = cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3]])
    produce(cluster, tenant, range(MESSAGES))
    cluster.wait_until("all are in sync", lambda: cluster.whole(topic_id))
    before = cluster.metric(1, "penstock_pushed_bytes_total")
    with cluster.client(tenant) as client, client.consumer(["orders"], zone="zone-2") as consumer:
        assert read(consumer, MESSAGES) == expected(range(MESSAGES))
        assert cluster.metric(1, "penstock_pushed_bytes_total") == before
        served = cluster.metric(2, "penstock_pushed_bytes_total")
        assert served == cluster.metric(2, "penstock_pushed_bytes_follower_total") > 0
        assert served == cluster.metric(2, "penstock_pushed_bytes_own_zone_total")
        cluster.kill(2)
        produce(cluster, tenant, range(MESSAGES, MESSAGES + 100))
        assert read(consumer, 100) == expected(range(MESSAGES, MESSAGES + 100))
        cluster.start(2)
        cluster.wait_until("it is in sync again", lambda: cluster.whole(topic_id))
        produce(cluster, tenant, range(MESSAGES + 100, MESSAGES + 200))
        assert read(consumer, 100) == expected(range(MESSAGES + 100, MESSAGES + 200))
        assert cluster.metric(1, "penstock_pushed_bytes_other_zone_total") > 0


def test_asyncio_reads_from_the_nearest_replica_too(cluster: Brokers) -> None:
    tenant = cluster.tenant("tn_near")
    topic_id = cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3]])
    produce(cluster, tenant, range(100))
    cluster.wait_until("all are in sync", lambda: cluster.whole(topic_id))

    async def story() -> list[bytes | None]:
        async with AwaitedClient(
            bootstrap=cluster.bootstrap, api_key=tenant.api_key, zone="zone-3"
        ) as client:
            consumer = client.consumer(["orders"])
            found: list[bytes | None] = []
            while len(found) < 100:
                found += [message.value for message in await consumer.poll(timeout=PATIENCE_S)]
            return found

    assert asyncio.run(story()) == expected(range(100))
    assert cluster.metric(3, "penstock_pushed_bytes_follower_total") > 0


def test_what_a_follower_delivers_is_metered_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    with metered(tmp_path_factory.mktemp("cluster")) as usage:
        cluster = usage.cluster
        tenant = cluster.tenant("tn_near")
        topic_id = cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3]])
        produce(cluster, tenant, range(500))
        cluster.wait_until("all are in sync", lambda: cluster.whole(topic_id))
        with cluster.client(tenant) as client, client.consumer(["orders"], zone="zone-2") as consumer:
            assert read(consumer, 500) == expected(range(500))
        assert cluster.metric(2, "penstock_pushed_bytes_follower_total") > 0
        cluster.wait_until("it is metered", lambda: delivered(usage, tenant) == {2: 500})


def delivered(usage: Metered, tenant: Tenant) -> dict[int, int]:
    """Messages of a tenant by the broker that counted them, each record once."""
    found: dict[int, int] = {}
    seen: set[tuple[int, str, int]] = set()
    for record in usage.records():
        name = (record.broker_id, record.boot_id, record.sequence)
        if name not in seen:
            seen.add(name)
            for row in record.delivered:
                if row.tenant == tenant.name:
                    found[record.broker_id] = found.get(record.broker_id, 0) + row.messages
    return found
