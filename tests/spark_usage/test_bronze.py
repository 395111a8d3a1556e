"""Bronze holds every record of `__usage` exactly once, whatever moment the driver is killed in."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock import Client
from spark_usage import bronze
from spark_usage.datasets import USAGE_HOUR
from spark_usage.manifest import Catalog
from spark_usage.rounds import fold
from spark_usage.sink_log import FOLDER
from spark_usage.source import end_offsets
from spark_usage.stream_repair import repair
from tests.integration.bad_input.small_disk import Ballast, may_mount, small_disk
from tests.spark_usage.bronze_surgery import drop_record
from tests.spark_usage.records import DAY, MINUTE, Writer, reading
from tests.spark_usage.service import Service, service
from tests.spark_usage.test_worker_monitors import monitors
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def usage_values(first: int, count: int, boot: str = "boot-test") -> list[bytes]:
    """Records of one reading each; the totals of the last are its end offset times 10."""
    writer = Writer(broker=9, boot=boot)
    writer.sequence = first
    return [
        writer.record(
            reading(at + 1, DAY + at * MINUTE, at + 1, (at + 1) * 10, [(7, 1, 10)]), made_ms=DAY + at * MINUTE
        )
        for at in range(first, first + count)
    ]


def written_by_us(spark: SparkSession, datasets: Path) -> Counter[bytes]:
    rows = bronze.read(spark, datasets).where("boot_id = 'boot-test'").select("record").collect()
    return Counter(bytes(row["record"]) for row in rows)


def places_are_whole(spark: SparkSession, datasets: Path, ends: dict[str, int]) -> None:
    found = sorted(
        (row["src_partition"], row["src_offset"]) for row in bronze.read(spark, datasets).collect()
    )
    assert found == sorted((int(name), at) for name, end in ends.items() for at in range(end))


def test_stream_and_batch_read_each_record_once_and_go_on_where_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    with service(tmp_path) as running:
        datasets = running.configuration.datasets
        first, second = usage_values(0, 60), usage_values(60, 40)
        running.write(first)
        assert bronze.ingest(spark, datasets, running.source_options | {"max_rows_per_batch": "25"}) >= 60
        assert written_by_us(spark, datasets) == Counter(first)
        running.write(second)
        threads = len(monitors(spark))
        bronze.ingest(spark, datasets, running.source_options)
        wait_until("Java has no thread more than before", lambda: len(monitors(spark)) <= threads)
        assert written_by_us(spark, datasets) == Counter(first + second)
        ends = bronze.committed_offsets(datasets)
        places_are_whole(spark, datasets, ends)

        in_batch = spark.read.format("penstock").options(**running.source_options, topic="__usage").load()
        values = Counter(bytes(row["value"]) for row in in_batch.select("value").collect())
        assert {value: values[value] for value in first + second} == dict.fromkeys(first + second, 1)

        done = fold(spark, datasets)
        assert done.missing == "" and done.rejected == 0
        assert produced(spark, datasets) == {"messages_in": 100, "bytes_in": 1000}

        # a middle reading is taken away: the totals stay, and its place in `__usage` is named
        lost = bronze.read(spark, datasets).where(F.col("record") == F.lit(second[0])).collect()[0]
        place = (lost["src_partition"], lost["src_offset"])
        assert drop_record(datasets, *place) == second[0]
        done = fold(spark, datasets)
        assert done.recomputed and done.missing == f"__usage-{place[0]}@{place[1]}"
        assert produced(spark, datasets) == {"messages_in": 100, "bytes_in": 1000}


def produced(spark: SparkSession, datasets: Path) -> dict[str, int]:
    catalog = Catalog(datasets)
    current = catalog.current("usage_hour")
    assert current is not None
    hours = catalog.read(spark, USAGE_HOUR, current).where("tenant = 'tn_a'")
    sums = hours.groupBy("meter").agg(F.sum("quantity").alias("quantity")).collect()
    return {row["meter"]: int(row["quantity"]) for row in sums}


def test_driver_killed_between_data_and_commit_neither_loses_nor_doubles(
    spark: SparkSession, tmp_path: Path
) -> None:
    with service(tmp_path) as running:
        datasets = running.configuration.datasets
        values = usage_values(0, 3_000)
        running.write(values)
        killed_with_orphans(running, datasets / bronze.NAME)
        orphans = set((datasets / bronze.NAME).glob("*.parquet"))
        assert orphans
        assert written_by_us(spark, datasets) == Counter()
        bronze.ingest(spark, datasets, running.source_options)
        assert orphans < set((datasets / bronze.NAME).glob("*.parquet"))
        assert written_by_us(spark, datasets) == Counter(values)

        # killed after the sink's own commit and before the checkpoint's: the batch is planned again
        more = usage_values(3_000, 50)
        running.write(more)
        bronze.ingest(spark, datasets, running.source_options)
        commits = bronze.BronzeFolders(datasets).checkpoint / "commits"
        last = max(commits.glob("[0-9]*"), key=lambda file: int(file.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)
        bronze.ingest(spark, datasets, running.source_options)
        assert written_by_us(spark, datasets) == Counter(values + more)
        with Client(bootstrap=running.brokers.bootstrap, api_key=running.api_key) as client:
            assert set(bronze.committed_offsets(datasets)) == set(end_offsets(client, bronze.TOPIC))
        places_are_whole(spark, datasets, bronze.committed_offsets(datasets))


@contextmanager
def closed_at_the_end(spark: SparkSession) -> Iterator[None]:
    """A batch that fails leaves its file open until Java collects its garbage, which an idle one never does."""
    try:
        yield
    finally:
        java = spark.sparkContext._jvm
        assert java is not None
        java.System.gc()


@pytest.mark.skipif(not may_mount(), reason="a small file system needs root")
def test_a_full_disk_in_the_first_batch_and_files_cut_short_after_it_lose_and_double_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = usage_values(0, 300), usage_values(300, 20)
    disk = small_disk(tmp_path / "disk", 2**20)
    with service(tmp_path) as running, disk, closed_at_the_end(spark):
        datasets = tmp_path / "disk" / "datasets"
        datasets.mkdir()
        folders = bronze.BronzeFolders(datasets)
        running.write(first)

        def read() -> None:
            with running.client() as client:
                ends = end_offsets(client, bronze.TOPIC)
            repair(datasets, ends)
            bronze.ingest(spark, datasets, running.source_options)

        ballast = Ballast(tmp_path / "disk")
        ballast.leave(8 * 2**10)
        with pytest.raises(Exception, match="No space left on device"):
            read()
        ballast.drop()
        # As the disk of a file system that says too late that it is full.
        for name in ("metadata", "offsets/0", "commits/0"):
            (folders.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (folders.checkpoint / name).write_bytes(b"")
        read()
        assert written_by_us(spark, datasets) == Counter(first)

        running.write(second)
        read()
        assert written_by_us(spark, datasets) == Counter(first + second)
        (folders.checkpoint / "offsets" / "1").write_bytes(b"")
        (folders.data / FOLDER / "1").write_bytes(b"")
        read()
        assert written_by_us(spark, datasets) == Counter(first + second)


def killed_with_orphans(running: Service, data: Path) -> None:
    """Kill a round's driver, Python and Java, while a data file is there that the sink's log does not name."""
    process = running.process("spark_usage", "once")
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not any(file.stat().st_size for file in data.glob("*.parquet")):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "no data file was written"
            time.sleep(0.001)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert not list((data / "_spark_metadata").glob("[0-9]*")), "the batch was committed before the kill"
