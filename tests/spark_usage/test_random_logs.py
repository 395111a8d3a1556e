"""Spark, DuckDB and a fold in plain Python agree to the unit on random logs, however their readings arrive."""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from data_plane.contract import usage_pb2 as pb
from tests.conftest import FULL
from tests.spark_usage import oracle
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.random_logs import Log, arrivals, random_log
from tests.spark_usage.records import topic_id

pytestmark = [pytest.mark.slow, pytest.mark.drawn(shares=3, family="histories of usage")]

TENANTS = 40
SEEDS = (20261120, 1, 2, 3, 4) if FULL else (20261120,)

DUCKDB_FOLD = """
WITH starts AS (
    SELECT tenant, partition, generation, min(end_offset) AS begins FROM readings WHERE start GROUP BY ALL
), told AS (
    SELECT tenant, partition, generation, end_offset, minute, messages, bytes FROM readings
    UNION
    SELECT tenant, partition, coalesce((SELECT max(s.generation) FROM starts AS s
        WHERE s.tenant = r.tenant AND s.partition = r.partition AND s.generation < r.generation
        AND s.begins <= r.end_offset), (SELECT least(min(f.generation), r.generation - 1) FROM readings AS f
        WHERE f.tenant = r.tenant AND f.partition = r.partition)), end_offset, minute, messages, bytes
    FROM readings AS r WHERE start
), valid AS (
    SELECT * FROM told AS t WHERE NOT EXISTS (
        SELECT 1 FROM starts AS s WHERE s.tenant = t.tenant AND s.partition = t.partition
        AND s.generation > t.generation AND t.end_offset > s.begins)
), gained AS (
    SELECT tenant, partition, generation, minute,
        messages - coalesce(lag(messages) OVER log, 0) AS messages, bytes - coalesce(lag(bytes) OVER log, 0) AS bytes
    FROM valid WINDOW log AS (PARTITION BY tenant, partition ORDER BY generation, end_offset)
)
SELECT tenant, partition, generation, minute // 60 AS hour, sum(messages), sum(bytes) FROM gained
GROUP BY ALL HAVING sum(messages) != 0 OR sum(bytes) != 0
"""


@pytest.fixture(scope="module", params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def logs_of(random: Random, kind: str, tenants: int, losses: float, renames: float = 0) -> list[Log]:
    return [
        random_log(random, f"tn_{kind}_{number:03}", partition, losses=losses, renames=renames)
        for number in range(tenants)
        for partition in range(random.randrange(1, 3))
    ]


def test_three_folds_agree_and_no_disorder_changes_a_total(seed: int, pipeline: Pipeline) -> None:
    """One round over tenants with few losses, some with many, and some whose topics get other names."""
    random = Random(seed)
    logs = [
        *logs_of(random, "few", TENANTS, 0.02),
        *logs_of(random, "many", TENANTS // 4, 0.4),
        *logs_of(random, "renamed", TENANTS // 4, 0, renames=0.1),
    ]
    stored, there = arrivals(random, logs)
    done = pipeline.fold(stored)
    assert done.rejected == 0 and done.missing == ""

    found: dict[Any, int] = defaultdict(int)
    for tenant, partition, generation, hour, principal, meter, quantity in pipeline.rows(
        "usage_hour", "tenant", "partition", "log_generation", "hour", "principal", "meter", "quantity"
    ):
        found[tenant, partition, generation, int(hour.timestamp()) // 3600, principal, meter] += int(quantity)

    # the fold in plain Python, with principals
    wanted: dict[Any, int] = defaultdict(int)
    names = {topic_id(log.tenant + "orders"): log.tenant for log in logs}
    for (topic, partition, generation, minute, principal), (messages, size) in oracle.fold(there).items():
        key = (names[topic], partition, generation, minute // 60, principal)
        wanted[*key, "messages_in"] += messages
        wanted[*key, "bytes_in"] += size
    assert found == {key: value for key, value in wanted.items() if value}

    # DuckDB, without principals
    told = pa.Table.from_pylist(
        [
            {
                "tenant": one.tenant, "partition": one.partition, "generation": one.log_generation,
                "end_offset": one.end_offset, "minute": one.accepted_ms // 60_000, "messages": one.totals[0],
                "bytes": one.totals[1], "start": one.kind == pb.GENERATION_START,
            }
            for one in there
        ]
    )  # fmt: skip
    by_hour: dict[Any, int] = defaultdict(int)
    for (tenant, partition, generation, hour, _, meter), quantity in found.items():
        by_hour[tenant, partition, generation, hour, meter] += quantity
    duck: dict[Any, int] = {}
    for tenant, partition, generation, hour, messages, size in pipeline.sql(DUCKDB_FOLD, readings=told):
        duck[tenant, partition, generation, hour, "messages_in"] = int(messages)
        duck[tenant, partition, generation, hour, "bytes_in"] = int(size)
    assert by_hour == {key: value for key, value in duck.items() if value}

    # what truly was
    for log in logs:
        for meter, true in (("messages_in", log.last.messages), ("bytes_in", log.last.size)):
            mine = [
                v for k, v in found.items() if k[0] == log.tenant and k[1] == log.partition and k[5] == meter
            ]
            assert sum(mine) == true, (log.tenant, log.partition, meter)

    # each cut has the difference of what its reading and the one before it said, declared losses taken back
    cuts: dict[Any, int] = defaultdict(int)
    for tenant, partition, cut, meter, quantity in pipeline.rows(
        "cut_usage", "tenant", "partition", "cut_id", "meter", "quantity"
    ):
        cuts[tenant, partition, cut, meter] += int(quantity)
    for log in logs:
        before = (0, 0)
        for cut, totals in sorted(log.cuts.items()):
            where = (log.tenant, log.partition, cut)
            gained = (cuts[*where, "messages_in"], cuts[*where, "bytes_in"])
            assert gained == (totals[0] - before[0], totals[1] - before[1]), where
            before = totals
    assert {status for (status,) in pipeline.rows("cut_coverage", "status")} == {"covered"}
    assert_ranges_follow_one_another(pipeline)


def assert_ranges_follow_one_another(pipeline: Pipeline) -> None:
    """In each cut, of each meter and partition of a topic with several names: an invoice bills each offset once. What a
    loss took back is counted again, so logs with losses are not looked at.
    """
    ranges: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    names: dict[Any, set[str]] = defaultdict(set)
    for *where, topic, first, end, quantity in pipeline.rows(
        "cut_usage",
        "cut_id",
        "tenant",
        "partition",
        "meter",
        "topic",
        "first_offset",
        "end_offset",
        "quantity",
    ):
        if "renamed" in where[1]:
            assert quantity >= 0
            ranges[tuple(where)].append((first, end))
            names[tuple(where)].add(topic)
    for where, there in ranges.items():
        there.sort()
        assert all(end == first for (_, end), (first, _) in pairwise(there)), where
    assert sum(len(found) > 1 for found in names.values()) > 10, "topics had several names in a period"


def test_the_same_inputs_give_the_same_runs_and_another_order_of_arrival_the_same_usage(
    make_pipeline: Callable[[str], Pipeline],
) -> None:
    random = Random(7)
    logs = [random_log(random, f"tn_{number:03}", 0) for number in range(10)]
    stored, _ = arrivals(Random(1), logs, lost=0)
    pipeline = make_pipeline("first")
    first = pipeline.fold(stored)
    random.shuffle(stored)
    second = pipeline.fold(stored)
    assert first.recomputed and second.recomputed
    assert dict(first.runs) == dict(second.runs)
    third = pipeline.fold(stored, again=False)
    assert not third.recomputed
    assert dict(third.runs) == dict(first.runs)

    elsewhere, _ = arrivals(Random(2), logs, lost=0)
    other = make_pipeline("second").fold(elsewhere).runs
    for dataset in (
        "usage_hour",
        "usage_day",
        "principal_day",
        "usage_minute",
        "cut_usage",
        "cut_coverage",
    ):
        assert first.runs[dataset].digest == other[dataset].digest, dataset
        assert first.runs[dataset].rows > 0, dataset
