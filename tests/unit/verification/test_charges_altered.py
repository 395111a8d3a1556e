"""Invoices of format 2: an honest one is proven, and each number that is altered is found and named."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.contract.documents import CreditGrant, Discount, Tax, TaxRate, Terms
from penstock.contract.errors import InvalidRequest
from penstock.rules.charges import ChargedCredit, credit_charged
from penstock.rules.rating import PriceBook
from penstock.verification.findings import Kind, Report, Verdict
from tests.unit.verification.alterations import leaves, others, put, shown_path
from tests.unit.verification.honest import PERIOD_MS, RETURNS, Service, rate_again
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS, StoredLog

BOOK_2 = PriceBook.read(
    {
        "format": 2,
        "name": "test",
        "version": 2,
        "currency": "USD",
        "minor_digits": 2,
        "meters": [
            {
                "meter": "messages_in",
                "unit": "message",
                "unit_size": 1,
                "free": 1,
                "model": "volume",
                "tiers": [{"up_to": 12, "unit_price": "0.70"}, {"up_to": None, "unit_price": "0.60"}],
            },
            {
                "meter": "bytes_in",
                "unit": "block",
                "unit_size": 100,
                "free": 0,
                "model": "package",
                "tiers": [{"up_to": None, "unit_price": "0.10"}],
            },
        ],
        "fees": [{"fee": "base", "month": "9.00"}],
        "minimum_month": "60",
    }
)
SOON = CreditGrant(
    id="cr_soon",
    amount_micro=2_000_000,
    currency="USD",
    granted_ms=BEGIN_MS,
    expires_ms=BEGIN_MS + 900 * DAY_MS,
    reason="welcome",
)
PREPAID = CreditGrant(
    id="cr_paid", amount_micro=31_000_000, currency="USD", granted_ms=1, expires_ms=None, reason="prepaid"
)
EURO = CreditGrant(
    id="cr_euro", amount_micro=1_000_000, currency="EUR", granted_ms=1, expires_ms=None, reason="voucher"
)
TERMS = Terms(
    discounts=(
        Discount(
            id="di_tenth",
            basis_points=1_000,
            amount_micro=0,
            currency="",
            meters=("messages_in",),
            from_ms=BEGIN_MS,
            until_ms=BEGIN_MS + 900 * DAY_MS,
            reason="partner",
        ),
        Discount(
            id="coupon_AUTUMN",
            basis_points=0,
            amount_micro=300_000,
            currency="USD",
            meters=(),
            from_ms=BEGIN_MS,
            until_ms=BEGIN_MS + 900 * DAY_MS,
            reason="coupon",
        ),
        Discount(
            id="coupon_TENTH",
            basis_points=1_000,
            amount_micro=0,
            currency="",
            meters=("bytes_in",),
            from_ms=BEGIN_MS + 1,
            until_ms=BEGIN_MS + 900 * DAY_MS,
            reason="coupon",
        ),
    ),
    credits=(SOON, PREPAID, EURO),
    tax=Tax(
        country="DE",
        region="",
        reverse_charge=False,
        reason="VAT",
        rates=(TaxRate(from_ms=0, basis_points=1_900),),
    ),
)


def world(periods: int = 3) -> Service:
    """Terms from the first period on; a loss of the first is credited before the second invoice."""
    orders, returns = StoredLog(0), StoredLog(0, RETURNS, "returns")
    orders.write(4, BEGIN_MS + 1)
    orders.write(6, BEGIN_MS + DAY_MS, rolls=True)
    returns.write(5, BEGIN_MS + 2)
    returns.write(5, BEGIN_MS + 3)
    service = Service(orders, returns, book=BOOK_2, terms=TERMS)
    service.cut()
    size = len(returns.batches[1])
    service.lose_from(returns, 5)
    returns.write(2, BEGIN_MS + PERIOD_MS + 5)
    orders.write(30, BEGIN_MS + PERIOD_MS + 6)
    more = replace(PREPAID, id="cr_more", amount_micro=1_000_000)
    service.assign(BOOK_2, BEGIN_MS + 2 * PERIOD_MS, replace(TERMS, credits=(SOON, PREPAID, EURO, more)))
    service.cut(credits=[("inv_1", returns, 5, 5, size)])
    if periods > 2:
        orders.write(8, BEGIN_MS + 2 * PERIOD_MS + 1)
        service.cut()
    return service


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


@pytest.mark.parametrize("invoice", ["inv_1", "inv_2", "inv_3"])
def test_an_honest_invoice_with_charges_is_proven(invoice: str) -> None:
    service = world()
    report = service.verify(invoice)
    assert (report.verdict, report.problems) == (Verdict.PROVEN, ())
    assert report.due_total_micro == report.billed_total_micro == service.documents[invoice]["total_micro"]


def closed_meanwhile() -> Service:
    """The last invoice's tenant was closed for a part of its period."""
    service = world()
    begins = service.documents["inv_3"]["period_start_ms"]
    service.documents["inv_3"]["open_time"] = {"from_ms": begins + 1, "until_ms": begins + PERIOD_MS // 3}
    service.charge(service.documents["inv_3"])
    service.rechain()
    service.show_again()
    return service


def test_fees_of_a_tenant_that_was_closed_are_proven_for_its_open_time() -> None:
    whole, service = world(), closed_meanwhile()
    assert (service.verify("inv_3").verdict, service.verify("inv_3").problems) == (Verdict.PROVEN, ())
    fees = [_charges(one, "fee", "inv_3")[0]["amount_micro"] for one in (whole, service)]
    assert fees[1] == pytest.approx(fees[0] / 3, abs=10_000)
    service.documents["inv_3"]["charges"] = whole.documents["inv_3"]["charges"]
    service.documents["inv_3"]["total_micro"] = whole.documents["inv_3"]["total_micro"]
    service.rechain()
    service.show_again()
    assert service.verify("inv_3").verdict is Verdict.WRONG, "fees of the whole period"


def test_a_loss_of_a_tenant_that_was_closed_is_credited_by_the_minimum_of_its_open_time() -> None:
    service = Service(lost := StoredLog(0), book=BOOK_2, terms=replace(TERMS, credits=()))
    lost.write(20, BEGIN_MS + 1)
    lost.write(40, BEGIN_MS + 2)
    service.cut(open_ms=(BEGIN_MS, BEGIN_MS + PERIOD_MS // 5))
    size = len(lost.batches[1])
    service.lose_from(lost, 20)
    lost.write(1, BEGIN_MS + PERIOD_MS + 5)
    service.cut(credits=[("inv_1", lost, 20, 40, size)])
    assert (service.verify("inv_1").verdict, service.verify("inv_1").problems) == (Verdict.PROVEN, ())
    (note,) = [item["document"] for item in service.chain_items if item["kind"] == "credit_note"]
    whole = credit_of_whole_period(service)
    assert whole.total_micro < note["total_micro"], (
        "the minimum of the whole month would take most of it back"
    )


def credit_of_whole_period(service: Service) -> ChargedCredit:
    """What the loss of `inv_1` would be worth if the tenant had been open all the time."""
    document = service.documents["inv_1"]
    (note,) = [item["document"] for item in service.chain_items if item["kind"] == "credit_note"]
    amounts = {line["meter"]: line["amount_micro"] for line in document["lines"]}
    billed = {line["meter"]: line["quantity"] for line in document["lines"]}
    lost = {"messages_in": note["ranges"][0]["messages"], "bytes_in": note["ranges"][0]["bytes"]}
    period_ms = (document["period_start_ms"], document["period_end_ms"])
    return credit_charged(BOOK_2, replace(TERMS, credits=()), period_ms, {}, amounts, billed, lost)


@pytest.mark.parametrize(("begins", "ends"), [(-1, 5), (5, 4), (0, PERIOD_MS), (0, PERIOD_MS + 1)])
def test_an_open_time_that_is_no_part_of_the_period_is_in_no_document(begins: int, ends: int) -> None:
    service = closed_meanwhile()
    start_ms = service.documents["inv_3"]["period_start_ms"]
    service.documents["inv_3"]["open_time"] = {"from_ms": start_ms + begins, "until_ms": start_ms + ends}
    with pytest.raises(InvalidRequest, match="open time"):
        service.rechain()


def test_the_world_has_a_line_of_every_kind() -> None:
    service = world()
    found = {one["kind"] for document in service.documents.values() for one in document["charges"]}
    assert found == {"fee", "discount", "minimum", "credit", "tax"}
    (note,) = [item["document"] for item in service.chain_items if item["kind"] == "credit_note"]
    assert {one["kind"] for one in note["charges"]} >= {"discount", "minimum"}
    assert any(
        one["used_micro"] and one["grant"] == "cr_paid" for one in service.documents["inv_2"]["balances"]
    )


# -- every value, with everything else written again to agree ------------------------------------------------------

PLACES: dict[str, tuple[Callable[[Service], Any], str, tuple[str, ...]]] = {
    "invoice": (lambda service: service.documents["inv_2"], "inv_2", ("charges", "balances", "format")),
    "first": (lambda service: service.documents["inv_1"], "inv_1", ("charges", "balances")),
    "note": (lambda service: service.chain_items[3]["document"], "inv_1", ("charges", "lines", "format")),
    "terms": (lambda service: service.chain_items[0]["document"], "inv_1", ("terms",)),
    "book": (lambda service: service.chain_items[0]["document"]["price_book"], "inv_1",
             ("meters", "fees", "minimum_month", "format")),
    "next terms": (lambda service: service.chain_items[2]["document"], "inv_3", ("terms",)),
}  # fmt: skip


def alterations() -> Iterator[tuple[str, str, tuple[str | int, ...], Any]]:
    service = world()
    for name, (find, _, fields) in PLACES.items():
        for path, value in leaves(find(service)):
            if path[0] in fields:
                for what, new in others(value):
                    if new == value and type(new) is type(value):
                        continue
                    index = ".".join(str(step) for step in path if isinstance(step, int))
                    yield f"{name}: {shown_path(path)} {index} {what}", name, path, new


@pytest.mark.parametrize("place", list(PLACES))
def test_every_altered_value_of_charges_and_terms_is_found_when_the_rest_agrees(place: str) -> None:
    count, unnoticed = 0, []
    for name, where, path, new in alterations():
        if where != place:
            continue
        service = world()
        find, invoice, _ = PLACES[where]
        put(find(service), path, new)
        count += 1
        try:
            service.rechain()
            service.show_again()
            if service.verify(invoice).verdict is Verdict.PROVEN:
                unnoticed.append(name)
        except InvalidRequest:
            continue
    assert count > 5
    assert unnoticed == []


# -- forgeries that were thought out --------------------------------------------------------------------------------


def _again(service: Service, *invoices: str) -> None:
    for name in invoices:
        service.charge(service.documents[name])
    service.rechain()
    service.show_again()


def _charges(service: Service, kind: str, invoice: str = "inv_2") -> list[dict[str, Any]]:
    return [one for one in service.documents[invoice]["charges"] if one["kind"] == kind]


def _alter(kind: str, change: int, service: Service) -> None:
    """The amount of a charge, and the total with it."""
    found = _charges(service, kind, "inv_1" if kind == "minimum" else "inv_2")[0]
    found["amount_micro"] += change
    service.documents["inv_1" if kind == "minimum" else "inv_2"]["total_micro"] += change
    service.rechain()
    service.show_again()


def fee_twice(service: Service) -> None:
    document = service.documents["inv_2"]
    document["charges"].insert(0, copy.deepcopy(document["charges"][0]))
    document["total_micro"] += document["charges"][0]["amount_micro"]
    service.rechain()
    service.show_again()


def fee_of_a_whole_month(service: Service) -> None:
    fee = _charges(service, "fee")[0]
    service.documents["inv_2"]["total_micro"] += fee["base_micro"] - fee["amount_micro"]
    fee["amount_micro"] = fee["base_micro"]
    service.rechain()
    service.show_again()


def left_out(kind: str, service: Service) -> None:
    document = service.documents["inv_2"]
    document["total_micro"] -= sum(one["amount_micro"] for one in _charges(service, kind))
    document["charges"] = [one for one in document["charges"] if one["kind"] != kind]
    service.rechain()
    service.show_again()


def moved_in_front(service: Service) -> None:
    service.documents["inv_2"]["charges"].reverse()
    service.rechain()
    service.show_again()


def credit_forgotten(service: Service) -> None:
    """Less is left of a grant than the invoice before left."""
    for one in service.documents["inv_3"]["balances"]:
        one["before_micro"] = one["used_micro"] = 0
    document = service.documents["inv_3"]
    document["total_micro"] -= sum(one["amount_micro"] for one in _charges(service, "credit", "inv_3"))
    document["charges"] = [one for one in document["charges"] if one["kind"] != "credit"]
    service.rechain()
    service.show_again()


def of_format_1(service: Service) -> None:
    document = service.documents["inv_2"]
    del document["charges"], document["balances"]
    rate_again(document, BOOK_2)
    document["format"] = 1
    service.rechain()
    service.show_again()


def grant_taken_away(service: Service) -> None:
    """The next prices no longer have a grant of which something is left."""
    service.chain_items[2]["document"]["terms"]["credits"].pop(2)
    _again(service, "inv_3")


def grant_lowered(service: Service) -> None:
    service.chain_items[2]["document"]["terms"]["credits"][1]["amount_micro"] -= 1_000_000
    _again(service, "inv_3")


def grant_expires_earlier(service: Service) -> None:
    service.chain_items[2]["document"]["terms"]["credits"][1]["expires_ms"] = BEGIN_MS
    _again(service, "inv_3")


def tax_raised(service: Service) -> None:
    service.chain_items[0]["document"]["terms"]["tax"]["rates"][0]["basis_points"] = 2_500
    _again(service, "inv_2")


def discount_ended(service: Service) -> None:
    service.chain_items[0]["document"]["terms"]["discounts"].pop()
    _again(service, "inv_2")


def model_changed(service: Service) -> None:
    for item in (service.chain_items[0], service.chain_items[2]):
        item["document"]["price_book"]["meters"][0]["model"] = "graduated"
    document = service.documents["inv_2"]
    rate_again(document, service._book_for(document["period_start_ms"]))
    _again(service, "inv_2")


def note_keeps_the_credit(service: Service) -> None:
    note = service.chain_items[3]["document"]
    note["charges"] = [one for one in note["charges"] if one["kind"] != "minimum"]
    service.rechain()
    service.show_again()


def note_of_format_1(service: Service) -> None:
    note = service.chain_items[3]["document"]
    del note["charges"]
    note["format"] = 1
    service.rechain()
    service.show_again()


def shown_without_charges(service: Service) -> None:
    service.shown["inv_2"]["charges"] = []


STORIES: list[tuple[str, Callable[[Service], None], str]] = [
    *(
        (f"{kind} {change:+}", partial(_alter, kind, change), "inv_1" if kind == "minimum" else "inv_2")
        for kind in ("fee", "discount", "minimum", "credit", "tax")
        for change in (10_000, -10_000, 1)
    ),
    ("a fee twice", fee_twice, "inv_2"),
    ("a fee of the whole month", fee_of_a_whole_month, "inv_2"),
    *((f"no {kind}", partial(left_out, kind), "inv_2") for kind in ("fee", "discount", "credit", "tax")),
    ("charges in another order", moved_in_front, "inv_2"),
    ("credit forgotten", credit_forgotten, "inv_3"),
    ("an invoice of format 1", of_format_1, "inv_2"),
    ("grants taken away", grant_taken_away, "inv_3"),
    ("a grant lowered", grant_lowered, "inv_3"),
    ("a grant that expires earlier", grant_expires_earlier, "inv_3"),
    ("a higher tax, everything rated again", tax_raised, "inv_2"),
    ("a discount taken back, everything rated again", discount_ended, "inv_2"),
    ("another model, everything rated again", model_changed, "inv_2"),
    ("a credit note without its minimum", note_keeps_the_credit, "inv_1"),
    ("a credit note of format 1", note_of_format_1, "inv_1"),
    ("charges that are not shown", shown_without_charges, "inv_2"),
]  # fmt: skip


def _insert(service: Service, place: int, item: dict[str, Any]) -> None:
    service.chain_items.insert(place, item)
    for number, one in enumerate(service.chain_items, 1):
        one["sequence"] = number
    service.rechain()


def _another_note(service: Service, of: str, charge: dict[str, Any] | None) -> None:
    """A credit note of nothing in front of the second invoice."""
    item = copy.deepcopy(service.chain_items[3])
    item["object_id"] = "cn_9"
    item["document"] |= {"id": "cn_9", "number": 9, "lines": [], "ranges": [], "total_micro": 0}
    item["document"]["invoice"] |= {"id": of}
    item["document"]["charges"] = [] if charge is None else [charge]
    _insert(service, 4, item)


TAKEN = {"kind": "credit", "name": "cr_paid", "meter": "", "amount_micro": -9_000_000}


@pytest.mark.parametrize(
    ("of", "charge", "told"),
    [
        ("inv_0", None, "credits inv_0, and no entry before it issued that"),
        ("inv_2", None, "credits inv_2, and no entry before it issued that"),
        ("inv_1", TAKEN, "takes 9.00 of the grant of credit cr_paid"),
    ],
)
def test_a_credit_note_that_takes_credit_is_named_with_the_invoice_that_it_would_make_dearer(
    of: str, charge: dict[str, Any] | None, told: str
) -> None:
    service = world()
    _another_note(service, of, charge)
    assert told in [problem.message for problem in service.verify("inv_2").problems]


def test_a_grant_that_two_prices_of_the_chain_have_differently_is_named() -> None:
    """As by prices that a later entry of the same moment puts out of force, so that no invoice has them."""
    service = world()
    shadow = copy.deepcopy(service.chain_items[2])
    shadow["object_id"] = "pa_9"
    shadow["document"]["terms"]["credits"][2]["expires_ms"] = BEGIN_MS
    service.chain_items[2]["document"]["terms"]["credits"].pop(2)
    _insert(service, 2, shadow)
    messages = [problem.message for problem in service.verify("inv_3").problems]
    assert "the grant of credit is two in the billing chain" in messages


def world_with_later_terms(*discounts: Discount) -> Service:
    """Prices that brokers noted in time, for the second period: with these discounts instead."""
    orders = StoredLog(0)
    orders.write(20, BEGIN_MS + 1)
    service = Service(orders, book=BOOK_2, terms=TERMS)
    service.assign(BOOK_2, BEGIN_MS + PERIOD_MS, replace(TERMS, discounts=discounts))
    service.cut()
    orders.write(20, BEGIN_MS + PERIOD_MS + 1)
    service.cut()
    return service


PARTNER, AUTUMN, TENTH = TERMS.discounts
ENDS = BEGIN_MS + PERIOD_MS


@pytest.mark.parametrize(
    ("discounts", "said"),
    [
        ((PARTNER, TENTH), "coupon_AUTUMN was redeemed and is not over"),
        ((), "coupon_AUTUMN was redeemed and is not over"),
        ((PARTNER, replace(AUTUMN, amount_micro=200_000), TENTH), "coupon_AUTUMN was redeemed as another"),
        ((PARTNER, AUTUMN, replace(TENTH, meters=("other",))), "coupon_TENTH was redeemed as another"),
        ((PARTNER, replace(AUTUMN, until_ms=ENDS), TENTH), "coupon_AUTUMN was redeemed as another"),
        ((PARTNER, replace(AUTUMN, id="coupon_WINTER"), TENTH), "coupon_AUTUMN was redeemed and is not over"),
        ((PARTNER, TENTH, AUTUMN), "another order"),
    ],
)
def test_a_discount_that_the_tenant_redeemed_is_held_as_grants_are(
    discounts: tuple[Discount, ...], said: str
) -> None:
    """Nothing else tells: every document agrees, and the brokers noted the prices before the period began."""
    report = world_with_later_terms(*discounts).verify("inv_2")
    assert {problem.kind for problem in report.problems} == {Kind.PRICE_DIFFERS}
    assert any(said in f"{problem.where} {problem.message}" for problem in report.problems)


def test_a_discount_of_an_operator_may_end_with_a_period_and_new_coupons_may_come() -> None:
    winter = replace(TENTH, id="coupon_WINTER")
    for discounts in ((AUTUMN, TENTH), (PARTNER, AUTUMN, TENTH, winter)):
        assert world_with_later_terms(*discounts).verify("inv_2").proven


def test_prices_that_are_assigned_once_more_as_they_were_hide_no_coupon_of_in_between() -> None:
    orders = StoredLog(0)
    orders.write(20, BEGIN_MS + 1)
    service = Service(orders, book=BOOK_2, terms=replace(TERMS, discounts=(PARTNER,)))
    for discounts in ((PARTNER,), (PARTNER, TENTH), (PARTNER,)):
        service.assign(BOOK_2, ENDS, replace(TERMS, discounts=discounts))
    service.cut()
    orders.write(20, ENDS + 1)
    service.cut()
    (problem,) = service.verify("inv_2").problems
    assert (problem.kind, problem.where) == (Kind.PRICE_DIFFERS, "coupon_TENTH")


def test_a_coupon_in_prices_that_newer_ones_overtake_is_named() -> None:
    orders = StoredLog(0)
    orders.write(20, BEGIN_MS + 1)
    service = Service(orders, book=BOOK_2, terms=replace(TERMS, discounts=(PARTNER,)))
    service.assign(BOOK_2, ENDS, replace(TERMS, discounts=(PARTNER,)))
    service.assign(BOOK_2, BEGIN_MS, replace(TERMS, discounts=(PARTNER, TENTH)))
    service.cut()
    orders.write(20, ENDS + 1)
    service.cut()
    problems = service.verify("inv_2").problems
    assert Kind.PRICE_DIFFERS in {problem.kind for problem in problems}
    assert "entry 3" in {problem.where for problem in problems}


def test_a_coupon_that_is_over_may_go() -> None:
    orders = StoredLog(0)
    orders.write(20, BEGIN_MS + 1)
    over = replace(AUTUMN, until_ms=ENDS)
    service = Service(orders, book=BOOK_2, terms=replace(TERMS, discounts=(over,)))
    service.assign(BOOK_2, ENDS, replace(TERMS, discounts=()))
    service.cut()
    service.cut()
    assert service.verify("inv_1").proven and service.verify("inv_2").proven


@pytest.mark.parametrize(("name", "alter", "invoice"), STORIES, ids=[story[0] for story in STORIES])
def test_no_forgery_of_charges_is_accepted(name: str, alter: Callable[[Service], None], invoice: str) -> None:
    service = world()
    try:
        alter(service)
    except InvalidRequest:
        assert name == "minimum -10000"  # a total below 0 is in no document
        return
    assert service.verify(invoice).verdict is Verdict.WRONG, name


# -- credit that comes back to a grant that has expired -------------------------------------------------------------

SHORT = replace(PREPAID, id="cr_short", amount_micro=90_000_000, expires_ms=BEGIN_MS + PERIOD_MS)
PLAIN = PriceBook.read({**BOOK_2.document(), "fees": [], "minimum_month": "0"})


def come_back() -> Service:
    """A grant pays for the first period alone; a loss gives a part of it back in the second."""
    orders, returns = StoredLog(0), StoredLog(0, RETURNS, "returns")
    orders.write(4, BEGIN_MS + 1)
    returns.write(5, BEGIN_MS + 2)
    returns.write(5, BEGIN_MS + 3)
    service = Service(orders, returns, book=PLAIN, terms=replace(TERMS, credits=(SHORT,)))
    service.assign(PLAIN, BEGIN_MS + PERIOD_MS, replace(TERMS, credits=()))
    service.cut()
    size = len(returns.batches[1])
    service.lose_from(returns, 5)
    returns.write(2, BEGIN_MS + PERIOD_MS + 5)
    orders.write(1, BEGIN_MS + PERIOD_MS + 6)
    service.cut(credits=[("inv_1", returns, 5, 5, size)])
    orders.write(3, BEGIN_MS + 2 * PERIOD_MS + 6)
    service.cut()
    return service


def test_what_came_back_to_an_expired_grant_pays_and_is_proven() -> None:
    service = come_back()
    (note,) = [item["document"] for item in service.chain_items if item["kind"] == "credit_note"]
    (back,) = [one["amount_micro"] for one in note["charges"] if one["kind"] == "credit"]
    assert back > 0 and note["total_micro"] == 0, "the credit had paid for all of it"
    balances = {name: service.documents[name]["balances"] for name in ("inv_1", "inv_2", "inv_3")}
    assert [one["grant"] for one in balances["inv_2"]] == ["cr_short"]
    assert balances["inv_2"][0]["before_micro"] == back, "without what lapsed"
    assert balances["inv_3"][0]["before_micro"] == back - balances["inv_2"][0]["used_micro"]
    for name in balances:
        assert service.verify(name).verdict is Verdict.PROVEN, name


def _lapses(service: Service) -> None:
    document = service.documents["inv_2"]
    document["total_micro"] -= sum(one["amount_micro"] for one in _charges(service, "credit"))
    document["charges"] = [one for one in document["charges"] if one["kind"] != "credit"]
    document["balances"] = []


def _lapses_later(service: Service) -> None:
    document = service.documents["inv_3"]
    document["total_micro"] -= sum(one["amount_micro"] for one in _charges(service, "credit", "inv_3"))
    document["charges"] = [one for one in document["charges"] if one["kind"] != "credit"]
    document["balances"] = []


def _all_comes_back(service: Service) -> None:
    """Also what lapsed."""
    first = service.documents["inv_1"]["balances"][0]
    service.documents["inv_2"]["balances"][0]["before_micro"] += first["before_micro"] - first["used_micro"]


@pytest.mark.parametrize(
    ("alter", "invoice"), [(_lapses, "inv_2"), (_lapses_later, "inv_3"), (_all_comes_back, "inv_2")]
)
def test_credit_that_came_back_and_is_kept_by_the_biller_is_named(
    alter: Callable[[Service], None], invoice: str
) -> None:
    service = come_back()
    alter(service)
    service.rechain()
    service.show_again()
    assert service.verify(invoice).verdict is Verdict.WRONG
