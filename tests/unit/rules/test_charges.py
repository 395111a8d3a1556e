"""Charges against an oracle of exact fractions: fees, discounts, the minimum, credits, tax, and what losses take."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.contract.documents import (
    NO_TERMS,
    CreditGrant,
    Discount,
    PriceBookDocument,
    Tax,
    TaxRate,
    Terms,
    document_sha256,
    read_document,
)
from penstock.contract.errors import InvalidRequest
from penstock.rules.charges import (
    NOTHING_BEFORE,
    Charged,
    LeftCredit,
    StandingCredit,
    charge,
    charge_id,
    credit_charged,
    in_order_of_use,
    standing_credit,
)
from penstock.rules.proration import MONTH_PARTS, month_parts
from penstock.rules.rating import PriceBook, line_amount_micro, rate
from penstock.rules.timestamps import time_ms


def at(year: int, month: int, day: int = 1, hour: int = 0) -> int:
    return time_ms(datetime(year, month, day, hour, tzinfo=UTC))


MARCH = (at(2026, 3), at(2026, 4))
UNIT = 1_000_000
CENT = 10_000


def book(**changes: Any) -> PriceBook:
    meters = [
        {"meter": "messages_in", "unit": "message", "unit_size": 1, "free": 0, "model": "unit",
         "tiers": [{"up_to": None, "unit_price": "0.01"}]},
        {"meter": "bytes_in", "unit": "MB", "unit_size": 1_000_000, "free": 0, "model": "unit",
         "tiers": [{"up_to": None, "unit_price": "1"}]},
    ]  # fmt: skip
    return PriceBook.read(
        {"format": 2, "name": "t", "version": 1, "currency": "USD", "minor_digits": 2, "meters": meters}
        | changes
    )


def off(name: str = "d1", **changes: Any) -> Discount:
    values: dict[str, Any] = {
        "id": name, "basis_points": 0, "amount_micro": 0, "currency": "", "meters": (), "from_ms": 0,
        "until_ms": at(2100, 1), "reason": "",
    }  # fmt: skip
    if changes.get("amount_micro"):
        values["currency"] = "USD"
    return Discount(**(values | changes))


def grant(name: str, amount: int, expires_ms: int | None = None, **changes: Any) -> CreditGrant:
    values: dict[str, Any] = {"currency": "USD", "granted_ms": 0, "reason": ""}
    return CreditGrant(id=name, amount_micro=amount, expires_ms=expires_ms, **(values | changes))


def tax(points: int, **changes: Any) -> Tax:
    values: dict[str, Any] = {"country": "DE", "region": "", "reverse_charge": False, "reason": ""}
    return Tax(rates=(TaxRate(from_ms=0, basis_points=points),), **(values | changes))


def terms(*discounts: Discount, credits: tuple[CreditGrant, ...] = (), taxed: Tax | None = None) -> Terms:
    return Terms(discounts=discounts, credits=credits, tax=taxed)


def charged(
    prices: PriceBook, given_terms: Terms, messages: int = 0, size: int = 0, period: tuple[int, int] = MARCH
) -> Charged:
    amounts = {"messages_in": messages, "bytes_in": size}
    rests = standing_credit(given_terms, (), NOTHING_BEFORE, {}, period[0]).rests
    return charge(prices, given_terms, amounts, period, rests)


def lines(found: Charged) -> list[tuple[str, str, int]]:
    return [(one.kind, one.name, one.amount_micro) for one in found.charges]


# -- months -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "share"),
    [
        (at(2026, 3), at(2026, 4), Fraction(1)),
        (at(2028, 2), at(2028, 3), Fraction(1)),
        (at(2028, 2, 29), at(2028, 3), Fraction(1, 29)),
        (at(2026, 2, 28), at(2026, 3), Fraction(1, 28)),
        (at(2026, 1, 31), at(2026, 3), Fraction(1, 31) + 1),
        (at(2026, 4, 30, 12), at(2026, 5, 1, 12), Fraction(1, 60) + Fraction(1, 62)),
        (at(2026, 12, 31), at(2027, 1, 2), Fraction(2, 31)),
        (at(2026, 3), at(2026, 3) + 1, Fraction(1, 31 * 86_400_000)),
        (0, 253_402_300_799_999, 12 * 8030 - Fraction(1, 31 * 86_400_000)),
        (at(2026, 3), at(2026, 3), Fraction(0)),
    ],
)
def test_a_period_is_its_part_of_the_months_that_it_lies_in(start: int, end: int, share: Fraction) -> None:
    assert Fraction(month_parts(start, end), MONTH_PARTS) == share


@given(st.lists(st.integers(0, at(2100, 1)), min_size=3, max_size=6).map(sorted))
def test_parts_of_a_time_add_up_to_it(moments: list[int]) -> None:
    parts = sum(month_parts(a, b) for a, b in pairwise(moments))
    assert parts == month_parts(moments[0], moments[-1])


@given(st.tuples(st.integers(*MARCH), st.integers(*MARCH)).map(sorted), st.integers(0, 100 * UNIT))
def test_fees_and_the_minimum_are_for_the_time_in_which_the_tenant_was_open(
    opened: list[int], used: int
) -> None:
    prices, nothing = book(fees=[{"fee": "base", "month": "31"}], minimum_month="62"), terms()
    amounts = {"messages_in": used // CENT * CENT, "bytes_in": 0}
    found = charge(prices, nothing, amounts, MARCH, {}, open_ms=(opened[0], opened[1]))
    assert found == charge(prices, nothing, amounts, (opened[0], opened[1]), {})


# -- an oracle: whole amounts as fractions, nothing shared with the code -------------------------------------------


def half_up(amount: Fraction) -> Fraction:
    """To cents."""
    return Fraction((amount * 100 + Fraction(1, 2)).__floor__(), 100)


def months(start_ms: int, end_ms: int) -> Fraction:
    """Day by day."""
    share, day = Fraction(0), datetime.fromtimestamp(start_ms // 1000, UTC)
    end = datetime.fromtimestamp(end_ms // 1000, UTC)
    while day < end:
        first = day.replace(day=1, hour=0, minute=0, second=0)
        following = (first + timedelta(days=32)).replace(day=1)
        until = min(end, following)
        share += Fraction(int((until - day).total_seconds()), int((following - first).total_seconds()))
        day = until
    return share


def oracle(
    fee: int, minimum: int, given_terms: Terms, amounts: dict[str, int], period: tuple[int, int]
) -> Fraction:
    share = months(*period)
    costs = {meter: Fraction(amount, UNIT) for meter, amount in amounts.items()}
    fees = half_up(Fraction(fee) * share)
    for one in given_terms.discounts:
        rest = Fraction(one.amount_micro // CENT, 100)
        for meter in ("messages_in", "bytes_in"):
            if one.meters and meter not in one.meters:
                continue
            if one.basis_points:
                costs[meter] -= half_up(costs[meter] * Fraction(one.basis_points, 10_000))
            else:
                taken = min(rest, costs[meter])
                rest, costs[meter] = rest - taken, costs[meter] - taken
    due = max(fees + sum(costs.values()), half_up(Fraction(minimum) * share))
    due -= min(due, sum((Fraction(g.amount_micro // CENT, 100) for g in given_terms.credits), Fraction(0)))
    if given_terms.tax is not None:
        due += half_up(due * Fraction(given_terms.tax.rates[0].basis_points, 10_000))
    return due


METER_SETS = st.sampled_from([(), ("messages_in",), ("bytes_in",), ("bytes_in", "messages_in")])
DISCOUNTS = st.one_of(
    st.builds(
        lambda points, meters: off(basis_points=points, meters=meters), st.integers(1, 10_000), METER_SETS
    ),
    st.builds(
        lambda amount, meters: off(amount_micro=amount, meters=meters), st.integers(1, 90 * UNIT), METER_SETS
    ),
)


@st.composite
def all_terms(draw: st.DrawFn) -> Terms:
    discounts = draw(st.lists(DISCOUNTS, max_size=3))
    numbered = [replace(one, id=f"d{number}") for number, one in enumerate(discounts)]
    credits = tuple(
        grant(f"g{n}", amount, draw(st.sampled_from([None, at(2030, 1)])))
        for n, amount in enumerate(draw(st.lists(st.integers(1, 50 * UNIT), max_size=3)))
    )
    points = draw(st.one_of(st.none(), st.integers(0, 10_000)))
    return terms(*numbered, credits=credits, taxed=None if points is None else tax(points))


HOURS = st.integers(at(2023, 12) // 3_600_000, at(2024, 5) // 3_600_000)
PERIODS = (
    st.tuples(HOURS, HOURS).filter(lambda p: p[0] < p[1]).map(lambda p: (p[0] * 3_600_000, p[1] * 3_600_000))
)
CENTS = st.integers(0, 10_000).map(lambda cents: cents * CENT)


@given(st.integers(0, 99), st.integers(0, 200), all_terms(), CENTS, CENTS, PERIODS)
def test_the_total_is_that_of_exact_fractions_and_the_sum_of_the_lines(
    fee: int, minimum: int, given_terms: Terms, messages: int, size: int, period: tuple[int, int]
) -> None:
    prices = book(fees=[{"fee": "base", "month": str(fee)}], minimum_month=str(minimum))
    found = charged(prices, given_terms, messages, size, period)
    amounts = {"messages_in": messages, "bytes_in": size}
    assert Fraction(found.total_micro, UNIT) == oracle(fee, minimum, given_terms, amounts, period)
    assert found.total_micro == messages + size + sum(one.amount_micro for one in found.charges)
    assert found.total_micro >= 0
    assert all(one.amount_micro % CENT == 0 for one in found.charges)
    assert len({one.key for one in found.charges}) == len(found.charges)
    used = {one.name: -one.amount_micro for one in found.charges if one.kind == "credit"}
    assert {one.grant: one.used_micro for one in found.balances if one.used_micro} == used
    assert all(0 <= one.used_micro <= one.before_micro for one in found.balances)


@given(all_terms(), CENTS, CENTS, CENTS, st.integers(0, 200))
def test_a_meter_that_costs_less_never_makes_the_total_higher(
    given_terms: Terms, messages: int, size: int, less: int, minimum: int
) -> None:
    prices = book(minimum_month=str(minimum))
    whole = charged(prices, given_terms, messages, size).total_micro
    assert charged(prices, given_terms, max(0, messages - less), size).total_micro <= whole
    assert charged(prices, given_terms, messages, max(0, size - less)).total_micro <= whole


# -- each kind --------------------------------------------------------------------------------------------------


def test_a_fee_is_for_the_part_of_the_month_that_the_tenant_was_there() -> None:
    prices = book(fees=[{"fee": "base", "month": "31"}, {"fee": "support", "month": "0.10"}])
    whole = charged(prices, NO_TERMS)
    assert lines(whole) == [("fee", "base", 31 * UNIT), ("fee", "support", 100_000)]
    part = charged(prices, NO_TERMS, period=(at(2026, 3, 31), at(2026, 4)))
    assert lines(part) == [("fee", "base", UNIT), ("fee", "support", 0)]


def test_a_minimum_counts_fees_and_what_discounts_leave() -> None:
    prices = book(fees=[{"fee": "base", "month": "10"}], minimum_month="50")
    found = charged(prices, terms(off(basis_points=5_000)), messages=40 * UNIT)
    assert lines(found) == [
        ("fee", "base", 10 * UNIT), ("discount", "d1", -20 * UNIT), ("minimum", "minimum", 20 * UNIT),
    ]  # fmt: skip
    assert lines(charged(prices, NO_TERMS, messages=40 * UNIT)) == [("fee", "base", 10 * UNIT)]


def test_discounts_follow_one_another_and_take_no_more_than_there_is() -> None:
    given_terms = terms(off("d1", basis_points=1_000), off("d2", amount_micro=12 * UNIT, meters=("bytes_in",)),
                        off("d3", amount_micro=500 * UNIT))  # fmt: skip
    found = charged(book(), given_terms, messages=100 * UNIT, size=10 * UNIT)
    assert [(one.name, one.meter, one.amount_micro // UNIT) for one in found.charges] == [
        ("d1", "messages_in", -10), ("d1", "bytes_in", -1), ("d2", "bytes_in", -9), ("d3", "messages_in", -90),
    ]  # fmt: skip
    assert found.total_micro == 0


@pytest.mark.parametrize(
    ("from_ms", "until_ms", "holds"),
    [
        (MARCH[0], MARCH[1], True),
        (MARCH[0] + 1, MARCH[1], False),
        (0, MARCH[0], False),
        (0, MARCH[0] + 1, True),
    ],
)
def test_a_discount_is_for_periods_that_begin_within_its_time(
    from_ms: int, until_ms: int, holds: bool
) -> None:
    found = charged(book(), terms(off(basis_points=100, from_ms=from_ms, until_ms=until_ms)), messages=UNIT)
    assert bool(found.charges) == holds


def test_an_amount_of_another_currency_lowers_nothing_and_pays_nothing() -> None:
    given_terms = terms(off(amount_micro=UNIT, currency="EUR"), credits=(grant("g1", UNIT, currency="EUR"),))
    found = charged(book(), given_terms, messages=UNIT)
    assert found.charges == ()
    assert [(one.before_micro, one.used_micro) for one in found.balances] == [(UNIT, 0)]


def test_credit_that_expires_soonest_is_used_first_then_the_oldest() -> None:
    grants = (
        grant("never", UNIT), grant("late", UNIT, at(2027, 1)), grant("young", UNIT, at(2026, 9), granted_ms=2),
        grant("old", UNIT, at(2026, 9), granted_ms=1), grant("gone", UNIT, MARCH[0]),
        grant("b", UNIT), grant("a", UNIT),
    )  # fmt: skip
    assert [one.id for one in in_order_of_use(grants)] == ["gone", "old", "young", "late", "a", "b", "never"]
    found = charged(book(), terms(credits=grants), messages=2 * UNIT + 500_000)
    assert lines(found) == [
        ("credit", "old", -UNIT), ("credit", "young", -UNIT), ("credit", "late", -500_000),
    ]  # fmt: skip
    assert found.total_micro == 0


def test_a_rest_below_a_minor_unit_stays_with_its_grant() -> None:
    given_terms = terms(credits=(grant("g1", 15_999),))
    found = charged(book(), given_terms, messages=UNIT)
    assert [one.used_micro for one in found.balances] == [CENT]
    after = {one.grant: one.before_micro - one.used_micro for one in found.balances}
    left = LeftCredit(period_start_ms=MARCH[0], rests=after)
    assert standing(given_terms, left).rests == {"g1": 5_999}
    assert standing(given_terms, left, g1=CENT).rests == {"g1": 15_999}
    assert standing(given_terms, NOTHING_BEFORE).rests == {"g1": 15_999}


def standing(
    given_terms: Terms, left: LeftCredit, start_ms: int = MARCH[1], **returned: int
) -> StandingCredit:
    return standing_credit(given_terms, (GONE,), left, returned, start_ms)


GONE = grant("gone", 5 * UNIT, MARCH[1])


def test_a_grant_lapses_when_it_expires_and_what_comes_back_later_still_pays() -> None:
    own = terms(credits=(grant("g1", UNIT),))
    march = LeftCredit(period_start_ms=MARCH[0], rests={"g1": UNIT, "gone": 3 * UNIT})
    assert standing(own, march).rests == {"g1": UNIT}
    assert standing(own, march).terms == own
    april = standing(own, march, gone=2 * UNIT)
    assert april.rests == {"g1": UNIT, "gone": 2 * UNIT}, "without the 3 that lapsed"
    amounts = {"messages_in": UNIT}
    found = charge(book(), april.terms, amounts, (MARCH[1], MARCH[1] + 1), april.rests)
    assert [(one.grant, one.used_micro) for one in found.balances] == [("gone", UNIT), ("g1", 0)]
    rest = {one.grant: one.before_micro - one.used_micro for one in found.balances}
    may = standing(own, LeftCredit(period_start_ms=MARCH[1], rests=rest), at(2026, 5))
    assert may.rests == {"g1": UNIT, "gone": UNIT}, "it stays until it is used"
    used_up = LeftCredit(period_start_ms=at(2026, 5), rests={"gone": 0})
    assert standing(own, used_up, at(2026, 6)).terms == own


def test_a_grant_of_earlier_prices_that_has_not_expired_is_not_brought_back() -> None:
    left = LeftCredit(period_start_ms=MARCH[0], rests={"gone": UNIT})
    assert standing(NO_TERMS, left, MARCH[1] - 1, gone=UNIT).rests == {}


def test_an_expired_grant_that_stands_in_the_terms_pays_nothing() -> None:
    given_terms = terms(credits=(GONE,))
    assert standing(given_terms, NOTHING_BEFORE).rests == {"gone": 0}


def test_tax_is_of_what_is_left_at_the_rate_of_the_periods_end() -> None:
    rates = (TaxRate(from_ms=0, basis_points=1_900), TaxRate(from_ms=MARCH[1], basis_points=1_600))
    profile = Tax(country="DE", region="", reverse_charge=False, reason="", rates=rates)
    given_terms = terms(credits=(grant("g1", UNIT),), taxed=profile)
    found = charged(book(), given_terms, messages=11 * UNIT)
    assert (found.charges[-1].base_micro, found.charges[-1].amount_micro) == (10 * UNIT, 1_900_000)
    later = charged(book(), given_terms, messages=11 * UNIT, period=(MARCH[0], MARCH[1] + 1))
    assert later.charges[-1].basis_points == 1_600


def test_a_reverse_charge_is_a_line_of_nothing_with_its_reason() -> None:
    given_terms = terms(taxed=tax(1_900, reverse_charge=True, reason="Art. 196"))
    (line,) = charged(book(), given_terms, messages=UNIT).charges
    assert (line.kind, line.amount_micro, line.basis_points, line.reason) == ("tax", 0, 0, "Art. 196")
    assert charged(book(), terms(taxed=tax(1, region="BY"))).charges[0].name == "DE-BY"


# -- losses -----------------------------------------------------------------------------------------------------

VOLUME = {"meter": "messages_in", "unit": "message", "unit_size": 1, "free": 0, "model": "volume",
          "tiers": [{"up_to": 100, "unit_price": "1"}, {"up_to": None, "unit_price": "0.5"}]}  # fmt: skip
PACKED = {"meter": "bytes_in", "unit": "KB", "unit_size": 1000, "free": 10, "model": "package",
          "tiers": [{"up_to": None, "unit_price": "0.25"}]}  # fmt: skip


@given(
    all_terms(),
    st.integers(0, 300),
    st.integers(0, 9_000),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 5_000)), max_size=3),
    st.integers(0, 90),
)
def test_an_invoice_less_its_credits_is_never_more_than_what_is_left_costs(
    given_terms: Terms, messages: int, size: int, losses: list[tuple[int, int]], minimum: int
) -> None:
    prices = book(meters=[VOLUME, PACKED], minimum_month=str(minimum))
    billed = {"messages_in": messages, "bytes_in": size}
    rests = standing_credit(given_terms, (), NOTHING_BEFORE, {}, MARCH[0]).rests
    amounts = {line.meter: line.amount_micro for line in rate(prices, billed).lines}
    total = charge(prices, given_terms, amounts, MARCH, rests).total_micro
    for lost_messages, lost_bytes in losses:
        lost = {
            "messages_in": min(lost_messages, billed["messages_in"]),
            "bytes_in": min(lost_bytes, billed["bytes_in"]),
        }
        note = credit_charged(prices, given_terms, MARCH, rests, amounts, billed, lost)
        assert note.total_micro >= 0
        assert note.total_micro == sum(one.amount_micro for one in note.lines) - sum(
            one.amount_micro for one in note.changes
        )
        total -= note.total_micro
        billed = {meter: billed[meter] - lost[meter] for meter in billed}
        for line in note.lines:
            amounts[line.meter] -= line.amount_micro
        rated = {line.meter: line.amount_micro for line in rate(prices, billed).lines}
        assert total == charge(prices, given_terms, amounts, MARCH, rests).total_micro
        assert total <= charge(prices, given_terms, rated, MARCH, rests).total_micro


def test_a_loss_that_would_cost_more_by_volume_is_credited_with_nothing() -> None:
    prices = book(meters=[VOLUME])
    note = credit_charged(
        prices, NO_TERMS, MARCH, {}, {"messages_in": 60 * UNIT}, {"messages_in": 120}, {"messages_in": 30}
    )
    assert (note.total_micro, note.lines[0].amount_micro, note.lines[0].quantity) == (0, 0, 30)


def test_credit_goes_back_to_its_grant_and_the_minimum_takes_its_place() -> None:
    prices = book(minimum_month="6")
    given_terms = terms(credits=(grant("g1", 4 * UNIT),), taxed=tax(1_000))
    amounts = {"messages_in": 10 * UNIT, "bytes_in": 0}
    note = credit_charged(
        prices, given_terms, MARCH, {"g1": 4 * UNIT}, amounts, {"messages_in": 1_000}, {"messages_in": 900}
    )
    assert [(one.kind, one.amount_micro) for one in note.changes] == [
        ("tax", -400_000),
        ("minimum", 5 * UNIT),
    ]
    assert note.total_micro == 9 * UNIT - 5 * UNIT + 400_000
    small = credit_charged(
        book(), given_terms, MARCH, {"g1": 4 * UNIT}, amounts, {"messages_in": 1_000}, {"messages_in": 900}
    )
    assert [(one.kind, one.amount_micro) for one in small.changes] == [
        ("credit", 3 * UNIT),
        ("tax", -600_000),
    ]


# -- models of meters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "free", "quantity", "cents"),
    [
        ("volume", 0, 0, 0),
        ("volume", 0, 100, 10_000),
        ("volume", 0, 101, 5_050),
        ("volume", 40, 40, 0),
        ("volume", 40, 100, 6_000),
        ("volume", 40, 101, 3_050),
        ("graduated", 40, 101, 6_050),
        ("unit", 40, 101, 6_100),
        ("package", 0, 0, 0),
        ("package", 0, 1, 100),
        ("package", 0, 30, 100),
        ("package", 0, 31, 200),
        ("package", 40, 40, 0),
        ("package", 40, 41, 100),
        ("package", 40, 101, 300),
        ("unit", 0, 10**38 - 1, (10**38 - 1) * 100),
        ("volume", 0, 10**38 - 1, (10**38 - 1) * 50),
    ],
)
def test_what_a_quantity_costs_by_each_model(model: str, free: int, quantity: int, cents: int) -> None:
    tiers = VOLUME["tiers"] if model in ("volume", "graduated") else [{"up_to": None, "unit_price": "1"}]
    size = 30 if model == "package" else 1
    prices = book(meters=[VOLUME | {"model": model, "free": free, "tiers": tiers, "unit_size": size}])
    assert line_amount_micro(prices.meters[0], quantity, 2) == cents * CENT
    assert sum(part.quantity for part in prices.meters[0].parts(quantity)) == quantity


PLAIN = {name: value for name, value in VOLUME.items() if name != "model"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"format": 1}, "model is of format 2"),
        ({"format": 1, "meters": [PLAIN]}, "fees is of format 2"),
        ({"format": 1, "meters": [PLAIN], "fees": None}, "minimum_month is of format 2"),
        ({"meters": [VOLUME | {"model": "flat"}]}, "model"),
        ({"meters": [VOLUME | {"model": ["unit"]}]}, "model"),
        ({"meters": [VOLUME | {"model": "unit"}]}, "one tier"),
        ({"meters": [VOLUME | {"model": "package"}]}, "one tier"),
        ({"fees": {}}, "fees"),
        ({"fees": [{"fee": "base", "month": "1"}] * 2}, "twice"),
        ({"fees": [{"fee": "base", "month": 1}]}, "decimal text"),
        ({"fees": [{"fee": "base", "month": "0.0000001"}]}, "6 places"),
        ({"fees": [{"fee": "Base", "month": "1"}]}, "fee"),
        ({"fees": [{"fee": f"f{n}", "month": "1"} for n in range(21)]}, "at most 20"),
        ({"minimum_month": "-1"}, "minimum_month"),
        ({"minimum_month": "1000000001"}, "minimum_month"),
    ],
)
def test_a_book_of_format_2_that_cannot_be_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    document = book(fees=[{"fee": "base", "month": "1"}]).document()
    with pytest.raises(InvalidRequest) as refused:
        PriceBook.read({name: value for name, value in (document | changes).items() if value is not None})
    assert named in refused.value.message


def test_the_canonical_form_of_format_2_stays_what_invoices_have_named() -> None:
    prices = book(meters=[VOLUME, PACKED], fees=[{"fee": "base", "month": "1.5"}], minimum_month="20")
    assert PriceBook.read(prices.document()) == prices
    assert prices.document()["fees"] == [{"fee": "base", "month": "1.500000"}]
    assert prices.sha256 == "fb4432af65baeb380cbff40fd76525fc8682d9e10a590b792fc1b2e9db5fb8a5"
    read = read_document(prices.document(), PriceBookDocument, "price book")
    assert document_sha256(read) == prices.sha256


def test_the_id_of_a_charge_tells_invoice_prices_and_line() -> None:
    ids = {
        charge_id(invoice, key, prices)
        for invoice in ("inv_1", "inv_2")
        for prices in ("ab", "cd")
        for key in (
            ("fee", "a", ""),
            ("fee", "b", ""),
            ("discount", "a", ""),
            ("discount", "a", "messages_in"),
        )
    }
    assert len(ids) == 16
