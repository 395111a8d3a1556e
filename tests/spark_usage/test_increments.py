"""Rounds that go on from the one before publish what a fold of everything would, whatever comes late or again."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from billing.data_sets import cut_window
from data_plane.contract import usage_pb2 as pb
from spark_usage import datasets, session
from spark_usage.manifest import windows_of
from tests.conftest import FULL
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.random_logs import START_MS, arrivals, random_log
from tests.spark_usage.records import DAY, MINUTE, Stored, Writer, in_order, reading, topic_id
from tests.spark_usage.test_kept import MIDNIGHT, leaderships_of, records

pytestmark = [pytest.mark.slow]

HISTORIES = 1_000 if FULL else 50
PARTS = (1 / 3, 2 / 3, 1.0) if FULL else (1 / 3, 1.0)
"""How much of each partition of `__usage` a round has."""
SEEDS = (20261128, 1, 2) if FULL else (20261128,)


def digests(pipeline: Pipeline) -> dict[str, tuple[int, str, dict[str, str]]]:
    """Data set -> (rows, digest, digest of each window) of what counts now."""
    found = {}
    for dataset in datasets.ALL:
        manifest = pipeline.catalog.current(dataset.name)
        assert manifest is not None
        windows = {name: window.digest for name, window in windows_of(manifest).items()}
        found[dataset.name] = (manifest["rows"], manifest["digest"], windows)
    return found


def first_of_each(stored: list[Stored], share: float) -> list[Stored]:
    """The first part of each partition of `__usage`."""
    sizes = {one.partition: 0 for one in stored}
    for one in stored:
        sizes[one.partition] = max(sizes[one.partition], one.offset + 1)
    return [one for one in stored if one.offset < int(sizes[one.partition] * share)]


@pytest.mark.drawn(shares=3, family="histories of usage")
@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_over_parts_of_many_histories_end_with_the_digests_of_one_over_all(
    seed: int,
    make_pipeline: Callable[[str], Pipeline],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One tenant a history: readings come in any order, twice, or not at all; losses are declared; topics are restored
    under other names; records are stored twice; a boot's increments come late; records are damaged. All of it is folded
    as large rounds are, with compiled expressions, and its parts are not.
    """
    random = Random(seed)
    logs = [
        random_log(
            random,
            f"tn_{number:03}",
            0,
            losses=0.2 if number % 4 == 0 else 0.02,
            renames=0.05 if number % 3 == 0 else 0,
        )
        for number in range(HISTORIES)
    ]
    stored, _ = arrivals(random, logs)
    stored += increments_and_damage(random, stored)
    stored += kept_by_leaderships(random)
    stored += start_that_comes_late()
    parts, whole = make_pipeline("parts"), make_pipeline("whole")
    for part in PARTS:
        done = parts.fold(first_of_each(stored, part), again=False)
        assert done.recomputed
        found = parts.rows("cut_coverage", "tenant", "cut_id", "status")
        late = [(cut, status) for tenant, cut, status in found if tenant == "tn_late"]
        assert late == [("cut_late_1", "covered"), ("cut_late_2", "gap" if part == PARTS[0] else "covered")]
    assert "all of bronze" not in caplog.text
    carried = parts.catalog.current("reading")
    assert carried is not None and any("run" in file for file in carried["files"]), "it went on from a round"
    monkeypatch.setattr(session, "COMPILED_FROM", 0)
    whole.fold(stored)
    assert whole.spark.conf.get("spark.sql.codegen.wholeStage") == "true"
    assert digests(parts) == digests(whole)
    cuts = {cut_window(cut_id) for (cut_id,) in whole.rows("cut_usage", "cut_id")}
    assert set(digests(whole)["cut_usage"][2]) == cuts, "billing finds a cut's window as Spark does"


def test_a_late_reading_touches_its_window_and_those_after_it_until_totals_agree_again(
    make_pipeline: Callable[[str], Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    """And records that come again: the same one counts once, another one of its identity has all folded again."""
    writer = Writer()
    days = [
        writer.record(
            *(
                reading(day * 10, day * DAY, day * 10, day * 1_000, tenant=tenant)
                for tenant in ("tn_a", "tn_b")
            )
        )
        for day in (1, 2, 4, 5)
    ]
    late = writer.record(reading(25, 3 * DAY, 25, 2_500, tenant="tn_a"))
    parts = make_pipeline("parts")
    parts.fold(in_order(*days), again=False)
    before = hours_of(parts)
    parts.fold(in_order(*days, late, days[0]), again=False)
    after = hours_of(parts)
    assert before["1970-01-02"] == after["1970-01-02"] and before["1970-01-06"] == after["1970-01-06"]
    assert {name for name in after if after[name] != before.get(name)} == {"1970-01-04", "1970-01-05"}
    manifest = parts.catalog.current("usage_hour")
    assert manifest is not None
    of_earlier_runs = {file["window"] for file in manifest["files"] if "run" in file}
    assert of_earlier_runs == {"1970-01-02", "1970-01-03", "1970-01-06"}
    of_cuts = parts.catalog.current("cut_usage")
    assert of_cuts is not None
    assert [check["numbers"]["compared"] for check in of_cuts["conservation"]] == [0], "there is no cut"
    assert "all of bronze" not in caplog.text

    writer.sequence = 0
    another = writer.record(reading(90, 6 * DAY, 90, 9_000, tenant="tn_c"))
    stored = in_order(*days, late, days[0], another)
    done = parts.fold(stored, again=False)
    assert "all of bronze is folded again" in caplog.text and done.rejected == 1
    whole = make_pipeline("whole")
    whole.fold(stored)
    assert digests(parts) == digests(whole)
    sums = dict.fromkeys(parts.rows("usage_day", "tenant", "meter"), 0)
    for tenant, meter, quantity in parts.rows("usage_day", "tenant", "meter", "quantity"):
        sums[tenant, meter] += int(quantity)
    assert sums == {
        ("tn_a", "messages_in"): 50, ("tn_a", "bytes_in"): 5_000, ("tn_b", "messages_in"): 50,
        ("tn_b", "bytes_in"): 5_000, ("tn_c", "messages_in"): 90, ("tn_c", "bytes_in"): 9_000,
    }  # fmt: skip


def kept_by_leaderships(random: Random) -> list[Stored]:
    """A fourth partition of `__usage`: what leaderships kept, in the order of time, some twice or later."""
    told = [one for number in range(HISTORIES) for one in leaderships_of(random, f"tk_{number:03}")]
    for until, size in ((MIDNIGHT, 500), (MIDNIGHT + 9, 800), (MIDNIGHT + 900, 900)):
        told.append(("tk_broken", 1, 1, (MIDNIGHT, until, size, 3 * size)))  # it kept something in no time
    values = records(sorted(told, key=lambda one: one[3][1]))
    for _ in range(len(values) // 10):
        at = random.randrange(len(values))
        values.insert(random.randrange(at, len(values)), values[at])
        if random.random() < 0.5:
            del values[at]
    return in_order(*values, partition=3)


def start_that_comes_late() -> list[Stored]:
    """A fifth partition of `__usage`: of two cuts, the second one adds up once it is known where the generation began
    that the first one is of. It shares its partition with readings that say nothing.
    """
    writer = Writer(5, "boot-5")

    def said(generation: int, end: int, aborted: int, at: int, **values: Any) -> pb.Reading:
        return reading(
            end, START_MS + at * MINUTE, end - aborted, (end - aborted) * 10, tenant="tn_late", generation=generation,
            aborted=aborted, **values,
        )  # fmt: skip

    values = [
        writer.record(said(1, 50, 0, 1), said(1, 60, 10, 2), said(2, 70, 0, 3), said(2, 90, 10, 4)),
        writer.record(said(2, 100, 10, 5, cut="cut_late_1", cut_end=START_MS + 5 * MINUTE + 1)),
        writer.record(
            said(3, 70, 0, 3, kind=pb.GENERATION_START),
            said(3, 95, 10, 6, cut="cut_late_2", cut_end=START_MS + 6 * MINUTE + 1),
        ),
        writer.record(said(2, 50, 0, 1, kind=pb.GENERATION_START)),
    ]
    return in_order(*values, *(writer.record() for _ in range(5)), partition=4)


def hours_of(pipeline: Pipeline) -> dict[str, str]:
    """Window of `usage_hour` -> digest."""
    return {
        name: window.digest for name, window in windows_of(pipeline.catalog.current("usage_hour")).items()
    }


def increments_and_damage(random: Random, stored: list[Stored]) -> list[Stored]:
    """More records at the ends of the partitions: deliveries and requests of a fourth boot, damage, a hole."""
    writer = Writer(4, "boot-4")
    ends = {one.partition: 0 for one in stored}
    for one in stored:
        ends[one.partition] = max(ends[one.partition], one.offset + 1)
    more = []
    for number in range(40):
        minute = START_MS // MINUTE + random.randrange(200)
        tenant = f"tn_{random.randrange(HISTORIES):03}"
        taken = pb.Delivered(
            tenant=tenant, topic_id=topic_id(tenant + "orders"), topic="orders", group="g", principal=7,
            minute=minute, messages=4, bytes=400, other_zone_messages=number % 5, other_zone_bytes=number % 7,
        )  # fmt: skip
        asked = pb.Requests(tenant=tenant, operation="fetch", minute=minute, valid=number, bad=0)
        spent = pb.Elapsed(tenant=tenant, principal=7, minute=minute, connection_ms=number, throttled_ms=1)
        value = (
            b"rubbish"
            if number % 13 == 5
            else writer.record(delivered=[taken], requests=[asked], elapsed=[spent])
        )
        if number % 11 == 3:
            writer.sequence += 1
        partition = random.choice(sorted(ends))
        ends[partition] += 2 if number == 20 else 1
        more.append(Stored(partition=partition, offset=ends[partition] - 1, value=value))
    return more
