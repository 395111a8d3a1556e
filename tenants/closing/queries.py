"""Reads which tenants are closed, and which are due to be purged."""

from django.db.models import F, QuerySet
from django.utils import timezone

from tenants.models import Tenant


def closed() -> QuerySet[Tenant]:
    """Closed tenants whose keys the brokers refuse, and that are not purged: for the service itself."""
    return Tenant.objects.filter(
        closed_at__isnull=False, purged_at=None, delivered_generation__gte=F("generation")
    ).order_by("closed_at")


def due(tenant: Tenant) -> bool:
    """Whether the time in which the tenant can be reopened is over."""
    return tenant.purge_at is not None and tenant.purge_at <= timezone.now()
