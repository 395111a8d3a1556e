"""How many batches of each tenant were refused of late, and how long one waits whose batches go on being refused.

Only refusals that no retry repairs count: a client that sends such batches in numbers is broken or hostile, and what
its frames cost before the broker's code sees them (TLS, grpc) is not charged. Times are monotonic milliseconds.
"""

from penstock.contract import limits
from penstock.contract.ids import TenantId

AT_ONCE = 2 * limits.REFUSED_BATCHES_PER_S_MAX
_LOOK_MS = 10_000
"""Between looks for tenants whose count has fallen to nothing."""
_FRAME = 20
"""Batches that a frame counts as besides its own: it costs as much as the refusal of so many."""


class Refusals:
    """All tenants' on one broker. Each one's count falls by REFUSED_BATCHES_PER_S_MAX a second."""

    def __init__(self) -> None:
        self._looked_ms = float("-inf")
        self._counts: dict[TenantId, tuple[float, float]] = {}
        """As they stood at that time; only of tenants that have one."""

    def __len__(self) -> int:
        """Tenants that are counted."""
        return len(self._counts)

    def refused(self, tenant: TenantId, batches: int, now_ms: float) -> None:
        """So many batches of one frame."""
        if now_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = now_ms
            for other in [one for one in self._counts if not self._left(one, now_ms)]:
                del self._counts[other]
        self._counts[tenant] = (self._left(tenant, now_ms) + batches + _FRAME, now_ms)

    def wait_ms(self, tenant: TenantId, now_ms: float) -> float:
        """Until the next frame of a stream whose last one was refused may be taken; 0 = now."""
        left = self._left(tenant, now_ms)
        if not left:
            self._counts.pop(tenant, None)
        return max(0.0, (left - AT_ONCE) * 1_000 / limits.REFUSED_BATCHES_PER_S_MAX)

    def _left(self, tenant: TenantId, now_ms: float) -> float:
        count, at_ms = self._counts.get(tenant, (0.0, now_ms))
        return max(0.0, count - (now_ms - at_ms) * limits.REFUSED_BATCHES_PER_S_MAX / 1_000)
