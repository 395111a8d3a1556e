"""Sends issued invoices and credit notes by e-mail, each with its PDF: to the address of the tenant's billing profile,
else to the people who may pay them. A tenant that wants none says so in its profile.
"""

from billing import tax_actions
from billing.models import CreditNote
from control_plane import config
from control_plane.audit import actions as audit
from control_plane.mail import actions as mails
from control_plane.mail.letter import Attachment
from payments import actions, former_payers, letters, printing, queries
from payments.models import Receivable
from penstock.contract.errors import NotFound

MAIL_KIND, CREDIT_MAIL_KIND = "invoice", "credit-note"


def send_invoice(receivable: str) -> None:
    """Send the invoice once, to each of its addresses. One without a document is not sent."""
    row = queries.receivables().get(public_id=receivable)
    to = _addresses(row)
    pdf = _printed(row) if to else None
    with actions.locked(receivable) as locked:
        if not locked.mail_due:
            return
        locked.mail_due = False
        locked.save(update_fields=["mail_due"])
        if pdf is None:
            return
        number = row.invoice.issuer_number or f"no. {row.invoice.number}"
        letter = letters.issued(
            row.tenant.name,
            number=number,
            invoice=row.invoice.public_id,
            open_micro=locked.open_micro,
            minor_digits=int(row.invoice.price_book.document["minor_digits"]),
            currency=row.currency,
            due_at=locked.due_at,
            bank_lines=config.current().invoices.bank_lines,
            payment_reference=row.invoice.payment_reference,
        )
        attachment = Attachment(name=f"{number.replace(' ', '-')}.pdf", kind="application/pdf", content=pdf)
        for address in to:
            mails.put(address, MAIL_KIND, letter, attachment)
        audit.record(
            actions.ACTOR,
            tenant=row.tenant.public_id,
            action="receivable.mail",
            object_id=row.public_id,
            after={"invoice": row.invoice.public_id, "addresses": len(to)},
        )


def send_credit_note(receivable: str) -> None:
    """Send the first credit note of the invoice that was not sent yet, once, to each of its addresses. One without a
    document is not sent.
    """
    row = queries.receivables().get(public_id=receivable)
    notes = CreditNote.objects.filter(invoice=row.invoice).select_related("tenant").order_by("pk")
    note = notes[row.notes_mailed : row.notes_mailed + 1].get()
    to = _addresses(row)
    pdf = _printed_credit_note(note) if to else None
    with actions.locked(receivable) as locked:
        if locked.notes_mailed != row.notes_mailed:
            return
        locked.notes_mailed += 1
        locked.save(update_fields=["notes_mailed"])
        if pdf is None:
            return
        number = note.issuer_number or f"no. {note.number}"
        letter = letters.credited(
            row.tenant.name,
            number=number,
            invoice_number=row.invoice.issuer_number or f"no. {row.invoice.number}",
            invoice=row.invoice.public_id,
            credited_micro=note.total_micro,
            open_micro=locked.open_micro,
            minor_digits=int(row.invoice.price_book.document["minor_digits"]),
            currency=row.currency,
            reason=note.reason,
        )
        attachment = Attachment(name=f"{number.replace(' ', '-')}.pdf", kind="application/pdf", content=pdf)
        for address in to:
            mails.put(address, CREDIT_MAIL_KIND, letter, attachment)
        audit.record(
            actions.ACTOR,
            tenant=row.tenant.public_id,
            action="credit_note.mail",
            object_id=note.public_id,
            after={"invoice": row.invoice.public_id, "addresses": len(to)},
        )


def _addresses(row: Receivable) -> list[str]:
    profile = tax_actions.address_of(row.tenant)
    if profile is not None and profile.no_mail:
        return []
    if profile is not None and profile.email:
        return [profile.email]
    return former_payers.addresses(row.tenant)


def _printed(row: Receivable) -> bytes | None:
    try:
        return printing.printed(row.invoice)
    except NotFound:
        return None


def _printed_credit_note(note: CreditNote) -> bytes | None:
    try:
        return printing.printed_credit_note(note)
    except NotFound:
        return None
