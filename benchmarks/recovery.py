"""How long a broker that was killed needs until 10 GB of logs are open again: journal replayed, what lies above the
recovery points checked, the rest taken from its caches.

The logs are written as a broker writes them, with a checkpoint whenever the journal asks for one, and left without a
last one. What was read is dropped from the page cache before, as after a power cut.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Benchmark, Measured
from data_plane.broker.clock import SystemRng
from data_plane.broker.disk import RealDisk
from data_plane.log import layout
from data_plane.log.checkpoint import take_checkpoint
from data_plane.log.journal import Journal, JournalSettings
from data_plane.log.partition_log import PartitionLog
from data_plane.log.tail import TailBudget
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.metadata.port import KeyValue
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.boot import Boot
from data_plane.node.log_directory.directory import open_directory
from data_plane.node.log_directory.stray_directories import StrayDirectories
from penstock.contract import limits
from penstock.contract.ids import BrokerId, TenantId, TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.records.batch import check_batch
from penstock.records.build import BatchBuilder

BYTES = 10 * 10**9
PARTITIONS = 8
BATCH_BYTES = 256 * limits.KIB
MESSAGE_BYTES = 1_000
_ROUND_BATCHES = 16
"""Made durable together."""
TOPIC = TopicId(bytes(range(16)))
SETTINGS = TopicSettings(replication=1, min_insync_replicas=1)
CONFIG = NodeConfig(
    broker_id=BrokerId(1),
    cluster_id="benchmark",
    client_address="localhost:1",
    internal_address="localhost:2",
    peer_address="localhost:3",
    zone="z",
    peppers={1: bytes(16)},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a killed broker leaves. `unsettled_bytes`: journaled since the last checkpoint."""

    ends: list[int]
    unsettled_bytes: int


def _batch() -> bytes:
    builder = BatchBuilder()
    for _ in range(BATCH_BYTES // MESSAGE_BYTES):
        builder.append(0, None, os.urandom(MESSAGE_BYTES), ())
    return builder.build()


def _image() -> ClusterImage:
    topic = TopicRecord(
        topic_id=TOPIC,
        tenant=TenantId("tn_benchmark"),
        name="large",
        partitions=PARTITIONS,
        settings=SETTINGS,
    )
    records = {
        number: PartitionRecord(
            partition=number, replicas=(BrokerId(1),), replica_generations=(1,), in_sync=(BrokerId(1),)
        )
        for number in range(PARTITIONS)
    }
    image = ClusterImage()
    items = [
        KeyValue(model.topic_key(TOPIC), topic.encode(), 1),
        KeyValue(model.block_key(TOPIC, 0), model.encode_block(records), 1),
    ]
    image.load(items, 1)
    return image


def write(folder: Path, total_bytes: int) -> Written:
    """Logs of `total_bytes` in all, as a broker leaves them that is killed while it writes."""
    disk = RealDisk(folder)
    directory = open_directory(disk, CONFIG, SystemRng())
    journal, replay = Journal.open(
        disk, bytes.fromhex(directory.directory_id), 1, JournalSettings(file_bytes=CONFIG.journal_bytes)
    )
    replay.close()
    logs = []
    for number in range(PARTITIONS):
        where = TopicPartition(TOPIC, number)
        logs.append(PartitionLog.create(disk, layout.partition_directory(where), where, 1, SETTINGS))
    disk.sync_now([step for log in logs for step in log.creation_steps()])
    for log in logs:
        log.end_creation()
    data = _batch()
    batch, header = memoryview(data), check_batch(data)
    written = since = 0
    while written < total_bytes:
        log = logs[(written // (_ROUND_BATCHES * len(data))) % PARTITIONS]
        for _ in range(_ROUND_BATCHES):
            log.append_as_leader(
                batch, header, leader_epoch=1, now_ms=time.time_ns() // 1_000_000, floor_ms=0, principal=1
            )
        written += _ROUND_BATCHES * len(data)
        since += _ROUND_BATCHES * len(data)
        unsynced = log.take_unsynced()
        if unsynced is not None:
            disk.sync_now(journal.append_steps([unsynced]))
            log.set_high_watermark(log.mark_durable(unsynced))
        if journal.checkpoint_due:
            for steps in take_checkpoint(disk, journal, logs):
                disk.sync_now(steps)
            since = 0
    ends = [log.log_end_offset for log in logs]
    for log in logs:
        log.close(clean=False)
    journal.close()
    disk.close()
    return Written(ends=ends, unsettled_bytes=since)


def forget_pages(folder: Path) -> None:
    """Drop the folder's files from the page cache."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def reopen(folder: Path) -> tuple[float, list[int]]:
    """Seconds until all logs are open, and where they end."""
    began = time.perf_counter()
    disk = RealDisk(folder)
    directory = open_directory(disk, CONFIG, SystemRng())
    assert not directory.clean
    strays, tail = StrayDirectories(disk, CONFIG.stray_keep_ms), TailBudget(0)
    booted = Boot(
        disk, CONFIG, _image(), directory, strays, tail, now_ms=time.time_ns() // 1_000_000, monotonic_ms=0.0
    ).run()
    took_s = time.perf_counter() - began
    assert not booted.damaged and not booted.nothing_known
    ends = [one.log.log_end_offset for one in sorted(booted.opened, key=lambda one: one.where)]
    for one in booted.opened:
        one.log.close(clean=False)
    disk.close()
    return took_s, ends


def recovery(folder: Path, total_bytes: int = BYTES) -> list[Measured]:
    left = write(folder / "data", total_bytes)
    forget_pages(folder / "data")
    took_s, ends = reopen(folder / "data")
    assert ends == left.ends, "everything that was acknowledged is there"
    beside = {"gb": total_bytes / 1e9, "journaled_since_checkpoint_mb": left.unsettled_bytes / 1e6}
    return [Measured(name="broker_recovery_10gb_s", value=took_s, unit="s", beside=beside)]


BENCHMARK = Benchmark(figures=("broker_recovery_10gb_s",), run=recovery, seconds=120)
