"""Rows that couriers deliver to: one courier of all workers has a row at a time, by a lease with a number."""

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from django.db import models
from django.db.models import F
from django.utils import timezone

LEASE = timedelta(seconds=30)
"""Longer than an attempt takes. When a worker dies, another one goes on after it."""
POSTPONED = timedelta(seconds=5)
"""After a failure of the service itself, which is no attempt."""


class Leased(models.Model):
    """A place of a tenant that events are brought to, in their order."""

    failures = models.PositiveIntegerField(default=0)
    """Failed attempts one after another, of the same event."""
    failing_since = models.DateTimeField(null=True)
    due_at = models.DateTimeField()
    """No attempt before."""
    delivered_at = models.DateTimeField(null=True)
    """When it took an event last."""
    lease_until = models.DateTimeField(null=True)
    lease_number = models.PositiveBigIntegerField(default=0)
    """Counts up with every claim and every change that makes an attempt under way outdated."""

    if TYPE_CHECKING:
        tenant_id: int

    class Meta:
        abstract = True

    @property
    def called(self) -> str:
        """For logs."""
        raise NotImplementedError

    def begin_again(self) -> None:
        """The next attempt is due now and is the first of its event; one that is under way counts no longer."""
        self.failures = 0
        self.failing_since = None
        self.due_at = timezone.now()
        self.end_attempt()

    def end_attempt(self) -> None:
        """An attempt that is under way counts no longer. The caller saves."""
        self.lease_number = self.lease_number + 1
        self.lease_until = None


Row = TypeVar("Row", bound=Leased)


def claim(row: Row) -> Row | None:
    """The row for this process alone, until its lease ends; None: another one has it, or it was changed."""
    rows = type(row)._default_manager
    taken = rows.filter(pk=row.pk, lease_number=row.lease_number).update(
        lease_number=F("lease_number") + 1, lease_until=timezone.now() + LEASE
    )
    return rows.select_related("tenant").filter(pk=row.pk).first() if taken else None


def give_back(row: Leased) -> None:
    """The next courier may take it at once."""
    _mine(row).update(lease_until=None)


def postpone(row: Leased) -> None:
    """No courier takes it for a moment, for whatever is due."""
    again = timezone.now() + POSTPONED
    _mine(row).update(lease_until=again)
    _mine(row).filter(due_at__lt=again).update(due_at=again)


def locked(row: Row) -> Row | None:
    """The row under its lock; None: it is another courier's by now. Part of the caller's transaction."""
    rows = type(row)._default_manager.select_for_update(no_key=True, of=("self",))
    return rows.select_related("tenant").filter(pk=row.pk, lease_number=row.lease_number).first()


def _mine(row: Leased) -> models.QuerySet[Leased]:
    return type(row)._default_manager.filter(pk=row.pk, lease_number=row.lease_number)
