"""The documentation's SQL over service levels says what the rules say."""

import re
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from penstock.rules.latency_buckets import bucket_of, percentile_us

QUERIES = re.findall(
    r"```sql\n(SELECT.*?)```", (Path(__file__).parents[2] / "docs/data-sets.md").read_text("utf-8"), re.DOTALL
)
DAY = date(2026, 11, 20)


def test_shares_and_percentiles_are_those_of_reports() -> None:
    shares, percentiles = QUERIES
    at = datetime(2026, 11, 20, 23, tzinfo=UTC)
    windows = [
        {
            "tenant": "tn_a",
            "operation": "fetch",
            "window": at.replace(minute=minute),
            "valid": valid,
            "bad": bad,
        }
        for minute, valid, bad in ((0, 100, 100), (5, 1_000, 0), (10, 40, 10), (15, 19, 19))
    ]
    histogram = {bucket_of(2.0): 900, bucket_of(80.0): 89, bucket_of(700.0): 2, bucket_of(900.0): 9}
    latencies = [
        {"tenant": "tn_a", "operation": "produce", "day": DAY, "bucket": bucket, "requests": count}
        for bucket, count in histogram.items()
    ]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("sla_5m", pa.Table.from_pylist(windows))
        connection.register("latency_day", pa.Table.from_pylist(latencies))
        ((*named, share),) = connection.execute(shares).fetchall()
        ((*of, p99_ms),) = connection.execute(percentiles).fetchall()
    assert named[:2] == ["tn_a", "fetch"] and share == pytest.approx(100 * (0 + 1 + 0.75) / 3)
    wanted = percentile_us(histogram, 990)
    assert of == ["tn_a", "produce", DAY] and wanted is not None
    assert p99_ms * 1_000 == pytest.approx(wanted, rel=0.011)
