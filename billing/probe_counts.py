"""What a prober has tried, by minute, until it is written. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.rules.service_levels import Counts

MINUTES_KEPT = 24 * 60
"""Of a prober that cannot write, the newest: the service's database is away for longer than a day then."""


class MinuteKey(NamedTuple):
    operation: str
    minute: int
    """Since 1970 UTC."""


class ProbeCounts:
    """What one prober has tried, by minute, until it is written and over. `known`: what it wrote before it was started
    again, so that its minute goes on.
    """

    def __init__(self, known: Mapping[MinuteKey, Counts]) -> None:
        self._counts = dict(known)

    def note(self, operation: str, minute: int, *, good: bool) -> None:
        key = MinuteKey(operation, minute)
        found = self._counts.get(key, Counts())
        self._counts[key] = Counts(valid=found.valid + 1, bad=found.bad + (not good))
        if len(self._counts) > 2 * MINUTES_KEPT:
            del self._counts[min(self._counts, key=lambda one: one.minute)]

    def to_write(self) -> dict[MinuteKey, Counts]:
        return dict(self._counts)

    def written(self, taken: Mapping[MinuteKey, Counts], minute: int) -> None:
        """`taken` is in the database. Minutes before `minute`, the present one, are over and forgotten."""
        for key, counts in taken.items():
            if key.minute < minute and self._counts.get(key) == counts:
                del self._counts[key]
