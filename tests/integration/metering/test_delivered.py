"""What consumers took and what was asked for arrive once, whatever stops in order."""

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integration.brokers import Tenant
from tests.integration.metering.usage import Metered, metered

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def filled(usage: Metered, tenant: Tenant, count: int) -> bytes:
    topic_id = usage.cluster.create_topic(tenant, "orders", partitions=3)
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=5) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=number % 3)
        producer.flush()
    return topic_id


def read_all(usage: Metered, tenant: Tenant, from_offset: int = 0) -> int:
    """How many messages a consumer was given."""
    read = 0
    with usage.cluster.client(tenant) as client, client.consumer(["orders"]) as consumer:
        ends = consumer.end_offsets()
        for topic, partition in ends:
            consumer.seek(topic, partition, offset=from_offset)
        while any(consumer.position(*place) < end for place, end in ends.items()):
            read += len(consumer.poll(timeout=5))
    return read


def delivered(usage: Metered, tenant: Tenant) -> Counter[str]:
    """Messages and bytes of a tenant, each record once."""
    found: Counter[str] = Counter()
    seen: set[tuple[int, str, int]] = set()
    for record in usage.records():
        name = (record.broker_id, record.boot_id, record.sequence)
        if name in seen:
            continue
        seen.add(name)
        for row in record.delivered:
            if row.tenant == tenant.name:
                found["messages"] += row.messages
                found["bytes"] += row.bytes
                found["messages to other zones"] += row.other_zone_messages
                assert row.principal > 0
                assert row.topic == "orders"
        for spent in record.elapsed:
            if spent.tenant == tenant.name:
                found["connection ms"] += spent.connection_ms
                assert spent.principal > 0
        for asked in record.requests:
            if asked.tenant == tenant.name:
                found[f"{asked.operation} valid"] += asked.valid
                found[f"{asked.operation} bad"] += asked.bad
    return found


def test_each_message_that_a_consumer_was_given_is_counted_once(usage: Metered) -> None:
    tenant, began = usage.cluster.tenant("tn_takes"), time.monotonic()
    topic_id = filled(usage, tenant, 3_000)
    read = read_all(usage, tenant)
    assert read == 3_000
    usage.cluster.wait_until(
        "all deliveries have arrived", lambda: delivered(usage, tenant)["messages"] >= read
    )
    found = delivered(usage, tenant)
    assert found["messages"] == found["messages to other zones"] == read, "the consumer names no zone"
    assert 0 < found["connection ms"] <= 3 * 1000 * (time.monotonic() - began), (
        "a client has one to each broker"
    )
    stored = [usage.counted(usage.cluster.leader(topic_id, p), topic_id, 1_000, p) for p in range(3)]  # type: ignore[arg-type]
    assert found["bytes"] == sum(size for _, size in stored)
    assert found["produce valid"] >= 3
    assert found["fetch valid"] >= 3
    assert found["metadata valid"] >= 1
    assert found["produce bad"] == found["fetch bad"] == 0


def test_messages_before_the_position_asked_for_are_not_counted(usage: Metered) -> None:
    """A batch is sent whole; what of it lies before the position was not asked for."""
    tenant = usage.cluster.tenant("tn_middle")
    filled(usage, tenant, 3_000)
    read = read_all(usage, tenant, from_offset=937)
    assert read == 3 * 63
    usage.cluster.wait_until(
        "all deliveries have arrived", lambda: delivered(usage, tenant)["messages"] >= read
    )
    assert delivered(usage, tenant)["messages"] == read


def test_a_drained_broker_leaves_its_last_record(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_drain")
    topic_id = filled(usage, tenant, 30)
    assert read_all(usage, tenant) == 30
    leader = usage.cluster.leader(topic_id)
    usage.cluster.stop(leader)
    assert usage.cluster.status(leader) == 0
    usage.cluster.start(leader)
    usage.cluster.wait_until(
        "all deliveries have arrived", lambda: delivered(usage, tenant)["messages"] == 30
    )
    ended = [record for record in usage.records() if record.boot_ends]
    assert [record.broker_id for record in ended] == [leader]
    of_boot = [record.sequence for record in usage.records() if record.boot_id == ended[0].boot_id]
    assert max(of_boot) == ended[0].sequence
    assert sorted(set(of_boot)) == list(range(1, ended[0].sequence + 1))
