"""Answers that leave later than they are made, without a thread: who asks again and again gets a slower answer.

The HTTP server puts a callable into the environment of each request; another server may have none, and answers at once.
"""

from collections.abc import Mapping
from typing import Any

DELAY = "penstock.delay_answer"
"""Takes a time of the monotonic clock, before the answer begins. The server may refuse it where many are delayed."""


def delay(environ: Mapping[str, Any], until: float) -> bool:
    """Keep the answer to this request until then. False: it leaves as soon as it is made."""
    asked = environ.get(DELAY)
    return asked is not None and bool(asked(until))
