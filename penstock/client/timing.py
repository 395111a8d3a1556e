"""Times of the client, in ms of the clock that its cores are given, and the backoff between attempts."""

from random import Random

NEVER = float("inf")
"""A time that does not come."""
_DOUBLINGS_MAX = 16


class Backoff:
    """Exponential backoff with jitter: delays double from `first_ms` up to `longest_ms`, and each is drawn from the
    upper half of its range.
    """

    __slots__ = ("_first_ms", "_longest_ms", "_random")

    def __init__(self, first_ms: float, longest_ms: float, random: Random) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._random = random

    def delay_ms(self, failures: int) -> float:
        """How long to wait after `failures` failures in a row (1 = the first)."""
        doublings = min(max(failures - 1, 0), _DOUBLINGS_MAX)
        ceiling: float = min(self._longest_ms, self._first_ms * 2.0**doublings)
        return ceiling * (0.5 + 0.5 * self._random.random())
