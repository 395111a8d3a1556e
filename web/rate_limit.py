"""Limits against guessing: attempts in a minute by address and by account, counted over all web processes."""

import math

from control_plane.keyed_digests import keyed_digest
from control_plane.rate_counters import counters
from penstock.contract.errors import Throttled

WINDOW_S = 60


def spend(what: str, who: str, most: int, *, window_s: int = WINDOW_S) -> None:
    """Count one attempt. Raises `Throttled` beyond `most` in a minute, or in `window_s`."""
    # The names stand in a file or in Redis, where a plain hash of an address can be guessed.
    name = f"console-{what}-{keyed_digest('throttle', who.encode(errors='backslashreplace'))}"
    spent = counters().spend(name, most=most, window_s=window_s)
    if not spent.allowed:
        raise Throttled(f"too many attempts; wait {max(1, math.ceil(spent.left_s))} s and try again")
