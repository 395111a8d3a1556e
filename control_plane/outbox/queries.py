"""Reads the outbox: what waits, and whether a generation is delivered."""

from datetime import datetime

from django.db.models import Min, Q
from django.utils import timezone

from control_plane.outbox.models import Delivery


def is_delivered(kind: str, object_id: str, generation: int) -> bool:
    """Have the brokers got this generation, or a later one?"""
    return not Delivery.objects.filter(
        kind=kind, object_id=object_id, generation__lte=generation, delivered_at=None
    ).exists()


def is_with_somebody(kind: str, object_id: str) -> bool:
    """Does somebody deliver the object now?"""
    rows = Delivery.objects.filter(kind=kind, object_id=object_id, delivered_at=None)
    return rows.filter(lease_until__gt=timezone.now()).exists()


def due(now: datetime, limit: int) -> list[tuple[str, str]]:
    """(kind, object id) of each delivery that is due and has no lease, longest waiting first."""
    free = Q(lease_until=None) | Q(lease_until__lte=now)
    return list(
        Delivery.objects.filter(free, delivered_at=None, next_attempt_at__lte=now)
        .values_list("kind", "object_id")
        .annotate(first=Min("next_attempt_at"))
        .order_by("first")
        .values_list("kind", "object_id")[:limit]
    )


def waiting() -> tuple[int, datetime | None]:
    """How many rows wait, and since when the oldest does."""
    rows = Delivery.objects.filter(delivered_at=None)
    return rows.count(), rows.aggregate(first=Min("created_at"))["first"]
