"""Where every partition of a tenant stood at a cut, as the metadata keeps it: one value a thousand partitions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.contract.ids import TopicId, TopicPartition

ENDS_PER_CHUNK = 1_000
"""Some 150 KB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEnd:
    """Where one partition stood at a kept cut: all that its reading said."""

    where: TopicPartition
    topic: str
    """Its name then."""
    log_generation: int
    end_offset: int
    accepted_ms: int
    totals: tuple[int, ...]
    """Of `penstock.records.usage.Totals`, in the order of its fields."""
    last: bool = False

    @property
    def position(self) -> tuple[int, int]:
        """Later in the log's life is higher."""
        return (self.log_generation, self.end_offset)


def encode_ends(ends: Sequence[KeptEnd]) -> bytes:
    """One chunk's value."""
    rows = [
        [
            end.where.topic_id.hex(), end.where.partition, end.topic, end.log_generation, end.end_offset,
            end.accepted_ms, list(end.totals), end.last,
        ]
        for end in ends
    ]  # fmt: skip
    return json.dumps(rows, separators=(",", ":")).encode()


def decode_ends(value: bytes) -> list[KeptEnd]:
    return [
        KeptEnd(
            where=TopicPartition(TopicId(bytes.fromhex(topic_id)), partition),
            topic=topic,
            log_generation=generation,
            end_offset=end_offset,
            accepted_ms=accepted_ms,
            totals=tuple(totals),
            last=last,
        )
        for topic_id, partition, topic, generation, end_offset, accepted_ms, totals, last in json.loads(value)
    ]
