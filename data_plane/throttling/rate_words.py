"""The words of a refusal by a rate: the whole limit, this broker's share of it, and when to come again."""

from data_plane.throttling.pacing import Pace
from penstock.rules.limit_words import MANAGERS, OPERATORS, PAYERS, limit_words


def rate_words(limit: str, pace: Pace, clears_ms: int, *, units: int = 1) -> str:
    """`units`: what the pace counts for each thing that a reader knows. `clears_ms`: until it is worth another try."""
    raised_by = OPERATORS
    if pace.topic:
        raised_by = PAYERS
    elif pace.principal:
        raised_by = MANAGERS
    return limit_words(
        limit,
        f"{pace.whose} may use {_per_s(pace.limit_per_s, units)} a second over all brokers, and this broker's share"
        f" now, {_per_s(pace.bytes_per_s, units)}, is all used",
        clears=f"in {clears_ms} ms",
        raised_by=raised_by,
    )


def _per_s(rate: int, units: int) -> str:
    whole, rest = divmod(rate, units)
    return f"{whole}" if whole >= 10 or not rest else f"{rate / units:.1f}"
