"""Division of a period's cost over days, topics, principals, groups and tags. Pure, in integer micro-units.

Each item of a meter costs the same in a period, whichever came first: an amount is divided by quantity, by largest
remainders (`penstock.rules.allocation.apportion`), so that parts add up to it. First over the days of the period; then
a bucket (a day, a month, all of the time asked for) over topics, and a topic's part over principals. What is of no
meter is divided by time.
"""

from collections.abc import Hashable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from billing.cost_periods import Period
from penstock.rules.allocation import apportion

Key = TypeVar("Key", bound=Hashable)


def divided(amount_micro: int, weights: Mapping[Key, int], otherwise: Key) -> dict[Key, int]:
    """The amount by weight, negative ones counted as 0; all of it to `otherwise` where nothing has any weight. The
    parts add up to the amount, whichever sign it has. Of equal remainders the first key in order is rounded up.
    """
    positive = {key: weights[key] for key in sorted(weights, key=str) if weights[key] > 0}
    if not positive:
        return {otherwise: amount_micro} if amount_micro else {}
    parts = apportion(abs(amount_micro), positive)
    return parts if amount_micro >= 0 else {key: -part for key, part in parts.items()}


def by_day(period: Period, meter: str, quantities: Mapping[date, int]) -> dict[date, int]:
    """A meter's amount by day of the period. What came late, of days before it, is of its first day."""
    weights: dict[date, int] = {}
    for day, quantity in quantities.items():
        within = within_days(period, day)
        weights[within] = weights.get(within, 0) + quantity
    return divided(period.lines[meter], weights, period.last_day)


def beside_by_day(period: Period, amount_micro: int) -> dict[date, int]:
    """What is of no meter, by the time of each day within the period."""
    weights: dict[date, int] = {}
    day = period.first_day
    while day <= period.last_day:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        inside = min(begin + timedelta(days=1), period.ends) - max(begin, period.begins)
        weights[day] = inside // timedelta(milliseconds=1)
        day += timedelta(days=1)
    return divided(amount_micro, weights, period.last_day)


def within_days(period: Period, day: date) -> date:
    """The day, or the period's nearest one."""
    return min(max(day, period.first_day), period.last_day)


def month_within(period: Period, month: date) -> date:
    """The first of the month, or of the period's nearest one."""
    return min(max(month, period.first_day.replace(day=1)), period.last_day.replace(day=1))
