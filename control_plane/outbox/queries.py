"""Reads the outbox: what waits, and whether a generation is delivered."""

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Max, Min, Q, QuerySet
from django.utils import timezone

from control_plane.outbox.models import Delivery
from penstock.contract.errors import (
    AlreadyExists,
    ErrorCode,
    InvalidRequest,
    LimitExceeded,
    PenstockError,
    error_class,
)

_REFUSALS = (AlreadyExists, InvalidRequest, LimitExceeded)
"""What is wrong with the object itself. Anything else is a matter between this service and its brokers."""


def is_delivered(kind: str, object_id: str, generation: int) -> bool:
    """Have the brokers got this generation, or a later one?"""
    return not Delivery.objects.filter(
        kind=kind, object_id=object_id, generation__lte=generation, delivered_at=None
    ).exists()


def untried_of(kind: str) -> int:
    """How many rows of the kind wait for their first attempt, or are in it."""
    return Delivery.objects.filter(kind=kind, delivered_at=None, reason="").count()


def newest_row() -> int:
    """Number of the row that was written last; 0 without any. Every change that brokers must hear of writes one."""
    return Delivery.objects.aggregate(newest=Max("pk"))["newest"] or 0


def is_with_somebody(kind: str, object_id: str) -> bool:
    """Whether a process delivers the object now."""
    rows = Delivery.objects.filter(kind=kind, object_id=object_id, delivered_at=None)
    return rows.filter(lease_until__gt=timezone.now()).exists()


def refusal(kind: str, object_id: str, generation: int) -> PenstockError | None:
    """Why the brokers refused this generation for good, if they did at the last attempt."""
    return refusals(kind, {object_id: generation}).get(object_id)


def refusals(kind: str, generations: Mapping[str, int]) -> dict[str, PenstockError]:
    """The same of many objects; those that were not refused are left out."""
    rows = Delivery.objects.filter(kind=kind, object_id__in=list(generations), delivered_at=None)
    found: dict[str, PenstockError] = {}
    for row in rows.exclude(reason=""):
        refused = error_class(ErrorCode[row.reason.upper()])
        if row.generation == generations[row.object_id] and issubclass(refused, _REFUSALS):
            found[row.object_id] = refused(row.error)
    return found


def due(now: datetime, limit: int) -> list[tuple[str, str]]:
    """(kind, object id) of each delivery that is due and has no lease, longest waiting first."""
    return list(
        rows_due(now)
        .values_list("kind", "object_id")
        .annotate(first=Min("next_attempt_at"))
        .order_by("first")
        .values_list("kind", "object_id")[:limit]
    )


def rows_due(now: datetime) -> QuerySet[Delivery]:
    """Deliveries that are due and have no lease."""
    free = Q(lease_until=None) | Q(lease_until__lte=now)
    return Delivery.objects.filter(free, delivered_at=None, next_attempt_at__lte=now)


def waits(kind: str) -> bool:
    """Whether any object of that kind waits for the brokers."""
    return Delivery.objects.filter(kind=kind, delivered_at=None).exists()


def waiting() -> tuple[int, datetime | None]:
    """How many rows wait, and since when the oldest does."""
    rows = Delivery.objects.filter(delivered_at=None)
    return rows.count(), rows.aggregate(first=Min("created_at"))["first"]
