"""The log of one partition: its segments, stamps and derived state, behind one synchronous object.

States: open, then closed. Between `request_truncation` (or `request_log_start`, `request_start_over`) and the matching
`truncate_to` (`move_log_start`, `start_over`) the log refuses appends.

The node's order of work for a change of the log's bounds:

    log.request_truncation(offset)              # puts a TRUNCATE record behind everything written so far
    unsynced = log.take_unsynced()              # goes through the committer like any append
    await disk.sync(journal.append_steps([unsynced]))
    log.mark_durable(unsynced); log.truncate_to(offset)
"""

from typing import Self

from data_plane.disk.port import Disk, SyncStep
from data_plane.log.checkpoint import CheckpointEntry
from data_plane.log.journal import JournalRecord
from data_plane.log.outcomes import ColdRead, DamagedRange, Duplicate, RecoveryReport, Slice, Unsynced
from data_plane.log.tail import TailBudget
from penstock.contract.ids import TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.records.batch import BatchHeader
from penstock.records.stamp import Stamp


class PartitionLog:
    """One partition's log. One writer at a time; readers run between its calls.

    Any call may raise `DiskFault` (port): the node then stops using the log directory (RL126).
    """

    where: TopicPartition
    replica_generation: int
    settings: TopicSettings
    """May be set; holds from the next append on."""
    log_start_offset: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    last_epoch: int
    """Largest epoch begun or appended, -1 for none."""
    last_accepted_ms: int
    size_bytes: int
    segment_count: int
    first_segment_offset: int
    """Where a follower that starts over has to begin, so that its segments become identical."""
    damage: tuple[DamagedRange, ...]

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        where: TopicPartition,
        replica_generation: int,
        settings: TopicSettings,
        *,
        tail: TailBudget | None = None,
    ) -> Self:
        """Make the directory and `partition.json`. `creation_steps()` must be synced before the first append."""
        raise NotImplementedError

    def creation_steps(self) -> list[SyncStep]:
        raise NotImplementedError

    @classmethod
    def recover(
        cls,
        disk: Disk,
        directory: str,
        settings: TopicSettings,
        *,
        checkpoint_entry: CheckpointEntry | None,
        replay: list[JournalRecord],
        clean: bool,
        monotonic_ms: float = 0.0,
        tail: TailBudget | None = None,
    ) -> tuple[Self, RecoveryReport]:
        """Open an existing directory: replay its journal records over its files, check what lies above the recovery point.

        `replay` holds the partition's records of its replica generation, in order. Raises `PartitionUnborn`, `PartitionDamaged`.
        """
        raise NotImplementedError

    # appends

    def check_sequence(self, header: BatchHeader) -> Duplicate | None:
        """None: may be appended (or carries no producer id). Raises `OutOfOrderSequence`, `ProducerFenced`, `UnknownProducer`,
        `LimitExceeded` (RL61 to RL64)."""
        raise NotImplementedError

    def check_timestamp(self, header: BatchHeader, now_ms: int) -> None:
        """Raises `TimestampOutOfRange` for a batch stamped too far in the future (RL107)."""
        raise NotImplementedError

    def append_as_leader(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        leader_epoch: int,
        now_ms: int,
        floor_ms: int,
        principal: int,
    ) -> Stamp:
        """Append a checked batch (`check_batch`, `check_sequence`, `check_timestamp`). Raises errors.DiskFull: nothing changed."""
        raise NotImplementedError

    def append_as_follower(self, stamps: memoryview, batches: memoryview, leader_epoch: int) -> int:
        """Append what the leader pushed, all of it or nothing; the new log end. Raises `ReplicaRejected`, errors.DiskFull."""
        raise NotImplementedError

    def roll_due(self, now_ms: int) -> bool:
        """The active segment is older than `segment_ms`: the next append begins a new one."""
        raise NotImplementedError

    # durability

    def take_unsynced(self) -> Unsynced | None:
        """What was written since the last call; None when nothing was."""
        raise NotImplementedError

    def mark_durable(self, unsynced: Unsynced) -> int:
        """`unsynced` was synced. In the order taken. Returns `durable_end_offset`."""
        raise NotImplementedError

    # marks and epochs

    def set_high_watermark(self, high_watermark: int) -> None:
        """Raise it (a lower value changes nothing), at most to the log's end. Makes the seals that become due."""
        raise NotImplementedError

    def start_epoch(self, epoch: int) -> None:
        """Become leader in `epoch`: note (epoch, log end) before serving (RL27)."""
        raise NotImplementedError

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest own epoch at or below `epoch`, its end offset) (RL25, RL28); (-1, log start) when there is none."""
        raise NotImplementedError

    # bounds

    def request_truncation(self, offset: int, *, declared: bool = False) -> None:
        """Raises `InvariantBroken` below the high watermark unless `declared` (RL31)."""
        raise NotImplementedError

    def truncate_to(self, offset: int) -> None: ...

    def request_log_start(self, offset: int) -> None:
        """New log start, at most the high watermark (RL107, RL108)."""
        raise NotImplementedError

    def move_log_start(self, offset: int) -> None: ...

    def delete_below(self, offset: int) -> int:
        """Remove segments that end at or below min(offset, log start); the bytes freed. After `move_log_start` (RL107)."""
        raise NotImplementedError

    def request_start_over(self, offset: int) -> None: ...

    def start_over(self, offset: int) -> None:
        """Wipe and begin anew at `offset` (RL32)."""

    # reads

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Slice | ColdRead:
        """Whole batches from the one that holds `offset`, all ending at or below `end_offset`; at least one if there is any,
        even when larger than `max_bytes`. Raises `OffsetOutOfRange`, `CorruptLog` (the range is named, RL130)."""
        raise NotImplementedError

    def slice_of(self, cold: ColdRead, data: bytes) -> Slice:
        """Check every batch of a cold read (RL118). Fewer batches than asked when a later one is bad; raises `CorruptLog`
        when the first one is (the range joins `damage`)."""
        raise NotImplementedError

    def forget(self, cold: ColdRead) -> None:
        """A cold read that will not be finished."""

    def offset_for_time(self, timestamp_ms: int, end_offset: int) -> int:
        """Base offset of the first batch below `end_offset` that holds a message stamped at or after `timestamp_ms`,
        else `end_offset`."""
        raise NotImplementedError

    # retention and rest

    def retention_end(self, now_ms: int, monotonic_ms: float) -> int:
        """The log start that retention allows now; the present one when nothing is due (RL107). Call it at least every minute."""
        raise NotImplementedError

    def release_files(self) -> None:
        """Close what needs not stay open; the next use opens it again. For idle partitions."""

    def close(self, clean: bool) -> None:
        """Close all files. Before a clean stop the node runs a last checkpoint."""
