"""Formulas of the service level: windows judged, partial outages, minutes and runs without success, tiers, credit."""

from dataclasses import replace

import pytest

from penstock.contract.invariant import InvariantBroken
from penstock.rules.latency_buckets import bucket_of, percentile_us
from penstock.rules.service_levels import (
    ALL_SECONDS,
    EXCLUDED_WINDOWS_MAX,
    FETCH,
    METADATA,
    PREMIUM_1,
    PRODUCE,
    STANDARD_1,
    WHOLE,
    WINDOW_S,
    Announced,
    Counts,
    FailedMinute,
    LatencyObjective,
    OperationMonth,
    Source,
    Tier,
    binding_parts,
    credit_micro,
    excluded_of,
    judge,
    latency_month,
    operation_month,
    percent,
    runs_without_success,
)

DAY = (0, 86_400)
WINDOWS = 288


def seconds(*spans: tuple[int, int]) -> int:
    """Bits of the seconds [first, end)."""
    return sum(1 << second for first, end in spans for second in range(first, end))


def failed(
    minute: int, failing: int, good: int = 0, *, valid: int = 60, bad: int | None = None
) -> FailedMinute:
    return FailedMinute(
        minute=minute,
        valid=valid,
        bad=(valid if not good else valid // 2) if bad is None else bad,
        succeeded_seconds=good,
        failed_seconds=failing,
    )


def month(
    own: dict[int, Counts],
    *,
    probes: dict[int, Counts] | None = None,
    minutes: list[FailedMinute] | None = None,
    excluded: list[tuple[int, int]] | None = None,
    operation: str = PRODUCE,
) -> OperationMonth:
    return operation_month(operation, DAY, own, probes or {}, minutes or [], excluded or [])


GOOD = {at: Counts(valid=3_000) for at in range(*DAY, WINDOW_S)}


def test_a_day_without_a_fault_is_whole_by_every_formula() -> None:
    found = month(GOOD)
    assert found.mean_parts == found.minutes_parts == found.runs_parts == WHOLE
    assert (found.sources[Source.OWN], found.valid, found.bad, found.imperfect) == (WINDOWS, 864_000, 0, {})


def test_a_partial_outage_counts_by_its_share_in_the_mean_alone() -> None:
    found = month({**GOOD, 600: Counts(valid=3_000, bad=1_500)}, minutes=[
        failed(minute, ALL_SECONDS, ALL_SECONDS) for minute in range(10, 15)
    ])  # fmt: skip
    assert found.mean_parts == (WINDOWS * WHOLE - WHOLE // 2) // WINDOWS
    assert found.minutes_parts == found.runs_parts == WHOLE
    assert found.imperfect == {600: (Source.OWN, Counts(valid=3_000, bad=1_500))}


def test_a_month_is_rounded_down_to_a_part() -> None:
    found = month({0: Counts(valid=30, bad=10), 300: Counts(valid=30)})
    assert found.mean_parts == (666_666_666 + (WINDOWS - 1) * WHOLE) // WINDOWS


def test_a_window_with_few_requests_is_judged_by_probes_and_without_them_by_the_few() -> None:
    few, probes = Counts(valid=19, bad=19), Counts(valid=5, bad=1)
    assert judge(few, probes) == (Source.PROBE, probes)
    assert judge(few, Counts()) == (Source.FEW, few)
    assert judge(replace(few, valid=20), probes) == (Source.OWN, Counts(valid=20, bad=19))
    assert judge(Counts(), Counts()) == (Source.NOTHING, Counts())


def test_what_nothing_judged_counts_as_without_a_failure_and_is_named() -> None:
    found = month({0: Counts(valid=100, bad=50)})
    assert found.mean_parts == (2 * WINDOWS - 1) * WHOLE // (2 * WINDOWS)
    assert (found.sources[Source.OWN], found.sources[Source.NOTHING]) == (1, WINDOWS - 1)
    nothing = month({})
    assert (nothing.mean_parts, nothing.minutes_parts, nothing.runs_parts) == (None, None, None)
    assert nothing.sources[Source.NOTHING] == WINDOWS
    assert percent(nothing.mean_parts) == "not measured"


def test_an_excluded_span_takes_out_each_window_that_it_touches_and_no_other() -> None:
    own = {**GOOD, 600: Counts(valid=100, bad=100), 900: Counts(valid=100, bad=100)}
    found = month(own, excluded=[(899, 900)], minutes=[failed(10, ALL_SECONDS), failed(15, ALL_SECONDS)])
    assert found.sources[Source.EXCLUDED] == 1
    assert list(found.imperfect) == [900]
    assert found.down_minutes == 1
    assert month(own, excluded=[(0, 10**9)]).mean_parts is None
    assert month(own, excluded=[(600, 1_200), (700, 710), (-5, 0)]).sources[Source.EXCLUDED] == 2


def test_windows_outside_of_the_month_count_nothing() -> None:
    found = month({-300: Counts(valid=100, bad=100), 86_400: Counts(valid=100, bad=100), **GOOD})
    assert found.mean_parts == WHOLE
    assert month(GOOD, minutes=[failed(1_440, ALL_SECONDS), failed(-1, ALL_SECONDS)]).down_minutes == 0


def test_a_minute_is_down_only_without_a_single_success() -> None:
    found = month(GOOD, minutes=[failed(3, ALL_SECONDS), failed(4, ALL_SECONDS, 1, valid=60, bad=59)])
    assert found.down_minutes == 1
    assert found.minutes_parts == (1_440 - 1) * WHOLE // 1_440


def test_runs_are_to_the_second_over_minutes_and_shorter_ones_are_none() -> None:
    over = [failed(5, seconds((50, 60)), seconds((0, 50))), failed(6, seconds((0, 50)), seconds((50, 60)))]
    assert runs_without_success(over) == ((350, 410),)
    shorter = [over[0], failed(6, seconds((0, 49)), seconds((49, 60)))]
    assert runs_without_success(shorter) == ()


def test_a_success_in_between_ends_a_run_and_so_does_a_minute_in_which_nobody_asked() -> None:
    broken = [failed(5, ALL_SECONDS & ~(1 << 30), 1 << 30), failed(6, seconds((0, 30)), seconds((31, 60)))]
    assert runs_without_success(broken) == ()
    quiet = [failed(5, seconds((0, 1))), failed(9, seconds((0, 1)))]
    assert runs_without_success(quiet) == ()
    sparse = [failed(5, seconds((0, 1), (59, 60))), failed(6, seconds((58, 59)))]
    assert runs_without_success(sparse) == ((300, 419),)


def test_a_minute_of_an_older_broker_is_one_piece() -> None:
    assert runs_without_success([failed(5, 0)]) == ((300, 360),)
    assert runs_without_success([failed(5, 0, valid=60, bad=59)]) == ()


def test_an_outage_of_known_length_is_measured_within_one_percent_by_each_formula() -> None:
    """1,800 s from 13 s after a minute's start, ten requests a second all day."""
    begin, end = 36_013, 37_813
    own, minutes = {}, []
    for at in range(*DAY, WINDOW_S):
        lost = max(0, min(end, at + WINDOW_S) - max(begin, at))
        own[at] = Counts(valid=3_000, bad=lost * 10)
    for minute in range(begin // 60, end // 60 + 1):
        bits = seconds((max(0, begin - minute * 60), min(60, end - minute * 60)))
        count = bits.bit_count() * 10
        minutes.append(failed(minute, bits, ALL_SECONDS & ~bits, valid=600, bad=count))
    found = month(own, minutes=minutes)
    assert found.runs == ((begin, end),) and found.run_seconds == 1_800
    for parts in (found.mean_parts, found.runs_parts):
        assert parts is not None
        measured = (WHOLE - parts) * 86_400 / WHOLE
        assert abs(measured - 1_800) <= 18
    # Whole minutes only, as those whose formula it is.
    assert found.down_minutes == 29


def test_the_lower_mean_of_produce_and_fetch_binds_and_metadata_does_not() -> None:
    produce = month({0: Counts(valid=100, bad=1)})
    fetch = month({0: Counts(valid=100, bad=2)}, operation=FETCH)
    metadata = month({0: Counts(valid=100, bad=50)}, operation=METADATA)
    assert binding_parts([produce, fetch, metadata]) == WHOLE - -(-20_000_000 // WINDOWS)
    assert binding_parts([produce, metadata]) == WHOLE - -(-10_000_000 // WINDOWS)
    assert binding_parts([metadata, month({})]) is None


@pytest.mark.parametrize(
    ("parts", "points"),
    [
        (WHOLE, 0), (999_500_000, 0), (999_499_999, 1_000), (990_000_000, 1_000), (989_999_999, 2_500),
        (950_000_000, 2_500), (949_999_999, 10_000), (0, 10_000),
    ],
)  # fmt: skip
def test_tiers_begin_just_below_their_share(parts: int, points: int) -> None:
    assert STANDARD_1.basis_points(parts) == points


def test_a_window_is_in_time_when_99_percent_of_its_good_requests_are() -> None:
    """So its 99th percentile is: of 199 requests one may take longer, of 200 two."""
    for good, slow, missed in ((100, 1, 0), (100, 2, 1), (199, 1, 0), (199, 2, 1), (200, 2, 0), (200, 3, 1)):
        found = latency_month(DAY, {0: Counts(valid=good + 7, bad=7)}, {0: slow}, [])
        assert (found.judged, len(found.missed)) == (1, missed), (good, slow)
        histogram = {bucket_of(200.0): good - slow, bucket_of(300.0): slow}
        over = (percentile_us(histogram, 990) or 0) > 250_000
        assert over is bool(missed), "the rule is the percentile"


def test_windows_with_few_good_requests_or_excluded_ones_judge_no_latency() -> None:
    own = {0: Counts(valid=500, bad=401), 300: Counts(valid=100), 86_400: Counts(valid=100)}
    slow = {0: 99, 300: 50, 86_400: 100}
    assert latency_month(DAY, own, slow, [(300, 301)]).parts is None
    assert latency_month(DAY, own, slow, []).parts == (WINDOWS - 1) * WHOLE // WINDOWS
    assert latency_month(DAY, {}, {}, []).parts is None


def test_of_two_credits_the_higher_counts_and_what_was_not_judged_credits_nothing() -> None:
    assert PREMIUM_1.basis_points(WHOLE, WHOLE) == PREMIUM_1.basis_points(None, None) == 0
    assert PREMIUM_1.basis_points(WHOLE, 989_999_999) == 1_000
    assert PREMIUM_1.basis_points(None, 949_999_999) == 2_500
    assert PREMIUM_1.basis_points(989_999_999, 949_999_999) == 10_000
    assert STANDARD_1.basis_points(WHOLE, 0) == 0, "it promises no latencies"
    with pytest.raises(InvariantBroken, match="a latency that is counted"):
        LatencyObjective(within_ms=251, target_parts=WHOLE, tiers=())
    with pytest.raises(InvariantBroken, match="below the target"):
        LatencyObjective(within_ms=250, target_parts=5, tiers=(Tier(below_parts=6, basis_points=1),))


def test_a_credit_is_rounded_up_to_minor_units_and_never_above_the_charge() -> None:
    assert credit_micro(1_000_000, 1_000, 6) == 100_000
    assert credit_micro(1, 1_000, 6) == 1
    assert credit_micro(123_456_789, 2_500, 2) == 30_870_000
    assert credit_micro(5_000, 1_000, 2) == 5_000, "a cent would be more than what was charged"
    assert credit_micro(77, 10_000, 6) == 77
    assert credit_micro(0, 10_000, 2) == credit_micro(77, 0, 2) == 0


def test_a_service_level_that_credits_more_for_more_service_is_none() -> None:
    good, better = (
        Tier(below_parts=990_000_000, basis_points=1_000),
        Tier(below_parts=950_000_000, basis_points=500),
    )
    for tiers in ((good, better), (better, good), (replace(good, basis_points=10_001),)):
        with pytest.raises(InvariantBroken):
            replace(STANDARD_1, tiers=tiers)
    with pytest.raises(InvariantBroken, match="a latency that is counted"):
        replace(STANDARD_1, latency_ms=120)


def test_a_share_is_shown_rounded_down() -> None:
    assert percent(999_999_999) == "99.999 %"
    assert percent(WHOLE) == "100.000 %"
    assert percent(7) == "0.000 %"


def announced(name: str, from_s: int, until_s: int, announced_s: int = 0) -> Announced:
    return Announced(id=name, from_s=from_s, until_s=until_s, announced_s=announced_s, reason="drill")


def test_only_what_was_to_come_when_it_was_announced_is_excluded() -> None:
    spans = excluded_of([announced("late", 0, 1_000, 301), announced("over", 0, 600, 900)], DAY)
    assert [(span.id, span.from_s, span.until_s) for span in spans] == [("late", 600, 1_000)]


def test_no_more_of_a_month_is_excluded_than_its_bound_and_the_first_announced_hold() -> None:
    long = announced("long", 0, EXCLUDED_WINDOWS_MAX * WINDOW_S, 0)
    more = announced("more", long.until_s, long.until_s + 1, 0)
    again = announced("again", 600, 900, 0)
    assert [span.id for span in excluded_of([replace(more, announced_s=1), again, long], DAY)] == [
        "long",
        "again",
    ]
    assert excluded_of([replace(long, until_s=long.until_s + 1)], DAY) == []
