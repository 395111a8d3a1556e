"""Bronze: `__usage` as read, kept as Parquet by a stream with a checkpoint; each record is in it exactly once.

Bronze is read through the log that Spark's file sink keeps in the folder (`sink_log`). A driver that is killed repeats
its batch, and files without an entry in that log are never read.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from penstock.rules.timestamps import DAY_MS
from spark_usage import worker_monitors
from spark_usage.decode import Damaged, parse_record
from spark_usage.frames import nothing
from spark_usage.sink_log import FOLDER, Entry, read_log
from spark_usage.sink_log import Damaged as DamagedLog

TOPIC = "__usage"
NAME = "bronze"
SCHEMA = pa.schema(
    [
        ("src_partition", pa.int32()),
        ("src_offset", pa.int64()),
        ("ingest_date", pa.date32()),
        ("broker_id", pa.int32()),
        ("boot_id", pa.string()),
        ("sequence", pa.int64()),
        ("made_ms", pa.int64()),
        ("record", pa.binary()),
    ]
)


class BronzeFolders:
    """Paths of bronze and of its stream's checkpoint, below the folder of the data sets."""

    def __init__(self, datasets: Path) -> None:
        self.data = datasets / NAME
        self.checkpoint = datasets / ".bronze-checkpoint"


def ingest(spark: SparkSession, datasets: Path, options: dict[str, str], topic: str = TOPIC) -> int:
    """Append the topic's new records to bronze. Returns the number of new rows. Raises what ends the stream."""
    # At the start, so that of streams that fail no more than one thread is left either.
    worker_monitors.end_those_without_workers(spark)
    query = start(spark, datasets, options, topic)
    query.awaitTermination()
    error = query.exception()
    if error is not None:
        raise error
    return sum(progress.numInputRows for progress in query.recentProgress)


def start(spark: SparkSession, datasets: Path, options: dict[str, str], topic: str = TOPIC) -> StreamingQuery:
    """The stream up to the topic's present end."""
    folders = BronzeFolders(datasets)
    records = spark.readStream.format("penstock").options(**options, topic=topic).load()
    return (
        records.mapInArrow(_with_heads, from_arrow_schema(SCHEMA))
        .coalesce(1)
        .writeStream.format("parquet")
        .option("path", str(folders.data))
        .option("checkpointLocation", str(folders.checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def read(spark: SparkSession, datasets: Path) -> DataFrame:
    """All rows of bronze; none before the first batch."""
    data = BronzeFolders(datasets).data
    schema = from_arrow_schema(SCHEMA)
    if not (data / FOLDER).exists():
        return nothing(spark, schema)
    return spark.read.schema(schema).parquet(str(data))


def read_files(spark: SparkSession, some: Sequence[Entry]) -> DataFrame:
    """The rows of these files."""
    schema = from_arrow_schema(SCHEMA)
    if not some:
        return nothing(spark, schema)
    return spark.read.schema(schema).parquet(*(entry.path for entry in some))


def is_whole(datasets: Path, records: int) -> bool:
    """Whether every file that the sink's log names is there with its size. Only of no record no file has to be named.
    Without Spark.
    """
    data = BronzeFolders(datasets).data
    try:
        named = read_log(data).entries
    except DamagedLog:
        return False
    if not named and not (data / FOLDER).exists():
        return records == 0
    sizes: dict[str, int] = {}
    try:
        for folder in {entry.folder for entry in named}:
            with os.scandir(folder) as files:
                sizes |= {file.path: file.stat().st_size for file in files}
    except OSError:
        return False
    return all(entry.added and sizes.get(entry.path) == entry.size for entry in named)


def committed_offsets(datasets: Path) -> dict[str, int]:
    """Partition -> next offset of what the stream has committed, as its checkpoint says; none when that is damaged,
    which a round repairs.
    """
    checkpoint = BronzeFolders(datasets).checkpoint
    commits, offsets = checkpoint / "commits", checkpoint / "offsets"
    numbers = (
        [int(file.name) for file in commits.glob("*") if file.name.isdigit()] if commits.exists() else []
    )
    if not numbers:
        return {}
    try:
        lines = (offsets / str(max(numbers))).read_text(encoding="utf-8").splitlines()
        committed = json.loads(lines[2])
    except (FileNotFoundError, IndexError, ValueError):
        return {}
    return {name: int(committed[name]) for name in sorted(committed, key=int)}


def ends_of(files: Iterable[Entry], before: Mapping[str, int]) -> dict[str, int]:
    """Partition -> offset after the last record of these files, or what was `before`."""
    ends = dict(before)
    for entry in files:
        part = entry.part
        if part is not None:
            reached = {str(part.partition): part.end}
        else:
            rows = pq.read_table(entry.path, columns=["src_partition", "src_offset"], partitioning=None)
            last = rows.group_by("src_partition").aggregate([("src_offset", "max")]).to_pylist()
            reached = {str(row["src_partition"]): row["src_offset_max"] + 1 for row in last}
        ends |= {name: max(end, ends.get(name, 0)) for name, end in reached.items()}
    return {name: ends[name] for name in sorted(ends, key=int)}


def _with_heads(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`ingest_date` is by the clock of the broker that appended the record, and never later than by this one's: what
    expires goes by it.
    """
    for batch in batches:
        now_ms = time.time_ns() // 1_000_000
        rows = []
        for row in batch.to_pylist():
            value = row["value"]
            head = {"broker_id": -1, "boot_id": "", "sequence": 0, "made_ms": 0}
            try:
                record = parse_record(value)
                head = {name: getattr(record, name) for name in head}
            except Damaged:
                pass  # kept as it is; decoding rejects it with the reason
            rows.append(
                head
                | {
                    "src_partition": row["src_partition"],
                    "src_offset": row["src_offset"],
                    "ingest_date": min(max(0, row["timestamp_ms"]), now_ms) // DAY_MS,
                    "record": value,
                }
            )
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
