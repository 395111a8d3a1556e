"""The stand-in's part for Stripe Tax: calculations, transactions and reversals, one made-up rate a country."""

import time
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Protocol

Object = dict[str, Any]
RATES = {"DE": ("vat", "19.0"), "FR": ("vat", "20.0"), "JP": ("jct", "10.0"), "US": ("sales_tax", "8.875")}
"""Of these tests and of the demo; elsewhere nothing is collected. The United States have two jurisdictions."""
LINES_MAX = 100
EXPIRES_S = 90 * 86_400


class Account(Protocol):
    """What it needs of the stand-in."""

    objects: dict[str, Object]

    def make(self, prefix: str, kind: str, **members: Any) -> Object: ...

    def refuse(self, message: str, code: str = "") -> Exception: ...

    def all(self, kind: str) -> list[Object]: ...


def calculate(account: Account, params: Object) -> Object:
    """POST /v1/tax/calculations."""
    lines, details = params["line_items"], params["customer_details"]
    where = details["address"]
    if len(lines) > LINES_MAX or any(int(one["amount"]) <= 0 for one in lines):
        raise account.refuse("Invalid positive integer", "parameter_invalid_integer")
    if len({one["reference"] for one in lines}) != len(lines):
        raise account.refuse("References of line items must be unique")
    if where.get("country") == "US" and not where.get("postal_code"):
        raise account.refuse(
            "We could not determine the customer's tax location based on the provided customer address.",
            "customer_tax_location_invalid",
        )
    made = account.make(
        "taxcalc",
        "tax.calculation",
        amount_total=0,
        currency=params["currency"],
        customer=None,
        customer_details={
            "address": {name: where.get(name) for name in _ADDRESS},
            "address_source": details["address_source"],
            "ip_address": None,
            "tax_ids": details.get("tax_ids", []),
            "taxability_override": "none",
        },
        expires_at=int(time.time()) + EXPIRES_S,
        ship_from_details=None,
        shipping_cost=None,
        tax_amount_exclusive=0,
        tax_amount_inclusive=0,
        tax_breakdown=[],
        tax_date=int(params["tax_date"]),
    )
    of_business = bool(details.get("tax_ids")) and where["country"] != "US"
    for one in lines:
        amount = int(one["amount"])
        parts = _parts(where, amount, of_business=of_business)
        tax = sum(int(part["amount"]) for part in parts)
        account.make(
            "tax_li",
            "tax.calculation_line_item",
            amount=amount,
            amount_tax=tax,
            performance_location=None,
            product=None,
            quantity=1,
            reference=one["reference"],
            tax_behavior="exclusive",
            tax_code=one.get("tax_code", "txcd_10000000"),
            tax_breakdown=parts,
            calculation=made["id"],
        )
        made["tax_amount_exclusive"] += tax
        made["amount_total"] += amount + tax
    return made


def report(account: Account, params: Object) -> Object:
    """POST /v1/tax/transactions/create_from_calculation."""
    made_from = account.objects.get(params["calculation"])
    if made_from is None or made_from["object"] != "tax.calculation" or made_from["expires_at"] < time.time():
        raise account.refuse(f"No such tax calculation: {params['calculation']}", "resource_missing")
    made = _transaction(account, params["reference"], made_from, None)
    for one in account.all("tax.calculation_line_item"):
        if one["calculation"] == made_from["id"]:
            _line(account, made, one["reference"], one["amount"], one["amount_tax"])
    return made


def reverse(account: Account, params: Object) -> Object:
    """POST /v1/tax/transactions/create_reversal: all of it, or an amount of all lines in proportion."""
    first = account.objects.get(params["original_transaction"])
    if first is None or first["object"] != "tax.transaction":
        raise account.refuse(f"No such transaction: {params['original_transaction']}", "resource_missing")
    lines = [one for one in account.all("tax.transaction_line_item") if one["transaction"] == first["id"]]
    whole = sum(one["amount"] + one["amount_tax"] for one in lines)
    before = -sum(
        one["amount"] + one["amount_tax"]
        for reversal in account.all("tax.transaction")
        if (reversal["reversal"] or {}).get("original_transaction") == first["id"]
        for one in account.all("tax.transaction_line_item")
        if one["transaction"] == reversal["id"]
    )
    amount = whole if params["mode"] == "full" else -int(params["flat_amount"])
    if amount <= 0 or before + amount > whole or (params["mode"] == "full" and before):
        raise account.refuse("The amount to reverse is more than what is left of the transaction")
    made = _transaction(account, params["reference"], first, first["id"])
    done = 0
    for at, one in enumerate(lines, 1):
        of_line = one["amount"] + one["amount_tax"]
        taken = amount - done if at == len(lines) else amount * of_line // whole
        done += taken
        tax = _rounded(Decimal(taken * one["amount_tax"]) / of_line) if of_line else 0
        _line(account, made, one["reference"], tax - taken, -tax)
    return made


_ADDRESS = ("city", "country", "line1", "line2", "postal_code", "state")


def _transaction(account: Account, reference: str, like: Object, original: str | None) -> Object:
    if any(one["reference"] == reference for one in account.all("tax.transaction")):
        raise account.refuse(f"There is a transaction with the reference {reference} already")
    return account.make(
        "tax",
        "tax.transaction",
        currency=like["currency"],
        customer=None,
        customer_details=like["customer_details"],
        posted_at=int(time.time()),
        reference=reference,
        reversal=None if original is None else {"original_transaction": original},
        ship_from_details=None,
        shipping_cost=None,
        tax_date=like["tax_date"],
        type="transaction" if original is None else "reversal",
    )


def _line(account: Account, of: Object, reference: str, amount: int, tax: int) -> None:
    account.make(
        "tax_li",
        "tax.transaction_line_item",
        amount=amount,
        amount_tax=tax,
        product=None,
        quantity=1,
        reference=reference,
        reversal=None if of["reversal"] is None else {"original_line_item": "tax_li_0"},
        tax_behavior="exclusive",
        tax_code="txcd_10000000",
        type=of["type"],
        transaction=of["id"],
    )


def _parts(where: Object, amount: int, *, of_business: bool) -> list[Object]:
    country = where["country"]
    kind, percent = RATES.get(country, ("", "0"))
    if not kind:
        return [_part(country, None, "country", country, amount, None, "not_collecting")]
    if of_business:
        return [_part(country, None, "country", country, amount, (kind, "0.0"), "reverse_charge")]
    if country != "US":
        return [_part(country, None, "country", country, amount, (kind, percent), "standard_rated")]
    state = where.get("state") or "NY"
    return [
        _part(country, state, "state", state, amount, (kind, "4.0"), "standard_rated"),
        _part(country, state, "county", "Kings", amount, (kind, "4.875"), "standard_rated"),
    ]


def _part(
    country: str,
    state: str | None,
    level: str,
    name: str,
    amount: int,
    rate: tuple[str, str] | None,
    reason: str,
) -> Object:
    tax = 0 if rate is None else _rounded(amount * Decimal(rate[1]) / 100)
    return {
        "amount": tax,
        "jurisdiction": {"country": country, "display_name": name, "level": level, "state": state},
        "sourcing": "destination",
        "tax_rate_details": None
        if rate is None
        else {"display_name": "VAT", "percentage_decimal": rate[1], "tax_type": rate[0]},
        "taxability_reason": reason,
        "taxable_amount": amount if tax else 0,
    }


def _rounded(value: Decimal) -> int:
    return int(value.quantize(Decimal(1), ROUND_HALF_UP))
