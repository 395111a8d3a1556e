"""Waits of tests: by events, with one generous bound, for a loaded machine is slow and not wrong."""

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 600.0
"""What never comes fails after this time, and below pytest's own limit; what comes is seen at once."""

_LOOK_S = 0.02


def wait_until(what: str, holds: Callable[[], bool], *, instead: Callable[[], object] = lambda: "") -> float:
    """Seconds until `holds()`; fails with `what` and `instead()` when that never comes.

    Raises:
        AssertionError: when it does not hold within `PATIENCE_S`.
    """
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < PATIENCE_S, f"after {PATIENCE_S:g} s still not: {what}\n{instead()}"
        time.sleep(_LOOK_S)
    return time.monotonic() - began


async def until(what: str, holds: Callable[[], bool]) -> None:
    """As `wait_until`, for coroutines.

    Raises:
        AssertionError: when it does not hold within `PATIENCE_S`.
    """
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < PATIENCE_S, f"after {PATIENCE_S:g} s still not: {what}"
        await asyncio.sleep(_LOOK_S)
