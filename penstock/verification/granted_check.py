"""Credit notes that an operator granted: what they take off, and that it is no more than was left. Pure.

Why one was granted is the operator's word; it is in the tenant's favour and changes nothing else.
"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from penstock.contract.documents import CreditNoteDocument, InvoiceDocument
from penstock.rules import granted_credits as rules
from penstock.rules.rating import credit_line_id, grouped_amount
from penstock.verification.findings import Kind, Problem


def is_granted(note: CreditNoteDocument) -> bool:
    """Whether an operator granted it; else a declared loss is its reason."""
    return note.granted is not UNSET


def by_loss(notes: Sequence[CreditNoteDocument]) -> list[CreditNoteDocument]:
    """The credit notes whose reason is a declared loss."""
    return [note for note in notes if not is_granted(note)]


def check_granted(invoice: InvoiceDocument, notes: Sequence[CreditNoteDocument]) -> Iterator[Problem]:
    """Each granted one of the invoice's credit notes, in the order of the chain."""
    for count, note in enumerate(notes):
        if is_granted(note):
            yield from (
                Problem(kind=Kind.CREDIT_DIFFERS, where=note.id, message=message)
                for message in _differences(invoice, note, notes[:count])
            )


def shown(invoice: InvoiceDocument, notes: Sequence[CreditNoteDocument]) -> list[str]:
    """Each granted credit note in words."""
    return [
        f"Credit note no. {note.number} ({note.id}) of {grouped_amount(note.total_micro, invoice.minor_digits)} "
        f"{invoice.currency} was granted: {note.granted.reason}"
        for note in notes
        if note.granted is not UNSET
    ]


def _differences(
    invoice: InvoiceDocument, note: CreditNoteDocument, before: Sequence[CreditNoteDocument]
) -> Iterator[str]:
    rest = rules.rest_of(invoice, before)
    if note.ranges:
        yield "is granted, and names offsets that were lost"
    if note.cut_id != invoice.cut.id:
        yield f"names the cut {note.cut_id}, its invoice {invoice.cut.id}"
    if note.format != invoice.format:
        yield f"has format {note.format}, its invoice {invoice.format}"
    if not 0 < note.total_micro <= rest.left_micro:
        yield f"credits {note.total_micro}, and {rest.left_micro} of the invoice were left"
    billed = {line.meter: line for line in invoice.lines}
    for line in note.lines:
        of = billed.get(line.meter)
        id_due = credit_line_id(note.id, line.meter, invoice.price_book_sha256)
        if of is None or (line.id, line.unit, line.unit_size) != (id_due, of.unit, of.unit_size):
            yield f"credits a line of {line.meter} that the invoice does not have so"
        elif line.quantity or not 0 < line.amount_micro <= rules.left_of_line(of, invoice, before):
            yield f"credits {line.amount_micro} of {line.meter}, and less was left of it"
    changes = () if note.charges is UNSET else note.charges
    names = [(one.kind, one.name) for one in changes]
    if len(set(names)) < len(names) or len({line.meter for line in note.lines}) < len(note.lines):
        yield "credits a part of the invoice twice"
    tax, taxes = 0, _taxes(invoice)
    for one in changes:
        if one.meter:
            yield f"changes the {one.kind} {one.name} of {one.meter}, which is of no meter"
        if one.kind == "tax":
            tax -= one.amount_micro
            if one.name not in taxes:
                yield f"changes a tax of {one.name}, which the invoice does not have"
        elif one.kind not in rules.CREDITABLE:
            yield f"changes the {one.kind} {one.name}, which a granted credit does not"
        elif not 0 < -one.amount_micro <= rules.left_of_charge(one.kind, one.name, invoice, before):
            yield f"credits {-one.amount_micro} of the {one.kind} {one.name}, and less was left of it"
    whole = 0 if note.granted is UNSET else note.granted.amount_micro
    coin = rules.coin_of(invoice.minor_digits)
    amounts = [line.amount_micro for line in note.lines] + [one.amount_micro for one in changes] + [whole]
    if any(amount % coin for amount in amounts):
        yield f"credits a part of the smallest amount with {invoice.minor_digits} places"
    parts = sum(line.amount_micro for line in note.lines) - sum(one.amount_micro for one in changes)
    if whole and parts != tax:
        yield "credits parts of the invoice and an amount of the whole"
    if not whole and parts - tax > rest.left_net_micro:
        yield f"credits {parts - tax} before tax, and {rest.left_net_micro} of the invoice were left"
    if note.total_micro != parts + whole:
        yield f"credits {note.total_micro}, and its parts are {parts + whole}"
    if tax != rules.expected_tax(note, rest):
        yield f"credits a tax of {tax}, {rules.expected_tax(note, rest)} are due"


def _taxes(invoice: InvoiceDocument) -> list[str]:
    charges = () if invoice.charges is UNSET else invoice.charges
    return [one.name for one in charges if one.kind == "tax"]
