"""Which records a round reads: those of bronze, or others that stand for them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_usage import bronze
from spark_usage.decode import BRONZE_COLUMNS
from spark_usage.frames import nothing
from spark_usage.sink_log import Entry, Mark, read_log

_ROWS_A_BATCH = 500
"""Some 16 MB where records are full."""
_OPENING_BYTES, _TASK_BYTES = 4 * 2**20, 128 * 2**20
"""What opening a file costs, and what a task reads at most, as Spark has both for files of Parquet."""
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_POSITION = ["src_partition", "src_offset"]
Identity = tuple[int, str, int]
"""Of a record: broker, boot, sequence."""


class Source(Protocol):
    """Rows with at least the columns `decode.BRONZE_COLUMNS`, and `ingest_date`."""

    @property
    def mark(self) -> Mapping[str, Any]:
        """What of the source a round over all of it has read."""

    @property
    def expired(self) -> int:
        """How many of its files have expired."""

    def follows(self, mark: Any) -> bool:
        """Whether the source still begins with what a round with this mark has read."""

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        """Records from these offsets on; all of a partition that they do not name. Call `follows` first."""

    def worked(self, offsets: Mapping[str, int], work: Work, schema: pa.Schema) -> DataFrame:
        """What `work` makes in workers of batches (`decode.BRONZE_COLUMNS`) of the records of `after`."""

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        """Records below these offsets: those with these identities, and perhaps others."""

    def at(self, places: DataFrame) -> DataFrame:
        """The records at these places, wherever they are."""


class BronzeSource:
    """Bronze in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._log = read_log(bronze.BronzeFolders(folder).data)
        self._fresh: Sequence[Entry] | None = None
        """Files that came since the round that this one goes on from; None: it goes on from none."""

    @property
    def mark(self) -> Mapping[str, Any]:
        return asdict(self._log.end)

    @property
    def expired(self) -> int:
        return self._log.expired

    def follows(self, mark: Any) -> bool:
        self._fresh = None
        if not isinstance(mark, Mapping) or not isinstance(mark.get("files"), int):
            return False
        self._fresh = self._log.since(Mark(files=mark["files"], sha256=str(mark.get("sha256"))))
        return self._fresh is not None

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        if not offsets:
            return bronze.read(self._spark, self._folder)
        if self._fresh is None:
            return bronze.read(self._spark, self._folder).where(~below(offsets))
        return bronze.read_files(self._spark, self._fresh).where(~below(offsets))

    def worked(self, offsets: Mapping[str, int], work: Work, schema: pa.Schema) -> DataFrame:
        """A task has files that follow each other, so that most of its records do. Spark would give it files by size,
        and read them for the worker, which does it in half the time.
        """
        named = self._fresh if offsets and self._fresh is not None else self._log.files
        files = [entry for entry in named if entry.added]
        if not files:
            return nothing(self._spark, from_arrow_schema(schema))
        tasks = tasks_of(files, self._spark.sparkContext.defaultParallelism)
        begins = {int(name): end for name, end in offsets.items()}

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in numbers:
                for one in number.column(0).to_pylist():
                    yield from work(batches_of(tasks[one], begins))

        of_tasks = self._spark.range(0, len(tasks), 1, len(tasks))
        return of_tasks.mapInArrow(read, from_arrow_schema(schema))

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        boots, sequences = {boot for _, boot, _ in wanted}, {sequence for _, _, sequence in wanted}
        named = F.col("boot_id").isin(sorted(boots)) & F.col("sequence").isin(sorted(sequences))
        return bronze.read(self._spark, self._folder).where(named & below(offsets))

    def at(self, places: DataFrame) -> DataFrame:
        return bronze.read(self._spark, self._folder).join(places.distinct(), _POSITION, "left_semi")


class GivenSource:
    """Rows that stand for bronze."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    @property
    def mark(self) -> Mapping[str, Any]:
        return {}

    @property
    def expired(self) -> int:
        return 0

    def follows(self, mark: Any) -> bool:
        return isinstance(mark, Mapping) and not mark

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        return self._rows.where(~below(offsets)) if offsets else self._rows

    def worked(self, offsets: Mapping[str, int], work: Work, schema: pa.Schema) -> DataFrame:
        rows = self.after(offsets).select(*BRONZE_COLUMNS)
        return rows.mapInArrow(work, from_arrow_schema(schema))

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        return self._rows.where(below(offsets))

    def at(self, places: DataFrame) -> DataFrame:
        return self._rows.join(places.distinct(), _POSITION, "left_semi")


def tasks_of(files: Sequence[Entry], parallelism: int) -> list[list[str]]:
    """The paths of these files in their order, by task: as much to each as Spark would give it."""
    costs = [entry.size + _OPENING_BYTES for entry in files]
    most = min(_TASK_BYTES, max(_OPENING_BYTES, sum(costs) // parallelism))
    tasks: list[list[str]] = [[] for _ in range(-(-sum(costs) // most))]
    for entry, cost, end in zip(files, costs, accumulate(costs), strict=True):
        tasks[(end - cost // 2 - 1) // most].append(entry.path)
    return [paths for paths in tasks if paths]


def batches_of(paths: Sequence[str], begins: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
    """The records of these files, without those below where their partition of `__usage` begins (0 unless named)."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS_A_BATCH, columns=list(BRONZE_COLUMNS)):
                for partition, begin in begins.items():
                    here = pc.equal(batch.column("src_partition"), partition)
                    below = pc.and_(here, pc.less(batch.column("src_offset"), begin))
                    if pc.any(below).as_py():
                        batch = batch.filter(pc.invert(below))
                yield batch


def below(offsets: Mapping[str, int]) -> Column:
    """Whether a record stands before these offsets."""
    found = F.lit(False)
    for name, end in offsets.items():
        found = found | ((F.col("src_partition") == int(name)) & (F.col("src_offset") < end))
    return found
