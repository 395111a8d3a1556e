"""Days of `usage_minute` in which there are runs, folded by workers: what runs gained is in files, as many rows as
readings, and Spark would sort and sum them up one by one.

A worker reads what was staged of a day and the day's other rows, adds up, and writes the rows in the order of their key
into one file: what `gold.usage_minute` would make of all of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_usage.datasets import USAGE_MINUTE
from spark_usage.frames import is_nothing
from spark_usage.readings import PARTITION

_TOPIC = ("tenant", "topic_id", "topic")
_OF_RUNS = {"bytes": "bytes_in", "messages": "messages_in"}
_QUANTITY = pa.decimal128(38, 0)
ROWS = pa.schema(
    [
        *((name, pa.string()) for name in _TOPIC),
        ("minute", pa.int64()),
        ("meter", pa.string()),
        ("quantity", _QUANTITY),
    ]
)
"""Columns of `usage_minute`."""
_FILE = pa.schema([("window", pa.string()), ("file", pa.string())])
_WINDOW = "_window"


def folded(
    spark: SparkSession,
    folder: Path,
    staged: Mapping[str, Sequence[Path]],
    others: DataFrame,
    broken: DataFrame | None,
) -> dict[str, list[Path]]:
    """Window -> a file with its rows. `folder`: one that all workers see. `staged`: by window, files of the minutes of
    runs, which do not count for logs that are `broken` (`PARTITION`). `others`: further rows of these windows.
    """
    theirs = folder / "others"
    if not is_nothing(others):
        named = others.withColumn(_WINDOW, F.expr(USAGE_MINUTE.window))
        named.repartition(_WINDOW).write.partitionBy(_WINDOW).parquet(str(theirs))
    without: Path | None = None
    if broken is not None:
        without = folder / "broken.parquet"
        pq.write_table(broken.select(*PARTITION).toArrow(), without)
    given = [
        (name, tuple(files), tuple(sorted((theirs / f"{_WINDOW}={name}").glob("*.parquet"))))
        for name, files in sorted(staged.items())
    ]
    of_windows = spark.range(0, len(given), 1, len(given))
    written = of_windows.mapInArrow(_folding(given, folder, without), from_arrow_schema(_FILE))
    found: dict[str, list[Path]] = {}
    for row in written.collect():
        found.setdefault(row["window"], []).append(folder / row["file"])
    return found


def _folding(
    given: Sequence[tuple[str, Sequence[Path], Sequence[Path]]], folder: Path, without: Path | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        broken = None if without is None else pq.read_table(without)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                window, staged, others = given[number]
                file = f"{window}-{uuid4().hex}.parquet"
                # A task that is repeated leaves a file that no row names.
                pq.write_table(rows_of(staged, others, broken), folder / file, compression="zstd")
                yield pa.RecordBatch.from_pylist([{"window": window, "file": file}], schema=_FILE)

    return fold


def rows_of(staged: Sequence[Path], others: Sequence[Path], broken: pa.Table | None) -> pa.Table:
    """The rows of `usage_minute` of these files in the order of their key."""
    parts = []
    for file in staged:
        minutes = pq.read_table(file, partitioning=None)
        if broken is not None:
            minutes = minutes.join(broken, list(PARTITION), join_type="left anti")
        parts += [
            pa.table(
                {
                    **{name: minutes[name] for name in (*_TOPIC, "minute")},
                    "meter": pa.repeat(pa.scalar(meter), minutes.num_rows),
                    "quantity": minutes[name].cast(_QUANTITY),
                },
                schema=ROWS,
            )
            for name, meter in _OF_RUNS.items()
        ]
    parts += [pq.read_table(file, partitioning=None).select(ROWS.names).cast(ROWS) for file in others]
    return _summed(pa.concat_tables(parts) if parts else ROWS.empty_table())


def _summed(rows: pa.Table) -> pa.Table:
    """Numbers for texts, which are in their order, so that sums and order need no texts."""
    names = (*_TOPIC, "meter")
    texts = {name: _in_order(rows[name]) for name in names}
    coded = pa.table(
        {
            **{name: pa.array(numbers) for name, (_, numbers) in texts.items()},
            "minute": rows["minute"],
            "quantity": rows["quantity"],
        }
    )
    key = USAGE_MINUTE.key_names
    sums = coded.group_by(key, use_threads=False).aggregate([("quantity", "sum")])
    sums = sums.filter(pc.not_equal(sums["quantity_sum"], pa.scalar(0, _QUANTITY)))
    sums = sums.sort_by([(name, "ascending") for name in key])
    columns = {name: texts[name][0].take(sums[name]) for name in names}
    columns |= {"minute": sums["minute"], "quantity": sums["quantity_sum"]}
    return pa.table([columns[name] for name in ROWS.names], schema=ROWS)


def _in_order(column: pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """(the different texts in the order of their bytes, which of them each row has)."""
    encoded = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order), np.int32)
    rank[np.asarray(order)] = np.arange(len(order), dtype=np.int32)
    return encoded.dictionary.take(order), rank[np.asarray(encoded.indices)]
