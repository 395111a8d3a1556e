"""How often a tenant's connections may begin on one broker.

A connection is known by its address and port from its first call on, and is remembered among those used last. What was
refused is not remembered and takes nothing of the rate, so that a storm does not keep out those who come after it.
Times are monotonic milliseconds.
"""

from collections import OrderedDict

from penstock.contract.ids import TenantId
from penstock.contract.limits import RATE_BURST_MS_MAX

KNOWN_MAX = 20_000
"""Connections that are remembered, as many as a broker takes: one that is forgotten counts once more."""
FORGET_MS = 2 * RATE_BURST_MS_MAX
"""Longer than any rate takes to fill what may begin at once."""
LOOK_MS = 60_000
"""Between looks for tenants that are forgotten."""
ONCE_MS_MIN = 1_000
"""So long a rate may be used at once at the least: clients begin together when a broker comes back."""


class Attempts:
    """All tenants' on one broker."""

    def __init__(self) -> None:
        self._looked_ms = float("-inf")
        self._left: dict[TenantId, tuple[float, float]] = {}
        """What a tenant may still begin at once, as it stood at that time; only of tenants with a rate."""
        self._known: OrderedDict[tuple[TenantId, str], None] = OrderedDict()

    def __len__(self) -> int:
        """Tenants of which something is known."""
        return len(self._left)

    def forget(self, now_ms: float) -> None:
        """Of tenants of which no connection began for FORGET_MS: by then they may begin all at once again."""
        for tenant in [tenant for tenant, (_, at_ms) in self._left.items() if now_ms - at_ms > FORGET_MS]:
            del self._left[tenant]

    def wait_ms(
        self, tenant: TenantId, connection: str, per_s: int, now_ms: float, *, burst_ms: int = 0
    ) -> float:
        """A call came on a connection: 0 = it may go on. Else it is to be refused, and there is capacity for another
        one after so long. `per_s` 0: no limit.
        """
        if not per_s:
            self._left.pop(tenant, None)
            return 0.0
        if (tenant, connection) in self._known:
            self._known.move_to_end((tenant, connection))
            return 0.0
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            self.forget(now_ms)
        most = per_s * max(ONCE_MS_MIN, burst_ms) / 1000
        left, at_ms = self._left.get(tenant, (most, now_ms))
        left = min(most, left + (now_ms - at_ms) * per_s / 1000)
        if left < 1:
            self._left[tenant] = (left, now_ms)
            return (1 - left) * 1000 / per_s
        self._left[tenant] = (left - 1, now_ms)
        self._known[tenant, connection] = None
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return 0.0
