"""Anomalies: days outside what the days before said, and no others."""

import random
from datetime import timedelta

import pytest

from benchmarks import usage_forecasts
from billing import anomalies

FIRST = usage_forecasts.BEGINS


def found(days: list[int], since: int = 0) -> list[anomalies.Anomaly]:
    return anomalies.find(days, first=FIRST, since=FIRST + timedelta(days=since))


@pytest.mark.parametrize("make", [usage_forecasts.flat, usage_forecasts.weekly, usage_forecasts.growth])
def test_usual_days_are_hardly_ever_named(make: usage_forecasts.Made) -> None:
    named = [one for seed in range(4) for one in found(make(random.Random(seed)))]
    assert len(named) <= 4 * usage_forecasts.DAYS // 100, "one day in a hundred at most"


def test_a_burst_is_named_with_what_was_expected_and_the_days_after_it_are_not() -> None:
    days = usage_forecasts.weekly(random.Random(1))
    days[200] *= 6
    near = [
        one for one in found(days) if FIRST + timedelta(days=190) <= one.day < FIRST + timedelta(days=215)
    ]
    assert [one.day for one in near] == [FIRST + timedelta(days=200)]
    assert near[0].quantity == days[200] > near[0].high > near[0].expected
    assert near[0].expected == pytest.approx(days[200] / 6, rel=0.3)
    assert near[0].deviations_tenths > 100


def test_a_day_on_which_nothing_came_is_named_and_an_empty_sunday_is_not() -> None:
    week = [100, 101, 99, 100, 102, 0, 0]
    assert found(week * 8) == []
    days = week * 8
    days[51] = 0
    assert [(one.day, one.deviations_tenths < 0) for one in found(days)] == [(FIRST + timedelta(51), True)]


def test_a_new_level_is_usual_after_a_week() -> None:
    named = {(one.day - FIRST).days for one in found([100, 102, 98, 101, 99] * 12 + [250] * 30)}
    assert named == set(range(60, 60 + len(named))) and 6 <= len(named) <= 9


def test_with_less_than_three_weeks_nothing_is_said() -> None:
    assert found([100] * 20 + [10_000]) == []
    assert [one.quantity for one in found([100] * 21 + [10_000])] == [10_000]


def test_days_before_those_that_were_asked_for_are_not_named() -> None:
    days = [100] * 30
    days[25] = 900
    assert found(days, since=26) == []
    assert len(found(days, since=25)) == 1


def test_little_more_than_very_even_days_is_not_named() -> None:
    assert found([1000] * 30 + [1290]) == []
    assert [one.day for one in found([1000] * 30 + [1310])] == [FIRST + timedelta(days=30)]


def test_the_first_use_after_nothing_is_named() -> None:
    assert [(one.expected, one.quantity) for one in found([0] * 30 + [50])] == [(0, 50)]
    assert found([]) == [] and found([0] * 40) == []
