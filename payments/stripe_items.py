"""What of a receivable stands on Stripe's invoice: its items and credit notes, in whole coins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def parts_of(group: Sequence[Receivable]) -> list[Part]:
    """Of a receivable and those that it carries, which are an item each."""
    first, *carried = group
    parts = _in_coins(first, _lines(first))
    for one in carried:
        parts += _in_coins(one, _whole(one))
        paid_micro = carrying.by_bank_micro(one)
        if paid_micro:
            paid = one.payments.filter(kind=Payment.Kind.PAYMENT, source=Payment.Source.BANK).order_by("pk")[
                0
            ]
            parts.append(
                Part(
                    id=paid.public_id,
                    amount=-(paid_micro // unit_micro(one.currency)),
                    title=f"Invoice no. {one.invoice.number}: paid by bank",
                    lowers=True,
                    by_bank=True,
                )
            )
    return parts


def _in_coins(row: Receivable, exact: Iterator[tuple[str, int, str, bool]]) -> list[Part]:
    """Each ends where the sum up to it does, so that all of them are what is asked for, and each is less than a coin
    from what it is. A newer credit note comes behind, with the next generation.
    """
    parts: list[Part] = []
    sum_micro = before_micro = 0
    for part_id, amount_micro, title, lowers in exact:
        sum_micro += amount_micro
        asked_micro = whole_coins(max(0, sum_micro), row.currency)
        amount = (asked_micro - before_micro) // unit_micro(row.currency)
        parts.append(Part(id=part_id, amount=amount, title=title, lowers=lowers))
        before_micro = asked_micro
    return parts


def _lines(row: Receivable) -> Iterator[tuple[str, int, str, bool]]:
    """Id, micro-units, title, and whether it lowers the invoice."""
    invoice = row.invoice
    for line in invoice.lines.order_by("position"):
        yield line.line_id, line.amount_micro, f"{line.meter}: {line.quantity:,}", False
    for charge in invoice.charges:
        yield charge["id"], charge["amount_micro"], f"{charge['kind']}: {charge['name']}", False
    yield from _notes(row)


def _whole(row: Receivable) -> Iterator[tuple[str, int, str, bool]]:
    yield row.public_id, row.invoice.total_micro or 0, f"Carried: invoice no. {row.invoice.number}", False
    yield from _notes(row)


def _notes(row: Receivable) -> Iterator[tuple[str, int, str, bool]]:
    """Those credit notes that the receivable counts, and that it was taken back."""
    left = row.noted_micro
    for note in CreditNote.objects.filter(invoice=row.invoice).order_by("number"):
        if note.total_micro <= left:
            left -= note.total_micro
            yield note.public_id, -note.total_micro, f"Credit note no. {note.number}", True
    if row.voided_micro:
        rest_micro = (row.invoice.total_micro or 0) - row.noted_micro
        yield f"{row.public_id}/void", -rest_micro, "Void", True
