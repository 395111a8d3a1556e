"""Reads e-mails: those that are due, and how many an address got lately."""

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from control_plane.mail.models import Mail

PER_ADDRESS_MAX = 3
PER_ADDRESS_SPAN = timedelta(hours=1)
"""So many e-mails of one kind an address gets in that time because a stranger asked: the service is no tool to fill
mailboxes.
"""


def due(limit: int) -> QuerySet[Mail]:
    """E-mails to try now, the oldest first."""
    return all_due(timezone.now()).order_by("due_at")[:limit]


def all_due(now: datetime) -> QuerySet[Mail]:
    """E-mails to try at that time."""
    return Mail.objects.filter(due_at__lte=now)


def has_enough(to: str, kind: str) -> bool:
    """Whether the address got as many of that kind as it may within the last hour."""
    since = timezone.now() - PER_ADDRESS_SPAN
    return Mail.objects.filter(to=to, kind=kind, created_at__gt=since).count() >= PER_ADDRESS_MAX
