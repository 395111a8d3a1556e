"""How files of bronze are given to tasks, and which of their records a worker reads."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_usage import bronze, records_read
from spark_usage.compaction import compact
from spark_usage.decode import BRONZE_COLUMNS
from spark_usage.sink_log import Entry, Mark, read_log
from tests.spark_usage.sink import day_of
from tests.spark_usage.test_compaction import Stream

MB = 2**20


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([1_000], 1),
        ([1_000] * 3, 2),
        ([1_000] * 484, 16),
        ([1_000 * MB] * 3, 3),
        ([1, 500 * MB, 1, 1, 500 * MB], 5),
    ],
)
def test_tasks_have_files_that_follow_each_other_and_each_file_is_in_one(
    sizes: list[int], tasks: int
) -> None:
    files = [
        Entry(path=f"{at:03}", size=size, added=True, written_ms=0, line=b"") for at, size in enumerate(sizes)
    ]
    found = records_read.tasks_of(files, 2)
    assert [path for paths in found for path in paths] == [entry.path for entry in files]
    assert len(found) == tasks and all(found)


def test_a_worker_reads_from_where_each_partition_begins(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"src_partition": partition, "src_offset": offset, "record": None if offset == 4 else b"%d" % offset}
        for partition in (0, 1, 2)
        for offset in range(6)
    ]
    paths = []
    for at in range(0, len(rows), 7):
        paths.append(str(tmp_path / f"{at}.parquet"))
        pq.write_table(pa.Table.from_pylist(rows[at : at + 7], bronze.SCHEMA), paths[-1])
    wanted = [row for row in rows if row["src_offset"] >= {0: 3, 2: 6}.get(row["src_partition"], 0)]
    found = [row for batch in records_read.batches_of(paths, {0: 3, 2: 6}) for row in batch.to_pylist()]
    assert [{name: row[name] for name in rows[0]} for row in found] == wanted


class Workers:
    """Stand for Spark's: each task has a number."""

    defaultParallelism = 2

    def __init__(self) -> None:
        self.tasks = 0

    @property
    def sparkContext(self) -> "Workers":
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> "Workers":
        assert partitions == end
        self.tasks = end
        return self

    def mapInArrow(self, work: Any, schema: Any) -> list[pa.RecordBatch]:
        numbers = [pa.RecordBatch.from_pylist([{"id": number}]) for number in range(self.tasks)]
        return [batch for number in numbers for batch in work(iter([number]))]


def test_a_round_reads_what_is_new_wherever_compaction_has_put_the_rest(tmp_path: Path) -> None:
    stream = Stream(tmp_path / bronze.NAME)
    stream.grow(2, batches=5)
    mark = read_log(stream.data).end
    read = {str(partition): 30 for partition in (0, 1)}  # partition 2 is not named: all of it is read
    stream.grow(2, batches=5, first=2)
    new = [row[:2] for row in stream.rows[90:]]
    of_partition_2 = [row[:2] for row in stream.rows[:90] if row[0] == 2]

    def worked(follows: Mark | None, offsets: dict[str, int]) -> list[tuple[int, int]]:
        source = records_read.BronzeSource(Workers(), tmp_path)  # type: ignore[arg-type]
        assert source.follows(None if follows is None else asdict(follows)) == (follows is not None)
        schema = pa.schema([bronze.SCHEMA.field(name) for name in BRONZE_COLUMNS])
        batches: Any = source.worked(offsets, lambda batches: batches, schema)
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert all(row["record"].endswith(b" %d" % row["src_offset"]) for row in rows)
        return sorted((row["src_partition"], row["src_offset"]) for row in rows)

    for again in (False, True):
        if again:
            done = compact(stream.data, read_log(stream.data).end, day_of(10))
            assert done.merged and read_log(stream.data).mark.files == 20
            assert not records_read.BronzeSource(Workers(), tmp_path).follows(asdict(mark))  # type: ignore[arg-type]
            mark = read_log(stream.data).end
        assert worked(None, {}) == sorted(row[:2] for row in stream.rows)
        assert worked(mark, {}) == worked(None, {}), "nothing was read before"
        assert worked(None, read) == sorted(new + of_partition_2)
    for _ in range(3):
        stream.batch(4)
    newest = sorted(row[:2] for row in stream.rows[180:])
    assert worked(mark, {str(partition): 60 for partition in (0, 1, 2)}) == newest
    assert worked(mark, {"0": 61, "1": 60, "2": 60}) == newest[1:]
