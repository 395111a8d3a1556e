"""Writes the audit log: an entry in the same transaction as the change that it describes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.utils import timezone

from control_plane.audit.actor import Actor
from control_plane.audit.models import AuditEntry, AuditHead
from penstock.contract.audit_entries import DONE, SUMMARY, Facts, entry_hash, facts
from penstock.contract.invariant import invariant

_CLASSIFIED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One change, for `record_all`. `object_id` is a public id, `action` is like `topic.create`.

    `before` and `after` are plain JSON without secrets. The member `audit` of `after` is the log's own.
    """

    action: str
    object_id: str
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    outcome: str = DONE
    """`done` or `refused`."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """For what is counted: `times`, and the `minute` that they were in."""

    def chained_after(self) -> dict[str, Any]:
        """`after` as the hash covers it."""
        invariant(SUMMARY not in self.after, f"the member {SUMMARY!r} of an audit entry is the log's own")
        if self.outcome == DONE and not self.summary:
            return dict(self.after)
        return {**self.after, SUMMARY: {"outcome": self.outcome, **self.summary}}


_overhearing: ContextVar[list[Entry] | None] = ContextVar("overhearing", default=None)


@contextmanager
def overheard() -> Iterator[list[Entry]]:
    """Every entry that the block writes, in order, whether or not its transaction is committed."""
    entries: list[Entry] = []
    mark = _overhearing.set(entries)
    try:
        yield entries
    finally:
        _overhearing.reset(mark)


def record(
    actor: Actor,
    *,
    tenant: str,
    action: str,
    object_id: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    outcome: str = DONE,
) -> AuditEntry:
    """Append one entry, with the members of an `Entry`, to the tenant's chain. `tenant` is a public id.

    Must run inside the change's transaction.
    """
    entry = Entry(action=action, object_id=object_id, before=before or {}, after=after or {}, outcome=outcome)
    return record_all(actor, tenant=tenant, entries=[entry])[0]


def record_all(actor: Actor, *, tenant: str, entries: Sequence[Entry]) -> list[AuditEntry]:
    """Append entries in their order to the tenant's chain. Must run inside the changes' transaction."""
    return record_of(tenant, [(actor, entry) for entry in entries])


def record_of(tenant: str, acts: Sequence[tuple[Actor, Entry]]) -> list[AuditEntry]:
    """As `record_all`, for entries of several actors."""
    invariant(connection.in_atomic_block, "an audit entry is written in the transaction of its change")
    head, _ = AuditHead.objects.select_for_update(no_key=True).get_or_create(tenant=tenant)
    at = timezone.now()
    overhearing = _overhearing.get()
    if overhearing is not None:
        overhearing.extend(entry for _, entry in acts)
    chained = []
    for actor, entry in acts:
        fields: dict[str, Any] = {
            "tenant": tenant,
            "sequence": head.sequence + 1,
            "actor_kind": actor.kind.value,
            "actor_id": actor.id,
            "action": entry.action,
            "object_id": entry.object_id,
            "before": dict(entry.before),
            "after": entry.chained_after(),
            "request_id": actor.request_id,
            "source": actor.source,
        }
        digest = entry_hash(head.hash, fields | {"at": at.isoformat()})
        row = AuditEntry(**fields, at=at, previous_hash=head.hash, hash=digest)
        _set_facts(row)
        chained.append(row)
        head.sequence, head.hash = head.sequence + 1, digest
    AuditEntry.objects.bulk_create(chained)
    head.save(update_fields=["sequence", "hash"])
    return chained


def classify() -> int:
    """Make entries that a release before 0.2 wrote findable, some of them a call. Returns how many it did."""
    rows = list(AuditEntry.objects.filter(object_kind="").order_by("pk")[:_CLASSIFIED_AT_ONCE])
    for row in rows:
        _set_facts(row)
    AuditEntry.objects.bulk_update(rows, FACTS)
    return len(rows)


FACTS = ("outcome", "times", "object_kind", "object_name")


def _set_facts(row: AuditEntry) -> None:
    read: Facts = facts(row.action, row.before, row.after)
    for name in FACTS:
        setattr(row, name, getattr(read, name))
