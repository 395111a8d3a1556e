"""Reads the audit log, always of one tenant."""

from django.db.models import QuerySet

from control_plane.audit.chain import HASHED, entry_hash
from control_plane.audit.models import NO_HASH, AuditEntry


def entries(tenant: str) -> QuerySet[AuditEntry]:
    """The tenant's entries. `tenant` is a public id."""
    return AuditEntry.objects.filter(tenant=tenant)


def first_break(tenant: str) -> int | None:
    """The sequence of the first entry that does not continue the chain; None when all do."""
    previous, expected = NO_HASH, 1
    for entry in entries(tenant).order_by("sequence").iterator():
        fields = {name: getattr(entry, name) for name in HASHED} | {"at": entry.at.isoformat()}
        if (
            entry.sequence != expected
            or entry.previous_hash != previous
            or entry.hash != entry_hash(previous, fields)
        ):
            return expected
        previous, expected = entry.hash, expected + 1
    return None
