"""Numbers that are the issuer's, over all tenants: each document has one of its kind's series, after those that the
tenant had before. Pure.

Which numbers lie between is not shown: they are on documents of other tenants.
"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET, UnsetType

from penstock.contract.documents import CreditNoteDocument, InvoiceDocument
from penstock.rules.issuer_numbers import CREDIT_NOTES, INVOICES, IssuerNumber, read_issuer_number
from penstock.verification.findings import Kind, Problem


def check_invoice_number(invoice: InvoiceDocument, previous: InvoiceDocument | None) -> Iterator[Problem]:
    """The invoice's number is one of invoices, and comes after that of the invoice before."""
    before = UNSET if previous is None else previous.issuer_number
    yield from _check(invoice.id, INVOICES, invoice.issuer_number, before)


def check_credit_numbers(invoice: InvoiceDocument, notes: Sequence[CreditNoteDocument]) -> Iterator[Problem]:
    """Each credit note of the invoice has a number after those of the tenant before it. `notes`: all of the tenant, in
    the order of the chain.
    """
    before: str | UnsetType = UNSET
    number = 0
    for note in notes:
        if note.invoice.id == invoice.id:
            yield from _check(note.id, CREDIT_NOTES, note.issuer_number, before)
            if note.number <= number:
                yield _altered(note.id, f"is numbered {note.number}, and the one before has {number} already")
        number = max(number, note.number)
        before = note.issuer_number if note.issuer_number is not UNSET else before


def _check(where: str, kind: str, said: str | UnsetType, before: str | UnsetType) -> Iterator[Problem]:
    if said is UNSET:
        if before is not UNSET:
            yield _altered(where, f"has no number of the issuer's, the one before has {before}")
        return
    number = read_issuer_number(said)
    if number is None or number.kind != kind:
        yield _altered(where, f"has the number {said}, and one like {kind}-000001 is due")
        return
    earlier: IssuerNumber | None = None if before is UNSET else read_issuer_number(before)
    if earlier is not None and earlier.series == number.series and earlier.count >= number.count:
        yield _altered(where, f"has the number {said}, and the one before has {before} already")


def _altered(where: str, message: str) -> Problem:
    return Problem(kind=Kind.DOCUMENT_ALTERED, where=where, message=message)
