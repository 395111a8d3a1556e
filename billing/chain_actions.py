"""Writes a tenant's billing chain: one entry for each document, in the transaction of its change.

The first entry of every chain is the tenant's first prices. When a cut causes credit notes and an invoice, the credit
notes come first.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection
from django.utils import timezone

from billing.models import BillingEntry
from penstock.contract import documents
from penstock.contract.document_fields import NO_HASH
from penstock.contract.documents import ChainEntry, Document
from penstock.contract.invariant import invariant
from penstock.rules.timestamps import time_ms, whole_ms
from tenants.models import Tenant


def head(tenant: Tenant) -> tuple[int, str]:
    """(sequence, hash) of the newest entry; (0, NO_HASH) before any."""
    newest = _newest(tenant)
    return (0, NO_HASH) if newest is None else (newest.sequence, newest.hash)


def next_moment(tenant: Tenant) -> datetime:
    """Now in whole ms, and not before the chain's newest entry. The caller holds the tenant's row lock."""
    now = whole_ms(timezone.now())
    newest = _newest(tenant)
    return now if newest is None else max(now, newest.at)


def append(tenant: Tenant, object_id: str, document: Document, at: datetime) -> BillingEntry:
    """The document as the chain's newest entry. `at` is from `next_moment`.

    The caller holds the tenant's row lock, and writes the audit entry of the same change with `bound`.
    """
    invariant(connection.in_atomic_block, "a document is written in the transaction of its change")
    # A stored document is one that every reader accepts.
    content = documents.plain(documents.read_document(documents.plain(document), type(document), object_id))
    newest = _newest(tenant)
    invariant(newest is not None or document.kind == "prices", "a chain begins with the tenant's prices")
    invariant(newest is None or newest.at <= at, "a chain's times do not decrease")
    previous = NO_HASH if newest is None else newest.hash
    entry = ChainEntry(
        sequence=1 if newest is None else newest.sequence + 1,
        kind=document.kind,
        object_id=object_id,
        document_sha256=documents.document_sha256(document),
        at_ms=time_ms(at),
        hash="",
    )
    return BillingEntry.objects.create(
        tenant=tenant,
        sequence=entry.sequence,
        kind=entry.kind,
        object_id=object_id,
        document=content,
        document_sha256=entry.document_sha256,
        at=at,
        previous_hash=previous,
        hash=documents.chain_hash(tenant.public_id, previous, entry),
    )


def bound(entry: BillingEntry | None) -> Mapping[str, Any]:
    """Fields of the audit entry of the same change, which name the document. Empty without a document."""
    if entry is None:
        return {}
    return {
        "document_sha256": entry.document_sha256,
        "billing_sequence": entry.sequence,
        "billing_hash": entry.hash,
    }


def _newest(tenant: Tenant) -> BillingEntry | None:
    return BillingEntry.objects.filter(tenant=tenant).order_by("-sequence").first()
