"""How much of a broker's processor each tenant has used of late, and how long one waits that used more than its share.

Bytes are bounded by a tenant's rates; this bounds work, such as refused batches and large questions. Nobody waits while
there is room. A tenant that works alone may use all but what replication and the metadata need. Use fades with a time
constant of WINDOW_MS. Times are monotonic milliseconds.
"""

import math

from penstock.contract.ids import TenantId

WINDOW_MS = 1_000.0
BUSY = 0.5
"""Of the processor: while all tenants together use less, nobody waits."""
SHARED = 0.8
"""Of the processor, divided evenly among the tenants that work; the rest is for replication and the metadata."""
WORKS = 0.001
"""Of the processor: a tenant that uses less does not take part in the division."""
WAIT_MS_MAX = 1_000.0
_LOOK_MS = 100.0
"""Between counts of the tenants that work."""
_FORGET = 0.000_1


class Shares:
    """All tenants' use on one broker."""

    def __init__(self) -> None:
        self._used: dict[TenantId, tuple[float, float]] = {}
        """Milliseconds used, as they stood at that time."""
        self._all = (0.0, 0.0)
        self._working, self._looked_ms = 0, float("-inf")

    def charge(self, tenant: TenantId, spent_ms: float, now_ms: float) -> None:
        """The tenant has just used so much."""
        self._used[tenant] = (_faded(self._used.get(tenant), now_ms) + spent_ms, now_ms)
        self._all = (_faded(self._all, now_ms) + spent_ms, now_ms)

    def wait_ms(self, tenant: TenantId, now_ms: float) -> float:
        """Until the tenant has used no more than its share; 0 = it may go on, WAIT_MS_MAX at most."""
        if _faded(self._all, now_ms) < BUSY * WINDOW_MS:
            return 0.0
        used, share = _faded(self._used.get(tenant), now_ms), SHARED * WINDOW_MS / max(1, self._count(now_ms))
        return 0.0 if used <= share else min(WAIT_MS_MAX, WINDOW_MS * math.log(used / share))

    def _count(self, now_ms: float) -> int:
        if now_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = now_ms
            used = {tenant: _faded(held, now_ms) for tenant, held in self._used.items()}
            self._working = sum(one > WORKS * WINDOW_MS for one in used.values())
            for tenant, one in used.items():
                if one < _FORGET * WINDOW_MS:
                    del self._used[tenant]
        return self._working


def _faded(held: tuple[float, float] | None, now_ms: float) -> float:
    if held is None:
        return 0.0
    used, at_ms = held
    return used * math.exp(min(0.0, at_ms - now_ms) / WINDOW_MS)
