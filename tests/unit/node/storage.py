"""A node's storage without the node: a log directory opened over a simulated disk, with the metadata a test says."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from data_plane.disk.port import Disk
from data_plane.log import layout
from data_plane.log.checkpoint import take_checkpoint
from data_plane.log.partition_log import PartitionLog
from data_plane.log.tail import TailBudget
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.metadata.port import KeyValue
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.boot import Boot, Booted
from data_plane.node.log_directory.directory import Directory, open_directory
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.node.log_directory.stray_directories import StrayDirectories
from data_plane.node.ports import Caller, Clock
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Medium
from penstock.contract.ids import BrokerId, TenantId, TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.log.miniature import Miniature

ME = BrokerId(1)
DAY_MS = 86_400_000
SETTINGS = TopicSettings(segment_bytes=4_096, index_interval_bytes=64)
CALLER = Caller(peer="h9", authorization="", identity=None)
"""An operator or another broker. The listener has looked at who it is before."""
CONFIG = NodeConfig(
    broker_id=ME,
    cluster_id="test",
    client_address="c:1",
    internal_address="i:1",
    peer_address="p:1",
    zone="z",
    peppers={1: b"p" * 16},
    journal_bytes=16 << 10,
    stray_keep_ms=2 * DAY_MS,
)


class _Rng:
    """Gives what identities need, always the same."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))

    def uniform(self, low: float, high: float) -> float:
        return low

    def chance(self, name: str) -> bool:
        return False


def topic_id_of(number: int) -> TopicId:
    return TopicId(bytes([number]) * 16)


def where(number: int, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic_id_of(number), partition)


def image_of(*numbers: int, replicas: tuple[int, ...] = (1, 2, 3)) -> ClusterImage:
    """Topics of one partition, all of replica generation 1."""
    image = ClusterImage()
    items: list[KeyValue] = []
    for number in numbers:
        topic = TopicRecord(
            topic_id=topic_id_of(number),
            tenant=TenantId("tn_a"),
            name=f"topic{number}",
            partitions=1,
            settings=SETTINGS,
        )
        record = PartitionRecord(
            partition=0,
            replicas=tuple(map(BrokerId, replicas)),
            replica_generations=tuple(1 for _ in replicas),
            in_sync=tuple(map(BrokerId, replicas)),
        )
        items.append(_item(model.topic_key(topic.topic_id), topic.encode()))
        items.append(_item(model.block_key(topic.topic_id, 0), model.encode_block({0: record})))
    image.load(items, 10)
    return image


def _item(key: str, value: bytes) -> KeyValue:
    return KeyValue(key=key, value=value, mod_revision=1)


@dataclass(slots=True, kw_only=True)
class Storage:
    """One life of a log directory."""

    disk: SimDisk
    directory: Directory
    strays: StrayDirectories
    booted: Booted
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)

    def create(self, number: int, generation: int = 1) -> PartitionLog:
        at = where(number)
        path = layout.partition_directory(at)
        log = PartitionLog.create(self.disk, path, at, generation, SETTINGS)
        self.disk.sync_now(log.creation_steps())
        log.end_creation()
        self.logs[at] = log
        return log

    def append(self, number: int, batches: int = 1, body_bytes: int = 400) -> None:
        """Durable; all but the last batch committed, so that the committed end is not the written one."""
        log = self.logs[where(number)]
        for _ in range(batches):
            batch, header = with_header(made_batch(2, body_bytes))
            stamp = log.append_as_leader(
                batch, header, leader_epoch=1, now_ms=NOW_MS, floor_ms=0, principal=5
            )
            unsynced = log.take_unsynced()
            assert unsynced is not None
            self.disk.sync_now(self.booted.journal.append_steps([unsynced]))
            log.mark_durable(unsynced)
            log.set_high_watermark(stamp.base_offset)

    def checkpoint(self) -> None:
        for steps in take_checkpoint(self.disk, self.booted.journal, list(self.logs.values())):
            self.disk.sync_now(steps)

    def names(self) -> list[str]:
        return self.disk.list(layout.TOPICS)


def opened(
    medium: Medium | None = None, image: ClusterImage | None = None, config: NodeConfig = CONFIG
) -> Storage:
    """Boot over a medium, a new one when none is given; an earlier life of it is over."""
    at = Medium() if medium is None else medium
    if isinstance(at.holder, SimDisk):
        at.holder.kill()
    disk = SimDisk(at)
    directory = open_directory(disk, config, _Rng())
    strays = StrayDirectories(disk, config.stray_keep_ms)
    booted = boot(disk, image or image_of(), directory, strays, config)
    logs = {one.where: one.log for one in booted.opened}
    return Storage(disk=disk, directory=directory, strays=strays, booted=booted, logs=logs)


def born(disk: Disk) -> Directory:
    """The log directory as a broker makes it."""
    return open_directory(disk, CONFIG, _Rng())


def boot(
    disk: Disk, image: ClusterImage, directory: Directory, strays: StrayDirectories, config: NodeConfig
) -> Booted:
    tail = TailBudget(0)
    return Boot(disk, config, image, directory, strays, tail, now_ms=NOW_MS, monotonic_ms=0.0).run()


def committer_of(
    storage: Miniature,
    clock: Clock,
    stats: NodeStats,
    replicas: Sequence[Replica] = (),
    config: NodeConfig = CONFIG,
) -> Committer:
    """The only writer of the journal; its `run` makes durable what the logs take. Checkpoints are of `replicas`."""
    space = DiskSpace(config, storage.disk, Quarantine(storage.disk, config.damaged_keep_ms))
    return Committer(
        storage.disk,
        storage.journal,
        config,
        clock,
        stats,
        lambda: list(replicas),
        space,
        lambda: Turn(clock, _Rng()),
    )
