"""What the log of a partition hands out: answers to appends and reads, writes to make durable, findings of recovery."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from data_plane.disk.port import Buffer, SyncStep
from penstock.contract.ids import TopicPartition


class ReplicaRejected(Exception):
    """What a leader pushed does not continue this log (RL33). Nothing was written; the follower opens again."""


class PartitionUnborn(Exception):
    """A directory whose creation was never finished: no acknowledged record can be in it, it may be removed."""


class PartitionDamaged(Exception):
    """A directory that holds records but whose identity cannot be read; only an operator can tell what it is
    (RL122)."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch was appended before (RL61): where, and when it was accepted (ms UTC)."""

    base_offset: int
    accepted_ms: int


@dataclass(frozen=True, slots=True, order=True)
class DamagedRange:
    """Offsets [first_offset, end_offset) below the durable mark that failed their checks (RL122). Never served,
    never truncated."""

    first_offset: int
    end_offset: int
    reason: str = field(compare=False, default="")

    def __str__(self) -> str:
        return f"offsets {self.first_offset} to {self.end_offset}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What recovery found in one partition."""

    durable_end_offset: int
    """Everything below was made durable before the stop; what was found intact above it is kept, not yet durable."""
    log_end_offset: int
    torn_tail_bytes: int = 0
    """Bytes truncated from the end of the last segment: never acknowledged (RL121)."""
    damage: tuple[DamagedRange, ...] = ()
    """Not empty: the replica is unclean (RL45, RL122)."""
    rebuilt: tuple[str, ...] = ()
    """Names of the caches that were missing or bad and were rebuilt (RL123)."""


class PieceKind(IntEnum):
    """Kinds of journal records. Numbers are stored; never reused."""

    APPEND = 1
    TRUNCATE = 2
    LOG_START = 3
    START_OVER = 4
    FLUSHED = 5
    """All files of the partition were synced up to `offset`: earlier records of the partition are not replayed."""


@dataclass(slots=True)
class JournalPiece:
    """One journal record to be: a run of batches in one segment, or a change of the log's bounds. Buffers are not
    copied."""

    kind: PieceKind
    offset: int
    """First offset of the run; new log end (TRUNCATE), new log start (LOG_START), first offset of the empty log
    (START_OVER), end of what is synced (FLUSHED)."""
    end_offset: int
    segment_base: int = 0
    """The segment of the run; of a TRUNCATE, the last segment that stays, -1 for none."""
    position: int = 0
    """Byte in the segment file where the run begins, or where the file is truncated."""
    stamp_index: int = 0
    """Number of stamps before the run, or of those that stay."""
    stamps: list[Buffer] = field(default_factory=list)
    batches: list[Buffer] = field(default_factory=list)
    batches_bytes: int = 0
    stamps_bytes: int = 0
    sequence: int = 0
    """Its number in the journal; 0 until the journal took it."""


class Unsynced(NamedTuple):
    """Everything written to one log since it was last asked: to be made durable by the committer, in order.

    `first` must be synced before `pieces` are journaled; both may be empty (a log that is not journaled has no
    APPEND pieces).
    """

    where: TopicPartition
    replica_generation: int
    high_watermark: int
    end_offset: int
    """What `mark_durable` will raise the durable end to."""
    first: tuple[SyncStep, ...]
    pieces: tuple[JournalPiece, ...]
    truncations: int
    """Grows with every truncation; marks of an older generation are void."""
    flushes: bool
    """`first` syncs the log's own files."""
    births: bool = False
    """`first` makes the log's directory durable."""


class Slice(NamedTuple):
    """Whole batches, in order. An empty one says only where the next record would be."""

    first_offset: int
    """Base offset of the first batch (at most the offset asked for)."""
    next_offset: int
    stamps: bytes
    """Packed, 64 bytes a batch."""
    batches: Sequence[Buffer]
    """Buffers to be sent one behind the other; not one per batch."""
    size: int
    """Bytes of all batches."""
