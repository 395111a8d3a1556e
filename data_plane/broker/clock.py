"""The real clock and the operating system's randomness."""

import random
import secrets
import time


class SystemClock:
    """See the Clock port."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000


class SystemRng:
    """See the Rng port. `chance` never takes a rare branch on purpose."""

    def random_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    def chance(self, name: str) -> bool:
        return False
