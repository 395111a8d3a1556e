"""Reads the audit log, always of one tenant."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from control_plane.audit.models import AuditEntry, AuditHead
from penstock.contract.audit_entries import HASHED, NO_HASH, ChainCheck, facts

IDS_OF_NAME_MAX = 1_000
"""Objects that had a name, one after another: so many of them are found by it."""
_READ_AT_ONCE = 500
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What entries are wanted; None is every one. `since` is included, `until` is not."""

    actor: str | None = None
    """Public id of the person, key or operator, or the part of the service."""
    object_id: str | None = None
    kind: str | None = None
    """Of the object: what its actions begin with, for instance `topic`."""
    name: str | None = None
    """Of the object, at any time: also entries that do not name it, and all objects that had it."""
    action: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None


Position = tuple[datetime, int]
"""(at, sequence): entries are listed in this order, and no two have the same."""


def entries(tenant: str) -> QuerySet[AuditEntry]:
    """The tenant's entries. `tenant` is a public id."""
    return AuditEntry.objects.filter(tenant=tenant)


def without_entry(
    rows: QuerySet[Row], *, action: str, object_id: str, by: str = "public_id"
) -> QuerySet[Row]:
    """The rows of tenants whose audit logs have no entry with this action about the object. `by`: the field that has
    the tenant's public id.
    """
    entry = AuditEntry.objects.filter(tenant=OuterRef(by), object_id=object_id, action=action)
    return rows.exclude(Exists(entry))


def head(tenant: str) -> tuple[int, str]:
    """(sequence, hash) of the newest entry, as the lock under which the chain grows has it; (0, zeros) before any."""
    found = AuditHead.objects.filter(tenant=tenant).values_list("sequence", "hash").first()
    return found or (0, NO_HASH)


def hash_at(tenant: str, sequence: int) -> str | None:
    """The hash of the tenant's entry; None where there is none of that number."""
    return entries(tenant).filter(sequence=sequence).values_list("hash", flat=True).first()


def hashes_at(tenant: str, sequences: Collection[int]) -> dict[int, str]:
    """The hashes of those of the tenant's entries that are there, by number."""
    return dict(entries(tenant).filter(sequence__in=sequences).values_list("sequence", "hash"))


def found(tenant: str, search: Search) -> QuerySet[AuditEntry]:
    """The tenant's entries that match all of the search, in no order."""
    wanted = {
        "actor_id": search.actor,
        "object_id": search.object_id,
        "object_kind": search.kind,
        "action": search.action,
        "outcome": search.outcome,
        "at__gte": search.since,
        "at__lt": search.until,
    }
    rows = entries(tenant).filter(**{name: value for name, value in wanted.items() if value is not None})
    if search.name is None:
        return rows
    named = entries(tenant).filter(object_name=search.name).exclude(object_name="")
    if search.kind is not None:
        named = named.filter(object_kind=search.kind)
    ids = named.order_by("object_id").values_list("object_id", flat=True).distinct()
    return rows.filter(object_id__in=list(ids[:IDS_OF_NAME_MAX]))


def position_of(tenant: str, sequence: int) -> Position | None:
    """Where the tenant's entry of that number is listed; None if there is none."""
    return entries(tenant).filter(sequence=sequence).values_list("at", "sequence").first()


def page(
    tenant: str, search: Search, *, after: Position | None, most: int, newest_first: bool = False
) -> list[AuditEntry]:
    """At most so many entries that match, in the order of their positions, or against it. They follow `after`."""
    rows = found(tenant, search)
    if after is not None:
        at, sequence = after
        if newest_first:
            rows = rows.filter(Q(at__lt=at) | Q(at=at, sequence__lt=sequence), at__lte=at)
        else:
            rows = rows.filter(Q(at__gt=at) | Q(at=at, sequence__gt=sequence), at__gte=at)
    order = ("-at", "-sequence") if newest_first else ("at", "sequence")
    return list(rows.order_by(*order)[:most])


def chain_after(tenant: str, sequence: int, most: int) -> Iterator[dict[str, Any]]:
    """The entries that follow number `sequence` in the chain, at most so many, as `exported` shows them.

    They are read some at a time, each with a query of its own.
    """
    left = most
    while left > 0:
        rows = entries(tenant).filter(sequence__gt=sequence).order_by("sequence")
        some = list(rows[: min(left, _READ_AT_ONCE)])
        for row in some:
            yield exported(row)
        if len(some) < min(left, _READ_AT_ONCE):
            return
        left, sequence = left - len(some), some[-1].sequence


def exported(entry: AuditEntry) -> dict[str, Any]:
    """All that a `ChainCheck` needs, as JSON."""
    shown: dict[str, Any] = {name: getattr(entry, name) for name in HASHED} | {"at": entry.at.isoformat()}
    if entry.object_kind:
        stored = {
            "outcome": entry.outcome,
            "times": entry.times,
            "object_kind": entry.object_kind,
            "object_name": entry.object_name,
        }
    else:
        # A release before 0.2 wrote it a moment ago.
        of_entry = facts(entry.action, entry.before, entry.after)
        stored = {
            "outcome": of_entry.outcome,
            "times": of_entry.times,
            "object_kind": of_entry.object_kind,
            "object_name": of_entry.object_name,
        }
    return {**shown, **stored, "previous_hash": entry.previous_hash, "hash": entry.hash}


def first_break(tenant: str) -> int | None:
    """The sequence of the first entry that does not continue the chain, is shown as something else than its hash says,
    or is missing at the end; None when all are there.
    """
    # Read before the entries: what is written meanwhile is above it.
    last, last_hash = head(tenant)
    check = ChainCheck(tenant)
    for entry in entries(tenant).order_by("sequence").iterator():
        if check.problem(exported(entry)):
            return check.sequence + 1
        if entry.sequence == last and entry.hash != last_hash:
            return entry.sequence
    return check.sequence + 1 if check.sequence < last else None
