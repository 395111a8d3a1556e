"""Stripe Tax as payments need it: calculations, and the transactions that report them. Amounts are minor units.

A calculation changes nothing at Stripe and ends after 90 days. A transaction is what Stripe reports and files taxes by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import stripe

from payments.stripe_faults import translated
from payments.stripe_shapes import Refused

PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxQuestion:
    """What is taxed: lines (name, amount) of one customer, at the rates of a moment."""

    currency: str
    lines: Sequence[tuple[str, int]]
    address: dict[str, str]
    tax_ids: Sequence[dict[str, str]]
    tax_at_s: int
    tax_code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxPart:
    """What one jurisdiction takes of a line, in Stripe's words."""

    country: str
    state: str
    jurisdiction: str
    level: str
    tax: str
    percent: str
    taxable: int
    amount: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxedAnswer:
    """A line of a calculation."""

    line: str
    amount: int
    tax: int
    parts: tuple[TaxPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calculation:
    """Stripe's answer. Its lines are in the order of the question."""

    id: str
    lines: tuple[TaxedAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxTransaction:
    """What was reported, negative for a reversal."""

    id: str
    amount: int
    """With the tax."""
    tax: int


class TaxCalls:
    """Stripe Tax of one account."""

    def __init__(self, api: stripe.TaxService) -> None:
        self._api = api

    def calculate(self, asked: TaxQuestion, key: str) -> Calculation:
        """Raises `Refused` too where the answer is not one to what was asked: then nothing may be built on it."""
        wanted: Any = {
            "currency": asked.currency.lower(),
            "line_items": [
                {
                    "amount": amount,
                    "reference": line,
                    "tax_behavior": "exclusive",
                    **({} if asked.tax_code is None else {"tax_code": asked.tax_code}),
                }
                for line, amount in asked.lines
            ],
            "customer_details": {
                "address": {name: value for name, value in asked.address.items() if value},
                "address_source": "billing",
                **({"tax_ids": list(asked.tax_ids)} if asked.tax_ids else {}),
            },
            "tax_date": asked.tax_at_s,
        }
        with translated():
            made = self._api.calculations.create(wanted, {"idempotency_key": key})
            listed = self._api.calculations.line_items.list(
                str(made.id), {"limit": PAGE, "expand": ["data.tax_breakdown"]}
            )
            lines = {one.reference: _line(one) for one in listed.auto_paging_iter()}
        answered = [(line, lines[line].amount) for line, _ in asked.lines if line in lines]
        if answered != list(asked.lines) or len(lines) != len(asked.lines):
            raise Refused(f"Stripe Tax: {made.id} has other lines than were asked for; it is not used")
        tax = sum(one.tax for one in lines.values())
        total = sum(amount for _, amount in asked.lines) + tax
        is_whole = (
            made.tax_amount_exclusive == tax and made.tax_amount_inclusive == 0 and made.amount_total == total
        )
        if not is_whole or made.currency != asked.currency.lower():
            raise Refused(
                f"Stripe Tax: {made.id} says {made.amount_total} {made.currency} with {made.tax_amount_exclusive} of"
                f" tax, its lines {total} {asked.currency} with {tax}; it is not used"
            )
        for one in lines.values():
            # Also without any: an invoice whose tax no jurisdiction takes would be found wrong.
            if sum(part.amount for part in one.parts) != one.tax:
                raise Refused(
                    f"Stripe Tax: the jurisdictions of {one.line} in {made.id} do not add up to its tax"
                )
            if any(part.taxable > one.amount for part in one.parts):
                raise Refused(
                    f"Stripe Tax: a jurisdiction taxes more of {one.line} in {made.id} than the line has"
                )
        return Calculation(id=str(made.id), lines=tuple(lines[line] for line, _ in asked.lines))

    def report(self, calculation: str, reference: str, key: str) -> TaxTransaction:
        """Report what was calculated as sold. `reference` is one transaction's at most, at Stripe too."""
        with translated():
            made = self._api.transactions.create_from_calculation(
                {"calculation": calculation, "reference": reference},
                {"idempotency_key": key},
            )
            return self._transaction(made)

    def reverse(self, transaction: str, reference: str, amount: int | None, key: str) -> TaxTransaction:
        """Report that `amount` with its tax was given back, of all lines in proportion; None: all of it."""
        wanted: Any = {"original_transaction": transaction, "reference": reference}
        wanted |= {"mode": "full"} if amount is None else {"mode": "partial", "flat_amount": -amount}
        with translated():
            made = self._api.transactions.create_reversal(wanted, {"idempotency_key": key})
            return self._transaction(made)

    def _transaction(self, made: stripe.tax.Transaction) -> TaxTransaction:
        lines = self._api.transactions.line_items.list(made.id, {"limit": PAGE})
        amount = tax = 0
        for one in lines.auto_paging_iter():
            amount, tax = amount + one.amount + one.amount_tax, tax + one.amount_tax
        return TaxTransaction(id=made.id, amount=amount, tax=tax)


def _line(one: stripe.tax.CalculationLineItem) -> TaxedAnswer:
    breakdown = dict(one.to_dict()).get("tax_breakdown") or []
    return TaxedAnswer(
        line=one.reference,
        amount=one.amount,
        tax=one.amount_tax,
        parts=tuple(_part(part) for part in breakdown),
    )


def _part(part: dict[str, Any]) -> TaxPart:
    where, rate = part["jurisdiction"], part.get("tax_rate_details") or {}
    return TaxPart(
        country=where["country"],
        state=where.get("state") or "",
        jurisdiction=where["display_name"],
        level=where["level"],
        tax=rate.get("tax_type") or "",
        percent=rate.get("percentage_decimal") or "",
        taxable=part["taxable_amount"],
        amount=part["amount"],
        reason=part["taxability_reason"],
    )
