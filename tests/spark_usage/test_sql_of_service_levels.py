"""The documentation's SQL over service levels says what the rules say."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from penstock.rules.latency_buckets import bucket_of, percentile_us
from penstock.rules.service_levels import WHOLE, WINDOW_S, Counts, latency_month

QUERIES = re.findall(
    r"```sql\n(SELECT.*?)```", (Path(__file__).parents[2] / "docs/data-sets.md").read_text("utf-8"), re.DOTALL
)
DAY = date(2026, 11, 20)


def test_shares_and_percentiles_are_those_of_reports() -> None:
    _, shares, percentiles, _ = QUERIES
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


def test_windows_in_time_are_those_of_a_latency_objective() -> None:
    at = datetime(2026, 11, 20, 23, tzinfo=UTC)
    numbers = [(1_000, 0, 10), (1_000, 0, 11), (210, 10, 2), (210, 10, 3), (99, 0, 99), (500, 0, 0)]
    windows = [at + timedelta(minutes=5 * number) for number in range(len(numbers))]
    asked = [
        {"tenant": "tn_a", "operation": operation, "window": window, "valid": valid, "bad": bad}
        for operation in ("produce", "fetch")
        for window, (valid, bad, _) in zip(windows, numbers, strict=True)
    ]
    slow = [
        {"tenant": "tn_a", "operation": "produce", "window": window, "over_ms": over_ms, "slow": count}
        for window, (_, _, count) in zip(windows, numbers, strict=True)
        for over_ms in (100, 250)
        if count
    ]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("sla_5m", pa.Table.from_pylist(asked))
        connection.register("sla_slow_5m", pa.Table.from_pylist(slow))
        ((tenant, _, percent),) = connection.execute(QUERIES[3]).fetchall()
    seconds = [int(window.timestamp()) for window in windows]
    found = latency_month(
        (seconds[0], seconds[-1] + WINDOW_S),
        {at_s: Counts(valid=valid, bad=bad) for at_s, (valid, bad, _) in zip(seconds, numbers, strict=True)},
        {at_s: count for at_s, (_, _, count) in zip(seconds, numbers, strict=True)},
        [],
    )
    assert tenant == "tn_a" and found.parts is not None and found.judged == 5
    late = (
        len(numbers) * (WHOLE - found.parts) / WHOLE
    )  # the report counts the window with few requests as in time
    assert percent == pytest.approx(100 * (found.judged - late) / found.judged, rel=1e-5) == pytest.approx(60)


def test_time_without_a_leader_is_by_partition() -> None:
    hour = datetime(2026, 11, 20, 23, tzinfo=UTC)
    rows = [
        {"tenant": "tn_a", "topic": "orders", "partition": partition, "hour": hour, "meter": meter, "quantity": count}
        for partition, meter, count in (
            (0, "leaderless_ms", 2_000), (1, "leaderless_ms", 5_000), (0, "leaderless_ms", 1_000), (0, "bytes_in", 9),
        )
    ]  # fmt: skip
    with duckdb.connect() as connection:
        connection.register("usage_hour", pa.Table.from_pylist(rows))
        found = connection.execute(QUERIES[0]).fetchall()
    assert found == [("tn_a", "orders", 1, 5), ("tn_a", "orders", 0, 3)]
