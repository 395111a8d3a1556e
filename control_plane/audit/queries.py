"""Reads the audit log, always of one tenant."""

from collections.abc import Collection

from django.db.models import QuerySet

from control_plane.audit.chain import HASHED, entry_hash
from control_plane.audit.models import NO_HASH, AuditEntry, AuditHead


def entries(tenant: str) -> QuerySet[AuditEntry]:
    """The tenant's entries. `tenant` is a public id."""
    return AuditEntry.objects.filter(tenant=tenant)


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


def first_break(tenant: str) -> int | None:
    """The sequence of the first entry that does not continue the chain, or is missing at its end; None when all are
    there.
    """
    # Read before the entries: what is written meanwhile is above it.
    last, last_hash = head(tenant)
    previous, expected = NO_HASH, 1
    for entry in entries(tenant).order_by("sequence").iterator():
        fields = {name: getattr(entry, name) for name in HASHED} | {"at": entry.at.isoformat()}
        if (
            entry.sequence != expected
            or entry.previous_hash != previous
            or entry.hash != entry_hash(previous, fields)
        ):
            return expected
        if entry.sequence == last and entry.hash != last_hash:
            return expected
        previous, expected = entry.hash, expected + 1
    return expected if expected <= last else None
