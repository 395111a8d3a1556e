"""What a tenant was billed and credited, as rows of FOCUS: read from the documents of its billing chain."""

from collections.abc import Iterator
from datetime import datetime
from functools import cache

from django.db.models import Q

from billing import focus, queries
from billing.models import BillingEntry, CreditNote, PriceBook
from penstock.contract import documents
from penstock.rules.rating import PriceBook as Book
from tenants.models import Tenant

_ISSUED = (BillingEntry.Kind.INVOICE, BillingEntry.Kind.CREDIT_NOTE)


def rows(
    tenant: Tenant, *, issuer: str, first: datetime | None, end: datetime | None, invoice: str | None
) -> Iterator[focus.Row]:
    """Of the documents that were issued from `first` on and before `end`, in the order of the chain; with `invoice` of
    that one and its credit notes. Raises `NotFound` for an invoice that the tenant does not have.

    Drafts have no rows, and neither have invoices from before there were documents.
    """
    entries = BillingEntry.objects.filter(tenant=tenant, kind__in=_ISSUED)
    if first is not None:
        entries = entries.filter(at__gte=first)
    if end is not None:
        entries = entries.filter(at__lt=end)
    if invoice is not None:
        row = queries.invoice(tenant, invoice)
        notes = CreditNote.objects.filter(invoice=row).values("public_id")
        entries = entries.filter(
            Q(kind=BillingEntry.Kind.INVOICE, object_id=row.public_id)
            | Q(kind=BillingEntry.Kind.CREDIT_NOTE, object_id__in=notes)
        )
    parties = focus.Parties(tenant=tenant.public_id, name=tenant.name, issuer=issuer)
    return _rows(list(entries.order_by("sequence").values_list("pk", flat=True)), parties)


def _rows(entries: list[int], parties: focus.Parties) -> Iterator[focus.Row]:
    # A document may be megabytes: one at a time.
    for pk in entries:
        entry = BillingEntry.objects.get(pk=pk)
        if entry.kind == BillingEntry.Kind.INVOICE:
            invoice = documents.read_document(entry.document, documents.InvoiceDocument, "invoice")
            yield from focus.invoice_rows(invoice, _book(invoice.price_book_sha256), parties)
        else:
            note = documents.read_document(entry.document, documents.CreditNoteDocument, "credit note")
            credited = BillingEntry.objects.get(
                tenant=entry.tenant_id, kind=BillingEntry.Kind.INVOICE, object_id=note.invoice.id
            )
            invoice = documents.read_document(credited.document, documents.InvoiceDocument, "invoice")
            yield from focus.credit_note_rows(note, invoice, parties)


@cache
def _book(sha256: str) -> Book:
    """Price books never change."""
    return Book.read(PriceBook.objects.filter(sha256=sha256)[:1].get().document)
