"""Nothing that is not metered yet is deleted: topics and segments wait for `__usage`."""

import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from data_plane.contract import usage_pb2
from penstock.contract.ids import TopicPartition
from tests.integration.metering.usage import USAGE, Metered, metered, totals_of
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def seldom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    """Brokers that read only once an hour."""
    with metered(tmp_path_factory.mktemp("cluster"), reading_ms=3_600_000) as running:
        yield running


def produce(usage: Metered, name: str, count: int, size: int = 10) -> bytes:
    tenant = usage.cluster.tenant("tn_gone")
    topic_id = usage.cluster.create_topic(
        tenant, name, segment_bytes=4_096, retention_bytes=8_192 if size > 100 else -1
    )
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=0, compression="none") as producer:
        for _ in range(count):
            producer.send(name, bytes(size)).result(PATIENCE_S)
    return topic_id


def files_of(usage: Metered, topic_id: bytes) -> list[int]:
    """Brokers that still have the partition's directory."""
    where = TopicPartition(topic_id, 0)  # type: ignore[arg-type]
    return [
        number for number in usage.cluster.ids if usage.cluster.partition_directory(number, where).exists()
    ]


def last_readings(usage: Metered, topic_id: bytes) -> list[usage_pb2.Reading]:
    found = usage.readings(topic_id)  # type: ignore[arg-type]
    return [reading for reading in found if reading.kind == usage_pb2.ReadingKind.FINAL]


def test_a_deleted_topic_leaves_its_last_reading_and_then_its_files_go(seldom: Metered) -> None:
    topic_id = produce(seldom, "orders", 50)
    seldom.cluster.admin.delete_topic("tn_gone", "orders")
    seldom.cluster.wait_until("its files are gone", lambda: not files_of(seldom, topic_id))
    found = last_readings(seldom, topic_id)
    assert most_messages(found) == 50


def test_a_deleted_topic_waits_while_usage_takes_no_record(seldom: Metered) -> None:
    cluster = seldom.cluster
    topic_id = produce(seldom, "orders", 50)
    leader = cluster.leader(topic_id)
    others = [number for number in cluster.ids if number != leader]
    cluster.kill(*others)
    cluster.admin.delete_topic("tn_gone", "orders")
    time.sleep(2)  # without a second replica of `__usage` in sync nothing can be committed there
    assert leader in files_of(seldom, topic_id)
    cluster.start()
    cluster.wait_until("its files are gone", lambda: not files_of(seldom, topic_id))
    assert most_messages(last_readings(seldom, topic_id)) == 50


def test_a_deleted_topic_is_read_after_all_brokers_were_killed(seldom: Metered) -> None:
    """As far as a log directory says what was committed: the mark of the last batch may not have been written."""
    cluster = seldom.cluster
    topic_id = produce(seldom, "orders", 50)
    leader = cluster.leader(topic_id)
    cluster.kill(*[number for number in cluster.ids if number != leader])
    cluster.admin.delete_topic("tn_gone", "orders")
    cluster.kill(leader)
    cluster.start()
    cluster.wait_until("its files are gone", lambda: not files_of(seldom, topic_id))
    assert most_messages(last_readings(seldom, topic_id)) in (49, 50)


def most_messages(readings: list[usage_pb2.Reading]) -> int:
    return max(totals_of(reading).committed_messages for reading in readings)


def test_retention_deletes_nothing_that_was_not_read(seldom: Metered) -> None:
    topic_id = produce(seldom, "large", 40, size=1_000)
    where = TopicPartition(topic_id, 0)  # type: ignore[arg-type]
    leader = seldom.cluster.leader(topic_id)
    directory = seldom.cluster.partition_directory(leader, where)

    def first() -> int:
        return min(int(file.stem) for file in directory.glob("*.log"))

    assert first() == 0
    assert [reading.end_offset for reading in seldom.readings(where.topic_id)][-1] < 40
    seldom.cluster.stop(leader)
    seldom.cluster.status(leader)
    seldom.cluster.start(leader)
    # A change of leaders is read, and what is read may go.
    readings = seldom.wait_until_read(where.topic_id, 40)
    assert totals_of(readings[-1]).committed_messages == 40
    seldom.cluster.wait_until("retention went on", lambda: first() > 0)


def test_seals_arrive_before_their_segments_go(usage: Metered) -> None:
    topic_id = produce(usage, "large", 40, size=1_000)
    where = TopicPartition(topic_id, 0)  # type: ignore[arg-type]
    directory = usage.cluster.partition_directory(usage.cluster.leader(topic_id), where)
    usage.cluster.wait_until(
        "segments are gone", lambda: min(int(file.stem) for file in directory.glob("*.log")) > 0
    )
    first = min(int(file.stem) for file in directory.glob("*.log"))
    sealed = usage.seals(where.topic_id)
    assert sealed and sealed[0].base_offset == 0
    for before, after in pairwise(sealed):
        assert before.end_offset == after.base_offset
        assert before.totals == after.before
        assert before.log_generation == 1
    assert sealed[-1].end_offset >= first
    assert USAGE not in {reading.topic for record in usage.records() for reading in record.readings}
