"""Days that lie outside what the days before them said. Pure, in integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from billing.forecasting import HISTORY_DAYS_MAX, SHARE, WEEK, weekday_shares

HISTORY_DAYS_MIN = 3 * WEEK
"""Whole days before a day of which something can be said."""
DEVIATIONS_TENTHS_MIN = 40
"""How far a day lies outside at least, in tenths of a robust standard deviation: four."""
PERCENT_MIN = 30
"""By how much of what was expected a day differs at least: very even days are no reason to report a little more."""
_LEVEL_DAYS = 2 * WEEK
_SPREAD_FLOOR = 50
"""A deviation is at least a 50th of what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A day, what was expected of it, and where it would have been usual. `deviations_tenths` is negative below."""

    day: date
    quantity: int
    expected: int
    low: int
    high: int
    deviations_tenths: int


def find(quantities: Sequence[int], *, first: date, since: date) -> list[Anomaly]:
    """The anomalies among whole days from `since` on. `quantities` are those of the days from `first` on.

    What is expected of a day is the middle of the 14 days before it, times the share of its weekday; one deviation is
    1.4826 times the middle difference of the days before from that.
    """
    found = []
    begin = max(HISTORY_DAYS_MIN, (since - first).days)
    for position in range(begin, len(quantities)):
        before = quantities[max(0, position - HISTORY_DAYS_MAX) : position]
        one = _judged(before, quantities[position], first + timedelta(days=position))
        if one is not None:
            found.append(one)
    return found


def _judged(before: Sequence[int], quantity: int, day: date) -> Anomaly | None:
    first_weekday = (day.weekday() - len(before)) % WEEK
    shares = weekday_shares(before, first_weekday) or (SHARE,) * WEEK
    share_of = [shares[(first_weekday + position) % WEEK] for position in range(len(before) + 1)]
    level = _usual(before[-_LEVEL_DAYS:], share_of[len(before) - _LEVEL_DAYS : len(before)])
    expected = level * share_of[-1] // SHARE
    differences = [
        abs(amount - level * share // SHARE)
        for amount, share in list(zip(before, share_of, strict=False))[-2 * _LEVEL_DAYS :]
    ]
    deviation = max(_middle(differences) * 14826 // 10_000, expected // _SPREAD_FLOOR, 1)
    tenths = (quantity - expected) * 10 // deviation
    if abs(tenths) < DEVIATIONS_TENTHS_MIN or abs(quantity - expected) * 100 < expected * PERCENT_MIN:
        return None
    reach = max(deviation * DEVIATIONS_TENTHS_MIN // 10, expected * PERCENT_MIN // 100)
    return Anomaly(
        day=day,
        quantity=quantity,
        expected=expected,
        low=max(0, expected - reach),
        high=expected + reach,
        deviations_tenths=tenths,
    )


def _usual(amounts: Sequence[int], shares: Sequence[int]) -> int:
    """The middle day, as if its weekday were a mean one. Weekdays on which next to nothing is usual say nothing."""
    pairs = zip(amounts, shares, strict=True)
    return _middle([amount * SHARE // share for amount, share in pairs if share * 10 >= SHARE] or [0])


def _middle(values: Sequence[int]) -> int:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
