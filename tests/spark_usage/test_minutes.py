"""A worker's rows of `usage_minute` are the sums of what runs gained and of the day's other rows, in their order."""

from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_usage import minutes, runs
from spark_usage.datasets import USAGE_MINUTE

LOGS = [(f"tn_{tenant}", f"{topic:02x}", f"orders-{topic}", partition) for tenant, topic, partition in (
    (10, 1, 0), (10, 1, 1), (9, 2, 0), (9, 3, 0),
)]  # fmt: skip


def file_of(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


def test_minutes_of_runs_and_other_rows_are_summed_in_the_order_of_their_key(tmp_path: Path) -> None:
    random = Random(17)
    names = ("tenant", "topic_id", "topic")
    staged: list[Path] = []
    others: list[Path] = []
    wanted: Counter[Any] = Counter()
    broken = LOGS[2]
    for number in range(3):
        told = [
            (log, random.randrange(28_000_000, 28_000_004), random.choice((0, 7, 2**62))) for log in LOGS * 3
        ]
        rows = [
            {
                **dict(zip((*names, "partition"), log, strict=True)),
                "minute": at,
                "messages": some,
                "bytes": some // 2,
            }
            for log, at, some in told
        ]
        staged.append(file_of(tmp_path / f"staged-{number}", rows, runs.STAGED[runs.STAGED_MINUTES]))
        for log, at, some in told:
            if log != broken:
                wanted[*log[:3], at, "messages_in"] += some
                wanted[*log[:3], at, "bytes_in"] += some // 2
        more = [
            (
                *random.choice(LOGS)[:3],
                random.randrange(28_000_000, 28_000_004),
                meter,
                random.choice((5, 10**30)),
            )
            for meter in ("bytes_out", "messages_in", "a_meter")
        ]
        schema = pa.schema([(name, minutes.ROWS.field(name).type) for name in USAGE_MINUTE.names])
        rows = [dict(zip(USAGE_MINUTE.names, (*row[:5], Decimal(row[5])), strict=True)) for row in more]
        others.append(file_of(tmp_path / f"others-{number}", rows, schema))
        for *key, quantity in more:
            wanted[*key] += quantity
    taken = next(key for key, quantity in wanted.items() if quantity)
    rows = [dict(zip(USAGE_MINUTE.names, (*taken, Decimal(-wanted.pop(taken))), strict=True))]
    others.append(file_of(tmp_path / "taken back", rows, minutes.ROWS))
    without = pa.table({"topic_id": [broken[1]], "partition": pa.array([broken[3]], pa.int32())})

    found = minutes.rows_of(staged, others, without)
    summed = [tuple(row.values()) for row in found.to_pylist()]
    assert summed == sorted((*key, Decimal(quantity)) for key, quantity in wanted.items() if quantity)
    assert minutes.rows_of([], [], None).num_rows == 0
