"""Topics in the recycle bin of real brokers: gone to clients, kept whole, back with messages and committed offsets."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock import Client, NotFound
from penstock.contract.errors import AlreadyExists
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from tests.integration.brokers import Brokers, Tenant
from tests.integration.metering.usage import Metered, metered, totals_of
from tests.integration.retention.logs import bounds, number_of, produce, read_all
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

TENANT = "tn_binning"


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(usage: Metered) -> Brokers:
    return usage.cluster


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant(TENANT)


@pytest.fixture
def client(cluster: Brokers, tenant: Tenant) -> Iterator[Client]:
    with cluster.client(tenant) as client:
        yield client


def put_into_the_bin(cluster: Brokers, topic_id: TopicId) -> None:
    cluster.admin.wait_until_seen(cluster.admin.bin_topic(TENANT, topic_id))


def read_in_group(client: Client, topic: str, group: str, count: int) -> list[int]:
    """The next `count` numbers that the group is given, committed."""
    read: list[int] = []
    with client.consumer([topic], group=group, auto_commit=False) as consumer:

        def enough() -> bool:
            read.extend(number_of(message.value) for message in consumer.poll(count - len(read), timeout=0.5))
            return len(read) >= count

        wait_until(f"{count} messages of {topic}", enough)
        consumer.commit()
    return read


def test_a_topic_comes_back_whole_and_its_group_goes_on_where_it_was_though_its_name_was_taken(
    usage: Metered, cluster: Brokers, tenant: Tenant
) -> None:
    topic_id = cluster.create_topic(tenant, "orders")
    with cluster.client(tenant) as client:
        produce(client, "orders", range(20))
        assert read_in_group(client, "orders", "billing", 8) == list(range(8))
    usage.wait_until_read(topic_id, 20)
    put_into_the_bin(cluster, topic_id)
    other_id = cluster.create_topic(tenant, "orders")
    assert other_id != topic_id
    with cluster.client(tenant) as client:
        produce(client, "orders", range(3))
        assert read_in_group(client, "orders", "billing", 3) == [0, 1, 2], "nothing committed counts in it"
    cluster.kill(cluster.leader(topic_id))
    with pytest.raises(AlreadyExists, match="under another name"):
        cluster.admin.restore_topic(TENANT, topic_id, "orders")
    cluster.admin.wait_until_seen(cluster.admin.restore_topic(TENANT, topic_id, "orders-before"))
    with cluster.client(tenant) as client:
        assert read_all(client, "orders-before") == list(range(20))
        assert read_in_group(client, "orders-before", "billing", 12) == list(range(8, 20))
        produce(client, "orders-before", range(20, 22))
        assert read_all(client, "orders") == [0, 1, 2]
    cluster.start()
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
    last = usage.wait_until_read(topic_id, 22)[-1]
    assert totals_of(last).committed_messages == 22, "it is metered under the same id, before and after"


def test_a_topic_in_the_bin_does_not_exist_to_clients_also_to_those_that_use_it(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    topic_id = cluster.create_topic(tenant, "used")
    produce(client, "used", range(3))
    with client.producer(linger_ms=0) as producer, client.consumer(["used"]) as consumer:
        wait_until(
            "all is read", lambda: bool(consumer.poll(timeout=0.2)) or consumer.position("used", 0) == 3
        )
        producer.send("used", b"3 ").result(PATIENCE_S)
        put_into_the_bin(cluster, topic_id)
        with pytest.raises(NotFound):
            producer.send("used", b"4 ").result(PATIENCE_S)

        def is_told() -> bool:
            try:
                consumer.poll(timeout=0.2)
            except NotFound:
                return True
            return False

        wait_until("the consumer is told", is_told)
    with pytest.raises(NotFound):
        client.delete_records({("used", 0): 1})
    assert cluster.admin.describe_topic(topic_id=topic_id).binned
    cluster.admin.wait_until_seen(cluster.admin.restore_topic(TENANT, topic_id, "used"))
    assert bounds(client, "used") == (0, 4), "what was refused is not in it"


def test_retention_rests_in_the_bin_and_what_is_deleted_from_it_leaves_nothing(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    kept = cluster.create_topic(tenant, "kept", segment_bytes=4_096)
    outside = cluster.create_topic(tenant, "outside", segment_bytes=4_096)
    for name in ("kept", "outside"):
        produce(client, name, range(20))
    put_into_the_bin(cluster, kept)
    settings = TopicSettings(replication=3, min_insync_replicas=2, segment_bytes=4_096, retention_bytes=4_096)
    for topic_id in (kept, outside):
        cluster.admin.update_topic(TENANT, topic_id, settings)
    cluster.wait_until("retention has passed outside", lambda: bounds(client, "outside")[0] >= 10)
    cluster.admin.wait_until_seen(
        cluster.admin.update_topic(TENANT, kept, replace(settings, retention_bytes=-1))
    )
    cluster.admin.wait_until_seen(cluster.admin.restore_topic(TENANT, kept, "kept"))
    assert bounds(client, "kept") == (0, 20)
    put_into_the_bin(cluster, kept)
    cluster.admin.delete_topic(TENANT, "kept", topic_id=kept)
    cluster.wait_until("nothing is left of it", lambda: not left_of(cluster, kept))
    with pytest.raises(NotFound):
        cluster.admin.restore_topic(TENANT, kept, "kept")


def left_of(cluster: Brokers, topic_id: TopicId) -> list[int]:
    """Brokers that still have the partition's directory."""
    where = TopicPartition(topic_id, 0)
    return [number for number in cluster.ids if cluster.partition_directory(number, where).exists()]
