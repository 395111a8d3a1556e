"""A broker in miniature: logs, journal and checkpoints over one disk, driven synchronously.

Its followers are one batch behind: the last batch of a log is durable and not committed, until they catch up. So the
committed end and the written end differ, and a test sees where one is taken for the other.
"""

from collections.abc import Iterable

from data_plane.disk.port import Disk, FileMissing, SyncStep
from data_plane.log import layout
from data_plane.log.checkpoint import Checkpoint, read_checkpoint, take_checkpoint
from data_plane.log.journal import Journal, JournalSettings
from data_plane.log.outcomes import RecoveryReport, Slice
from data_plane.log.partition_log import PartitionLog
from data_plane.log.reading import ColdRead
from data_plane.log.start_state import NOTHING_KNOWN, StartState
from data_plane.log.tail import TailBudget
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Medium
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.records.stamp import Stamp
from tests.unit.log.batches import NOW_MS, made_batch, with_header

IDENTITY = b"directory id 16b"
TOPIC = TopicId(bytes(range(16)))
SMALL = TopicSettings(replication=1, min_insync_replicas=1, segment_bytes=4096, index_interval_bytes=64)


def where(partition: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, partition)


class Miniature:
    """Opens whatever rests on `disk`. Everything it acknowledges is in `acknowledged` (partition -> end offset)."""

    def __init__(
        self, disk: Disk | None = None, *, settings: TopicSettings = SMALL, journal_bytes: int = 16 << 10,
        clean: bool = False, tail_bytes: int = 1 << 20,
    ) -> None:  # fmt: skip
        self.disk = disk if disk is not None else SimDisk(Medium())
        self.settings = settings
        self.tail = TailBudget(tail_bytes)
        self.acknowledged: dict[int, int] = {}
        self._last_bases: dict[int, int] = {}
        """Where the batch that was appended last begins, by partition."""
        self.logs: dict[int, PartitionLog] = {}
        self.reports: dict[int, RecoveryReport] = {}
        self.now_ms = NOW_MS
        try:
            checkpoint = read_checkpoint(self.disk)
        except FileMissing:
            checkpoint = Checkpoint(first_sequence=1, entries={})
        self.journal, self.replay = Journal.open(
            self.disk, IDENTITY, checkpoint.first_sequence, JournalSettings(file_bytes=journal_bytes)
        )
        for name in self.disk.list(layout.TOPICS):
            found = layout.partition_of(name)
            assert found is not None
            log, report = PartitionLog.recover(
                self.disk, f"{layout.TOPICS}/{name}", settings, checkpoint_entry=checkpoint.entries.get(found),
                replay=self.replay.of(found), clean=clean, tail=self.tail,
            )  # fmt: skip
            self.logs[found.partition] = log
            self.reports[found.partition] = report
        self.replay.close()

    def create(self, partition: int = 0, generation: int = 1, *, born: bool = True) -> PartitionLog:
        log = PartitionLog.create(
            self.disk,
            layout.partition_directory(where(partition)),
            where(partition),
            generation,
            self.settings,
            tail=self.tail,
        )
        if born:
            self.disk.sync_now(log.creation_steps())
            log.end_creation()
        self.logs[partition] = log
        return log

    @property
    def log(self) -> PartitionLog:
        return self.logs[0]

    def append(
        self, partition: int = 0, *, epoch: int = 1, principal: int = 5, batch: bytes | None = None
    ) -> Stamp:
        """One batch, not yet durable."""
        data, header = with_header(made_batch() if batch is None else batch)
        stamp = self.logs[partition].append_as_leader(
            data, header, leader_epoch=epoch, now_ms=self.now_ms, floor_ms=0, principal=principal
        )
        self._last_bases[partition] = stamp.base_offset
        return stamp

    def fill(self, batches: int, partition: int = 0, *, epoch: int = 1, body_bytes: int = 200) -> None:
        """Append and commit, batch by batch."""
        for number in range(batches):
            self.append(partition, epoch=epoch, batch=made_batch(2, body_bytes, fill=number % 256))
            self.commit()

    def commit(self, *, raise_watermark: bool = True) -> None:
        """One round of the committer over all logs. All but the last batch of each is committed then."""
        taken = [
            (number, unsynced)
            for number, log in self.logs.items()
            if (unsynced := log.take_unsynced()) is not None
        ]
        self.sync(self.journal.append_steps([unsynced for _, unsynced in taken]))
        for number, unsynced in taken:
            durable = self.logs[number].mark_durable(unsynced)
            self.acknowledged[number] = durable
            if raise_watermark:
                self.logs[number].set_high_watermark(min(durable, self._last_bases.get(number, durable)))

    def catch_up(self) -> None:
        """The followers have every batch that is durable here, so all of them are committed."""
        for log in self.logs.values():
            log.set_high_watermark(log.durable_end_offset)

    def sync(self, steps: list[SyncStep]) -> None:
        self.disk.sync_now(steps)

    def perform(self, protocol: Iterable[list[SyncStep]]) -> None:
        for steps in protocol:
            self.sync(steps)

    def checkpoint(self) -> None:
        self.perform(take_checkpoint(self.disk, self.journal, list(self.logs.values())))

    def truncate(self, offset: int, partition: int = 0, *, declared: bool = False) -> None:
        self.logs[partition].request_truncation(offset, declared=declared)
        self.commit(raise_watermark=False)
        self.logs[partition].truncate_to(offset)

    def move_log_start(self, offset: int, partition: int = 0) -> int:
        self.logs[partition].request_log_start(offset)
        self.commit(raise_watermark=False)
        self.logs[partition].move_log_start(offset)
        return self.logs[partition].delete_below(offset)

    def start_over(self, offset: int, partition: int = 0, state: StartState = NOTHING_KNOWN) -> None:
        if state.offset > 0:
            self.perform(self.logs[partition].keep_start(state))
        self.logs[partition].request_start_over(offset, state)
        self.commit(raise_watermark=False)
        self.logs[partition].start_over(offset)

    def close(self, *, clean: bool = True) -> None:
        if clean:
            self.checkpoint()
        for log in self.logs.values():
            log.close(clean)
        self.journal.close()

    def read(
        self, offset: int, end_offset: int | None = None, max_bytes: int = 1 << 20, partition: int = 0
    ) -> Slice:
        """A read with its cold half done."""
        log = self.logs[partition]
        found = log.read(offset, log.log_end_offset if end_offset is None else end_offset, max_bytes)
        if isinstance(found, ColdRead):
            found = log.slice_of(found, found.file.read_at(found.position, found.length))
        return found

    def content(self, partition: int = 0) -> tuple[bytes, bytes]:
        """(stamps, batches) of the whole log from its start."""
        log = self.logs[partition]
        stamps, batches = bytearray(), bytearray()
        at = log.log_start_offset
        while at < log.log_end_offset:
            part = self.read(at, partition=partition)
            assert part.next_offset > at
            stamps += part.stamps
            batches += b"".join(part.batches)
            at = part.next_offset
        return bytes(stamps), bytes(batches)


def reopened(disk: SimDisk, **options: object) -> Miniature:
    """The same medium after the process was killed."""
    disk.kill()
    return Miniature(SimDisk(disk.medium), **options)  # type: ignore[arg-type]
