"""The log of one partition: its segments, stamps and derived state, behind one synchronous object.

States: open, then closed. Between `request_truncation` (`request_log_start`, `request_start_over`) and the matching
`truncate_to` (`move_log_start`, `start_over`) the log refuses appends.

The node's order of work for a change of the log's bounds:

    log.request_truncation(offset)              # puts a TRUNCATE record behind everything written so far
    unsynced = log.take_unsynced()              # goes through the committer like any append
    await disk.sync(journal.append_steps([unsynced]))
    log.mark_durable(unsynced); log.truncate_to(offset)
"""

from collections.abc import Iterator, Sequence
from typing import Self

from data_plane.disk import port
from data_plane.disk.port import Disk, SyncStep
from data_plane.log.appending import Appender
from data_plane.log.birth import Birth
from data_plane.log.bounds_change import BoundsChange
from data_plane.log.checkpoint import CheckpointEntry
from data_plane.log.derived import DerivedState
from data_plane.log.epochs import LeaderEpochs
from data_plane.log.identity import Identity, read_identity
from data_plane.log.journal_record import JournalRecord
from data_plane.log.outcomes import DamagedRange, Duplicate, RecoveryReport, Slice, Unsynced
from data_plane.log.own_files import OwnFiles
from data_plane.log.pending import PendingWrites
from data_plane.log.reading import ColdRead, LogReader
from data_plane.log.recovery import Opened, open_log
from data_plane.log.replaying import Bounds
from data_plane.log.retention import Retention
from data_plane.log.scrub import LogScrub
from data_plane.log.sealing import SealFile, Sealing
from data_plane.log.segment import Unreadable
from data_plane.log.segments import Segments
from data_plane.log.start_state import NOTHING_KNOWN, StartState, keep_start
from data_plane.log.tail import Tail, TailBudget
from data_plane.log.usage import LogUsage
from penstock.contract import errors
from penstock.contract.ids import TopicPartition
from penstock.contract.invariant import invariant
from penstock.contract.topic_settings import Durability, TopicSettings
from penstock.records.batch import BatchHeader
from penstock.records.stamp import Stamp
from penstock.rules.odometer import Odometer

_OWN_TAIL_BYTES = 1 << 20
_ALL = 1 << 62


class PartitionLog:
    """One partition's log. One writer at a time; readers run between its calls.

    Any call may raise `DiskFault` (port): the node then stops using the log directory (RL126).
    """

    def __init__(
        self, identity: Identity, settings: TopicSettings, bounds: Bounds, segments: Segments, seals: SealFile,
        derived: DerivedState, tail: TailBudget, birth: Birth,
    ) -> None:  # fmt: skip
        """For `create` and `recover`."""
        self.where = identity.where
        self.replica_generation = identity.replica_generation
        self.log_start_offset = bounds.log_start
        self.high_watermark = bounds.high_watermark
        self._segments = segments
        self._seals = seals
        self._derived = derived
        self._sealing = Sealing(seals, identity.where)
        self._tail = Tail(tail)
        self._reader = LogReader(segments, self._tail, bounds.damage)
        self._pending = PendingWrites(
            identity.where, identity.replica_generation, birth, segments, seals, bounds.durable_end
        )
        self._appender = Appender(
            settings,
            segments,
            derived,
            self._sealing,
            self._tail,
            self._pending,
            bounds.damage,
            bounds.log_end,
            birth=birth,
        )
        self.usage = LogUsage(segments, derived, seals, self._sealing, self._reader)
        """The view that metering reads."""
        self.scrub = LogScrub(segments, self._reader)
        self._bounds_change = BoundsChange(
            segments,
            seals,
            derived,
            self._sealing,
            self._tail,
            self._reader,
            self._pending,
            self._appender,
            birth=birth,
        )
        self._birth = birth
        self._own_files = OwnFiles(birth, segments, seals, derived, self._sealing, self._pending)
        self._retention = Retention()

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        replica_generation: int,
        settings: TopicSettings,
        *,
        tail: TailBudget | None = None,
    ) -> Self:
        """A log without records. It touches no file: its directory is made with the first write, or by `creation_steps`
        before."""
        identity = Identity(where=partition, replica_generation=replica_generation, start_offset=0)
        segments = Segments(disk, directory, partition, settings.index_interval_bytes)
        seals = SealFile(disk, directory, partition)
        derived = DerivedState(disk, directory, segments, seals)
        derived.begin_at(0)
        bounds = Bounds(0, 0, 0, 0)
        birth = Birth(disk, directory, identity)
        tail = tail or TailBudget(_OWN_TAIL_BYTES)
        return cls(identity, settings, bounds, segments, seals, derived, tail, birth)

    @property
    def born(self) -> bool:
        """True if the directory is there, and survives a power cut."""
        return self._birth.durable

    def make_directory(self) -> None:
        """Make it, unless it is there; what is written into it makes it durable too. Raises port.DiskFull."""
        self._birth.make()

    def creation_steps(self) -> Sequence[SyncStep]:
        """Make the directory, unless it is there; steps that make it durable, none if it is. Raises port.DiskFull."""
        return self._birth.begin()

    def end_creation(self) -> None:
        """The steps were synced; not to be called when there were none."""
        self._birth.end()

    @classmethod
    def recover(
        cls,
        disk: Disk,
        directory: str,
        settings: TopicSettings,
        *,
        checkpoint_entry: CheckpointEntry | None,
        replay: Sequence[JournalRecord],
        clean: bool,
        checkpoint_lost: bool = False,
        journal_lost: bool = False,
        monotonic_ms: float = 0.0,
        tail: TailBudget | None = None,
    ) -> tuple[Self, RecoveryReport]:
        """Open an existing directory: replay its journal records over its files, check what lies above the recovery
        point.

        `replay` holds the partition's records in order, of all replica generations. `clean`: it was stopped cleanly.
        `checkpoint_lost`: what the files tell is presumed durable (RL54). `journal_lost`: records may be missing.
        What is found intact above the durable end is synced here. Raises `PartitionUnborn`, `PartitionDamaged`.
        """
        counted = checkpoint_lost or journal_lost or checkpoint_entry is not None or bool(replay)
        identity = read_identity(disk, directory, counted=counted)
        in_checkpoint = (
            checkpoint_entry is not None
            and checkpoint_entry.replica_generation == identity.replica_generation
        )
        # A kill may have come between making the directory and making its name durable (RL125).
        birth = Birth(disk, directory, identity, made=True, durable=in_checkpoint)
        opened = open_log(
            disk, directory, settings, identity, checkpoint_entry, replay, clean=clean, checkpoint_lost=checkpoint_lost
        )  # fmt: skip
        bounds, segments, derived = opened.bounds, opened.segments, opened.derived
        durable_end = min(bounds.durable_end, bounds.log_end)
        log = cls(
            identity,
            settings,
            bounds,
            segments,
            opened.seals,
            derived,
            tail or TailBudget(_OWN_TAIL_BYTES),
            birth,
        )
        log._resume(opened, monotonic_ms)
        if bounds.log_end > durable_end or bounds.torn_roll:
            flush, steps = log._pending.begin_flush(bounds.log_end)
            disk.sync_now(steps)
            log._pending.end_flush(flush)
            log._pending.leave_to_flush()
        report = RecoveryReport(
            durable_end_offset=durable_end,
            log_end_offset=bounds.log_end,
            torn_tail_bytes=bounds.torn_bytes,
            damage=tuple(bounds.damage),
            rebuilt=tuple(bounds.rebuilt),
        )
        return log, report

    def _resume(self, opened: Opened, monotonic_ms: float) -> None:
        """Take up sealing where the files leave it."""
        self._pending.durable_end = min(self._pending.durable_end, self.log_end_offset)
        for segment in self._segments.all[:-1]:
            segment.opened_ms = monotonic_ms
        for closed, draft, due_offset in opened.unsealed:
            self._sealing.closed(closed, draft, due_offset)
        self._sealing.resume(self._segments.active)
        self._advance_seals()
        self._segments.release_closed()

    # properties

    @property
    def name(self) -> str:
        """How messages name the partition; may be set."""
        return self._appender.name

    @name.setter
    def name(self, name: str) -> None:
        self._appender.name = self._reader.name = name

    @property
    def log_end_offset(self) -> int:
        """Where the next batch goes."""
        return self._appender.end_offset

    @property
    def settings(self) -> TopicSettings:
        """May be set; holds from the next append on."""
        return self._appender.settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._appender.settings = settings
        self._segments.index_interval_bytes = settings.index_interval_bytes

    @property
    def durable_end_offset(self) -> int:
        """Everything below survives a power cut."""
        return self._pending.durable_end

    @property
    def owes_a_sync(self) -> bool:
        """True if a relaxed topic's log has records that a power cut may take, though they count as stored."""
        relaxed = self.settings.durability is not Durability.FSYNC
        return relaxed and self.durable_end_offset < self.log_end_offset

    @property
    def last_epoch(self) -> int:
        """Largest epoch begun or appended, -1 for none."""
        return self._derived.epochs.last

    @property
    def epochs(self) -> LeaderEpochs:
        """Where each leader epoch began; to be read only."""
        return self._derived.epochs

    @property
    def odometer(self) -> Odometer | None:
        """The totals at the log's end; None when those below the log's start are not known. To be read only."""
        return self._derived.odometer

    @property
    def size_bytes(self) -> int:
        return self._segments.size

    @property
    def segment_count(self) -> int:
        return len(self._segments.all)

    @property
    def first_segment_offset(self) -> int:
        """Where a follower that starts over has to begin, so that its segments become identical."""
        return self._segments.all[0].base_offset if self._segments.all else self.log_start_offset

    @property
    def stored_from(self) -> int:
        """Where the files begin: at the segment with the log's start, or at that start when damage took the segment."""
        return min(self.first_segment_offset, self.log_start_offset)

    @property
    def damage(self) -> tuple[DamagedRange, ...]:
        """Ranges that failed their checks, found at recovery or by a read (RL122)."""
        return tuple(self._reader.damage)

    @property
    def has_damage(self) -> bool:
        """True if there is such a range."""
        return bool(self._reader.damage)

    # appends

    def check_sequence(self, header: BatchHeader) -> Duplicate | None:
        """None: may be appended (or carries no producer id). Raises `OutOfOrderSequence`, `ProducerFenced`,
        `UnknownProducer`, `LimitExceeded` (RL61 to RL64)."""
        return self._derived.producers.check(header, self._derived.last_accepted_ms, self._get_name)

    def _get_name(self) -> str:
        return self.name

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
        """Append a checked batch (`check_batch`, `check_sequence`).

        Raises errors.DiskFull (nothing changed), errors.CorruptLog when acknowledged records are missing at the end.
        """
        return self._appender.as_leader(batch, header, leader_epoch, now_ms, floor_ms, principal)

    def append_as_follower(self, stamps: memoryview, batches: memoryview, leader_epoch: int) -> int:
        """Append what the leader pushed, all of it or nothing; the new log end.

        Raises `ReplicaRejected`, errors.DiskFull.
        """
        return self._appender.as_follower(stamps, batches, leader_epoch)

    # durability

    def take_unsynced(self) -> Unsynced | None:
        """The writes since the last call; None when there were none."""
        return self._pending.take(self.high_watermark, self.log_end_offset)

    def mark_durable(self, unsynced: Unsynced) -> int:
        """`unsynced` was synced. In the order taken. Returns `durable_end_offset`."""
        return self._pending.mark_durable(unsynced)

    # marks and epochs

    def set_high_watermark(self, high_watermark: int) -> None:
        """Raise it (a lower value changes nothing), at most to the log's end. Makes the seals that become due."""
        if high_watermark > self.high_watermark:
            self.high_watermark = min(high_watermark, self.log_end_offset)
        if self._sealing.behind:
            self._advance_seals()

    def _advance_seals(self, budget: int | None = None) -> None:
        try:
            if budget is None:
                self._sealing.advance(self.high_watermark)
            else:
                self._sealing.advance(self.high_watermark, budget)
        except Unreadable as error:
            self._reader.found(error.damage)
            self._sealing.give_up()
        except port.DiskFull:
            pass  # the seal is made when the disk has space again

    def start_epoch(self, epoch: int) -> None:
        """Become leader in `epoch`: note (epoch, log end) before serving (RL27)."""
        self._appender.begin_epoch(epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest own epoch at or below `epoch`, its end offset) (RL25, RL28); below the first one (`epoch`, its
        start), and (-1, where the files begin) when there is none."""
        return self._derived.epochs.end_offset_for(epoch, self.stored_from, self.log_end_offset)

    # bounds

    def request_truncation(self, offset: int, *, declared: bool = False) -> None:
        """Raises `InvariantBroken` below the high watermark unless `declared` (RL31)."""
        invariant(
            self.log_start_offset <= offset and (declared or offset >= self.high_watermark),
            f"{self.name}: truncated to {offset} at or above its high watermark {self.high_watermark}",
        )
        self._bounds_change.request_truncation(offset, over_damage=declared)

    def truncate_to(self, offset: int) -> None:
        """Truncate the files and everything derived from them (RL30). The log may end a little lower, because only
        whole batches stay.
        """
        end = self._bounds_change.truncate(offset)
        self.high_watermark = min(self.high_watermark, end)

    def request_log_start(self, offset: int) -> None:
        """New log start, at most the high watermark (RL107, RL108)."""
        invariant(
            self.log_start_offset <= offset <= self.high_watermark,
            f"{self.name}: log start moves from {self.log_start_offset} to {offset}, at most {self.high_watermark}",
        )
        self._advance_seals(_ALL)
        self._bounds_change.request_log_start(offset)

    def move_log_start(self, offset: int) -> None:
        """The LOG_START record is durable. `delete_below` then frees the space."""
        self._bounds_change.move_log_start(offset)
        self.log_start_offset = offset

    def delete_below(self, offset: int) -> int:
        """Remove segments that end at or below min(offset, log start) and have their seals, if they get any; the
        bytes freed. After `move_log_start` (RL107)."""
        if self._derived.odometer is not None:
            offset = min(offset, self._seals.end_offset)
        damage = self._reader.damage
        freed = self._segments.remove_below(min(offset, self.log_start_offset), damage)
        if self._derived.epochs.truncate_start(self.stored_from):
            self._derived.write_epochs()
        damage[:] = [damaged for damaged in damage if damaged.end_offset > self.first_segment_offset]
        return freed

    @property
    def has_deletable(self) -> bool:
        """Whole segments lie below the log's start."""
        segments = self._segments.all
        return len(segments) > 1 and segments[1].base_offset <= self.log_start_offset

    def keep_start(self, state: StartState) -> Iterator[list[SyncStep]]:
        """Before `request_start_over`: makes `state_at_start` of the leader durable, so that totals and producers
        are known after a restart too. Raises port.DiskFull."""
        self._birth.make()
        return keep_start(self._segments.disk, self._segments.directory, state)

    def request_start_over(self, offset: int, state: StartState = NOTHING_KNOWN) -> None:
        """Wipe and begin at `offset`, with what is known of everything below it (`state_at_start` of the leader)."""
        self._bounds_change.request_start_over(offset, state)

    def start_over(self, offset: int) -> None:
        """Wipe and begin at `offset` (RL32). Seals of what lies below stay: it was committed."""
        self._bounds_change.start_over(offset)
        self.log_start_offset = self.high_watermark = offset

    def state_at_start(self) -> StartState:
        """Totals and producers at `first_segment_offset`, for a replica that starts over there."""
        return self._derived.state_at_start()

    # reads

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Slice | ColdRead:
        """Whole batches from the one that holds `offset`, all ending at or below `end_offset`; at least one if
        there is any, even when larger than `max_bytes`. Raises `OffsetOutOfRange`, `CorruptLog` (the range is
        named, RL130)."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise errors.OffsetOutOfRange(
                f"{self.name}: offset {offset}, {self.log_start_offset} to {self.log_end_offset} are stored"
            )
        return self.read_stored(offset, end_offset, max_bytes)

    def read_stored(self, offset: int, end_offset: int, max_bytes: int) -> Slice | ColdRead:
        """`read` for replicas: also what lies below the log's start in its first segment, which is stored whole."""
        if not self.stored_from <= offset <= self.log_end_offset:
            raise errors.OffsetOutOfRange(
                f"{self.name}: offset {offset}, {self.stored_from} to {self.log_end_offset} are stored"
            )
        return self._reader.read(offset, min(end_offset, self.log_end_offset), max_bytes)

    def slice_of(self, cold: ColdRead, data: bytes) -> Slice:
        """Check every batch of a cold read (RL118). Fewer batches than asked when a later one is bad; raises
        `CorruptLog` when the first one is (the range joins `damage`)."""
        return self._reader.slice_of(cold, data)

    def forget(self, cold: ColdRead) -> None:
        """A cold read that will not be finished."""
        self._reader.forget(cold)

    def read_failed(self, cold: ColdRead, fault: port.DiskFault) -> errors.CorruptLog:
        """The medium failed a cold read: its range joins `damage`. What to answer with."""
        return self._reader.read_failed(cold, fault)

    def offset_for_time(self, timestamp_ms: int, end_offset: int) -> int:
        """Base offset of the first batch below `end_offset` that holds a message stamped at or after `timestamp_ms`,
        else `end_offset`. Raises `CorruptLog`."""
        return self._reader.offset_for_time(timestamp_ms, self.log_start_offset, end_offset)

    # retention and rest

    def retention_end(self, now_ms: int, monotonic_ms: float, *, by_time: bool = True) -> int:
        """The log start that retention allows now; the present one when nothing is due (RL107). Call it at least
        every minute. `by_time`: the wall clock is trusted."""
        if self._sealing.behind:
            self._advance_seals()
        settled = self.high_watermark
        if self._derived.odometer is not None:
            settled = min(settled, self._seals.end_offset)
        end = self._retention.end(
            self._segments, self.settings, settled, now_ms, monotonic_ms, by_time=by_time
        )
        return self.log_start_offset if end is None else max(end, self.log_start_offset)

    @property
    def unapplied_sequence(self) -> int | None:
        """Sequence of a journal record whose effect the files do not show yet."""
        return self._pending.unapplied_sequence

    def begin_checkpoint(self, next_sequence: int) -> tuple[Sequence[SyncStep], CheckpointEntry | None]:
        """For `take_checkpoint`: steps that sync the log's files, and what is true once they are. None of a log without
        records whose directory a power cut may take: what a checkpoint knows and is not there was lost (RL54)."""
        if not (self._birth.durable or self.log_end_offset or self._pending.change is not None):
            return (), None
        steps = self._own_files.begin_checkpoint(self.high_watermark, self.log_end_offset)
        entry = CheckpointEntry(
            where=self.where, replica_generation=self.replica_generation, recovery_point=self.log_end_offset,
            high_watermark=self.high_watermark, log_start_offset=self.log_start_offset,
            first_sequence=min(next_sequence, self.unapplied_sequence or next_sequence), damage=self.damage,
        )  # fmt: skip
        return steps, entry

    def end_checkpoint(self) -> None:
        """The steps were synced."""
        self._own_files.end_checkpoint()

    def release_files(self) -> None:
        """Close what needs not stay open; the next use opens it again. For idle partitions."""
        self._own_files.release()

    @property
    def closed(self) -> bool:
        return self._own_files.closed

    def close(self, clean: bool) -> None:
        """Close all files. Before a clean stop the node runs a last checkpoint."""
        self._own_files.close(self.high_watermark, clean=clean)
        self._tail.clear()
