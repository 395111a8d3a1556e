"""An issued credit note as PDF, made of its document and that of its invoice: both stand in the billing chain."""

from typing import Any

from django.template.loader import render_to_string
from msgspec import UNSET

from billing import paper
from billing.models import BillingEntry, CreditNote
from penstock.contract import documents
from penstock.contract.errors import NotFound
from penstock.rules.rating import grouped_amount

LOST = "Messages that the invoice counts were lost after it was issued. They are credited at its prices."


def credit_note_pdf(note: CreditNote, issuer: paper.Issuer) -> bytes:
    """The credit note on A4. Raises `NotFound` for one from before there were documents."""
    return paper.pdf(credit_note_page(note, issuer))


def credit_note_page(note: CreditNote, issuer: paper.Issuer) -> str:
    """The HTML that is printed. Raises as `credit_note_pdf` does."""
    return render_to_string("billing/credit_note.html", _context(note, issuer))


def _context(note: CreditNote, issuer: paper.Issuer) -> dict[str, Any]:
    entry = _entry(note, BillingEntry.Kind.CREDIT_NOTE, note.public_id)
    document = documents.read_document(entry.document, documents.CreditNoteDocument, "credit note")
    invoice = documents.read_document(
        _entry(note, BillingEntry.Kind.INVOICE, document.invoice.id).document,
        documents.InvoiceDocument,
        "invoice",
    )

    def money(micro: int) -> str:
        return f"{grouped_amount(micro, invoice.minor_digits)} {document.currency}"

    changes = () if document.charges is UNSET else document.charges
    taxes = [change for change in changes if change.kind == "tax"]
    granted = None if document.granted is UNSET else document.granted
    rows = [
        {
            "name": line.meter.replace("_", " ").capitalize(),
            "quantity": f"{line.quantity:,}" if line.quantity else "",
            "amount": money(line.amount_micro),
        }
        for line in document.lines
    ]
    rows += [
        {"name": _named(change), "quantity": "", "amount": money(-change.amount_micro)}
        for change in changes
        if change.kind != "tax"
    ]
    if granted is not None and granted.amount_micro:
        rows.append({"name": "The whole invoice", "quantity": "", "amount": money(granted.amount_micro)})
    issuer_number = "" if document.issuer_number is UNSET else document.issuer_number
    return {
        **paper.parties(invoice, issuer, note.tenant.name),
        "document": document,
        "document_sha256": entry.document_sha256,
        "issuer_number": issuer_number,
        "named": issuer_number or f"no. {document.number}",
        "issued": paper.moment(document.issued_at_ms),
        "invoice_named": f"no. {invoice.number}" if invoice.issuer_number is UNSET else invoice.issuer_number,
        "invoice_issued": paper.moment(invoice.issued_at_ms)[:10],
        "period_start": paper.moment(invoice.period_start_ms),
        "period_end": paper.moment(invoice.period_end_ms),
        "reason": LOST if granted is None else granted.reason,
        "rows": rows,
        "net": money(document.total_micro + sum(change.amount_micro for change in taxes)),
        "taxes": [
            {"name": _taxed(change, invoice), "amount": money(-change.amount_micro)} for change in taxes
        ],
        "total": money(document.total_micro),
    }


def _entry(note: CreditNote, kind: str, object_id: str) -> BillingEntry:
    entry = BillingEntry.objects.filter(tenant=note.tenant, kind=kind, object_id=object_id).first()
    if entry is None:
        raise NotFound(
            f"credit note {note.public_id}: it is from before there were documents, and has no PDF"
        )
    return entry


def _named(change: documents.CreditedCharge) -> str:
    name = change.kind.capitalize() + ("" if change.name == change.kind else f" {change.name}")
    return f"{name} of {change.meter.replace('_', ' ')}" if change.meter else name


def _taxed(change: documents.CreditedCharge, invoice: documents.InvoiceDocument) -> str:
    """The tax with its percentage, where the invoice has one."""
    for charge in () if invoice.charges is UNSET else invoice.charges:
        if (charge.kind, charge.name) == (change.kind, change.name) and charge.basis_points:
            return f"Tax {change.name}, {charge.basis_points / 100:g} %"
    return f"Tax {change.name}"
