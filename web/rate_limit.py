"""Limits on guessing: attempts counted by address and by whom they are for, within a minute."""

import hashlib

from django.core.cache import cache

from penstock.contract.errors import Throttled

WINDOW_S = 60


def spend(what: str, who: str, most: int) -> None:
    """Count one attempt. Raises `Throttled` beyond `most` in a minute."""
    key = f"console-{what}-{hashlib.sha256(who.encode()).hexdigest()}"
    cache.add(key, 0, WINDOW_S)
    try:
        attempts = cache.incr(key)
    except ValueError:
        return  # the minute ended between the two
    if attempts > most:
        raise Throttled("too many attempts; wait a minute and try again")
