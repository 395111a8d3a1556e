"""Reads the outbox: what waits, and whether a generation is delivered."""

import time
from datetime import datetime

from django.db.models import Min, Q

from control_plane.outbox.models import Delivery

WAIT_S = 2.0
"""How long a request waits for its change to reach the brokers."""
_POLL_S = 0.015
_POLL_MAX_S = 0.1


def is_delivered(kind: str, object_id: str, generation: int) -> bool:
    """Have the brokers got this generation, or a later one?"""
    return not Delivery.objects.filter(
        kind=kind, object_id=object_id, generation__lte=generation, delivered_at=None
    ).exists()


def wait_delivered(kind: str, object_id: str, generation: int, timeout_s: float = WAIT_S) -> bool:
    """Wait until the brokers have this generation; False when the time is up. No transaction may be open."""
    deadline = time.monotonic() + timeout_s
    pause = _POLL_S
    while not is_delivered(kind, object_id, generation):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(_POLL_MAX_S, pause * 1.5)
    return True


def due(now: datetime, limit: int) -> list[tuple[str, str]]:
    """(kind, object id) of what waits, is due and is with nobody, longest waiting first."""
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
