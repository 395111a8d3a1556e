"""What makes 1 KB written to each of many partitions durable, and how long it takes: a sync for each file, or one
journal.

`python -m benchmarks.durability [folder]` prints the table behind
docs/decisions/0003-one-journal-per-log-directory.md.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Benchmark, Measured, median, percentile
from data_plane.broker.disk import RealDisk
from data_plane.log import layout
from data_plane.log.journal import Journal
from data_plane.log.outcomes import Unsynced
from data_plane.log.partition_log import PartitionLog
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.records.batch import check_batch
from penstock.records.build import BatchBuilder

PARTITIONS = (1, 50, 500)
ROUNDS = 30
THREADS = 8
MESSAGE_BYTES = 1_000
SETTINGS = TopicSettings(replication=1, min_insync_replicas=1)

Round = Callable[[], float]
"""Write 1 KB to each partition, then make it durable; the seconds of the second part."""


def _batch() -> bytes:
    builder = BatchBuilder()
    builder.append(0, None, os.urandom(MESSAGE_BYTES), ())
    return builder.build()


def _files(folder: Path, count: int, sync: Callable[[list[int]], None]) -> Round:
    """A file for each partition, written before and kept open."""
    folder.mkdir()
    files = [os.open(folder / f"{number}.log", os.O_RDWR | os.O_CREAT) for number in range(count)]
    data = os.urandom(MESSAGE_BYTES)
    position = 0

    def one_round() -> float:
        nonlocal position
        for file in files:
            os.pwrite(file, data, position)
        position += len(data)
        begun = time.perf_counter()
        sync(files)
        return time.perf_counter() - begun

    return one_round


def _one_by_one(folder: Path, count: int) -> Round:
    def sync(files: list[int]) -> None:
        for file in files:
            os.fdatasync(file)

    return _files(folder, count, sync)


def _by_threads(folder: Path, count: int) -> Round:
    pool = ThreadPoolExecutor(THREADS)

    def sync(files: list[int]) -> None:
        for _ in pool.map(os.fdatasync, files):
            pass

    return _files(folder, count, sync)


def _journal(folder: Path, count: int) -> Round:
    """The product's own logs and journal."""
    disk = RealDisk(folder)
    journal, _ = Journal.open(disk, b"benchmark", 1)
    for steps in journal.prepare_steps():
        disk.sync_now(steps)
    logs = []
    for number in range(count):
        where = TopicPartition(TopicId(bytes(16)), number)
        logs.append(PartitionLog.create(disk, layout.partition_directory(where), where, 1, SETTINGS))
        disk.sync_now(logs[-1].creation_steps())
        logs[-1].end_creation()
    batch = memoryview(_batch())
    header = check_batch(batch)

    def one_round() -> float:
        for log in logs:
            log.append_as_leader(batch, header, leader_epoch=1, now_ms=1, floor_ms=0, principal=1)
        begun = time.perf_counter()
        taken: list[tuple[PartitionLog, Unsynced]] = []
        for log in logs:
            unsynced = log.take_unsynced()
            if unsynced is not None:
                taken.append((log, unsynced))
        disk.sync_now(journal.append_steps([unsynced for _, unsynced in taken]))
        for log, unsynced in taken:
            log.mark_durable(unsynced)
        return time.perf_counter() - begun

    return one_round


WAYS = (("one_by_one", _one_by_one), ("eight_threads", _by_threads), ("journal", _journal))


def durability(folder: Path) -> list[Measured]:
    """Median and 99th percentile in ms, the three ways in turn, so that they meet the same disk."""
    measured = []
    for count in PARTITIONS:
        rounds = {name: make(folder / f"{name}-{count}", count) for name, make in WAYS}
        times: dict[str, list[float]] = {name: [] for name in rounds}
        for number in range(ROUNDS + 3):
            for name, one_round in rounds.items():
                spent = one_round() * 1000
                if number >= 3:
                    times[name].append(spent)
        for name, values in times.items():
            measured.append(
                Measured(
                    name=f"sync_{count}_{name}_ms", value=median(values), unit="ms",
                    beside={"p99": percentile(values, 0.99)},
                )
            )  # fmt: skip
    return measured


BENCHMARK = Benchmark(
    figures=tuple(f"sync_{count}_{name}_ms" for count in PARTITIONS for name, _ in WAYS),
    run=durability,
    seconds=60,
    quick=False,
)


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("var")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        for one in durability(Path(folder)):
            print(one.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
