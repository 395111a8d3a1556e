"""Views of logs with many generations, point by point against the rules in plain Python; what plans of a round cost."""

import re
from collections import defaultdict
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from data_plane.contract import usage_pb2 as pb
from spark_usage import readings
from spark_usage.decode import decode
from tests.conftest import FULL
from tests.spark_usage.records import MINUTE, Writer, bronze_frame, in_order, reading, topic_id

pytestmark = [pytest.mark.slow]

Log = tuple[str, int]
Where = tuple[int, int]
"""(log generation, end offset)."""
PARTITIONS = 200 if FULL else 60


def points_of(spark: SparkSession, told: list[pb.Reading]) -> DataFrame:
    record = Writer().record(*told)
    return readings.points_of(decode(bronze_frame(spark, in_order(record))).where("kind = 'reading'"))


def random_readings(random: Random, partition: int) -> list[pb.Reading]:
    """Up to twelve generations that begin anywhere, some without a start, in offsets so few that many are equal."""
    told: list[pb.Reading] = []
    generations = sorted(random.sample(range(20), random.randrange(1, 13)))
    for generation in generations:
        begins = random.randrange(30)
        told_start = generation > generations[0] and random.random() < 0.8
        for number in range(random.randrange(1, 9)):
            start = told_start and number == 0
            end = begins if start else random.randrange(begins if random.random() < 0.8 else 0, 40)
            lies = random.choice((-3, -1, 1)) if random.random() < 0.1 else 0
            messages = max(0, end - end // 5 + lies)
            known = random.sample(range(1, 5), random.randrange(4))
            told.append(
                reading(
                    end, end // 4 * MINUTE + end, min(messages, end), end * 10 + lies if end else 0,
                    [(who, random.randrange(end // 3 + 1), random.randrange(end * 3 + 1)) for who in known],
                    partition=partition, generation=generation,
                    kind=pb.GENERATION_START if start else pb.PERIODIC,
                )
            )  # fmt: skip
            if random.random() < 0.3:
                told.append(told[-1])
    return told


def seen_in_plain_python(points: list[Row]) -> dict[Any, tuple[bool, bool, bool]]:
    """(topic id, partition, view, where_of) -> (void, below, current), each point compared with each other one."""
    logs: dict[Log, list[Row]] = defaultdict(list)
    for point in points:
        logs[point.topic_id, point.partition].append(point)
    seen: dict[Any, tuple[bool, bool, bool]] = {}
    for log, mine in logs.items():
        generations = sorted({point.log_generation for point in mine})
        for view in generations:
            there = [point for point in mine if point.log_generation <= view]
            begun = [(point.log_generation, point.end_offset) for point in there if point.is_start]
            void = {
                where_of(point): any(
                    generation > point.log_generation and point.end_offset > start
                    for generation, start in begun
                )
                for point in there
            }
            valid = [point for point in there if not void[where_of(point)]]
            for point in there:
                below = not void[where_of(point)] and any(
                    other.end_offset > point.end_offset
                    or any(old > new for old, new in zip(other.totals, point.totals, strict=True))
                    for other in valid
                    if where_of(other) < where_of(point)
                )
                seen[*log, view, where_of(point)] = (void[where_of(point)], below, view == generations[-1])
    return seen


def where_of(point: Row) -> Where:
    return point.log_generation, point.end_offset


def seen_by_spark(points: DataFrame) -> dict[Any, tuple[bool, bool, bool]]:
    return {
        (row.topic_id, row.partition, row.view, where_of(row)): (row.void, row.below, row.current)
        for row in readings.viewed(points).collect()
    }


@pytest.mark.parametrize("seed", range(5 if FULL else 1))
def test_views_of_many_generations_are_those_of_the_rules_point_by_point(
    spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    told = [one for partition in range(PARTITIONS) for one in random_readings(random, partition)]
    points = points_of(spark, told).localCheckpoint()
    rows = points.collect()
    wanted, found = seen_in_plain_python(rows), seen_by_spark(points)
    assert found == wanted

    # the random logs hold what the rules are about
    places = {(row.topic_id, row.partition, where_of(row)): row for row in rows}
    own = [key for key in wanted if key[2] == key[3][0]]
    assert len({(key[1], key[2]) for key in own}) > 4 * PARTITIONS
    assert not any(wanted[key][0] for key in own), "no point is void in the view of its own generation"
    assert sum(void for void, _, _ in wanted.values()) > 100
    assert sum(below for _, below, _ in wanted.values()) > 100
    at_a_start = [
        (topic, partition, (generation, row.end_offset))
        for (topic, partition, _), row in places.items()
        if row.is_start
        for generation in range(row.log_generation)
        if (topic, partition, (generation, row.end_offset)) in places
    ]
    assert len(at_a_start) > 50


def test_a_point_where_a_later_generation_begins_stays_and_one_above_is_void(spark: SparkSession) -> None:
    told = [
        reading(10, 1, 10, 100, generation=1),
        reading(11, 2, 11, 110, generation=1),
        reading(10, 1, 10, 100, generation=2, kind=pb.GENERATION_START),
        reading(20, 3, 20, 200, generation=2),
        reading(30, 4, 30, 300, generation=2),
        # the next one but one: what it makes void is of both
        reading(20, 3, 20, 200, generation=4, kind=pb.GENERATION_START),
        reading(25, 5, 25, 250, generation=4),
        reading(25, 5, 25, 250, generation=4),
    ]
    seen = seen_by_spark(points_of(spark, told))
    void = defaultdict(set)
    for (_, _, view, where), (is_void, below, current) in seen.items():
        assert not below and current == (view == 4)
        if is_void:
            void[view].add(where)
    assert void == {2: {(1, 11)}, 4: {(1, 11), (2, 30)}}
    assert {where for _, _, view, where in seen if view == 4} == {
        (1, 10), (1, 11), (2, 10), (2, 20), (2, 30), (4, 20), (4, 25),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5 if FULL else 1))
def test_intervals_tell_principals_less_those_told_before_in_their_minute(
    spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    told = [one for partition in range(PARTITIONS) for one in random_readings(random, partition)]
    points = points_of(spark, told).localCheckpoint()
    rows = {(row.topic_id, row.partition, where_of(row)): row for row in points.collect()}
    chains: dict[Any, list[Row]] = defaultdict(list)
    for (topic, partition, view, where), (void, below, _) in seen_by_spark(points).items():
        if not void and not below:
            chains[topic, partition, view].append(rows[topic, partition, where])
    wanted = {}
    for chain, good in chains.items():
        good.sort(key=where_of)
        for before, point in pairwise([None, *good]):
            assert point is not None
            wanted[*chain, where_of(point)] = interval(before, point)
    found = {
        (row.topic_id, row.partition, row.view, where_of(row)): (
            row.first_offset, row.messages, row.bytes, {tuple(share) for share in row.shares if any(share[1:])},
        )
        for row in readings.intervals_of(readings.viewed(points)).collect()
    }  # fmt: skip
    assert found == wanted
    assert sum(len(shares) > 1 for *_, shares in wanted.values()) > 100


def interval(before: Row | None, point: Row) -> tuple[int, int, int, set[tuple[int, int, int]]]:
    """(first offset, messages, bytes, what is not zero by principal) of the interval between two good points."""
    totals = before.totals if before else [0, 0]
    messages, size = point.totals[0] - totals[0], point.totals[1] - totals[1]
    same_minute = before is not None and before.accepted_ms // MINUTE == point.accepted_ms // MINUTE
    old = {row.principal: row for row in before.principal_rows} if before and same_minute else {}
    shares = [
        (
            row.principal,
            row.messages - (old[row.principal].messages if row.principal in old else 0),
            row.bytes - (old[row.principal].bytes if row.principal in old else 0),
        )
        for row in point.principal_rows
    ]
    counted, weighed = sum(share[1] for share in shares), sum(share[2] for share in shares)
    if any(min(share[1:]) < 0 for share in shares) or counted > messages or weighed > size:
        shares, counted, weighed = [], 0, 0
    shares.append((0, messages - counted, size - weighed))
    return before.end_offset if before else 0, messages, size, {share for share in shares if any(share[1:])}


def test_five_hundred_principals_of_one_minute_each_get_their_own(spark: SparkSession) -> None:
    told = [
        reading(
            count * 500, count, count * 500, count * 500_000,
            [(who, count, count * who) for who in random.sample(range(1, 501), 500)],
        )
        for random in (Random(1),)
        for count in (1, 2)
    ]  # fmt: skip
    first, second = sorted(
        readings.intervals_of(readings.viewed(points_of(spark, told))).collect(), key=where_of
    )
    rest = 500_000 - sum(range(1, 501))
    for one in (first, second):
        assert one.topic_id == topic_id("tn_aorders").hex()
        assert {tuple(share) for share in one.shares} == {(who, 1, who) for who in range(1, 501)} | {
            (0, 0, rest)
        }


class Plans:
    """What Spark executed since this was made, as text."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._before = self._newest()

    def texts(self) -> list[str]:
        return [
            one.physicalPlanDescription() for one in self._executions() if one.executionId() > self._before
        ]

    def _newest(self) -> int:
        return max((one.executionId() for one in self._executions()), default=-1)

    def _executions(self) -> list[Any]:
        self._spark._jsc.sc().listenerBus().waitUntilEmpty()
        found = self._spark._jsparkSession.sharedState().statusStore().executionsList()
        return [found.apply(number) for number in range(found.size())]


FRAME = re.compile(r"specifiedwindowframe\((\w+), (.+?), (unboundedfollowing\$\(\)|currentrow\$\(\)|-?\d+)\)")


def dear_frames(plans: list[str]) -> set[str]:
    """Frames that Spark goes through again at each row: all but those that only grow, and those of one row."""
    found = [match for plan in plans for match in FRAME.findall(plan)]
    assert len(found) == sum(plan.count("specifiedwindowframe(") for plan in plans)
    return {
        f"{kind} from {lower} to {upper}"
        for kind, lower, upper in found
        if lower != "unboundedpreceding$()" and not (kind == "RowFrame" and lower == upper)
    }


def test_rows_of_principals_are_sorted_once_a_reading(spark: SparkSession) -> None:
    plans = Plans(spark)
    readings.intervals_of(readings.viewed(points_of(spark, [reading(1, 1, 1, 10, [(7, 1, 10)])]))).collect()
    (plan,) = [text for text in plans.texts() if "sort_array" in text]
    # put into the expression that looks at each row, the sort would be made again at each row
    assert plan.count("sort_array(") == 1
