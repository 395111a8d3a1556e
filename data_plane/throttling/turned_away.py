"""How long a call that was not admitted waits for its refusal.

Whoever calls without a key, or with a wrong one, and calls again at once takes more of a broker than the refusals are
worth. So each address is told of ANSWERED_PER_S a second. Those that wait hold a place, so there is a bound of them,
above which a refusal costs less at once. Times are monotonic milliseconds.
"""

ANSWERED_PER_S = 100
"""To one address; as many at once after a second without."""
HELD_PER_ADDRESS_MAX = 2_000
HELD_MAX = 5_000
"""A waiting call takes some 20 KB."""
_EVERY_MS = 1_000 / ANSWERED_PER_S
_AT_ONCE_MS = 1_000.0
_WAIT_MS_MAX = HELD_PER_ADDRESS_MAX * _EVERY_MS
"""When all that may wait do so. Who hangs up while it waits and calls again moves nobody's answer further away."""
_FORGOTTEN_EVERY = 1_000


class TurnedAway:
    """All addresses' on one listener."""

    def __init__(self) -> None:
        self._next_ms: dict[str, float] = {}
        """Until when each address has used up its answers."""
        self._held: dict[str, int] = {}
        """Only addresses of which some wait."""
        self._held_in_all = 0

    def hold_ms(self, address: str, now_ms: float) -> float:
        """How long its refusal is held back, 0 = not at all. Whoever is held is to be `released`."""
        if len(self._next_ms) > _FORGOTTEN_EVERY and address not in self._next_ms:
            self._next_ms = {known: until for known, until in self._next_ms.items() if until > now_ms}
        until_ms = max(now_ms, self._next_ms.get(address, now_ms)) + _EVERY_MS
        until_ms = min(until_ms, now_ms + _AT_ONCE_MS + _WAIT_MS_MAX)
        wait_ms = until_ms - now_ms - _AT_ONCE_MS
        if wait_ms <= 0:
            self._next_ms[address] = until_ms
            return 0.0
        if self._held.get(address, 0) >= HELD_PER_ADDRESS_MAX or self._held_in_all >= HELD_MAX:
            return 0.0
        self._next_ms[address] = until_ms
        self._held[address] = self._held.get(address, 0) + 1
        self._held_in_all += 1
        return wait_ms

    def released(self, address: str) -> None:
        """One that was held waits no longer."""
        self._held_in_all -= 1
        self._held[address] -= 1
        if not self._held[address]:
            del self._held[address]
