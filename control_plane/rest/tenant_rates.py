"""What tenants may use of REST, as this process read it a moment ago: no request asks the database for it.

A change of the limit counts within `FRESH_S` in every process.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from quotas.plans import Limits
from quotas.queries import limits_of
from tenants.models import Tenant

REST_CALLS = "rest_calls_per_s"
FRESH_S = 5.0
REMEMBERED_MAX = 10_000


class TenantRates:
    """Of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[Limits, float]] = OrderedDict()
        """By tenant: its limits, and when they are to be read again. The oldest first."""

    def of(self, tenant: Tenant) -> Limits:
        """The tenant's limits."""
        now = self._clock()
        with self._lock:
            known = self._known.get(tenant.pk)
        if known is not None and now < known[1]:
            return known[0]
        found = limits_of(tenant)
        with self._lock:
            self._known[tenant.pk] = (found, now + FRESH_S)
            self._known.move_to_end(tenant.pk)
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        return found

    def forget_all(self) -> None:
        """Read each again."""
        with self._lock:
            self._known.clear()


tenant_rates = TenantRates()
