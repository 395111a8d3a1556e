"""Waits of tests: by events, with one generous bound, for a loaded machine is slow and not wrong."""

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 600.0
"""What never comes fails after this time, and below pytest's own limit; what comes is seen at once."""

_LOOK_S, _LOOK_MAX_S = 0.02, 0.5
_LOOKS_SHARE = 0.1
"""Looks take this part of the time at most: what is waited for needs the processor too."""


def _pause_s(look_s: float) -> float:
    """The seconds between a look that took so long and the next one."""
    return min(_LOOK_MAX_S, max(_LOOK_S, look_s * (1 / _LOOKS_SHARE - 1)))


def wait_until(what: str, holds: Callable[[], bool], *, instead: Callable[[], object] = lambda: "") -> float:
    """Seconds until `holds()`; fails with `what` and `instead()` when that never comes.

    Raises:
        AssertionError: when it does not hold within `PATIENCE_S`.
    """
    began = looked = time.monotonic()
    while not holds():
        now = time.monotonic()
        assert now - began < PATIENCE_S, f"after {PATIENCE_S:g} s still not: {what}\n{instead()}"
        time.sleep(_pause_s(now - looked))
        looked = time.monotonic()
    return time.monotonic() - began


async def until(what: str, holds: Callable[[], bool]) -> None:
    """As `wait_until`, for coroutines.

    Raises:
        AssertionError: when it does not hold within `PATIENCE_S`.
    """
    began = looked = time.monotonic()
    while not holds():
        now = time.monotonic()
        assert now - began < PATIENCE_S, f"after {PATIENCE_S:g} s still not: {what}"
        await asyncio.sleep(_pause_s(now - looked))
        looked = time.monotonic()
