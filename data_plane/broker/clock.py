"""The real clock and the operating system's randomness."""

import os
import random
import secrets
import time

OFFSET_VARIABLE = "PENSTOCK_CLOCK_OFFSET_MS"
"""Environment variable: milliseconds added to the machine's clock. All processes of a service need the same one; it is
for trying out what happens at the end of a month.
"""


def clock_offset_ms() -> int:
    """The offset set in the environment, 0 without one. Raises `ValueError` when it is no whole number."""
    text = os.environ.get(OFFSET_VARIABLE) or "0"
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{OFFSET_VARIABLE}: {text!r} is no whole number of milliseconds") from None


class SystemClock:
    """See the Clock port."""

    def __init__(self) -> None:
        self._offset_ms = clock_offset_ms()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._offset_ms

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000

    def processor_ms(self) -> float:
        return time.thread_time() * 1000


class SystemRng:
    """See the Rng port. `chance` never takes a rare branch on purpose."""

    def random_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    def chance(self, name: str) -> bool:
        return False
