"""Credit notes that operators grant: what is left of an invoice to be credited, and how much of a credit is tax. Pure.

A granted credit takes amounts off lines, fees and the minimum as they were charged, before tax, or an amount off the
whole, with tax. It rates nothing again: discounts, prepaid credit and the minimum stay as they are. The tax shrinks by
the share that it has of the invoice, rounded down.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import UNSET

from penstock.contract.documents import (
    BilledCharge,
    BilledLine,
    CreditedCharge,
    CreditNoteDocument,
    InvoiceDocument,
)
from penstock.contract.invariant import invariant
from penstock.rules.rating import MICRO

CREDITABLE = ("fee", "minimum")
"""Kinds of charges that a granted credit may name; others follow from lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What credit notes have left of an invoice. Amounts are micro-units."""

    total_micro: int
    """Of the invoice, as it was issued, with tax."""
    tax_micro: int
    left_micro: int
    """Of the total."""
    left_tax_micro: int
    """Of that, at most all of it."""
    minor_digits: int

    @property
    def left_net_micro(self) -> int:
        """What is left before tax."""
        return self.left_micro - self.left_tax_micro

    def tax_upon(self, net_micro: int) -> int:
        """The tax that is credited with an amount before tax."""
        whole = self.total_micro - self.tax_micro
        invariant(net_micro >= 0, "a credit is not negative")
        return min(self.left_tax_micro, self._whole(net_micro * self.tax_micro // whole)) if whole > 0 else 0

    def tax_within(self, gross_micro: int) -> int:
        """The tax in an amount with tax. What is left after it is never less than the tax that is left, so the last
        credit of the invoice takes all of its tax.
        """
        share = gross_micro * self.tax_micro // self.total_micro if self.total_micro else 0
        return min(self.left_tax_micro, max(self._whole(share), gross_micro - self.left_net_micro))

    def _whole(self, amount_micro: int) -> int:
        unit = coin_of(self.minor_digits)
        return amount_micro // unit * unit


def coin_of(minor_digits: int) -> int:
    """Micro-units of the smallest amount with so many places."""
    return int(MICRO // 10**minor_digits)


def rest_of(invoice: InvoiceDocument, notes: Iterable[CreditNoteDocument]) -> Rest:
    """What these credit notes of the invoice have left of it."""
    tax = sum(one.amount_micro for one in _charges(invoice) if one.kind == "tax")
    credited, credited_tax = 0, 0
    for note in notes:
        credited += note.total_micro
        credited_tax -= sum(one.amount_micro for one in _changes(note) if one.kind == "tax")
    left = max(0, invoice.total_micro - credited)
    return Rest(
        total_micro=invoice.total_micro,
        tax_micro=tax,
        left_micro=left,
        left_tax_micro=min(left, max(0, tax - credited_tax)),
        minor_digits=invoice.minor_digits,
    )


def left_of_line(line: BilledLine, invoice: InvoiceDocument, notes: Iterable[CreditNoteDocument]) -> int:
    """What is left of a line after its discounts and these credit notes, before tax."""
    left = line.amount_micro
    left += sum(one.amount_micro for one in _charges(invoice) if one.meter == line.meter)
    for note in notes:
        left -= sum(one.amount_micro for one in note.lines if one.meter == line.meter)
        left += sum(one.amount_micro for one in _changes(note) if one.meter == line.meter)
    return max(0, left)


def left_of_charge(
    kind: str, name: str, invoice: InvoiceDocument, notes: Iterable[CreditNoteDocument]
) -> int:
    """What is left of a fee or the minimum after these credit notes, before tax."""
    left = sum(one.amount_micro for one in _charges(invoice) if (one.kind, one.name) == (kind, name))
    for note in notes:
        left += sum(one.amount_micro for one in _changes(note) if (one.kind, one.name) == (kind, name))
    return max(0, left)


def expected_tax(note: CreditNoteDocument, rest: Rest) -> int:
    """The tax that a granted credit note takes off, from what else it says."""
    net = sum(line.amount_micro for line in note.lines)
    net -= sum(one.amount_micro for one in _changes(note) if one.kind != "tax")
    # What is left of an invoice may be tax alone: then nothing of the whole is before tax either.
    return rest.tax_upon(net) if net else rest.tax_within(note.total_micro)


def _charges(invoice: InvoiceDocument) -> Iterable[BilledCharge]:
    return () if invoice.charges is UNSET else invoice.charges


def _changes(note: CreditNoteDocument) -> Iterable[CreditedCharge]:
    return () if note.charges is UNSET else note.charges
