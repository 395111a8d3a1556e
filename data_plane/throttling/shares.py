"""How long a tenant waits that used more than its share of a broker's processor.

Bytes are bounded by a tenant's rates; this bounds work, such as refused batches and large questions. None waits while
there is capacity. A tenant that works alone may use all but what replication and the metadata need. Times are monotonic
milliseconds.
"""

from data_plane.throttling.use import WINDOW_MS, Use, until_faded_ms
from penstock.contract.ids import TenantId

BUSY = 0.5
"""Of the time: while the work of all tenants together takes less, waiting for a processor included, none waits."""
SHARED = 0.8
"""Of the processor, divided evenly among the tenants that work; the rest is for replication and the metadata."""
WAIT_MS_MAX = 1_000.0


class Shares:
    """All tenants' on one broker."""

    def __init__(self, use: Use) -> None:
        self._use = use

    def wait_ms(self, tenant: TenantId, now_ms: float) -> float:
        """Until the tenant has used no more than its share; 0 = it may go on, WAIT_MS_MAX at most."""
        taken_ms = self._use.taken(now_ms)
        if taken_ms < BUSY * WINDOW_MS:
            return 0.0
        # Beside other processes a broker has only this part of a processor to share.
        had = self._use.of_all(now_ms) / taken_ms
        share = SHARED * WINDOW_MS * had / max(1, self._use.working(now_ms))
        return min(WAIT_MS_MAX, until_faded_ms(self._use.of(tenant, now_ms), share))
