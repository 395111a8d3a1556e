"""The share of months that a period is, exactly and in integers."""

from calendar import monthrange

from penstock.rules.timestamps import DAY_MS, moment_of

_PARTS_A_MONTH_OF_DAYS = 28 * 29 * 30 * 31
"""Divided by the days of any month without a rest."""
MONTH_PARTS = _PARTS_A_MONTH_OF_DAYS * DAY_MS
"""A UTC month, however long it is."""


def month_parts(period_start_ms: int, period_end_ms: int) -> int:
    """[start, end) in `MONTH_PARTS` of a UTC month. Each ms counts as its part of the month that it is in, so parts of
    a month that follow one another add up to it.
    """
    return _since_1970(period_end_ms) - _since_1970(period_start_ms)


def _since_1970(at_ms: int) -> int:
    moment = moment_of(at_ms)
    _, days = monthrange(moment.year, moment.month)
    month = (moment.year - 1970) * 12 + moment.month - 1
    gone_ms = (
        (moment.day - 1) * DAY_MS
        + (moment.hour * 3_600 + moment.minute * 60 + moment.second) * 1_000
        + moment.microsecond // 1_000
    )
    return month * MONTH_PARTS + gone_ms * (_PARTS_A_MONTH_OF_DAYS // days)
