"""How files of bronze are given to tasks, and which of their records a worker reads."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_usage import bronze, records_read
from spark_usage.sink_log import Entry

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
