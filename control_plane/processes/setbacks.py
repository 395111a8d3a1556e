"""Rounds over the oldest so many objects of a kind: one that fails rests, and keeps no other from its turn.

The pause after each failure is twice the one before, from a minute to an hour. The metric `penstock_rounds_set_back`
counts those that rest, by round; the log has each failure.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Count, Model, QuerySet
from django.utils import timezone

from control_plane.processes.models import Setback

PAUSE_FIRST, PAUSE_MAX = timedelta(minutes=1), timedelta(hours=1)
FORGOTTEN_AFTER = timedelta(days=2)
"""An object that still fails is tried each hour: one that was not tried for so long has gone another way."""
ERROR_LENGTH = 200
_log = logging.getLogger(__name__)
Row = TypeVar("Row", bound=Model)


def ready(kind: str, rows: QuerySet[Row], now: datetime, by: str = "public_id") -> QuerySet[Row]:
    """The rows without those that rest. `by`: the field that names them."""
    resting = Setback.objects.filter(kind=kind, retry_at__gt=now)
    return rows.exclude(**{f"{by}__in": resting.values("object_id")})


def unhindered(kind: str, rows: QuerySet[Row], by: str = "public_id") -> QuerySet[Row]:
    """The rows without those that failed the last time: what a look asks that wakes a round at once."""
    return rows.exclude(**{f"{by}__in": Setback.objects.filter(kind=kind).values("object_id")})


def each(
    kind: str,
    rows: QuerySet[Row],
    step: Callable[[Row], object],
    *,
    most: int,
    by: str = "public_id",
) -> int:
    """Take the step for the first `most` rows that do not rest; how many went well. A step raises where it fails."""
    now = timezone.now()
    Setback.objects.filter(kind=kind, retry_at__lt=now - FORGOTTEN_AFTER).delete()
    failed = set(Setback.objects.filter(kind=kind).values_list("object_id", flat=True))
    well = 0
    for row in list(ready(kind, rows, now, by)[:most]):
        name = str(_named(row, by))
        try:
            step(row)
        except Exception as error:
            # A fault of the service with one object. The others must not wait for it.
            _log.exception("%s: failed, and is tried again later", kind, extra={"object": name})
            note(kind, name, error, timezone.now())
            continue
        well += 1
        if name in failed:
            Setback.objects.filter(kind=kind, object_id=name).delete()
    return well


def note(kind: str, object_id: str, error: Exception, now: datetime) -> None:
    """The object failed once more: it rests."""
    row, _ = Setback.objects.get_or_create(kind=kind, object_id=object_id, defaults={"retry_at": now})
    row.failures += 1
    row.retry_at = now + min(PAUSE_MAX, PAUSE_FIRST * 2 ** min(row.failures - 1, 10))
    row.error = f"{type(error).__name__}: {error}"[:ERROR_LENGTH]
    row.save(update_fields=["failures", "retry_at", "error"])


def counts() -> dict[str, int]:
    """By round, how many objects failed the last time."""
    rows = Setback.objects.filter(retry_at__gt=timezone.now() - FORGOTTEN_AFTER)
    return dict(rows.values_list("kind").annotate(count=Count("pk")))


def _named(row: Model, by: str) -> object:
    value: object = row
    for step in by.split("__"):
        value = getattr(value, step)
    return value
