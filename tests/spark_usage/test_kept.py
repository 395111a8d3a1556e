"""What leaderships kept, over hours and days: Spark and a fold in plain Python agree, however readings arrive."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from data_plane.contract import usage_pb2 as pb
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.records import DAY, Stored, Writer, in_order, reading

MIDNIGHT = 2 * DAY // 60_000
METERS = ("retained_byte_minutes", "replicated_byte_minutes", "partition_minutes")
Told = tuple[str, int, int, tuple[int, int, int, int]]
"""Tenant, broker, leader epoch, and what was kept."""


OF_MIDNIGHT = ("tn_a", "tn_b")
"""Tenants of the idle hour; all others have leaderships by chance."""


def by_hour(pipeline: Pipeline) -> dict[Any, int]:
    return {
        (tenant, int(hour.timestamp()) // 3600, meter): int(quantity)
        for tenant, hour, meter, quantity in pipeline.rows(
            "usage_hour", "tenant", "hour", "meter", "quantity"
        )
        if meter in METERS and tenant not in OF_MIDNIGHT
    }


def folded(told: Iterable[Told]) -> dict[Any, int]:
    """The fold once more, minute by minute's bounds, in plain Python."""
    leaderships: dict[Any, dict[int, tuple[int, int]]] = defaultdict(dict)
    for tenant, broker, epoch, (since, until, size, copies) in told:
        leaderships[tenant, epoch, since, broker][until] = (size, copies)
    found: dict[Any, int] = defaultdict(int)
    for (tenant, epoch, since, broker), totals in leaderships.items():
        ends = min(
            (s for t, e, s, b in leaderships if t == tenant and (e, s, -b) > (epoch, since, -broker)),
            default=10**9,
        )
        first, before = since, (0, 0)
        for until, now in sorted(totals.items()):
            for hour in range(first // 60, -(-until // 60)):
                low, high = max(first, hour * 60), min(until, hour * 60 + 60, ends)
                if low >= high:
                    continue
                for meter, gained in zip(METERS, (now[0] - before[0], now[1] - before[1]), strict=False):
                    whole = until - first
                    part = gained * (high - first) // whole - gained * (low - first) // whole
                    found[tenant, hour, meter] += part
                found[tenant, hour, "partition_minutes"] += high - low
            first, before = until, now
    return {key: value for key, value in found.items() if value}


def leaderships_of(random: Random, tenant: str) -> list[Told]:
    """Some leaderships of a partition, one after the other, some that end after the next one began."""
    told: list[Told] = []
    at = MIDNIGHT - random.randrange(200)
    for epoch in range(1, 4):
        broker = random.randrange(1, 4)
        since, size, copies = max(1, at - random.choice((0, 0, 3))), 0, 0
        until = since
        for _ in range(random.randrange(1, 6)):
            passed, held = random.choice((0, 1, 1, 59, 150)), random.randrange(10**15)
            until, size, copies = until + passed, size + passed * held, copies + passed * held * 3
            told.append((tenant, broker, epoch, (since, until, size, copies)))
        at = until
    return told


def records(told: Iterable[Told]) -> list[bytes]:
    """Each in a record of its own."""
    writers = {broker: Writer(broker, f"kept-{broker}") for broker in range(1, 4)}
    return [
        writers[broker].record(reading(0, -1, 0, 0, tenant=tenant, epoch=epoch, kept=kept))
        for tenant, broker, epoch, kept in told
    ]


def stored(random: Random, told: Iterable[Told]) -> list[Stored]:
    """Some twice, in any order."""
    values = records(told)
    values += random.sample(values, len(values) // 3)
    random.shuffle(values)
    return [Stored(offset=at, value=value) for at, value in enumerate(values)]


def over_midnight() -> list[bytes]:
    writer = Writer()
    kept = (MIDNIGHT - 20, MIDNIGHT + 40, 60 * 700, 60 * 2_100)
    return [
        writer.record(reading(0, -1, 0, 0)),  # of a broker that does not count what is kept
        writer.record(reading(0, -1, 0, 0, kept=(MIDNIGHT - 20, MIDNIGHT - 20, 0, 0))),
        writer.record(reading(0, -1, 0, 0, kept=kept), requests=[_requests(MIDNIGHT, 5, 2)]),
        writer.record(reading(0, -1, 0, 0, kept=kept), requests=[_requests(MIDNIGHT, 1, 1)]),
        # A broken broker's, which says that it kept something in no time and goes on from there: its round ends.
        writer.record(
            reading(0, -1, 0, 0, tenant="tn_b", topic="broken", kept=(MIDNIGHT, MIDNIGHT, 500, 900))
        ),
        writer.record(
            reading(0, -1, 0, 0, tenant="tn_b", topic="broken", kept=(MIDNIGHT, MIDNIGHT + 9, 800, 1_800))
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedKept:
    """Both stories, in a round."""

    pipeline: Pipeline
    told: Sequence[Told]
    left: Sequence[Told]
    """What was not lost of it."""


@pytest.fixture(scope="module")
def folded_kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FoldedKept:
    random = Random(20261128)
    whole = [leaderships_of(random, f"tn_{number:02}") for number in range(60)]
    told = [one for log in whole for one in log]
    # All but the last reading of each leadership may be lost.
    ends = {(t, b, e, k[0]): k for t, b, e, k in told}
    left = [one for one in told if one[3] == ends[one[0], one[1], one[2], one[3][0]] or random.random() < 0.5]
    pipeline = Pipeline(spark, tmp_path_factory.mktemp("kept"))
    done = pipeline.fold([*stored(random, left), *in_order(*over_midnight(), partition=1)])
    assert done.rejected == 0
    return FoldedKept(pipeline=pipeline, told=told, left=left)


def test_spark_and_plain_python_agree_and_lost_readings_change_no_total(folded_kept: FoldedKept) -> None:
    told, left = folded_kept.told, folded_kept.left
    all_there, some_lost = folded(told), by_hour(folded_kept.pipeline)
    assert some_lost == folded(left) and len(left) < len(told)
    assert max(value for (_, _, meter), value in some_lost.items() if meter == "partition_minutes") <= 60
    for tenant in {one[0] for one in told}:
        if any(a[3][1] > b[3][0] for a in told for b in told if a[0] == b[0] == tenant and a[2] < b[2]):
            continue  # where one was cut short it matters how far its readings lie apart
        for meter in METERS:
            sums = [
                sum(value for (who, _, name), value in found.items() if (who, name) == (tenant, meter))
                for found in (all_there, some_lost)
            ]
            assert sums[0] == sums[1], (tenant, meter)


def test_an_idle_hour_over_midnight_belongs_to_both_days_and_requests_to_no_topic(
    folded_kept: FoldedKept,
) -> None:
    days = [
        (topic, (day - day.fromordinal(719_163)).days * 1_440 - MIDNIGHT, meter, int(quantity))
        for tenant, topic, day, meter, quantity in folded_kept.pipeline.rows(
            "usage_day", "tenant", "topic", "day", "meter", "quantity"
        )
        if tenant in OF_MIDNIGHT
    ]
    assert sorted(days) == [
        ("", 0, "requests", 3),
        ("broken", 0, "partition_minutes", 9),
        ("broken", 0, "replicated_byte_minutes", 900),
        ("broken", 0, "retained_byte_minutes", 300),
        ("orders", -1_440, "partition_minutes", 20),
        ("orders", -1_440, "replicated_byte_minutes", 42_000),
        ("orders", -1_440, "retained_byte_minutes", 14_000),
        ("orders", 0, "partition_minutes", 40),
        ("orders", 0, "replicated_byte_minutes", 84_000),
        ("orders", 0, "retained_byte_minutes", 28_000),
    ]


def _requests(minute: int, valid: int, bad: int) -> pb.Requests:
    return pb.Requests(tenant="tn_a", operation="fetch", minute=minute, valid=valid, bad=bad)
