"""What of a receivable stands on Stripe's invoice: its items and credit notes, in whole coins."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from billing.models import CreditNote
from payments import carrying
from payments.currencies import unit_micro, whole_coins
from payments.models import Payment, Receivable


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A line, a charge, a carried invoice, or what lowers them. `amount` is in Stripe's minor units."""

    id: str
    amount: int
    title: str
    lowers: bool = False
    """It is a credit note, or a carried invoice that was paid by bank."""
    by_bank: bool = False


class _Exact(NamedTuple):
    """A part before it is in whole coins."""

    id: str
    micro: int
    title: str
    lowers: bool = False
    by_bank: bool = False


def parts_of(group: Sequence[Receivable]) -> list[Part]:
    """Of a receivable and those that it carries, which are an item each."""
    first, *carried = group
    parts = _in_coins(first, _lines(first))
    for receivable in carried:
        parts += _in_coins(receivable, _whole(receivable))
    return parts


def _in_coins(row: Receivable, exact: Iterable[_Exact]) -> list[Part]:
    """Each ends where the sum up to it does, so that all of them are what is asked for, and each is less than a coin
    from what it is. A newer credit note comes behind, with the next generation. Nothing takes the sum below zero: a
    credit note of what was paid by bank is given back by bank.
    """
    parts: list[Part] = []
    sum_micro = before_micro = 0
    for part in exact:
        sum_micro += part.micro
        asked_micro = whole_coins(max(0, sum_micro), row.currency)
        amount = (asked_micro - before_micro) // unit_micro(row.currency)
        parts.append(
            Part(id=part.id, amount=amount, title=part.title, lowers=part.lowers, by_bank=part.by_bank)
        )
        before_micro = asked_micro
    return parts


def _lines(row: Receivable) -> Iterator[_Exact]:
    invoice = row.invoice
    for line in invoice.lines.order_by("position"):
        yield _Exact(line.line_id, line.amount_micro, f"{line.meter}: {line.quantity:,}")
    for charge in invoice.charges:
        yield _Exact(charge["id"], charge["amount_micro"], f"{charge['kind']}: {charge['name']}")
    yield from _notes(row)


def _whole(row: Receivable) -> Iterator[_Exact]:
    """A carried invoice. A payment by bank stands before the credit notes: what is credited already is not paid."""
    number = row.invoice.number
    yield _Exact(row.public_id, row.invoice.total_micro or 0, f"Carried: invoice no. {number}")
    paid_micro = carrying.by_bank_micro(row)
    if paid_micro:
        by_bank = row.payments.filter(kind=Payment.Kind.PAYMENT, source=Payment.Source.BANK)
        paid_id = by_bank.order_by("pk")[0].public_id
        title = f"Invoice no. {number}: paid by bank"
        yield _Exact(paid_id, -paid_micro, title, lowers=True, by_bank=True)
    yield from _notes(row)


def _notes(row: Receivable) -> Iterator[_Exact]:
    """Those credit notes that the receivable counts, and that it was taken back."""
    left = row.noted_micro
    for note in CreditNote.objects.filter(invoice=row.invoice).order_by("number"):
        if note.total_micro <= left:
            left -= note.total_micro
            yield _Exact(note.public_id, -note.total_micro, f"Credit note no. {note.number}", lowers=True)
    if row.voided_micro:
        rest_micro = (row.invoice.total_micro or 0) - row.noted_micro
        yield _Exact(f"{row.public_id}/void", -rest_micro, "Void", lowers=True)
