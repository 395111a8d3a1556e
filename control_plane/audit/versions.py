"""Reads versions out of the audit log: what objects were after each change, who made it, and until when it was so."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from control_plane.audit import queries
from control_plane.audit.models import AuditEntry
from penstock.contract.audit_entries import DONE, SUMMARY
from penstock.contract.errors import LimitExceeded, NotFound

SEQUENCE_MAX = 10**18 - 1
"""Of an entry, as requests name it."""
_OF_THE_RESTORE = frozenset(("restored_version", "why", SUMMARY))
"""What entries say of a change itself, not of the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What a change made of a part of the object; None: it was not set, or the object was not there."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The object after a change, until the next one."""

    entry: AuditEntry
    replaced_at: datetime | None
    """When the next change was made; None: it is as it was left."""

    @property
    def number(self) -> int:
        """The number of the change in the tenant's audit log."""
        return self.entry.sequence

    @property
    def fields(self) -> list[Field]:
        """What the change changed."""
        return differences(self.entry.before, self.entry.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The entries that are changes of one object, or of a list that is restored as one."""

    tenant: str
    """Public id."""
    called: str
    """For people, as `topic 'orders'`."""
    actions: Collection[str]
    object_id: str | None = None
    """None: objects of any id."""

    def rows(self) -> QuerySet[AuditEntry]:
        found = queries.entries(self.tenant).filter(action__in=tuple(self.actions), outcome=DONE)
        return found if self.object_id is None else found.filter(object_id=self.object_id)

    def page(self, below: int | None, most: int) -> list[Version]:
        """At most so many versions with a number below that one, the newest first."""
        rows = self.rows() if below is None else self.rows().filter(sequence__lt=below)
        found = list(rows.order_by("-sequence")[:most])
        next_at = None if below is None or not found else self._replaced_at(found[0].sequence)
        versions = []
        for entry in found:
            versions.append(Version(entry=entry, replaced_at=next_at))
            next_at = entry.at
        return versions

    def version(self, number: int) -> Version:
        """One of them. Raises `NotFound`."""
        entry = self.rows().filter(sequence=number).first()
        if entry is None:
            raise NotFound(f"version {number} of {self.called} does not exist")
        return Version(entry=entry, replaced_at=self._replaced_at(number))

    def newest(self) -> Version | None:
        """The one that the object was left in; None where there is none."""
        entry = self.rows().order_by("-sequence").first()
        return None if entry is None else Version(entry=entry, replaced_at=None)

    def check_restorable(self, version: Version, days: int) -> None:
        """Raise `LimitExceeded` for a version that was replaced longer than so many days ago."""
        if version.replaced_at is not None:
            check_in_time(f"version {version.number} of {self.called}", version.replaced_at, days)

    def _replaced_at(self, number: int) -> datetime | None:
        rows = self.rows().filter(sequence__gt=number).order_by("sequence")
        return rows.values_list("at", flat=True).first()


def check_in_time(called: str, gone_at: datetime, days: int) -> None:
    """Raise `LimitExceeded` for what is gone since longer than a tenant's `bin_days`."""
    if gone_at + timedelta(days=days) > timezone.now():
        return
    kept = f"{days} days" if days != 1 else "1 day"
    raise LimitExceeded(
        f"bin_days: {called} is gone since {gone_at.isoformat(timespec='seconds')}, and what is gone can be"
        f" restored for {kept if days else 'no time: the plan has no recycle bin'}"
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Field]:
    """The parts that differ, by name; those of `settings` by their own names."""
    old, new = _flat(before), _flat(after)
    return [
        Field(field=name, before=old.get(name), after=new.get(name))
        for name in sorted((old.keys() | new.keys()) - _OF_THE_RESTORE)
        if old.get(name) != new.get(name)
    ]


def _flat(state: Mapping[str, Any]) -> dict[str, Any]:
    settings = state.get("settings")
    plain = {name: value for name, value in state.items() if name != "settings"}
    return plain | settings if isinstance(settings, dict) else plain
