"""When a failed delivery is tried again, and when it is given up. Pure."""

from datetime import datetime, timedelta

PAUSES = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 30, 120, 600, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
"""After the first failure, the second, …: together 75.7 hours, as Standard Webhooks recommends. After one failure more
than there are pauses the webhook is switched off.
"""
JITTER = 0.2
"""A pause is longer by up to this part, so that what failed together does not come back together."""
RETRY_AFTER_MAX = timedelta(hours=24)
"""The longest that an endpoint may ask to be left alone."""
FAILING_MAX = timedelta(days=5)
"""However long the pauses are that it asks for."""
FAILURES_MIN = 6
"""Fewer are no reason to give it up, however long they have taken: the worker may have stopped, or the tenant was
suspended. At the longest pauses that an endpoint may ask for, the sixth comes after `FAILING_MAX`.
"""


def next_attempt(
    failures: int, failing_since: datetime, now: datetime, *, retry_after: timedelta | None, chance: float
) -> datetime | None:
    """When to try again after this many failures, the last one now; None: it is given up.

    `chance` is random, 0 to 1. `retry_after`: what the endpoint asked for.
    """
    too_long = failures >= FAILURES_MIN and now - failing_since >= FAILING_MAX
    if failures > len(PAUSES) or too_long:
        return None
    pause = PAUSES[failures - 1] * (1 + JITTER * chance)
    if retry_after is not None:
        pause = max(pause, min(retry_after, RETRY_AFTER_MAX))
    return now + pause
