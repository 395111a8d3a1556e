"""What retention is to be seen by: segment files in log directories, and offsets as clients are told them."""

from collections.abc import Sequence

from chaos.replica_files import StoredBatch, differences, stored_batches
from penstock import Client
from penstock.contract.ids import TopicId, TopicPartition
from tests.integration.brokers import Brokers
from tests.waiting import PATIENCE_S

TIMINGS = {"retention_check_ms": 200, "revisit_ms": 100}
"""Retention is looked at five times a second."""
SEGMENT_BYTES = 4_096
VALUE_BYTES = 1_000
"""Three or four values fill a segment."""


def value_of(number: int) -> bytes:
    return b"%d " % number + bytes(VALUE_BYTES)


def number_of(value: bytes | None) -> int:
    assert value is not None
    return int(value.split()[0])


def produce(client: Client, topic: str, numbers: Sequence[int]) -> None:
    """One batch a value, uncompressed, acknowledged by all."""
    with client.producer(linger_ms=0, compression="none") as producer:
        for number in numbers:
            assert producer.send(topic, value_of(number)).result(PATIENCE_S).offset == number


def segment_bases(cluster: Brokers, topic_id: TopicId) -> dict[int, list[int]]:
    """Base offsets of the partition's log files on each broker's disk."""
    return {
        number: sorted(
            int(file.stem)
            for file in cluster.partition_directory(number, TopicPartition(topic_id, 0)).glob("*.log")
        )
        for number in cluster.ids
    }


def bounds(client: Client, topic: str) -> tuple[int, int]:
    """Offset of the first message and of the next one."""
    with client.consumer([topic]) as consumer:
        return consumer.beginning_offsets()[topic, 0], consumer.end_offsets()[topic, 0]


def read_all(client: Client, topic: str) -> list[int]:
    """The numbers of all values that a new consumer is given; their offsets are themselves."""
    _, end = bounds(client, topic)
    read: list[int] = []
    with client.consumer([topic]) as consumer:
        while consumer.position(topic, 0) < end:
            for message in consumer.poll(timeout=5):
                assert number_of(message.value) == message.offset
                read.append(message.offset)
    return read


def replicas_are_equal(cluster: Brokers, topic_id: TopicId, end: int) -> None:
    """Segment files and their contents, byte for byte, up to offset `end`: at one look, for retention goes on between
    two of them.
    """
    where = TopicPartition(topic_id, 0)
    stored: dict[int, list[StoredBatch]] = {}

    def equal() -> bool:
        bases = list(segment_bases(cluster, topic_id).values())
        try:
            stored.update(
                (n, stored_batches(cluster.directory.log_directory(n), where, end)) for n in cluster.ids
            )
        except FileNotFoundError:
            return False  # deleted between its listing and its reading
        first = stored[cluster.ids[0]]
        return all(one == first for one in stored.values()) and all(found == bases[0] for found in bases)

    cluster.wait_until("all replicas hold the same", equal)
    assert differences(stored) == []
    assert stored[cluster.ids[0]][-1].end_offset == end
