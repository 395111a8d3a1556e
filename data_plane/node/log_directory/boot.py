"""Opening the log directory at boot: every partition recovered, damage named, unknown directories set aside (RL53).

Blocking: the broker serves nothing yet.
"""

from dataclasses import dataclass, field

from data_plane.disk.port import Disk, FileMissing, SyncDirectory
from data_plane.log import layout
from data_plane.log.checkpoint import Checkpoint, read_checkpoint
from data_plane.log.journal import Journal, JournalSettings
from data_plane.log.journal_replay import Replay
from data_plane.log.outcomes import PartitionDamaged, PartitionUnborn
from data_plane.log.partition_log import PartitionLog
from data_plane.log.presumed import holds_segments
from data_plane.log.small_file import SmallFileCorrupt
from data_plane.log.tail import TailBudget
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.directory import Directory
from data_plane.node.log_directory.stray_directories import StrayDirectories
from penstock.contract.ids import TenantId, TopicPartition
from penstock.contract.topic_settings import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One partition's log. `buried`: its topic was deleted, and its last reading may still be owed."""

    where: TopicPartition
    topic: TopicRecord
    log: PartitionLog
    buried: bool


@dataclass(slots=True, kw_only=True)
class Booted:
    """What the log directory held. `damaged`: why, of each partition that may miss what it acknowledged."""

    journal: Journal
    opened: list[Opened] = field(default_factory=list)
    damaged: dict[TopicPartition, str] = field(default_factory=dict)
    nothing_known: str = ""
    """Why it is unknown what any of the partitions misses; empty when it is known."""


class Boot:
    """One opening. `run` it once."""

    def __init__(
        self,
        disk: Disk,
        config: NodeConfig,
        image: ClusterImage,
        directory: Directory,
        strays: StrayDirectories,
        tail: TailBudget,
        *,
        now_ms: int,
        monotonic_ms: float,
    ) -> None:
        self._disk = disk
        self._config = config
        self._image = image
        self._directory = directory
        self._strays = strays
        self._tail = tail
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms

    def run(self) -> Booted:
        """Raises `DiskFull`, `DiskFault`."""
        checkpoint, lost = self._read_checkpoint()
        journal, replay = Journal.open(
            self._disk,
            bytes.fromhex(self._directory.directory_id),
            checkpoint.first_sequence,
            JournalSettings(file_bytes=self._config.journal_bytes),
        )
        reason = self._directory.lost or lost
        booted = Booted(journal=journal)
        if not self._directory.clean and self._disk.exists(layout.TOPICS):
            # A kill may have come between making a partition's directory and making its name durable (RL125).
            self._disk.sync_now([SyncDirectory(layout.TOPICS), SyncDirectory("")])
        for name in self._disk.list(layout.TOPICS):
            where = layout.partition_of(name)
            if where is not None:
                self._open_one(where, f"{layout.TOPICS}/{name}", checkpoint, replay, bool(reason), booted)
        if not reason and replay.unknown_loss:
            reason = "the journal of the log directory is damaged"
        booted.nothing_known = reason
        self._notice_missing(checkpoint, replay, booted)
        replay.close()
        return booted

    def _read_checkpoint(self) -> tuple[Checkpoint, str]:
        """The checkpoint, and why it tells nothing. A lost one is damage, never a new directory (RL54)."""
        try:
            return read_checkpoint(self._disk), ""
        except FileMissing:
            lost = "the checkpoint of the log directory is missing" if holds_segments(self._disk) else ""
        except SmallFileCorrupt as bad:
            lost = f"the checkpoint of the log directory is damaged: {bad}"
        return Checkpoint(first_sequence=1, entries={}), lost

    def _open_one(
        self,
        where: TopicPartition,
        path: str,
        checkpoint: Checkpoint,
        replay: Replay,
        checkpoint_lost: bool,
        booted: Booted,
    ) -> None:
        topic, record = self._image.topics.get(where.topic_id), self._image.partition(where)
        buried = where.topic_id in self._image.tombstones
        if buried:
            topic = self._topic_deleted(where)
            if topic is None:
                self._disk.remove_directory(path)
                return
            record = PartitionRecord(
                partition=where.partition, replicas=(self._config.broker_id,), replica_generations=(0,)
            )
        if topic is None or record is None or self._config.broker_id not in record.replicas:
            self._set_aside(path, "the metadata knows no replica here")
            return
        try:
            log, report = PartitionLog.recover(
                self._disk,
                path,
                topic.log_settings,
                checkpoint_entry=checkpoint.entries.get(where),
                replay=replay.records.get(where, []),
                clean=self._directory.clean,
                checkpoint_lost=checkpoint_lost,
                journal_lost=replay.unknown_loss,
                monotonic_ms=self._monotonic_ms,
                tail=self._tail,
            )
        except PartitionUnborn:
            self._disk.remove_directory(path)
            return
        except PartitionDamaged as damage:
            if buried:
                self._disk.remove_directory(path)
                return
            booted.damaged[where] = str(damage)
            self._set_aside(path, str(damage))
            return
        if not buried and log.replica_generation != self._generation(record):
            log.close(clean=False)
            self._set_aside(path, f"a replica of generation {log.replica_generation}")
            return
        if report.damage and not buried:
            booted.damaged[where] = "; ".join(map(str, report.damage))
        log.release_files()  # there may be more logs than a process may have files open
        booted.opened.append(Opened(where=where, topic=topic, log=log, buried=buried))

    def _notice_missing(self, checkpoint: Checkpoint, replay: Replay, booted: Booted) -> None:
        """A replica that checkpoint or journal know and whose directory is gone has lost what it acknowledged: the
        empty one that takes its place is not trusted with anything."""
        known = {where: entry.replica_generation for where, entry in checkpoint.entries.items()}
        known |= {where: records[-1].head.replica_generation for where, records in replay.records.items()}
        here = {one.where: None for one in booted.opened}
        for where, generation in known.items():
            record = self._image.partition(where)
            if where in here or where in booted.damaged or where.topic_id not in self._image.topics:
                continue
            if record is None or self._config.broker_id not in record.replicas:
                continue
            if generation == self._generation(record):
                booted.damaged[where] = "its directory is missing"

    def _topic_deleted(self, where: TopicPartition) -> TopicRecord | None:
        """The topic by its tombstone, if its last reading may still be owed."""
        buried = self._image.buried.get(where.topic_id)
        if buried is None or not buried.tenant or not self._config.metering:
            return None
        return TopicRecord(
            topic_id=where.topic_id,
            tenant=TenantId(buried.tenant),
            name=buried.name,
            partitions=buried.partitions,
            settings=TopicSettings(),
        )

    def _set_aside(self, path: str, reason: str) -> None:
        self._strays.set_aside(path, self._now_ms, reason)

    def _generation(self, record: PartitionRecord) -> int:
        return record.replica_generations[record.replicas.index(self._config.broker_id)]
