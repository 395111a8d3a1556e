"""Forecasts of usage: on held-out months beside simpler ones, and what they promise of little or strange history."""

from datetime import date, timedelta

import pytest

from benchmarks import usage_forecasts
from billing import forecasting
from billing.forecasting import Basis, Forecast, Range, forecast

TODAY = date(2026, 11, 16)
"""A Monday."""
WORKING_WEEK = [100, 120, 120, 110, 90, 10, 0]


def of(days: list[int], ahead: int = 14, today_left: int = 1024) -> Forecast:
    return forecast(days, today=TODAY, days=ahead, today_left=today_left)


@pytest.mark.parametrize("make", usage_forecasts.KINDS, ids=lambda make: make.__name__)
def test_on_months_that_it_has_not_seen_it_errs_less_than_simpler_ones_and_its_interval_holds(
    make: usage_forecasts.Made,
) -> None:
    found = usage_forecasts.of_kind(make, seeds=6)
    assert 700 <= found.covered <= 950, "four of five months lie within the interval, more or less"
    simpler = min(found.run_rate_error, found.last_week_error)
    if make is usage_forecasts.wandering:  # where nothing of the past says anything but yesterday
        simpler += 15
    assert found.error <= simpler
    assert found.width < 2500


def test_weekdays_are_seen_and_forecast_one_by_one() -> None:
    found = of(WORKING_WEEK * 8)
    assert found.basis is Basis.WEEKDAYS
    assert [day.expected for day in found.days] == pytest.approx(WORKING_WEEK * 2, abs=1)
    assert found.days[0].day == TODAY
    assert found.rest.expected == pytest.approx(1100, abs=2)


def test_equal_days_have_no_weekdays_and_no_width() -> None:
    found = of([50] * 40)
    assert found.basis is Basis.LEVEL
    assert found.rest == Range(low=700, expected=700, high=700)
    assert found.trend_per_week == 0


def test_steady_growth_goes_on_and_fades() -> None:
    found = of([1000 + 10 * day for day in range(70)], ahead=28)
    assert 450 <= found.trend_per_week <= 490, "seven times ten a day, over seven days"
    assert 1700 <= found.days[0].expected <= 1715
    assert 1880 <= found.days[-1].expected <= 1980


def test_a_step_is_no_trend_and_the_days_before_it_no_longer_count() -> None:
    found = of([100] * 60 + [250] * 10)
    assert found.trend_per_week == 0
    assert {day.expected for day in found.days} == {250}


def test_a_step_shows_after_four_days_and_one_burst_is_none() -> None:
    assert {day.expected for day in of([100] * 60 + [250] * 4).days} == {250}
    burst = [*[100] * 66, 2500, 100, 100, 100]
    assert of(burst).days[0].expected < 500


def test_with_less_than_two_weeks_it_says_so_and_gives_the_mean_day() -> None:
    found = of([100, 300] * 6 + [200])
    assert (found.basis, found.history_days) == (Basis.RUN_RATE, 13)
    assert found.rest == Range(low=700, expected=2800, high=8400)
    assert of([100, 300] * 7).basis is not Basis.RUN_RATE


def test_on_the_first_day_the_hours_so_far_are_the_rate() -> None:
    found = forecast([], today=TODAY, days=2, today_left=512, today_so_far=60)
    assert [day.expected for day in found.days] == [60, 120]
    assert forecast([], today=TODAY, days=2, today_left=1024, today_so_far=0).rest.high == 0


def test_of_today_only_what_is_left_of_it_is_to_come() -> None:
    assert [day.expected for day in of([96] * 30, ahead=2, today_left=256).days] == [24, 96]


def test_nothing_is_to_come_of_a_period_that_is_over() -> None:
    assert of([100] * 30, ahead=0).rest == Range(low=0, expected=0, high=0)


@pytest.mark.parametrize(
    "days",
    [[0] * 30, [0] * 29 + [10**30], [10**30] + [0] * 29, [1] * 14, [-5] * 20, [0, 10**18] * 40],
    ids=["nothing", "all on the last day", "all on the first", "ones", "reversals", "now and then"],
)
def test_strange_days_give_an_ordered_answer(days: list[int]) -> None:
    found = of(days, ahead=31)
    expected = [day.up_to.expected for day in found.days]
    assert expected == sorted(expected), "sums grow"
    assert all(day.expected >= 0 for day in found.days)


def test_the_same_days_give_the_same_answer_and_old_ones_do_not_count() -> None:
    days = [(7 * index * index) % 1000 for index in range(84)]
    assert of(days) == of(days) == of([10**9] * 5 + days)


def test_the_interval_grows_with_the_days() -> None:
    days = [100 + (37 * index) % 50 for index in range(84)]
    widths = [day.up_to.high - day.up_to.low for day in of(days, ahead=28).days]
    assert widths[0] < widths[13] < widths[27]


def test_more_days_than_a_period_has_are_refused() -> None:
    with pytest.raises(Exception, match="days of a period"):
        forecast([1], today=TODAY, days=forecasting.DAYS_AHEAD_MAX + 1)


def test_a_batch_once_a_week_is_expected_on_its_weekday_alone() -> None:
    days = [700 if (TODAY - timedelta(days=56 - index)).weekday() == 2 else 0 for index in range(56)]
    assert [day.expected for day in of(days, ahead=7).days] == [0, 0, 700, 0, 0, 0, 0]
