"""One round over many small tenants, each with one thing gone wrong or ended; each test looks at one of them."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from data_plane.contract import usage_pb2 as pb
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.seal import Seal, pack_seal
from penstock.records.usage import MinuteRow, Totals
from penstock.rules.latency_buckets import bucket_of
from spark_usage.rounds import Round
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.records import DAY, HOUR, MINUTE, Stored, Writer, reading, topic_id
from tests.spark_usage.test_views import Plans, dear_frames

pytestmark = [pytest.mark.slow]

LOST = object()
"""Stands in `__usage` where a record is not."""
NOON = 20_000 * DAY + 12 * HOUR


class Written:
    """`__usage` as a test wants it."""

    def __init__(self) -> None:
        self.ends = [0, 0, 0]
        self.stored: list[Stored] = []
        self.writer = Writer(1, "boot-1")

    def put(self, *values: object, partition: int = 0) -> None:
        for value in values:
            if value is not LOST:
                assert value is None or isinstance(value, bytes)
                self.stored.append(Stored(partition=partition, offset=self.ends[partition], value=value))
            self.ends[partition] += 1

    def read(self, *readings: pb.Reading, made_ms: int = NOON) -> None:
        self.put(self.writer.record(*readings, made_ms=made_ms))


def seal_bytes() -> bytes:
    gained = Totals(committed_messages=5, committed_bytes=500)
    return pack_seal(
        Seal(
            where=TopicPartition(TopicId(topic_id("tn_sealorders")), 0),
            log_generation=0, base_offset=0, end_offset=5, batch_count=1, size=500,
            first_accepted_ms=NOON, last_accepted_ms=NOON, before=Totals(), totals=gained,
            rows=(MinuteRow(NOON // MINUTE, 7, 5, 500),), open_rows=(), digest=bytes(32),
        )
    )  # fmt: skip


def scenarios() -> Written:
    usage = Written()
    day_two = NOON + DAY

    # a cut reading is lost: it was in partition 1 of `__usage`
    usage.put(usage.writer.record(reading(10, NOON, 10, 100, tenant="tn_gap", partition=1)), partition=1)
    usage.put(LOST, LOST, partition=1)
    usage.read(reading(5, NOON, 5, 50, tenant="tn_gap", cut="cut_gap", cut_end=day_two))
    # and the next cut takes the whole range
    usage.read(
        reading(6, day_two, 6, 60, tenant="tn_gap", cut="cut_gap_2", cut_end=day_two + DAY),
        reading(30, day_two, 30, 300, tenant="tn_gap", partition=1, cut="cut_gap_2", cut_end=day_two + DAY),
    )

    # a topic is deleted between two cuts
    usage.read(reading(10, NOON, 10, 100, tenant="tn_end", topic="gone", cut="cut_end_1", cut_end=NOON + 1))
    usage.read(reading(14, NOON + HOUR, 14, 140, tenant="tn_end", topic="gone", kind=pb.FINAL, last=True))
    for number in (2, 3):
        at = NOON + number * DAY
        usage.read(
            reading(number, at, number, number, tenant="tn_end", cut=f"cut_end_{number}", cut_end=at + 1),
            made_ms=at + 2,
        )
    of_two: dict[str, Any] = {"cut": "cut_end_2", "cut_end": NOON + 2 * DAY + 1}
    gone: dict[str, Any] = {"tenant": "tn_end", "topic": "gone", "last": True}
    at = NOON + 2 * DAY + 2
    # the cut was asked for while the topic was there, and again when it was not
    usage.read(reading(12, NOON + 1, 12, 120, tenant="tn_end", topic="gone", **of_two), made_ms=at)
    usage.read(reading(14, NOON + HOUR, 14, 140, **gone, **of_two), made_ms=at)
    # one without a message; one whose last reading is lost; one of before, that promised none
    usage.read(reading(0, -1, 0, 0, **gone | {"topic": "unused"}, **of_two), made_ms=at)
    usage.read(reading(9, NOON, 9, 90, kind=pb.FINAL, **gone | {"topic": "missing"}))
    usage.read(
        reading(9, NOON, 9, 90, kind=pb.FINAL, **gone | {"topic": "of_before", "last": False}),
        made_ms=NOON + 2,
    )
    # made again under its name, it is another topic
    of_three: dict[str, Any] = {"cut": "cut_end_3", "cut_end": NOON + 3 * DAY + 1}
    made_again = reading(7, NOON + 3 * DAY, 7, 70, tenant="tn_end", topic="gone-again", **of_three)
    usage.read(made_again, made_ms=at + DAY)

    # one cut has readings at two ends, and in two generations, in either order; the next cut goes on
    for partition, numbers in enumerate(((0, 1), (1, 0))):
        of_cut: dict[str, Any] = {"partition": partition, "cut": "cut_twice_1", "cut_end": NOON + HOUR}
        twice = [
            reading(20, NOON, 20, 200, tenant="tn_twice", **of_cut),
            reading(26, NOON + 1, 26, 260, tenant="tn_twice", **of_cut),
        ]
        views = [
            reading(40, NOON, 40, 400, tenant="tn_older", generation=1, **of_cut),
            reading(45, NOON + 2, 45, 450, tenant="tn_older", generation=2, **of_cut),
        ]
        differing = [
            reading(20, NOON, 20, 200, tenant="tn_differing", **of_cut),
            reading(20, NOON, 19, 190, tenant="tn_differing", **of_cut),
        ]
        usage.read(reading(10, NOON - 1, 10, 100, tenant="tn_refused", partition=partition))
        refused = [
            reading(20, NOON, 9, 90, tenant="tn_refused", **of_cut),
            reading(26, NOON + 1, 26, 260, tenant="tn_refused", **of_cut),
        ]
        for number in numbers:
            usage.read(twice[number], views[number], differing[number], refused[number])
        begun: dict[str, Any] = {"tenant": "tn_older", "partition": partition, "generation": 2}
        usage.read(reading(30, NOON + 1, 30, 300, kind=pb.GENERATION_START, **begun))
        of_next = of_cut | {"cut": "cut_twice_2", "cut_end": day_two}
        usage.read(reading(33, day_two - 1, 33, 330, tenant="tn_twice", **of_next), made_ms=day_two)
        usage.read(reading(50, day_two - 1, 50, 500, tenant="tn_older", generation=2, **of_next))

    # topics of brokers from before are deleted as a cut is taken, which is when the first of its readings is made
    of_given: dict[str, Any] = {"tenant": "tn_given", "cut": "cut_given", "cut_end": NOON + MINUTE}
    taken_ms = NOON + HOUR
    usage.read(reading(5, NOON, 5, 50, partition=1, **of_given), made_ms=taken_ms + 5)
    usage.read(reading(5, NOON, 5, 50, **of_given), made_ms=taken_ms)
    for topic, *deleted_ms in (
        ("before", taken_ms - 1),
        ("same_ms", taken_ms),
        ("after", taken_ms + 1),
        ("by_two_replicas", taken_ms + 2, taken_ms - 2),
    ):
        for made_ms in deleted_ms:
            final = reading(9, NOON, 9, 90, tenant="tn_given", topic=topic, kind=pb.FINAL)
            usage.read(final, made_ms=made_ms)

    # a topic made after a period's end is not in its cut
    usage.read(reading(3, NOON, 3, 30, tenant="tn_new", cut="cut_new", cut_end=NOON + HOUR))
    usage.read(reading(8, NOON + 2 * HOUR, 8, 80, tenant="tn_new", topic="later"))

    # a middle reading is lost, with its principals
    usage.read(reading(10, NOON, 10, 100, [(7, 10, 100)], tenant="tn_mid"))
    usage.read(reading(40, NOON + 3 * MINUTE, 40, 400, [(8, 10, 100)], tenant="tn_mid"))

    # totals fall; a cut reading among them
    usage.read(reading(10, NOON, 10, 100, tenant="tn_fall"), reading(20, NOON, 9, 90, tenant="tn_fall"))
    usage.read(reading(30, NOON + 1, 8, 80, tenant="tn_fall", cut="cut_fall", cut_end=NOON + HOUR))
    usage.read(reading(50, NOON + 2, 50, 500, tenant="tn_fall"))

    # two readings disagree about one offset; principals that exceed the totals
    usage.read(reading(10, NOON, 10, 100, tenant="tn_two"), reading(10, NOON, 10, 99, tenant="tn_two"))
    usage.read(reading(20, NOON, 20, 199, [(7, 21, 10)], tenant="tn_two"))

    # a loss is declared below what a cut ended at
    usage.read(
        reading(20, NOON, 20, 200, tenant="tn_loss"),
        reading(50, NOON + 1, 50, 500, tenant="tn_loss", cut="cut_loss_1", cut_end=NOON + 2),
    )
    usage.read(
        reading(30, NOON + 5, 30, 300, tenant="tn_loss", generation=1, kind=pb.GENERATION_START),
        reading(35, day_two, 35, 350, tenant="tn_loss", generation=1, cut="cut_loss_2", cut_end=day_two + 1),
    )

    # brokers count generations from 1; a cut ended below the loss, and a second loss reaches below the first
    for end_offset, generation, kind, cut in (
        (20, 1, pb.PERIODIC, ""),
        (30, 1, pb.CUT, "cut_real_1"),
        (50, 1, pb.PERIODIC, ""),
        (40, 2, pb.GENERATION_START, ""),
        (45, 2, pb.CUT, "cut_real_2"),
        (60, 2, pb.PERIODIC, ""),
        (35, 3, pb.GENERATION_START, ""),
        (38, 3, pb.CUT, "cut_real_3"),
    ):
        at = NOON + end_offset + generation
        cut_end = NOON + MINUTE + int(cut[-1]) if cut else 0
        usage.read(
            reading(
                end_offset, at, end_offset, end_offset * 10, tenant="tn_real", generation=generation, kind=kind,
                cut=cut, cut_end=cut_end,
            )
        )  # fmt: skip

    # increments of one record stored twice, and of another with the same identity
    taken = pb.Delivered(
        tenant="tn_out", topic_id=topic_id("tn_outorders"), topic="orders", group="g", principal=7,
        minute=NOON // MINUTE, messages=4, bytes=400, other_zone_messages=1, other_zone_bytes=100,
    )  # fmt: skip
    asked = pb.Requests(
        tenant="tn_out", operation="fetch", minute=NOON // MINUTE + 3, valid=10, bad=2, succeeded_seconds=0b011,
        failed_seconds=0b110, latency_buckets=[bucket_of(60.0), bucket_of(600.0)], latency_counts=[5, 3],
    )  # fmt: skip
    elsewhere = pb.Requests(
        tenant="tn_out", operation="fetch", minute=NOON // MINUTE + 3, valid=2, bad=1, succeeded_seconds=1 << 59,
        failed_seconds=1 << 58,
    )  # fmt: skip
    whole = pb.Requests(tenant="tn_out", operation="fetch", minute=NOON // MINUTE + 4, valid=7)
    killed, ended = Writer(2, "boot-killed"), Writer(2, "boot-ended")
    open_ms = pb.Elapsed(
        tenant="tn_out", principal=7, minute=NOON // MINUTE, connection_ms=9_000, throttled_ms=2
    )
    slowed = pb.Elapsed(
        tenant="tn_out", topic_id=topic_id("tn_outorders"), topic="orders", principal=7, minute=NOON // MINUTE,
        throttled_ms=30,
    )  # fmt: skip
    unled = pb.Elapsed(
        tenant="tn_out", topic_id=topic_id("tn_outorders"), topic="orders", partition=2, minute=NOON // MINUTE,
        leaderless_ms=4_000,
    )  # fmt: skip
    once = killed.record(made_ms=NOON, delivered=[taken], requests=[asked], elapsed=[open_ms, slowed, unled])
    killed.sequence = 3
    later = killed.record(
        made_ms=NOON, delivered=[taken], requests=[asked, elsewhere, whole], elapsed=[open_ms]
    )
    killed.sequence = 3
    usage.put(once, later, once, killed.record(made_ms=NOON, delivered=[taken, taken]))
    ended.record()
    usage.put(ended.record(made_ms=NOON + 1), ended.record(made_ms=NOON + 1, boot_ends=True))

    # a topic is restored under another name within a day, between and after messages, and is idle then
    usage.read(reading(10, NOON, 10, 100, tenant="tn_name"), made_ms=NOON + 1)
    usage.read(
        reading(10, NOON, 10, 100, tenant="tn_name", cut="cut_name_1", cut_end=NOON + 1), made_ms=NOON + 2
    )
    usage.read(reading(12, NOON + 2, 12, 120, tenant="tn_name"), made_ms=NOON + 3)
    usage.read(reading(12, NOON + 2, 12, 120, tenant="tn_name", name="archive"), made_ms=NOON + 9)
    usage.read(reading(20, NOON + 9, 20, 200, tenant="tn_name", name="archive"), made_ms=NOON + 9)
    usage.read(
        reading(20, NOON + 9, 20, 200, tenant="tn_name", name="archive", cut="cut_name_2", cut_end=NOON + 10),
        made_ms=NOON + 10,
    )
    usage.read(reading(20, NOON + 9, 20, 200, tenant="tn_name", name="zebra"), made_ms=NOON + 11)
    # and twice on a day, back to its first one
    for end, name in ((5, "orders"), (8, "archive"), (13, "orders")):
        usage.read(reading(end, NOON + end, end, end, tenant="tn_back", name=name), made_ms=NOON + end)
    usage.read(
        reading(13, NOON + 13, 13, 13, tenant="tn_back", cut="cut_back", cut_end=NOON + 14), made_ms=NOON + 14
    )

    # seals: twice the same
    sealed = pb.SealedSegment(tenant="tn_seal", seal=seal_bytes())
    usage.put(*(usage.writer.record(seals=[sealed]) for _ in range(2)))

    # damage, in partition 2
    good = reading(1, NOON, 1, 10, tenant="tn_good")
    short, no_topic, timeless = (pb.Reading.FromString(good.SerializeToString()) for _ in range(3))
    del short.totals[5]
    no_topic.topic_id = b"short"
    timeless.accepted_ms = -1
    bad_seal = pb.SealedSegment(tenant="tn_seal", seal=seal_bytes()[:-1] + b"?")
    bad_requests = pb.Requests(tenant="tn_good", operation="dance", minute=1, valid=1)
    usage.put(
        b"rubbish",
        None,
        b"",
        pb.UsageRecord(boot_id="b", sequence=0).SerializeToString(),
        usage.writer.record(good, short, no_topic, timeless, requests=[bad_requests], seals=[bad_seal]),
        partition=2,
    )
    return usage


class Folded:
    def __init__(self, pipeline: Pipeline, written: Written, done: Round, plans: list[str]) -> None:
        self.pipeline = pipeline
        self.written = written
        self.round = done
        self.plans = plans
        """What Spark executed for the round, as text."""

    def rows(self, dataset: str, tenant: str, *columns: str) -> list[tuple[object, ...]]:
        found = self.pipeline.rows(dataset, "tenant", *columns)
        return [row[1:] for row in found if row[0] == tenant]


@pytest.fixture(scope="module")
def folded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Folded:
    written = scenarios()
    folder: Path = tmp_path_factory.mktemp("scenarios")
    pipeline = Pipeline(spark, folder)
    ends = {str(number): end for number, end in enumerate(written.ends)}
    plans = Plans(spark)
    done = pipeline.fold(written.stored, ends=ends)
    return Folded(pipeline, written, done, plans.texts())


COVERAGE = ("cut_id", "topic", "partition", "start_offset", "end_offset", "status", "reason", "missing")


def test_a_lost_cut_reading_is_a_gap_that_names_what_is_missing(folded: Folded) -> None:
    found = folded.rows("cut_coverage", "tn_gap", *COVERAGE)
    assert ("cut_gap", "orders", 0, 0, 5, "covered", "", "") in found
    (gap,) = [row for row in found if row[5] == "gap"]
    assert gap[:3] == ("cut_gap", "orders", 1)
    assert gap[6:] == ("no cut reading", "__usage-1@1..2")
    assert folded.pipeline.rows("coverage_issue", "src_partition", "first_missing", "missing") == [(1, 1, 2)]
    assert folded.round.missing == "__usage-1@1..2"


def test_the_cut_after_a_gap_takes_the_whole_range(folded: Folded) -> None:
    assert ("cut_gap_2", "orders", 1, 0, 30, "covered", "", "") in folded.rows(
        "cut_coverage", "tn_gap", *COVERAGE
    )
    found = folded.rows(
        "cut_usage", "tn_gap", "cut_id", "partition", "day", "meter", "quantity", "first_offset"
    )
    messages = [row for row in found if row[3] == "messages_in" and row[0] == "cut_gap_2"]
    first_day = datetime.fromtimestamp(NOON / 1000, UTC).date()
    assert sorted((row[1], row[2], int(str(row[4])), row[5]) for row in messages) == [
        (0, date.fromordinal(first_day.toordinal() + 1), 1, 5),
        (1, first_day, 10, 0),
        (1, date.fromordinal(first_day.toordinal() + 1), 20, 10),
    ]


def test_a_deleted_topic_ends_with_its_final_reading_in_one_cut(folded: Folded) -> None:
    found = folded.rows("cut_coverage", "tn_end", *COVERAGE)
    assert [row for row in found if row[1] == "gone"] == [
        ("cut_end_1", "gone", 0, 0, 10, "covered", "", ""),
        ("cut_end_2", "gone", 0, 10, 14, "covered", "", ""),
    ]


def test_deleted_topics_without_a_message_are_covered_and_those_without_a_reading_are_gaps(
    folded: Folded,
) -> None:
    found = folded.rows("cut_coverage", "tn_end", *COVERAGE)
    assert [row for row in found if row[1] == "unused"] == [
        ("cut_end_2", "unused", 0, 0, 0, "covered", "", "")
    ]
    assert [row[:6] for row in found if row[1] == "missing"] == [
        (f"cut_end_{number}", "missing", 0, 0, 9, "gap") for number in (1, 2, 3)
    ]
    assert [row[0] for row in found if row[1] == "of_before"] == ["cut_end_1"]
    assert [row[:6] for row in found if row[1] == "gone-again"] == [
        ("cut_end_3", "gone-again", 0, 0, 7, "covered")
    ]


def messages_by_cut(folded: Folded, tenant: str) -> list[tuple[object, ...]]:
    """(partition, cut, generation, first offset, end offset, messages)."""
    found = folded.rows(
        *("cut_usage", tenant, "meter", "partition", "cut_id", "log_generation"),
        *("first_offset", "end_offset", "quantity"),
    )
    return sorted((*row[1:6], int(str(row[6]))) for row in found if row[0] == "messages_in")


@pytest.mark.parametrize("partition", [0, 1], ids=["lower end first", "higher end first"])
def test_of_two_readings_of_one_cut_the_lower_end_counts_and_the_next_cut_begins_there(
    folded: Folded, partition: int
) -> None:
    found = folded.rows("cut_coverage", "tn_twice", *COVERAGE)
    assert [row[:6] for row in found if row[2] == partition] == [
        ("cut_twice_1", "orders", partition, 0, 20, "covered"),
        ("cut_twice_2", "orders", partition, 20, 33, "covered"),
    ]
    counted = [row for row in messages_by_cut(folded, "tn_twice") if row[0] == partition]
    assert counted == [
        (partition, "cut_twice_1", 0, 0, 20, 20),
        # of the first day, and of the second
        (partition, "cut_twice_2", 0, 20, 26, 6),
        (partition, "cut_twice_2", 0, 26, 33, 7),
    ]


@pytest.mark.parametrize("partition", [0, 1], ids=["more first", "less first"])
def test_of_two_totals_at_one_end_of_a_cut_the_smaller_covers_it(folded: Folded, partition: int) -> None:
    found = folded.rows("cut_coverage", "tn_differing", *COVERAGE)
    assert [row[:6] for row in found if row[2] == partition] == [
        ("cut_twice_1", "orders", partition, 0, 20, "covered")
    ]
    counted = [row for row in messages_by_cut(folded, "tn_differing") if row[0] == partition]
    assert counted == [(partition, "cut_twice_1", 0, 0, 20, 19)]


@pytest.mark.parametrize("partition", [0, 1], ids=["refused first", "good first"])
def test_a_good_reading_of_a_cut_closes_the_gap_of_a_refused_one(folded: Folded, partition: int) -> None:
    found = folded.rows("cut_coverage", "tn_refused", *COVERAGE)
    assert [row[:6] for row in found if row[2] == partition] == [
        ("cut_twice_1", "orders", partition, 0, 26, "covered")
    ]


@pytest.mark.parametrize("partition", [0, 1], ids=["older first", "newer first"])
def test_of_readings_of_one_cut_in_two_generations_the_newer_counts(folded: Folded, partition: int) -> None:
    found = folded.rows("cut_coverage", "tn_older", *COVERAGE, "log_generation")
    assert [(row[0], *row[3:6], row[-1]) for row in found if row[2] == partition] == [
        ("cut_twice_1", 0, 45, "covered", 2),
        ("cut_twice_2", 45, 50, "covered", 2),
    ]
    counted = [row[1:] for row in messages_by_cut(folded, "tn_older") if row[0] == partition]
    assert counted == [
        ("cut_twice_1", 1, 0, 30, 30),
        ("cut_twice_1", 2, 30, 45, 15),
        ("cut_twice_2", 2, 45, 50, 5),
    ]


def test_a_topic_of_before_is_due_in_the_cuts_that_were_taken_before_it_was_deleted(folded: Folded) -> None:
    found = folded.rows("cut_coverage", "tn_given", *COVERAGE)
    assert sorted(row[1:6] for row in found) == [
        ("after", 0, 0, 9, "gap"),
        ("orders", 0, 0, 5, "covered"),
        ("orders", 1, 0, 5, "covered"),
    ]


def test_a_topic_made_after_the_end_of_a_period_is_not_in_its_cut(folded: Folded) -> None:
    assert [row[1] for row in folded.rows("cut_coverage", "tn_new", *COVERAGE)] == ["orders"]


def test_a_lost_reading_changes_no_total_and_its_principals_are_zero(folded: Folded) -> None:
    found = folded.rows("usage_hour", "tn_mid", "principal", "meter", "quantity")
    assert {row[0]: int(str(row[2])) for row in found if row[1] == "messages_in"} == {7: 10, 8: 10, 0: 20}
    assert {row[0]: int(str(row[2])) for row in found if row[1] == "bytes_in"} == {7: 100, 8: 100, 0: 200}
    day = folded.rows("principal_day", "tn_mid", "principal", "meter", "quantity")
    assert {row[0]: int(str(row[2])) for row in day if row[1] == "messages_in"} == {7: 10, 8: 10}


def test_totals_that_fall_are_rejected_and_a_cut_among_them_is_a_gap(folded: Folded) -> None:
    (coverage,) = folded.rows("cut_coverage", "tn_fall", *COVERAGE)
    assert coverage[5:7] == (
        "gap",
        "its cut reading contradicts other readings, or the one that explains it is missing",
    )
    found = folded.rows("usage_day", "tn_fall", "meter", "quantity")
    assert {row[0]: int(str(row[1])) for row in found} == {"messages_in": 50, "bytes_in": 500}
    reasons = Counter(reason for (reason,) in folded.pipeline.rows("rejected", "reason"))
    assert reasons["totals or offset below those of an earlier reading"] == 2 + 2


def test_of_two_totals_of_one_offset_the_smaller_counts(folded: Folded) -> None:
    found = folded.rows("usage_hour", "tn_two", "principal", "meter", "quantity")
    assert sorted((row[0], row[1], int(str(row[2]))) for row in found) == [
        (0, "bytes_in", 199),
        (0, "messages_in", 20),
    ]
    reasons = Counter(reason for (reason,) in folded.pipeline.rows("rejected", "reason"))
    assert reasons["other totals at the same offset"] == 1 + 2


def test_a_declared_loss_is_taken_back_from_the_cut_that_counted_it(folded: Folded) -> None:
    found = folded.rows(
        "cut_usage", "tn_loss", "cut_id", "log_generation", "meter", "quantity", "first_offset", "end_offset"
    )
    messages = sorted(
        (row[0], row[1], int(str(row[3])), row[4], row[5]) for row in found if row[2] == "messages_in"
    )
    assert messages == [
        ("cut_loss_1", 0, 50, 0, 50),
        ("cut_loss_2", 0, -20, 30, 50),
        ("cut_loss_2", 1, 5, 30, 35),
    ]
    day = folded.rows("usage_day", "tn_loss", "meter", "quantity")
    assert sum(int(str(row[1])) for row in day if row[0] == "messages_in") == 35


def test_losses_leave_what_was_counted_below_them_as_it_was(folded: Folded) -> None:
    found = folded.rows(
        "cut_usage", "tn_real", "cut_id", "log_generation", "meter", "quantity", "first_offset", "end_offset"
    )
    messages = sorted(
        (row[0], row[1], int(str(row[3])), row[4], row[5]) for row in found if row[2] == "messages_in"
    )
    assert messages == [
        ("cut_real_1", 1, 30, 0, 30),
        ("cut_real_2", 1, 10, 30, 40),
        ("cut_real_2", 2, 5, 40, 45),
        ("cut_real_3", 1, -5, 35, 40),
        ("cut_real_3", 2, -5, 40, 45),
        ("cut_real_3", 3, 3, 35, 38),
    ]
    coverage = folded.rows("cut_coverage", "tn_real", "cut_id", "status", "start_offset", "end_offset")
    assert sorted(coverage) == [
        ("cut_real_1", "covered", 0, 30),
        ("cut_real_2", "covered", 30, 45),
        ("cut_real_3", "covered", 45, 38),
    ]
    day = folded.rows("usage_day", "tn_real", "meter", "quantity")
    assert sum(int(str(row[1])) for row in day if row[0] == "messages_in") == 38


def as_numbers(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted((*row[:4], int(str(row[4]))) for row in rows)


def test_usage_stands_under_the_name_of_its_time_and_a_later_name_changes_no_earlier_one(
    folded: Folded,
) -> None:
    found = folded.rows(
        "cut_usage", "tn_name", "cut_id", "topic", "first_offset", "end_offset", "meter", "quantity"
    )
    ranges = [row[:4] for row in found if row[4] == "messages_in" and row[5] == row[3] - row[2]]  # type: ignore[operator]
    assert sorted(ranges) == [
        ("cut_name_1", "orders", 0, 10),
        ("cut_name_2", "archive", 12, 20),
        ("cut_name_2", "orders", 10, 12),
    ]
    days = folded.rows("usage_day", "tn_name", "topic", "meter", "quantity")
    assert sorted((row[0], int(str(row[2]))) for row in days if row[1] == "messages_in") == [
        ("archive", 8),
        ("orders", 12),
    ]
    assert folded.rows("cut_coverage", "tn_name", "cut_id", "topic", "start_offset", "end_offset") == [
        ("cut_name_1", "orders", 0, 10),
        ("cut_name_2", "archive", 10, 20),
    ]


def test_where_ranges_of_two_names_would_cross_the_day_has_the_last_one(folded: Folded) -> None:
    found = folded.rows("cut_usage", "tn_back", "topic", "first_offset", "end_offset", "meter", "quantity")
    assert found == [("orders", 0, 13, "bytes_in", 13), ("orders", 0, 13, "messages_in", 13)]


def test_increments_count_once_by_broker_boot_and_sequence(folded: Folded) -> None:
    found = folded.rows("usage_hour", "tn_out", "topic", "group", "principal", "meter", "quantity")
    of_principals = [
        ("", "", 7, "connection_ms", 18_000),
        ("", "", 7, "throttled_ms", 4),
        ("orders", "", 7, "throttled_ms", 30),
        ("orders", "g", 7, "bytes_out", 800),
        ("orders", "g", 7, "bytes_out_other_zone", 200),
        ("orders", "g", 7, "bytes_out_own_zone", 600),
        ("orders", "g", 7, "messages_out", 8),
        ("orders", "g", 7, "messages_out_other_zone", 2),
        ("orders", "g", 7, "messages_out_own_zone", 6),
    ]
    of_no_one = [("", "", 0, "requests", 24), ("orders", "", 0, "leaderless_ms", 4_000)]
    assert as_numbers(found) == sorted([*of_no_one, *of_principals])
    day = folded.rows("principal_day", "tn_out", "topic", "group", "principal", "meter", "quantity")
    assert as_numbers(day) == of_principals, "what is of no principal and no group is in usage_day alone"
    assert folded.rows("sla_5m", "tn_out", "operation", "window", "valid", "bad") == [
        ("fetch", datetime.fromtimestamp(NOON / 1000, UTC), 29, 5)
    ]
    minutes = folded.rows(
        "sla_minute", "tn_out", "operation", "minute", "valid", "bad", "succeeded_seconds", "failed_seconds"
    )
    assert minutes == [("fetch", NOON // MINUTE + 3, 22, 5, 0b011 | 1 << 59, 0b110 | 1 << 58)], (
        "two records, once each; a minute without a failure has no row"
    )
    assert sorted(folded.rows("latency_day", "tn_out", "operation", "day", "bucket", "requests")) == [
        ("fetch", datetime.fromtimestamp(NOON / 1000, UTC).date(), bucket_of(60.0), 10),
        ("fetch", datetime.fromtimestamp(NOON / 1000, UTC).date(), bucket_of(600.0), 6),
    ]
    assert sorted(folded.rows("sla_slow_5m", "tn_out", "operation", "over_ms", "slow")) == [
        ("fetch", 50, 16), ("fetch", 100, 6), ("fetch", 250, 6), ("fetch", 500, 6),
    ]  # fmt: skip
    reasons = Counter(reason for (reason,) in folded.pipeline.rows("rejected", "reason"))
    assert reasons["another record with the same boot and sequence"] == 1


def test_records_that_never_came_are_waived_once_their_boot_is_over(folded: Folded) -> None:
    found = folded.pipeline.rows("waived", "broker_id", "boot_id", "first_missing", "missing", "open")
    boots = {row[1]: row[2:] for row in found if row[0] == 2}
    assert boots == {"boot-killed": (2, 2, True), "boot-ended": (1, 1, False)}
    assert [row[3:] for row in found if row[0] == 1] == [(0, True)]


def test_a_seal_is_there_once(folded: Folded) -> None:
    assert folded.rows("seal", "tn_seal", "base_offset", "end_offset", "seal") == [(0, 5, seal_bytes())]


def test_damage_is_rejected_with_its_reason_and_the_rest_of_the_record_counts(folded: Folded) -> None:
    found = folded.pipeline.rows("rejected", "src_partition", "src_offset", "row", "reason", "record")
    damaged = [row[1:] for row in found if row[0] == 2]
    stored = {one.offset: one.value or b"" for one in folded.written.stored if one.partition == 2}
    assert all(record == stored[offset] for offset, _, _, record in damaged)
    assert [row[:3] for row in damaged] == [
        (0, -1, "not a usage record"),
        (1, -1, "no value"),
        (2, -1, "no boot id or no sequence"),
        (3, -1, "no boot id or no sequence"),
        (4, 1, "5 totals instead of 6"),
        (4, 2, "a topic id of 5 bytes"),
        (4, 3, "usage without a time"),
        (4, 4, "an unknown operation: 'dance'"),
        (4, 5, damaged[-1][2]),
    ]
    assert str(damaged[-1][2]).startswith("a damaged seal: ")
    assert len(folded.rows("usage_day", "tn_good", "meter")) == 2


def test_the_chain_is_the_hash_of_each_record_after_the_one_before_and_ends_at_a_hole(folded: Folded) -> None:
    wanted: list[tuple[int, int, str]] = []
    for partition in range(3):
        values = {one.offset: one.value or b"" for one in folded.written.stored if one.partition == partition}
        last = bytes(32)
        for offset in range(folded.written.ends[partition]):
            if offset not in values:
                break
            last = hashlib.sha256(last + values[offset]).digest()
            wanted.append((partition, offset, last.hex()))
    assert folded.pipeline.rows("chain", "src_partition", "src_offset", "sha256") == wanted


def test_every_check_is_in_the_manifests_and_holds(folded: Folded) -> None:
    checked = {}
    for name in folded.round.runs:
        manifest = folded.pipeline.catalog.current(name)
        assert manifest is not None
        assert all(check["holds"] for check in manifest["conservation"])
        checked[name] = len(manifest["conservation"])
    assert {name: count for name, count in checked.items() if count} == {
        "rejected": 2, "usage_hour": 5, "usage_day": 1, "principal_day": 1, "sla_minute": 1,
        "cut_usage": 1,
    }  # fmt: skip


def test_no_window_of_a_round_goes_through_its_frame_again_at_each_row(folded: Folded) -> None:
    assert sum("Window" in text for text in folded.plans) > 5
    assert dear_frames(folded.plans) == set()
