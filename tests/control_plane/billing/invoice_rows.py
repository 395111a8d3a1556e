"""Rows of drafts, issued invoices and credit notes, as many as a test asks for. Their amounts agree with each other."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from billing.models import (
    CreditedRange,
    CreditNote,
    CreditNoteLine,
    Cut,
    CutReading,
    Invoice,
    InvoiceLine,
    PartitionWaiver,
    PriceBook,
)
from tenants.models import Tenant

METERS = ("messages_in", "bytes_in")
HOUR = timedelta(hours=1)
LINE_MICRO = 1_000_000
CREDIT_LINE_MICRO = 5
TOPIC_ID = "0" * 32


def add_cuts(tenant: Tenant, numbers: range, *, start: datetime) -> list[Cut]:
    """The cut of hour `number` after `start` for each number. The brokers have answered them."""
    return Cut.objects.bulk_create(
        Cut(
            public_id=f"cut_{start:%Y%m%d}_{number}",
            tenant=tenant,
            period_start=start + number * HOUR,
            period_end=start + (number + 1) * HOUR,
            delivered_at=start,
        )
        for number in numbers
    )


def reading(cut: Cut, topic_id: str, partition: int, *, last: bool = False) -> CutReading:
    """What a cut says of one partition, to be stored with others."""
    return CutReading(
        cut=cut, topic_id=topic_id, partition=partition, log_generation=1, end_offset=9, last=last
    )


def add_waivers(cuts: Iterable[Cut], topic_id: str, partition: int) -> None:
    """The partition is waived from each of the cuts on."""
    PartitionWaiver.objects.bulk_create(
        PartitionWaiver(
            tenant=cut.tenant,
            topic_id=topic_id,
            partition=partition,
            from_cut=cut,
            reason="gone",
            actor="op",
        )
        for cut in cuts
    )


def add_drafts(numbers: range, cuts: Sequence[Cut], books: Sequence[PriceBook]) -> list[Invoice]:
    """A draft `inv_<number>` for each number, of the cut and the price book at its position."""
    return Invoice.objects.bulk_create(
        Invoice(
            public_id=f"inv_{number}",
            tenant=cut.tenant,
            number=number + 1,
            cut=cut,
            price_book=book,
            gaps=["it waits"],
        )
        for number, cut, book in zip(numbers, cuts, books, strict=True)
    )


def issue(drafts: Sequence[Invoice], at: datetime, audit_heads: Sequence[tuple[int, str]]) -> None:
    """Make them issued invoices, with a line for each meter and the audit head (sequence, hash) at their position."""
    for invoice, (sequence, head) in zip(drafts, audit_heads, strict=True):
        invoice.status, invoice.issued_at, invoice.gaps = Invoice.Status.ISSUED, at, []
        invoice.total_micro = len(METERS) * LINE_MICRO
        invoice.audit_sequence, invoice.audit_hash = sequence, head
    Invoice.objects.bulk_update(
        drafts, ["status", "issued_at", "gaps", "total_micro", "audit_sequence", "audit_hash"]
    )
    InvoiceLine.objects.bulk_create(
        InvoiceLine(
            invoice=invoice,
            line_id=f"{invoice.public_id}.{meter}",
            position=position,
            meter=meter,
            unit="",
            unit_size=1,
            quantity=5,
            amount_micro=LINE_MICRO,
            parts=[{"quantity": 5, "unit_price": "0.2"}],
            price_book_sha256=invoice.price_book.sha256,
        )
        for invoice in drafts
        for position, meter in enumerate(METERS)
    )


def credit(numbers: range, invoices: Sequence[Invoice], cuts: Sequence[Cut]) -> None:
    """A credit note `cn_<number>` for each number, of the invoice and the cut at its position.

    Each has a line and a lost range for each meter.
    """
    notes = CreditNote.objects.bulk_create(
        CreditNote(
            public_id=f"cn_{number}",
            tenant=invoice.tenant,
            number=number + 1,
            invoice=invoice,
            cut=cut,
            total_micro=len(METERS) * CREDIT_LINE_MICRO,
            issued_at=cut.period_end,
        )
        for number, invoice, cut in zip(numbers, invoices, cuts, strict=True)
    )
    CreditNoteLine.objects.bulk_create(
        CreditNoteLine(
            credit_note=note,
            line_id=f"{note.public_id}.{meter}",
            position=position,
            meter=meter,
            unit="",
            unit_size=1,
            quantity=1,
            amount_micro=CREDIT_LINE_MICRO,
            price_book_sha256=note.invoice.price_book.sha256,
        )
        for note in notes
        for position, meter in enumerate(METERS)
    )
    CreditedRange.objects.bulk_create(
        CreditedRange(
            credit_note=note,
            topic_id=TOPIC_ID,
            topic="orders",
            partition=0,
            log_generation=1,
            meter=meter,
            quantity=1,
            first_offset=0,
            end_offset=1,
        )
        for note in notes
        for meter in METERS
    )
