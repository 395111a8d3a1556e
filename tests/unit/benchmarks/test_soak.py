"""The statistics of `make soak`, and what it reads of Java's answers."""

import math
import random
from pathlib import Path

import pytest

from benchmarks.soak import java
from benchmarks.soak.samples import kind_of
from benchmarks.soak.trend import Point, Verdict, slope_of, trend_of


def series(rise: float, *, noise: float = 0.0, rounds: int = 300, levels_at: int = 10**9) -> list[Point]:
    """500 and a rise a round up to the round `levels_at`, with noise of which neighbours have the same."""
    chance = random.Random(7)
    points, shift = [], 0.0
    for number in range(rounds):
        if number % 10 == 0:
            shift = chance.uniform(-noise, noise)
        points.append(Point(rounds=number, value=500 + rise * min(number, levels_at) + shift))
    return points


def test_slope_is_the_growth_in_a_thousand_rounds() -> None:
    slope = slope_of(series(0.25))
    assert slope.value == pytest.approx(250)
    assert slope.noise == pytest.approx(0, abs=1e-6)


def test_what_rises_all_the_time_grows() -> None:
    assert trend_of(series(0.25, noise=5), 25).verdict is Verdict.GROWS


def test_what_only_rises_during_the_warm_up_is_steady() -> None:
    trend = trend_of(series(2.0, levels_at=60), 25)
    assert trend.verdict is Verdict.STEADY
    assert trend.warm == trend.end == 620


def test_what_stops_rising_in_the_last_half_levels_off() -> None:
    assert trend_of(series(0.5, levels_at=170), 25).verdict is Verdict.LEVELS_OFF


def test_a_rise_that_is_less_than_its_noise_is_unclear() -> None:
    trend = trend_of(series(0.05, noise=60), 25)
    assert trend.slope.noise > 25
    assert trend.verdict is Verdict.UNCLEAR


def test_what_falls_is_steady() -> None:
    assert trend_of(series(-0.5), 25).verdict is Verdict.STEADY


def test_noise_that_neighbours_share_is_not_taken_for_more_samples() -> None:
    """Ten times the samples of the same noise promise no narrower range."""
    few = series(0.0, noise=60)
    many = [Point(rounds=point.rounds + part / 10, value=point.value) for point in few for part in range(10)]
    assert slope_of(many).noise == pytest.approx(slope_of(few).noise, rel=0.05)


def test_what_is_fed_is_not_judged() -> None:
    assert trend_of(series(5.0), 25, fed=True).verdict is Verdict.FED


def test_what_has_to_grow_first_is_judged_after_that_and_unclear_in_a_run_that_is_too_short() -> None:
    points = series(5.0, levels_at=120)
    assert trend_of(points, 25, full_after=120).verdict is Verdict.STEADY
    assert trend_of(points[:130], 25, full_after=120).verdict is Verdict.UNCLEAR


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 8 required; run longer"):
        trend_of(series(1.0, rounds=8), 25)


def test_heap_code_and_classes_are_read_from_javas_answers() -> None:
    heap = " Metaspace       used 29829K, committed 32000K, reserved 1114112K\n  class space    used 7205K\n"
    assert java.metaspace_mib(heap) == pytest.approx(29829 / 1024)
    code = "CodeCache: size=245760Kb used=53112Kb max_used=53112Kb free=192647Kb\n total_blobs=35102\n"
    assert java.code_mib(code) == pytest.approx(53112 / 1024)
    segments = "CodeHeap 'non-nmethods': size=5760Kb used=1024Kb\nCodeHeap 'profiled': size=1Kb used=1024Kb\n"
    assert java.code_mib(segments) == 2
    assert java.loaders_and_classes("\nTotal Usage - 1023 loaders, 26144 classes (17192 shared):\n") == (
        1023,
        26144,
    )


def test_collections_are_read_from_javas_log() -> None:
    log = (
        "[1.2s][info][gc] GC(0) Pause Young (Allocation Failure) 78M->10M(90M) 9.1ms\n"
        "[2.3s][info][gc] Using Serial\n"
        "[9.9s][info][gc] GC(1) Pause Full (Metadata GC Threshold) 449M->157M(400M) 310.0ms\n"
    )
    young, full = java.collections(log)
    assert (young.full, young.after_mib, young.heap_mib) == (False, 10, 90)
    assert (full.full, full.after_mib, full.heap_mib) == (True, 157, 400)


def test_a_histogram_names_the_classes_that_grew_the_most() -> None:
    head = " num     #instances         #bytes  class name (module)\n----\n"
    early = java.histogram(head + "   1:  10  1000  [B (java.base@17)\n   2:  5  500  a.Plan\n")
    late = java.histogram(
        head + "   1:  11  1100  [B (java.base@17)\n   2:  50  5000  a.Plan\n   3: 1 64 a.New\n"
    )
    assert late.growth_since(early, 2) == [("a.Plan", 4500, 45), ("[B", 100, 1)]
    assert math.isclose(late.mib, 6164 / 2**20)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".bronze-checkpoint/offsets/17", "checkpoint"),
        ("bronze/_spark_metadata/9.compact", "sink_log"),
        ("bronze/part-00000.parquet", "bronze"),
        (".spark/scratch/blockmgr-1/00/rdd_1_0", "scratch"),
        ("usage_hour/run=1/part-0.parquet", "data_sets"),
        ("wake", "other"),
    ],
)
def test_a_file_of_the_data_sets_folder_has_a_kind(path: str, kind: str) -> None:
    assert kind_of(Path(path)) == kind
