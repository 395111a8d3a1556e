"""Token buckets: how often something may happen, per key, within a bounded number of keys.

Times are monotonic milliseconds of one clock. Levels are whole numbers: one token is 60,000 units, so a
bucket gains exactly `per_minute` units each millisecond.
"""

from collections import OrderedDict

from penstock.contract.invariant import invariant

BUCKETS_MAX = 100_000
"""About 20 MB; callers that make up names cannot take more."""
_TOKEN = 60_000


class TokenBuckets:
    """One bucket for each key: up to `burst` at once, refilled at `per_minute`.

    A key that was never seen has a full bucket. With more than `buckets_max` keys the one used longest ago
    is forgotten, which is the same as filling it.
    """

    def __init__(self, *, per_minute: int, burst: int, buckets_max: int = BUCKETS_MAX) -> None:
        invariant(per_minute >= 1 and burst >= 1 and buckets_max >= 1, "rate, burst and bound are at least 1")
        self.per_minute = per_minute
        self.burst = burst
        self.buckets_max = buckets_max
        self._buckets: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_ms(self, key: str, now_ms: float, amount: int = 1) -> int:
        """How long until `amount` may be taken; 0 = now. Takes nothing. `amount` is at most `burst`."""
        missing = amount * _TOKEN - self._level(key, now_ms)
        return 0 if missing <= 0 else -(-missing // self.per_minute)

    def take(self, key: str, now_ms: float, amount: int = 1) -> int:
        """Take `amount` and answer 0, or take nothing and answer how many ms to wait."""
        invariant(amount <= self.burst, "more than a full bucket can never be taken")
        wait = self.wait_ms(key, now_ms, amount)
        if wait == 0:
            self._put(key, self._level(key, now_ms) - amount * _TOKEN, now_ms)
        return wait

    def drain(self, key: str, now_ms: float, amount: int = 1) -> None:
        """Take `amount`, or all that is left: for what has already happened."""
        self._put(key, max(0, self._level(key, now_ms) - amount * _TOKEN), now_ms)

    def _level(self, key: str, now_ms: float) -> int:
        bucket = self._buckets.get(key)
        if bucket is None:
            return self.burst * _TOKEN
        level, at_ms = bucket
        return min(self.burst * _TOKEN, level + max(0, int(now_ms) - at_ms) * self.per_minute)

    def _put(self, key: str, level: int, now_ms: float) -> None:
        self._buckets[key] = (level, int(now_ms))
        self._buckets.move_to_end(key)
        if len(self._buckets) > self.buckets_max:
            self._buckets.popitem(last=False)
