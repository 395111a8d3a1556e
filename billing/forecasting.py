"""What the rest of a period will hold, from whole days before it: expected, and an interval. Pure, in integers.

The method, for a series of days of one meter:

1. *Level*: a mean of the last whole weeks since the newest step; a week counts `weight` times as much as the week
   after it. So no weekday is in it more often than another. Which of `WEIGHTS` is taken is decided by the days
   themselves: the one that would have said the next seven days best.
2. *Weekdays*: the median share of each weekday in its week, if that explains weeks that it was not taken from better
   than equal days do.
3. *Trend*: the median slope between weeks since that step (Theil and Sen), if nearly all pairs of weeks agree in its
   sign (Mann and Kendall) and the last four weeks have it, too. It fades: in a month it goes on for some 25 days.
4. *Interval*: what the days before differed by from what was expected of them, drawn in whole weeks and added up along
   `PATHS` made-up futures, in which the level moves as it did. The interval is between two quantiles of their sums.

The draws are those of a fixed sequence, so the same days always give the same answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from itertools import combinations

from penstock.contract.invariant import invariant

WEEK = 7
HISTORY_DAYS_MIN = 2 * WEEK
"""Whole days that a forecast needs: fewer say nothing of weekdays and nothing of what is usual."""
HISTORY_DAYS_MAX = 12 * WEEK
"""What is older says little of this month."""
DAYS_AHEAD_MAX = 62
INTERVAL_PERCENT = 80
PATHS = 240
WEIGHTS = (0, 1, 2, 3, 4)
"""Quarters that a week counts of the week after it: 0 is the last week alone, 4 are all weeks alike."""
_QUARTERS = 4
_ONE = 1 << 10
"""Levels are kept in parts of an item."""
SHARE = 10_000
"""The share of a weekday that is as the mean of its week."""
_FADES = 64
_SCALE_MAX = 4
"""A difference of a day when there was much less, or much more, counts so many times at most."""
_TREND_PAIRS = {5: 8, 6: 11, 7: 13, 8: 16, 9: 18, 10: 21, 11: 23, 12: 26}
"""By the number of weeks: rising less falling pairs that chance reaches once in about 25 times (Kendall's table)."""
_SHARE_WEEKS_MIN = 2
"""Of whole weeks with three days on both sides: shares of weekdays need 20 days."""
_STEP_DAYS_MIN = 4
"""So many days in a row that are all above, or all below, their weekdays of three weeks by a quarter are a step."""
_WHOLE_WEEKS_FROM = 4 * WEEK
"""Days from which on whole weeks are enough to draw from."""
_RUN_RATE_LOW, _RUN_RATE_HIGH = 4, 3
"""Without a history: the rest may be a quarter of the rate, or three times it."""


class Basis(StrEnum):
    """What a forecast stands on."""

    WEEKDAYS = "weekdays"
    """A level with the shares of weekdays."""
    LEVEL = "level"
    """A level: no weekday stands out."""
    RUN_RATE = "run_rate"
    """Too little history: the mean day so far, and a wide interval that no past has tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Whole items. The interval holds what is expected."""

    low: int
    expected: int
    high: int

    def __post_init__(self) -> None:
        invariant(0 <= self.low <= self.expected <= self.high, "what is expected lies within its interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastDay:
    """One day to come, or the rest of the running one. `up_to` is all that is to come, to the day's end."""

    day: date
    expected: int
    up_to: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    basis: Basis
    history_days: int
    """Whole days that it was made of."""
    trend_per_week: int
    """What a week has more than the week before it; 0: no trend was seen."""
    days: tuple[ForecastDay, ...]

    @property
    def rest(self) -> Range:
        """All that is to come."""
        return self.days[-1].up_to if self.days else Range(low=0, expected=0, high=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What whole days say of the next ones. Levels are in `_ONE` parts of an item."""

    level: int
    slope: int
    """Of a day."""
    weight: int
    shares: tuple[int, ...] | None
    """Of the weekdays from Monday on, their mean is `SHARE`; None: no weekday stands out."""
    differences: tuple[tuple[int, ...], ...]
    """Of weeks of days, from what was expected of them, at the size of today's level."""

    def expected(self, day: date, ahead: int) -> int:
        """Of a day, `ahead` days after the last one (from 1 on), in `_ONE` parts of an item."""
        share = SHARE if self.shares is None else self.shares[day.weekday()]
        gone = self.slope * ahead * 2 * _FADES // (2 * _FADES + ahead)
        return max(0, self.level + gone) * share // SHARE


def forecast(
    quantities: Sequence[int], *, today: date, days: int, today_left: int = _ONE, today_so_far: int = 0
) -> Forecast:
    """The rest of today (`today_left` of 1024 parts of it) and the days after it, `days` in all.

    `quantities` are those of the whole days before today, the last one yesterday's. Of them at most
    `HISTORY_DAYS_MAX` count. `today_so_far` is used only where there is too little history.
    """
    invariant(0 <= days <= DAYS_AHEAD_MAX, "a forecast is of the days of a period")
    invariant(0 <= today_left <= _ONE, "a part of today is left")
    history = [max(0, quantity) for quantity in quantities[-HISTORY_DAYS_MAX:]]
    coming = [today + timedelta(days=ahead) for ahead in range(days)]
    if len(history) < HISTORY_DAYS_MIN:
        return _run_rate(history, coming, today_left, today_so_far)
    found = fit(history, last=today - timedelta(days=1))
    means = [found.expected(day, ahead) for ahead, day in enumerate(coming, start=1)]
    if means:
        means[0] = means[0] * today_left // _ONE
    sums = _path_sums(found, coming, means, today_left)
    shown, total = [], 0
    for index, day in enumerate(coming):
        total += means[index]
        low, high = _interval(sums[index])
        expected = _items(total)
        shown.append(
            ForecastDay(
                day=day,
                expected=_items(means[index]),
                up_to=Range(
                    low=min(_items(low), expected), expected=expected, high=max(_items(high), expected)
                ),
            )
        )
    return Forecast(
        basis=Basis.LEVEL if found.shares is None else Basis.WEEKDAYS,
        history_days=len(history),
        trend_per_week=found.slope * WEEK * WEEK // _ONE,
        days=tuple(shown),
    )


def fit(history: Sequence[int], *, last: date) -> Fit:
    """What these whole days say, the last of which was `last`; at least `HISTORY_DAYS_MIN` of them."""
    invariant(len(history) >= HISTORY_DAYS_MIN, "two weeks say what is usual")
    first_weekday = (last.weekday() - len(history) + 1) % WEEK
    shares = weekday_shares(history, first_weekday)
    weight = _best_weight(_week_sums(history))
    slope = _slope(history[_since_step(history) :])
    level = max(0, _level_now(history, weight, slope))
    return Fit(
        level=level,
        slope=slope,
        weight=weight,
        shares=shares,
        differences=_differences(history, first_weekday, shares, weight, level),
    )


def _differences(
    history: Sequence[int], first_weekday: int, shares: tuple[int, ...] | None, weight: int, level: int
) -> tuple[tuple[int, ...], ...]:
    """Weeks of differences, from what was expected of each day when the week began, with a mean of 0."""
    count = len(history)
    week_sums = _week_sums(history)
    weeks = []
    for begin in range(WEEK, count):
        then = max(0, _level(week_sums, begin, weight))
        week = []
        for position in range(WEEK):
            # Where the days end, a week goes on with the first ones that were expected.
            at = begin + position if begin + position < count else begin + position - count + WEEK
            share = SHARE if shares is None else shares[(first_weekday + at) % WEEK]
            week.append(_at_size(history[at] * _ONE - then * share // SHARE, then, level))
        weeks.append(week)
    if count >= _WHOLE_WEEKS_FROM:
        weeks = weeks[: count - 2 * WEEK + 1]
    # What all weeks have at a position is a trend within the week. And the weeks that chose level, shares and weight
    # fit them better than the next ones will.
    means = [sum(position) // len(weeks) for position in zip(*weeks, strict=True)]
    apart = count // WEEK - 1
    return tuple(
        tuple((one - mean) * (apart + 2) // apart for one, mean in zip(week, means, strict=True))
        for week in weeks
    )


def _level_now(history: Sequence[int], weight: int, slope: int) -> int:
    """The level after the newest step, which may be some days old only."""
    for days in range(WEEK - 1, _STEP_DAYS_MIN - 1, -1):
        last = range(len(history) - days, len(history))
        before = [[history[at - WEEK * weeks] for weeks in (1, 2, 3) if at >= WEEK * weeks] for at in last]
        pairs = list(zip((history[at] for at in last), before, strict=True))
        if all(day * 4 > max(same) * 5 for day, same in pairs) or all(
            day * 5 < min(same) * 4 for day, same in pairs
        ):
            usual = sum(sum(same) * 6 // len(same) for same in before)
            then = _level(_week_sums(history), len(history) - days, weight)
            return then * 6 * sum(history[at] for at in last) // usual if usual else then
    return _level(_week_sums(history), len(history), weight, slope, begin=_since_step(history))


def _since_step(history: Sequence[int]) -> int:
    """Where the days begin that are like the last ones: after the newest step of the level.

    A step: the middle days of all weeks since are above, or below, those of the four weeks before, by a quarter.
    """
    middles = [_middle(history[end - WEEK : end]) for end in range(len(history), WEEK - 1, -WEEK)]
    for since in range(1, len(middles) - 1):
        after, before = middles[:since], middles[since : since + 4]
        if min(after) * 4 > max(before) * 5 > 0 or max(after) * 5 < min(before) * 4:
            return len(history) - since * WEEK
    return 0


def weekday_shares(history: Sequence[int], first_weekday: int) -> tuple[int, ...] | None:
    """The share of each weekday in the seven days around it, from Monday on; None where weeks are not alike.
    `first_weekday` is that of the first day.
    """
    half = WEEK // 2
    week_sums = _week_sums(history)
    weeks = []
    for end in range(len(history) - half, WEEK + half - 1, -WEEK):
        around = [week_sums[at + half + 1] for at in range(end - WEEK, end)]
        if all(around):
            days = zip(history[end - WEEK : end], around, strict=True)
            weeks.append([day * WEEK * SHARE // total for day, total in days])
    if len(weeks) < _SHARE_WEEKS_MIN:
        return None
    flat = seasonal = 0
    for left_out, week in enumerate(weeks):
        shares = _median_shares([one for index, one in enumerate(weeks) if index != left_out])
        flat += sum(abs(day - SHARE) for day in week)
        seasonal += sum(abs(day - share) for day, share in zip(week, shares, strict=True))
    if seasonal * 10 >= flat * 9:
        return None
    found = _median_shares(weeks)
    start = (first_weekday + len(history) - half) % WEEK
    return tuple(found[(weekday - start) % WEEK] for weekday in range(WEEK))


def _median_shares(weeks: Sequence[Sequence[int]]) -> list[int]:
    """By the position in the week. Their mean is `SHARE`, but for what rounding takes."""
    of_day = [_middle([week[position] for week in weeks]) for position in range(WEEK)]
    total = sum(of_day)
    return [share * WEEK * SHARE // total for share in of_day] if total else [SHARE] * WEEK


def _week_sums(history: Sequence[int]) -> list[int]:
    """At each end the sum of the seven days before it; 0 for ends within the first week."""
    sums = [0] * (len(history) + 1)
    running = 0
    for index, day in enumerate(history):
        running += day - (history[index - WEEK] if index >= WEEK else 0)
        if index >= WEEK - 1:
            sums[index + 1] = running
    return sums


def _middle(values: Sequence[int]) -> int:
    ordered = sorted(values)
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) // 2


def _level(week_sums: Sequence[int], end: int, weight: int, slope: int = 0, begin: int = 0) -> int:
    """The mean of a day at this end, from whole weeks since `begin`."""
    total = parts = 0
    counts = _QUARTERS ** ((end - begin) // WEEK)
    for back, week_end in enumerate(range(end, begin + WEEK - 1, -WEEK)):
        if not counts:
            break
        # A week's mean is that of its middle, three days before its last.
        total += counts * (week_sums[week_end] * _ONE // WEEK + slope * (3 + WEEK * back))
        parts += counts
        counts = counts * weight // _QUARTERS
    return total // parts


def _best_weight(week_sums: Sequence[int]) -> int:
    """By squares of what the next week's mean differed by, at all days. A weight that forgets more has to be clearly
    better: with few weeks chance would choose.
    """
    ends = range(WEEK, len(week_sums) - WEEK)
    best, least = _QUARTERS, None
    for weight in reversed(WEIGHTS):
        error = sum(
            (week_sums[end + WEEK] * _ONE // WEEK - _level(week_sums, end, weight)) ** 2 for end in ends
        )
        if least is None or error * 10 < least * 9:
            best, least = weight, error
    return best


def _slope(history: Sequence[int]) -> int:
    """What a day has more than the day before it; 0 unless weeks agree."""
    weeks = [sum(history[end - WEEK : end]) for end in range(len(history), WEEK - 1, -WEEK)][::-1]
    pairs_min = _TREND_PAIRS.get(len(weeks))
    if pairs_min is None:
        return 0
    signs = sum((later > earlier) - (later < earlier) for earlier, later in combinations(weeks, 2))
    if abs(signs) < pairs_min:
        return 0
    whole, recent = _theil_sen(weeks[-6:]), _theil_sen(weeks[-4:])
    if (whole > 0) != (recent > 0) or (whole > 0) != (signs > 0):
        return 0
    return min(whole, recent, key=abs)


def _theil_sen(weeks: Sequence[int]) -> int:
    slopes = [
        (weeks[later] - weeks[earlier]) * _ONE // (WEEK * WEEK * (later - earlier))
        for earlier, later in combinations(range(len(weeks)), 2)
    ]
    return _middle(slopes)


def _at_size(difference: int, then: int, now: int) -> int:
    """A difference from a level, as it would be at another level."""
    if not then or now > then * _SCALE_MAX:
        return difference * _SCALE_MAX if then and now else difference
    if now * _SCALE_MAX < then:
        return difference // _SCALE_MAX
    return difference * now // then


def _path_sums(found: Fit, coming: Sequence[date], means: Sequence[int], today_left: int) -> list[list[int]]:
    """For each day the sums up to its end, of each made-up future."""
    sums: list[list[int]] = [[] for _ in coming]
    state = 1
    kept = min(found.weight, _QUARTERS - 1)
    for _ in range(PATHS):
        total = moved = 0
        week: Sequence[int] = ()
        for index in range(len(coming)):
            position = index % WEEK
            if not position:
                # A week's difference moves the level, as far as the week counts in it.
                moved += sum(week) * (_QUARTERS - kept) // (_QUARTERS * WEEK)
                state = (state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
                week = found.differences[(state >> 33) % len(found.differences)]
            total += means[index] + (week[position] + moved) * (today_left if index == 0 else _ONE) // _ONE
            sums[index].append(max(0, total))
    return sums


def _interval(sums: Sequence[int]) -> tuple[int, int]:
    ordered = sorted(sums)
    outside = len(ordered) * (100 - INTERVAL_PERCENT) // 200
    return ordered[outside], ordered[-1 - outside]


def _items(parts: int) -> int:
    return (parts + _ONE // 2) // _ONE


def _run_rate(history: Sequence[int], coming: Sequence[date], today_left: int, so_far: int) -> Forecast:
    if history:
        rate = sum(history) * _ONE // len(history)
    else:
        rate = so_far * _ONE * _ONE // max(1, _ONE - today_left)
    shown, total = [], 0
    for index, day in enumerate(coming):
        mean = rate * today_left // _ONE if index == 0 else rate
        total += mean
        shown.append(
            ForecastDay(
                day=day,
                expected=_items(mean),
                up_to=Range(
                    low=_items(total) // _RUN_RATE_LOW,
                    expected=_items(total),
                    high=_items(total) * _RUN_RATE_HIGH,
                ),
            )
        )
    return Forecast(basis=Basis.RUN_RATE, history_days=len(history), trend_per_week=0, days=tuple(shown))
