"""An issued invoice as PDF, made of its document: what is printed is what is in the billing chain."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from msgspec import UNSET

from billing import paper, tax_shown
from billing.models import BillingEntry, CreditNote, Invoice
from penstock.contract import documents
from penstock.contract.errors import NotFound
from penstock.rules.rating import grouped_amount, unit_text

PARTS_MAX = 200
"""Prices that are printed, shared by the lines: a page of them takes a quarter of a second."""
PARTS_OF_A_LINE_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What has become of an invoice until it is printed."""

    due_at: datetime | None = None
    state: str = ""
    """In the words of the console; empty: it is not asked for yet."""
    open_micro: int = 0
    void: bool = False


def invoice_pdf(invoice: Invoice, issuer: paper.Issuer, standing: Standing) -> bytes:
    """The invoice on A4; one that was taken back says so. Takes about half a second of processor time. Raises
    `NotFound` for a draft, and for an invoice from before there were documents.
    """
    return paper.pdf(invoice_page(invoice, issuer, standing))


def invoice_page(invoice: Invoice, issuer: paper.Issuer, standing: Standing) -> str:
    """The HTML that is printed. Raises as `invoice_pdf` does."""
    return render_to_string("billing/invoice.html", _context(invoice, issuer, standing))


def _context(invoice: Invoice, issuer: paper.Issuer, standing: Standing) -> dict[str, Any]:
    entry = BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()
    if entry is None:
        raise NotFound(f"invoice {invoice.public_id}: it has no PDF before it is issued")
    document = documents.read_document(entry.document, documents.InvoiceDocument, "invoice")

    def money(micro: int) -> str:
        return f"{grouped_amount(micro, document.minor_digits)} {document.currency}"

    statement = None if document.tax_statement is UNSET else document.tax_statement
    parts_max = max(PARTS_OF_A_LINE_MIN, PARTS_MAX // max(1, len(document.lines)))
    notes = list(CreditNote.objects.filter(invoice=invoice).order_by("number"))
    return {
        **paper.parties(document, issuer, invoice.tenant.name),
        "issuer_number": "" if document.issuer_number is UNSET else document.issuer_number,
        "payment_reference": invoice.payment_reference,
        "bank_lines": issuer.bank_lines if standing.open_micro else (),
        "state": standing.state,
        "open": money(standing.open_micro) if standing.state and not standing.void else "",
        "document": document,
        "document_sha256": entry.document_sha256,
        "issued": paper.moment(document.issued_at_ms),
        "period_start": paper.moment(document.period_start_ms),
        "period_end": paper.moment(document.period_end_ms),
        "due": None if standing.due_at is None or standing.void else f"{standing.due_at:%Y-%m-%d}",
        "void": standing.void,
        "lines": [
            {
                "name": line.meter.replace("_", " ").capitalize(),
                "quantity": f"{line.quantity:,}",
                "amount": money(line.amount_micro),
                "parts": [
                    {
                        "quantity": f"{part.quantity:,}",
                        "price": f"{_price(part.unit_price)} {document.currency} per "
                        + unit_text(line.meter, line.unit, line.unit_size),
                    }
                    for part in line.parts[:parts_max]
                ],
                "more": max(0, len(line.parts) - parts_max),
            }
            for line in document.lines
        ],
        "charges": [
            {
                "name": first.kind.capitalize() + (f" {first.name}" if first.name != first.kind else ""),
                "reason": first.reason,
                "of": (f"{first.basis_points / 100:g} % of " if first.basis_points else "")
                + money(sum(charge.base_micro for charge in charges)),
                "amount": money(sum(charge.amount_micro for charge in charges)),
            }
            for charges in _of_one_name(document)
            for first in charges[:1]
        ],
        "tax": None if statement is None else tax_shown.shown(statement),
        "taxes": []
        if statement is None
        else [
            {"row": row, "taxable": money(row.taxable_micro), "amount": money(row.amount_micro)}
            for row in tax_shown.shown(statement).rows
        ],
        "total": money(document.total_micro),
        "notes": [
            {
                "named": note.issuer_number or f"no. {note.number}",
                "id": note.public_id,
                "issued": f"{note.issued_at:%Y-%m-%d}",
                "amount": money(-note.total_micro),
            }
            for note in notes
        ],
        # A loss that was seen after a credit was granted is credited as it was billed, and may be over the whole.
        "remains": money(max(0, document.total_micro - sum(note.total_micro for note in notes))),
        "today": f"{timezone.now():%Y-%m-%d}",
    }


def _of_one_name(document: documents.InvoiceDocument) -> list[list[documents.BilledCharge]]:
    """The charges, a discount's of all meters together: else 100 discounts of 100 meters were 200 pages."""
    found: dict[tuple[str, str], list[documents.BilledCharge]] = {}
    for charge in () if document.charges is UNSET else document.charges:
        found.setdefault((charge.kind, charge.name), []).append(charge)
    return list(found.values())


def _price(text: str) -> str:
    whole, _, places = text.partition(".")
    return f"{whole}.{places.rstrip('0').ljust(2, '0')}"
