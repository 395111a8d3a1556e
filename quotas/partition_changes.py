"""Counts a tenant's changes of topics and partitions against `partition_changes_per_hour`.

An hour begins with the first change after the hour before; a count has no meaning after it. Only what makes more work
is refused: what is deleted counts, and can be deleted all the same. What the brokers refuse is taken back, and its
count with it.
"""

import math
from datetime import datetime, timedelta

from django.utils import timezone

from penstock.contract.errors import LimitExceeded, PenstockError, Throttled
from quotas.models import PartitionChanges
from quotas.queries import limits_of
from tenants.models import Tenant

PARTITION_CHANGES = "partition_changes_per_hour"
HOUR = timedelta(hours=1)


class ChangesOfHour:
    """Of one tenant, within a transaction that has its row locked; `store` before its end."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._most = limits_of(tenant).partition_changes_per_hour
        self._now = timezone.now()
        self._row = PartitionChanges.objects.filter(tenant=tenant).first() or PartitionChanges(
            tenant=tenant, began_at=self._now, changes=0
        )
        # One that begins later than now is of a clock that was set back.
        if not self._row.began_at <= self._now < self._row.began_at + HOUR:
            self._row.began_at, self._row.changes = self._now, 0
        self._stored = self._row.changes

    @property
    def made(self) -> int:
        """In this hour."""
        return self._row.changes

    def note(self, changes: int) -> None:
        """They are made, whatever the limit."""
        self._row.changes += changes

    def take_back(self, changes: int, made_at: datetime) -> None:
        """They were made then, and are not any more."""
        if made_at >= self._row.began_at:
            self._row.changes = max(0, self._row.changes - changes)

    def refusal(self, name: str, changes: int) -> PenstockError | None:
        """Why so many more may not be made for the topic of that name now; None if they may."""
        if not self._most or self._row.changes + changes <= self._most:
            return None
        needs = f"{PARTITION_CHANGES}: {name} needs {changes} changes of topics and partitions"
        if changes > self._most:
            return LimitExceeded(
                f"{needs}, at most {self._most} allowed to the tenant in an hour; make fewer at once, or ask for a"
                " higher limit",
                limit=PARTITION_CHANGES,
            )
        clears_in_s = max(1, math.ceil((self._row.began_at + HOUR - self._now).total_seconds()))
        return Throttled(
            f"{needs}, {self._row.changes} of {self._most} were made by the tenant in this hour;"
            f" clears in {clears_in_s} s",
            limit=PARTITION_CHANGES,
            retry_after_ms=clears_in_s * 1000,
        )

    def store(self) -> None:
        """Part of the transaction."""
        if self._row.changes != self._stored:
            self._row.save()


def spend(tenant: Tenant, name: str, changes: int) -> None:
    """Changes of the topic of that name, which are made in this transaction. Raises `Throttled`, `LimitExceeded`."""
    hour = _locked(tenant)
    if refusal := hour.refusal(name, changes):
        raise refusal
    hour.note(changes)
    hour.store()


def note(tenant: Tenant, changes: int) -> None:
    """Changes that are never refused, which are made in this transaction."""
    hour = _locked(tenant)
    hour.note(changes)
    hour.store()


def no_longer_made(tenant: Tenant, changes: int, made_at: datetime) -> None:
    """Changes made then are undone in this transaction: they count no more, if they were counted in this hour."""
    hour = _locked(tenant)
    hour.take_back(changes, made_at)
    hour.store()


def made_in_this_hour(tenant: Tenant) -> int:
    """So far."""
    return ChangesOfHour(tenant).made


def _locked(tenant: Tenant) -> ChangesOfHour:
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    return ChangesOfHour(tenant)


def forget(tenant: Tenant) -> None:
    """For a tenant that is purged."""
    PartitionChanges.objects.filter(tenant=tenant).delete()
