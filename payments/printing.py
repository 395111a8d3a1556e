"""Prints an issued invoice as it stands now, with what is open and where it is paid by bank; and its credit notes."""

from billing import credit_note_pdf, invoice_pdf, paper
from billing.models import CreditNote, Invoice
from control_plane import config
from payments import queries
from payments.states import State
from penstock.rules.payment_words import PAYMENT_WORDS


def issuer() -> paper.Issuer:
    """Who invoices, as the settings say now."""
    said = config.current().invoices
    return paper.Issuer(
        name=said.issuer, lines=said.issuer_lines, tax_id=said.issuer_tax_id, bank_lines=said.bank_lines
    )


def standing(invoice: Invoice) -> invoice_pdf.Standing:
    """What has become of it."""
    row = queries.find_receivable(invoice)
    if row is None:
        return invoice_pdf.Standing()
    return invoice_pdf.Standing(
        due_at=row.due_at,
        state=PAYMENT_WORDS[row.state],
        open_micro=row.open_micro,
        void=row.state == State.VOID,
    )


def printed(invoice: Invoice) -> bytes:
    """As PDF. Raises `NotFound` for a draft, and for an invoice from before there were documents."""
    return invoice_pdf.invoice_pdf(invoice, issuer(), standing(invoice))


def printed_credit_note(note: CreditNote) -> bytes:
    """As PDF. Raises `NotFound` for a credit note from before there were documents."""
    return credit_note_pdf.credit_note_pdf(note, issuer())
