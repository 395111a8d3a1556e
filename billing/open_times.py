"""When a tenant was open, in whole ms: what of a period its fees and its minimum are for."""

from datetime import datetime

from penstock.rules.timestamps import time_ms
from tenants.closing import queries
from tenants.models import Tenant


def open_ms(tenant: Tenant, begins: datetime, ends: datetime) -> tuple[int, int]:
    """From the first to the last moment of [begins, ends) in which it was open, half open; empty if it was not."""
    opens, closes = queries.open_time(tenant, begins, ends)
    return time_ms(opens), time_ms(closes)
