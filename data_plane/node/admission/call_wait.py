"""How long one call waits before it begins, for all limits and shares of its tenant together.

A call that waits longer is refused with when to come back: its client hears a reason before it gives the call up, and
a call without a client takes no place in a line.
"""

import asyncio

from data_plane.node.ports import Clock
from penstock.contract.limits import CALL_WAIT_MS_MAX


class CallWait:
    """The wait of one call, which has just come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + CALL_WAIT_MS_MAX

    @property
    def left_ms(self) -> float:
        """At least 0."""
        return max(0.0, self._until_ms - self._clock.monotonic_ms())

    def limit(self) -> asyncio.Timeout:
        """A context in which the call waits; it ends with `TimeoutError` when the time is up."""
        return asyncio.timeout(self.left_ms / 1000)


def limited(wait: CallWait | None) -> asyncio.Timeout:
    """`wait.limit()`; a context without an end for what is no call."""
    return asyncio.timeout(None) if wait is None else wait.limit()
