"""How often a tenant's connections may begin on one broker.

A connection is known by its address and port from its first call on, and is remembered among those used last. What was
refused is not remembered and takes nothing of the rate, so that a storm does not keep out those who come after it.
Times are monotonic milliseconds.
"""

from collections import OrderedDict

from penstock.contract.ids import TenantId

KNOWN_MAX = 20_000
"""Connections that are remembered, as many as a broker takes: one that is forgotten counts once more."""
ONCE_MS_MIN = 1_000
"""So long a rate may be used at once at the least: clients begin together when a broker comes back."""


class Attempts:
    """All tenants' on one broker."""

    def __init__(self) -> None:
        self._left: dict[TenantId, tuple[float, float]] = {}
        """What a tenant may still begin at once, as it stood at that time; only of tenants with a rate."""
        self._known: OrderedDict[tuple[TenantId, str], None] = OrderedDict()

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
