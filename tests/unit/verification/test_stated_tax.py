"""An invoice whose tax is stated: what is taxed is proven, what is stated is named, alterations are found."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from payments.currencies import unit_micro, whole_coins
from penstock.contract.documents import CreditGrant, Discount, Terms
from penstock.contract.errors import InvalidRequest
from penstock.contract.tax_documents import StatedTaxLine, StatedTaxPart
from penstock.rules.charges import StatedTax, charge
from penstock.rules.currencies import MINOR_DIGITS
from penstock.rules.stated_tax import coin_micro, tax_faults, taxed_lines
from penstock.verification.findings import Kind, Verdict
from tests.unit.verification.honest import PERIOD_MS, RETURNS, Service
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS, StoredLog
from tests.unit.verification.test_charges_altered import BOOK_2, TERMS

STATED = replace(TERMS, tax=None, tax_stated_by="stripe_tax")
Change = Callable[[dict[str, Any]], None]


def service(terms: Terms = STATED) -> Service:
    """A loss of the first period is credited before the second invoice."""
    orders, returns = StoredLog(0), StoredLog(0, RETURNS, "returns")
    orders.write(40, BEGIN_MS + 1)
    orders.write(60, BEGIN_MS + DAY_MS, rolls=True)
    returns.write(5, BEGIN_MS + 2)
    returns.write(5, BEGIN_MS + 3)
    made = Service(orders, returns, book=BOOK_2, terms=terms)
    made.cut()
    size = len(returns.batches[1])
    made.lose_from(returns, 5)
    orders.write(30, BEGIN_MS + PERIOD_MS + 6)
    made.cut(credits=[("inv_1", returns, 5, 5, size)])
    return made


def test_what_is_taxed_is_proven_and_the_tax_itself_is_named() -> None:
    made = service()
    for invoice in ("inv_1", "inv_2"):
        report = made.verify(invoice)
        assert report.verdict is Verdict.PARTLY, report.problems
        (stated,) = report.problems
        assert (stated.kind, stated.where) == (Kind.UNPROVEN, "tax DE") and "taxcalc_1" in stated.message
    (note,) = [item["document"] for item in made.chain_items if item["kind"] == "credit_note"]
    (less_tax,) = [one["amount_micro"] for one in note["charges"] if one["kind"] == "tax"]
    assert less_tax < 0, "what is given back has its part of the tax"


def _statement(change: Change) -> Change:
    return lambda document: change(document["tax_statement"])


def _set(name: str, by: int) -> Change:
    def change(statement: dict[str, Any]) -> None:
        statement["lines"][0][name] += by

    return change


def _part(name: str, value: Any) -> Change:
    def change(statement: dict[str, Any]) -> None:
        statement["lines"][0]["parts"][0][name] = value

    return change


def _scaled(statement: dict[str, Any], times: int) -> None:
    """More of everything than its percentage gives; sums agree."""
    line = statement["lines"][0]
    line["tax_micro"] *= times
    line["parts"][0]["amount_micro"] *= times


def _twice(statement: dict[str, Any]) -> None:
    line = statement["lines"][0]
    line["parts"].append(dict(line["parts"][0]))
    line["tax_micro"] *= 2


def _finer_than_coins(statement: dict[str, Any]) -> None:
    """The charge is rounded, so it stays what is due."""
    line = statement["lines"][0]
    line["tax_micro"] += 1
    line["parts"][0]["amount_micro"] += 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_statement(_finer_than_coins), "are no amount of USD"),
        (_statement(lambda one: one.update(tax_at_ms=BEGIN_MS)), "rates of a time before"),
        (_statement(lambda one: one.update(tax_at_ms=BEGIN_MS + 9 * PERIOD_MS)), "rates of a time before"),
        (_statement(lambda one: one["lines"][0].update(parts=[])), "its jurisdictions take"),
        (_statement(_set("base_micro", 10_000)), "states the tax of"),
        (_statement(_set("tax_micro", 10_000)), "its jurisdictions take"),
        (_statement(lambda one: one["lines"].reverse()), "states the tax of"),
        (_statement(lambda one: one["lines"].pop()), "states the tax of"),
        (_statement(_part("amount_micro", 0)), "its jurisdictions take"),
        (_statement(_part("taxable_micro", 10**15)), "more is taxed than"),
        (_statement(lambda one: _scaled(one, 10)), "19.0 % of"),
        (_statement(lambda one: _scaled(one, 2)), "its percentages come to"),
        (_statement(_part("percent", "0.0")), "takes"),
        (_statement(_part("percent", "")), "0 % of"),
        (_statement(_part("percent", "nineteen")), "is no percentage"),
        (_statement(_part("taxable_micro", 0)), "19.0 % of 0.00"),
        (_statement(lambda one: _twice(one)), "takes the same tax 2 times"),
        (_statement(lambda one: one.update(calculation="taxcalc_2")), "the reason"),
        (_statement(lambda one: one["address"].update(country="FR")), "charges of"),
        (lambda document: document.pop("tax_statement"), "has no statement of its tax"),
        (lambda document: document["charges"][-1].update(amount_micro=0), "on the invoice"),
        (lambda document: document["charges"][-1].update(base_micro=1), "the base"),
    ],
)
def test_each_alteration_is_found(change: Change, said: str) -> None:
    made = service()
    change(made.documents["inv_2"])
    report = made.verify("inv_2")
    assert report.verdict is Verdict.WRONG
    assert any(said in problem.message for problem in report.problems), report.problems


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.update(note=""),
        lambda one: one.pop("tax_ids"),
        lambda one: one.update(by="us"),
        lambda one: one.update(lines=[]),
        _set("tax_micro", -(10**9)),
        _part("amount_micro", "1"),
        lambda one: one["address"].update(country="de"),
    ],
)
def test_what_is_no_statement_is_refused(change: Change) -> None:
    made = service()
    change(made.documents["inv_2"]["tax_statement"])
    with pytest.raises(InvalidRequest, match="tax_statement"):
        made.verify("inv_2")


def test_a_statement_that_the_prices_do_not_want_is_found() -> None:
    made, other = service(replace(STATED, tax_stated_by=UNSET)), service()
    made.documents["inv_2"]["tax_statement"] = other.documents["inv_2"]["tax_statement"]
    messages = [problem.message for problem in made.verify("inv_2").problems]
    assert "has a statement of its tax, which its prices do not have stated" in messages


def test_lines_are_net_of_discounts_and_credit_pays_from_the_first_one_on() -> None:
    amounts = {"messages_in": 20_000_000, "bytes_in": 5_005_000}
    half = Discount(
        id="di_half", basis_points=5_000, amount_micro=0, currency="", meters=("messages_in",), from_ms=0,
        until_ms=BEGIN_MS * 2, reason="",
    )  # fmt: skip
    grant = CreditGrant(
        id="cr_1", amount_micro=12_000_000, currency="USD", granted_ms=1, expires_ms=None, reason=""
    )
    book = BOOK_2.read(BOOK_2.document() | {"fees": [], "minimum_month": "0", "minor_digits": 3})
    terms = Terms(discounts=(half,), credits=(grant,), tax=None, tax_stated_by="stripe_tax")
    charged = charge(book, terms, amounts, (BEGIN_MS, BEGIN_MS + PERIOD_MS), {"cr_1": 12_000_000})
    # 10 of messages are paid by credit, and 2 of 5.005 of bytes: 3.00 in whole cents are left.
    assert [(one.line, one.base_micro) for one in taxed_lines(book, amounts, charged)] == [
        ("usage bytes_in", 3_000_000)
    ]
    assert [coin_micro(one) for one in ("USD", "JPY", "KWD")] == [10_000, 1_000_000, 10_000]


def test_tax_is_as_stated_where_prices_are_finer_than_coins_and_falls_with_what_is_due() -> None:
    book = BOOK_2.read(BOOK_2.document() | {"fees": [], "minimum_month": "0", "minor_digits": 3})
    terms = Terms(discounts=(), credits=(), tax=None, tax_stated_by="stripe_tax")
    stated = StatedTax(
        country="DE", calculation="taxcalc_1", base_micro=10_000_000, tax_micro=1_900_000, coin_micro=10_000
    )
    for due, tax in ((10_009_000, 1_900_000), (10_000_000, 1_900_000), (5_000_000, 950_000), (9_000, 0)):
        period = (BEGIN_MS, BEGIN_MS + PERIOD_MS)
        (charged,) = charge(book, terms, {"messages_in": due}, period, {}, stated).charges
        assert (charged.base_micro, charged.amount_micro) == (due, tax)


@pytest.mark.parametrize(
    ("parts", "tax", "right"),
    [
        ([("4.0", 100_050_000, 4_000_000), ("4.875", 100_050_000, 4_880_000)], 8_880_000, True),
        ([("4.0", 100_050_000, 4_010_000), ("4.875", 100_050_000, 4_870_000)], 8_880_000, True),
        ([("4.0", 100_050_000, 4_010_000), ("4.875", 100_050_000, 4_880_000)], 8_890_000, False),
        ([("4.0", 100_050_000, 4_020_000), ("4.875", 100_050_000, 4_880_000)], 8_900_000, False),
        ([("", 0, 0)], 0, True),
        ([("0.0", 100_050_000, 10_000)], 10_000, False),
        ([("0.0001", 100_050_000, 10_000), ("0.0002", 100_050_000, 10_000), ("0.0003", 1, 10_000)], 30_000, False),
    ],
)  # fmt: skip
def test_a_part_may_be_rounded_by_a_coin_and_what_takes_nothing_takes_nothing(
    parts: list[tuple[str, int, int]], tax: int, right: bool
) -> None:
    line = StatedTaxLine(
        line="usage bytes_in",
        base_micro=100_050_000,
        tax_micro=tax,
        parts=tuple(
            StatedTaxPart(
                country="US", state="NY", jurisdiction=f"of {percent}", level="state", tax="sales_tax",
                percent=percent, taxable_micro=taxable, amount_micro=amount, reason="",
            )
            for percent, taxable, amount in parts
        ),
    )  # fmt: skip
    assert (list(tax_faults(line, 10_000)) == []) is right


def test_each_coin_is_a_whole_number_of_what_stripe_counts_in() -> None:
    """Else a draft in that currency could never ask for its tax."""
    assert [one for one in MINOR_DIGITS if coin_micro(one) % unit_micro(one)] == []
    assert [one for one in MINOR_DIGITS if whole_coins(coin_micro(one), one) != coin_micro(one)] == []
