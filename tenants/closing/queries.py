"""Reads which tenants are closed, which are due to be purged, and when a tenant was open."""

from datetime import datetime

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from tenants.models import Closing, Tenant


def closed() -> QuerySet[Tenant]:
    """Closed tenants whose keys the brokers refuse, and that are not purged: for the service itself."""
    return Tenant.objects.filter(
        closed_at__isnull=False, purged_at=None, delivered_generation__gte=F("generation")
    ).order_by("closed_at")


def due(tenant: Tenant) -> bool:
    """Whether the time in which the tenant can be reopened is over."""
    return tenant.purge_at is not None and tenant.purge_at <= timezone.now()


def open_time(tenant: Tenant, begins: datetime, ends: datetime) -> tuple[datetime, datetime]:
    """From the first to the last moment of [begins, ends) in which the tenant was open; empty if it was not.

    A time in which it was closed between two such moments is part of it. What was read once the time is over stays so.
    """
    closings = Closing.objects.filter(Q(reopened_at=None) | Q(reopened_at__gt=begins), tenant=tenant)
    rows = list(closings.filter(closed_at__lt=ends).order_by("closed_at", "pk"))
    if not rows:
        return begins, ends
    first, last = rows[0], rows[-1]
    opens = begins if first.closed_at > begins else (first.reopened_at or ends)
    still_open = last.reopened_at is not None and last.reopened_at < ends
    until = ends if still_open else last.closed_at
    return (opens, until) if opens < until else (begins, begins)
