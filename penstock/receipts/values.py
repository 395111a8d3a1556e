"""What receipts files say, as values: ranges of offsets by partition, from one file or from several."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import invariant

UNKNOWN_EPOCH = -1
ACKS_LEADER = 1
ACKS_IN_SYNC = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedRange:
    """Offsets [first_offset, end_offset) of one partition: whole batches without a gap, acknowledged by leaders of
    one epoch and accepted on one day.
    """

    first_offset: int
    end_offset: int
    bytes: int
    """Of whole batches as they were sent, which is as they are stored and billed."""
    day: date
    """UTC, by the broker's acceptance time in its answer."""
    leader_epoch: int
    """Of the leader that answered; -1 = unknown. For a batch that was sent again it may be newer than the batch's."""
    acks: int
    """-1 every in-sync replica acknowledged it, 1 only the leader did, and a failover may have lost it."""
    source: str
    """The file that says so."""

    def __post_init__(self) -> None:
        invariant(0 <= self.first_offset < self.end_offset, "a range of offsets is not empty")
        invariant(self.bytes >= 0, "bytes are 0 or more")
        invariant(self.acks in (ACKS_IN_SYNC, ACKS_LEADER), "a receipt was acknowledged")

    @property
    def messages(self) -> int:
        """A producer's batch has one message an offset."""
        return self.end_offset - self.first_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsSource:
    """One file that was read."""

    path: str
    file_id: bytes
    """Drawn when the file was made; copies of one file share it. An empty file has none."""
    torn_bytes: int
    """Bytes at its end that are no whole record: a write that a crash interrupted, or damage. They are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipts:
    """All that was acknowledged, by the given files."""

    sources: tuple[ReceiptsSource, ...]
    topics: Mapping[TopicId, str]
    ranges: Mapping[TopicPartition, tuple[AcknowledgedRange, ...]]
    """By first offset. Ranges of different days, epochs or files stand beside each other; they overlap only where
    one offset was acknowledged twice."""

    @classmethod
    def merged(cls, *parts: "Receipts") -> "Receipts":
        """What all of `parts` say together.

        Raises `ConfigurationError` when two of them are copies of one file, which would count everything twice.
        """
        sources: dict[bytes, ReceiptsSource] = {}
        topics: dict[TopicId, str] = {}
        ranges: dict[TopicPartition, list[AcknowledgedRange]] = {}
        for part in parts:
            for source in part.sources:
                other = sources.setdefault(source.file_id or source.path.encode(), source)
                if other is not source:
                    raise ConfigurationError(
                        f"receipts: {other.path} and {source.path} are copies of one file; give the newer one alone"
                    )
            topics.update(part.topics)
            for where, of_partition in part.ranges.items():
                ranges.setdefault(where, []).extend(of_partition)
        return cls(
            sources=tuple(sources.values()),
            topics=topics,
            ranges={where: tuple(sorted(ranges[where], key=_sort_key)) for where in sorted(ranges)},
        )

    @property
    def messages(self) -> int:
        return sum(
            acknowledged.messages for of_partition in self.ranges.values() for acknowledged in of_partition
        )

    @property
    def bytes(self) -> int:
        return sum(
            acknowledged.bytes for of_partition in self.ranges.values() for acknowledged in of_partition
        )


def _sort_key(acknowledged: AcknowledgedRange) -> tuple[int, int, int, int]:
    return (
        acknowledged.first_offset,
        acknowledged.end_offset,
        acknowledged.day.toordinal(),
        acknowledged.leader_epoch,
    )
