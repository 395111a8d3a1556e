"""What a tenant was billed and credited, as rows of FOCUS: read from the documents of its billing chain."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from django.db.models import Q, QuerySet, Sum

from billing import focus, queries, voids
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

    Drafts have no rows, and neither have invoices from before there were documents. What was taken back has its rows
    once more at that time, as corrections: with those it adds up to nothing.
    """
    entries = BillingEntry.objects.filter(tenant=tenant, kind__in=_ISSUED)
    if invoice is not None:
        row = queries.invoice(tenant, invoice)
        notes = CreditNote.objects.filter(invoice=row).values("public_id")
        entries = entries.filter(
            Q(kind=BillingEntry.Kind.INVOICE, object_id=row.public_id)
            | Q(kind=BillingEntry.Kind.CREDIT_NOTE, object_id__in=notes)
        )
    parties = focus.Parties(tenant=tenant.public_id, name=tenant.name, issuer=issuer)
    due = [
        one
        for one in _due(tenant, entries)
        if (first is None or one.at >= first) and (end is None or one.at < end)
    ]
    return _rows(sorted(due, key=lambda one: (one.at, one.sequence)), parties)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """Rows of a document at a time: when it was issued, or when it was taken back."""

    at: datetime
    sequence: int
    entry: int
    is_void: bool


def _due(tenant: Tenant, entries: QuerySet[BillingEntry]) -> Iterator[_Due]:
    void = voids.voids_of(tenant)
    notes = CreditNote.objects.filter(invoice__public_id__in=void)
    void_by_note = {note: void[of] for note, of in notes.values_list("public_id", "invoice__public_id")}
    for pk, sequence, at, name in entries.values_list("pk", "sequence", "at", "object_id").order_by(
        "sequence"
    ):
        yield _Due(at=at, sequence=sequence, entry=pk, is_void=False)
        void_at = void.get(name) or void_by_note.get(name)
        if void_at is not None:
            # A credit note that came after it changes nothing either.
            yield _Due(at=max(at, void_at), sequence=sequence, entry=pk, is_void=True)


def _rows(due: list[_Due], parties: focus.Parties) -> Iterator[focus.Row]:
    # A document may be megabytes: one at a time.
    for one in due:
        rows = _document_rows(BillingEntry.objects.get(pk=one.entry), parties)
        yield from (focus.taken_back(row, one.at) for row in rows) if one.is_void else rows


def _document_rows(entry: BillingEntry, parties: focus.Parties) -> Iterator[focus.Row]:
    if entry.kind == BillingEntry.Kind.INVOICE:
        invoice = documents.read_document(entry.document, documents.InvoiceDocument, "invoice")
        yield from focus.invoice_rows(invoice, _book(invoice.price_book_sha256), parties)
        return
    note = documents.read_document(entry.document, documents.CreditNoteDocument, "credit note")
    credited = BillingEntry.objects.get(
        tenant=entry.tenant_id, kind=BillingEntry.Kind.INVOICE, object_id=note.invoice.id
    )
    invoice = documents.read_document(credited.document, documents.InvoiceDocument, "invoice")
    # Numbers grow along the chain.
    before = CreditNote.objects.filter(invoice__public_id=note.invoice.id, number__lt=note.number)
    credited_micro = before.aggregate(sum=Sum("total_micro"))["sum"] or 0
    left_micro = max(0, invoice.total_micro - credited_micro)
    yield from focus.credit_note_rows(note, invoice, parties, left_micro=left_micro)


@cache
def _book(sha256: str) -> Book:
    """Price books never change."""
    return Book.read(PriceBook.objects.filter(sha256=sha256)[:1].get().document)
