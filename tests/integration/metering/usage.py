"""A metered cluster, and what stands in its `__usage`, read as the pipeline reads it: by a key of the system tenant."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.replica_files import stored_batches
from data_plane.contract import usage_pb2 as pb
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.records.batch import read_header
from penstock.records.seal import Seal, unpack_seal
from penstock.records.usage import Totals
from tests.integration.brokers import Brokers, Tenant, brokers

USAGE = "__usage"
TIMINGS = {"metering_tick_ms": 100, "reading_ms": 500, "retention_check_ms": 200, "revisit_ms": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """A cluster with its internal topics and a service account of the system tenant."""

    cluster: Brokers
    system: Tenant

    def records(self) -> list[pb.UsageRecord]:
        """Everything in `__usage` now, by partition and offset."""
        found: dict[tuple[int, int], pb.UsageRecord] = {}
        with self.cluster.client(self.system) as client, client.consumer([USAGE]) as consumer:
            ends = consumer.end_offsets()
            while any(consumer.position(*place) < end for place, end in ends.items()):
                for message in consumer.poll(timeout=5):
                    value = message.value or b""
                    found[message.partition, message.offset] = pb.UsageRecord.FromString(value)
        return [found[place] for place in sorted(found)]

    def readings(self, topic_id: TopicId, partition: int = 0) -> list[pb.Reading]:
        """Of one partition, by end offset."""
        found = [
            reading
            for record in self.records()
            for reading in record.readings
            if reading.topic_id == topic_id and reading.partition == partition
        ]
        return sorted(found, key=lambda reading: reading.end_offset)

    def seals(self, topic_id: TopicId, partition: int = 0) -> list[Seal]:
        """Of one partition, each once, by offset."""
        found: dict[int, Seal] = {}
        for record in self.records():
            for sealed in record.seals:
                seal, _ = unpack_seal(sealed.seal)
                if seal.where == TopicPartition(topic_id, partition):
                    assert found.setdefault(seal.base_offset, seal) == seal
        return [found[base] for base in sorted(found)]

    def wait_until_read(self, topic_id: TopicId, end_offset: int, partition: int = 0) -> list[pb.Reading]:
        """The readings, once one of them reaches `end_offset`."""
        found: list[pb.Reading] = []

        def there() -> bool:
            found[:] = self.readings(topic_id, partition)
            return bool(found) and found[-1].end_offset >= end_offset

        self.cluster.wait_until(f"a reading at {end_offset} of partition {partition}", there)
        return found

    def counted(self, number: int, topic_id: TopicId, below: int, partition: int = 0) -> tuple[int, int]:
        """(records, bytes) below an offset as they stand in the files of broker `number`."""
        directory = self.cluster.directory.log_directory(number)
        stored = stored_batches(directory, TopicPartition(topic_id, partition), below)
        messages = sum(read_header(batch.batch).record_count for batch in stored)
        return messages, sum(len(batch.batch) for batch in stored)


def totals_of(reading: pb.Reading) -> Totals:
    return Totals.from_tuple(tuple(reading.totals))


@contextmanager
def metered(path: Path, count: int = 3, **timings: int) -> Iterator[Metered]:
    """Brokers that meter, with the internal topics made."""
    settings = {"metering": True, "timings": {**TIMINGS, **timings}}
    with brokers(path, count, settings=settings, internal_topics=True) as cluster:
        yield Metered(cluster=cluster, system=cluster.another_key(SYSTEM_TENANT))
