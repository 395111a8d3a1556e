"""What is produced is read exactly, whoever leads and whoever dies."""

from collections.abc import Iterator

import pytest

from data_plane.contract import usage_pb2 as pb
from tests.integration.metering.usage import Metered, metered, totals_of
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_produced_messages_arrive_as_a_reading(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_reads")
    topic_id = usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client, client.producer() as producer:
        for number in range(1_000):
            producer.send("orders", b"%d" % number)
        producer.flush()
    readings = usage.wait_until_read(topic_id, 1_000)
    leader = usage.cluster.leader(topic_id)
    for reading in readings:
        totals = totals_of(reading)
        assert (totals.committed_messages, totals.committed_bytes) == usage.counted(
            leader, topic_id, reading.end_offset
        )
        assert (reading.tenant, reading.topic) == ("tn_reads", "orders")
    assert readings[0].kind == pb.ReadingKind.LEADER_CHANGE


def test_a_killed_leader_costs_no_message_of_the_bill(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_kill")
    topic_id = usage.cluster.create_topic(tenant, "orders", retention_bytes=-1)
    killed = usage.cluster.leader(topic_id)
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=1) as producer:
        for number in range(6_000):
            producer.send("orders", b"%d" % number)
            if number == 2_000:
                producer.flush()
                usage.wait_until_read(topic_id, 2_001)
            if number == 3_000:
                usage.cluster.kill(killed)
        producer.flush(timeout=PATIENCE_S)
        end = 6_000
    usage.cluster.start(killed)
    readings = usage.wait_until_read(topic_id, end)
    leader = usage.cluster.leader(topic_id)
    assert {reading.leader_epoch for reading in readings} != {readings[0].leader_epoch}
    for reading in readings:
        totals = totals_of(reading)
        counted = usage.counted(leader, topic_id, reading.end_offset)
        assert (totals.committed_messages, totals.committed_bytes) == counted
    assert totals_of(readings[-1]).committed_messages == end


def test_records_of_a_boot_are_numbered_without_gaps(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_boots")
    topic_id = usage.cluster.create_topic(tenant, "orders", partitions=6)
    for partition in range(6):
        usage.wait_until_read(topic_id, 0, partition)
    boots: dict[tuple[int, str], set[int]] = {}

    # A broker's records go to several partitions, whose ends are not asked for at one moment.
    def without_gaps() -> bool:
        boots.clear()
        for record in usage.records():
            boots.setdefault((record.broker_id, record.boot_id), set()).add(record.sequence)
        return all(numbers == set(range(1, len(numbers) + 1)) for numbers in boots.values())

    usage.cluster.wait_until("the numbers of each boot are without gaps", without_gaps)
    assert len(boots) >= len(usage.cluster.ids)
