"""How much of a broker's processor each tenant has used of late. Use fades with a time constant of WINDOW_MS.

Times are monotonic milliseconds.
"""

import math

from penstock.contract.ids import TenantId

WINDOW_MS = 1_000.0
WORKS = 0.001
"""Of the processor: a tenant that uses less does not count as one that works."""
_LOOK_MS = 100.0
"""Between counts of the tenants that work."""
_FORGET = 0.000_1


class Use:
    """All tenants' on one broker."""

    def __init__(self) -> None:
        self._used: dict[TenantId, tuple[float, float]] = {}
        """Milliseconds used, as they stood at that time."""
        self._all = self._taken = (0.0, 0.0)
        self._working = 0
        self._looked_ms = float("-inf")

    def charge(self, tenant: TenantId, spent_ms: float, now_ms: float, took_ms: float = 0.0) -> None:
        """The tenant has just used so much. `took_ms`: how long that took, where it waited for a processor too."""
        self._used[tenant] = (_faded(self._used.get(tenant), now_ms) + spent_ms, now_ms)
        self._all = (_faded(self._all, now_ms) + spent_ms, now_ms)
        self._taken = (_faded(self._taken, now_ms) + max(spent_ms, took_ms), now_ms)

    def of(self, tenant: TenantId, now_ms: float) -> float:
        """Milliseconds of the last WINDOW_MS."""
        return _faded(self._used.get(tenant), now_ms)

    def of_all(self, now_ms: float) -> float:
        """The same of all tenants together."""
        return _faded(self._all, now_ms)

    def taken(self, now_ms: float) -> float:
        """How long all that took: more than `of_all` where the broker waited for a processor."""
        return _faded(self._taken, now_ms)

    def working(self, now_ms: float) -> int:
        """How many tenants work; counted ten times a second at most."""
        if now_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = now_ms
            used = {tenant: _faded(last, now_ms) for tenant, last in self._used.items()}
            self._working = sum(one > WORKS * WINDOW_MS for one in used.values())
            for tenant, one in used.items():
                if one < _FORGET * WINDOW_MS:
                    del self._used[tenant]
        return self._working


def until_faded_ms(used: float, allowed: float) -> float:
    """Until of `used` no more than `allowed` is left when nothing is added; 0 = it is so."""
    return 0.0 if used <= allowed else WINDOW_MS * math.log(used / allowed)


def _faded(last: tuple[float, float] | None, now_ms: float) -> float:
    if last is None:
        return 0.0
    used, at_ms = last
    return used * math.exp(min(0.0, at_ms - now_ms) / WINDOW_MS)
