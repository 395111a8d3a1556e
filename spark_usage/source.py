"""The data source "penstock": a topic as rows of Spark, in batch and as a stream, read over the SDK in Arrow batches.

Options: `bootstrap` (addresses, comma between), `topic`, `api_key_file` (a file that workers can read) or `api_key`,
`ca_file`, `max_rows_per_batch` (of a stream), `timeout_s` (how long a partition may bring nothing).

An offset of a stream is {"<partition>": next offset}; a partition that is not named stands at 0, so that a topic may
grow. Every reported offset names all partitions that an earlier one named.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock import Client

SCHEMA = "src_partition int, src_offset long, timestamp_ms long, key binary, value binary"
ARROW_SCHEMA = pa.schema(
    [
        ("src_partition", pa.int32()),
        ("src_offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
MAX_ROWS_PER_BATCH = 200_000
TIMEOUT_S = 60.0
_POLL_S = 1.0
Offsets = dict[str, int]


class PenstockDataSource(DataSource):
    """`spark.read.format("penstock")` and `spark.readStream.format("penstock")`."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "TopicReader":
        return TopicReader(TopicOptions.of(self.options))

    def streamReader(self, schema: StructType) -> "TopicStreamReader":
        return TopicStreamReader(TopicOptions.of(self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """What is read, and as whom. Travels to the workers."""

    bootstrap: tuple[str, ...]
    topic: str
    api_key: str | None
    api_key_file: str | None
    ca_file: str | None
    max_rows_per_batch: int
    timeout_s: float

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "TopicOptions":
        """Raises `ValueError` that names the option."""
        for name in ("bootstrap", "topic"):
            if not options.get(name):
                raise ValueError(f"penstock: the option {name} is required")
        if bool(options.get("api_key")) == bool(options.get("api_key_file")):
            raise ValueError("penstock: exactly one of the options api_key_file and api_key is required")
        most = int(options.get("max_rows_per_batch", MAX_ROWS_PER_BATCH))
        if most < 1:
            raise ValueError(f"penstock: max_rows_per_batch {most}; 1 or more required")
        return cls(
            bootstrap=tuple(options["bootstrap"].split(",")),
            topic=options["topic"],
            api_key=options.get("api_key"),
            api_key_file=options.get("api_key_file"),
            ca_file=options.get("ca_file"),
            max_rows_per_batch=most,
            timeout_s=float(options.get("timeout_s", TIMEOUT_S)),
        )

    def client(self) -> Client:
        """A client of its own. Raises `OSError` when the key's file cannot be read."""
        key = self.api_key
        if self.api_key_file is not None:
            key = Path(self.api_key_file).read_text(encoding="utf-8").strip()
        return Client(bootstrap=self.bootstrap, api_key=key, ca_file=self.ca_file)


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets [start, end) of one partition: the work of one task."""

    partition: int
    start: int
    end: int


def end_offsets(client: Client, topic: str, timeout_s: float = TIMEOUT_S) -> Offsets:
    """The next offset of every partition of the topic. Raises as the SDK does."""
    with client.consumer(topic) as consumer:
        ends = consumer.end_offsets(timeout_s)
    return {str(partition): end for (_, partition), end in sorted(ends.items())}


def ranges(start: Mapping[str, int], end: Mapping[str, int]) -> list[OffsetRange]:
    """One range a partition that has something between the two offsets."""
    found = [OffsetRange(int(name), start.get(name, 0), last) for name, last in end.items()]
    return sorted((r for r in found if r.start < r.end), key=lambda r: r.partition)


def within(start: Mapping[str, int], target: Mapping[str, int], rows_max: int | None) -> Offsets:
    """The offset after at most `rows_max` rows from `start` towards `target`; never before `start`."""
    reached = dict(start)
    left = rows_max
    for name in sorted(target, key=int):
        first = start.get(name, 0)
        rows = max(0, target[name] - first)
        if left is not None:
            rows = min(rows, left)
            left -= rows
        reached[name] = first + rows
    return reached


def read_range(options: TopicOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The rows of one range, batch by batch as stored.

    Offsets that the log no longer holds are left out. Raises `TimeoutError` when nothing comes for `timeout_s`, and
    `MalformedBatch`: a row that is left out in silence would be missing from what is billed and shown.
    """
    topic, partition = options.topic, wanted.partition
    with (
        options.client() as client,
        client.consumer(auto_offset_reset="earliest", malformed="stop") as consumer,
    ):
        consumer.assign([(topic, partition)])
        consumer.seek(topic, partition, offset=wanted.start, timeout=options.timeout_s)
        position = wanted.start
        silent_since = time.monotonic()
        while position < wanted.end:
            batches = consumer.poll_batches(timeout=_POLL_S)
            for batch in batches:
                columns = batch.to_arrow()
                keep = [i for i, at in enumerate(batch.offsets) if position <= at < wanted.end]
                if keep:
                    yield _rows(partition, columns.slice(keep[0], keep[-1] - keep[0] + 1))
            reached = consumer.position(topic, partition, options.timeout_s)
            if reached > position:
                position, silent_since = reached, time.monotonic()
            elif time.monotonic() - silent_since > options.timeout_s:
                raise TimeoutError(
                    f"{topic}-{partition}: nothing from offset {position} on for {options.timeout_s:g} s, "
                    f"{wanted.end} expected"
                )


def _rows(partition: int, columns: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition] * columns.num_rows, pa.int32()),
            columns.column("offset").cast(pa.int64()),
            columns.column("timestamp_ms").cast(pa.int64()),
            columns.column("key").cast(pa.binary()),
            columns.column("value").cast(pa.binary()),
        ],
        schema=ARROW_SCHEMA,
    )


class TopicReader(DataSourceReader):
    """The whole topic as it stands when the plan is made."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        with self._options.client() as client:
            return ranges({}, end_offsets(client, self._options.topic, self._options.timeout_s))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return read_range(self._options, partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The topic from its beginning on; with the trigger `availableNow`, to where it stood at the query's start."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options
        self._frozen: Offsets | None = None

    def initialOffset(self) -> Offsets:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        target = self._ends() if self._frozen is None else self._frozen
        if isinstance(limit, ReadAllAvailable):
            return within(start, target, None)
        assert isinstance(limit, ReadMaxRows)
        return within(start, target, limit.max_rows)

    def reportLatestOffset(self) -> Offsets | None:
        return self._frozen

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return ranges(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return read_range(self._options, partition)

    def _ends(self) -> Offsets:
        with self._options.client() as client:
            return end_offsets(client, self._options.topic, self._options.timeout_s)
