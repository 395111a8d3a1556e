"""Rating against an oracle of exact fractions; tiers, allowances, rounding and price books that cannot be."""

import copy
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import InvariantBroken
from penstock.rules.rating import (
    MICRO,
    PICO,
    MeterPrice,
    PriceBook,
    Tier,
    amount_text,
    credit,
    grouped_amount,
    line_amount_micro,
    line_id,
    rate,
)

STANDARD = json.loads(
    (Path(__file__).parents[3] / "billing/price_books/standard-1.json").read_text(encoding="utf-8")
)
BOOK = PriceBook.read(STANDARD)
MESSAGES, BYTES = BOOK.meters


@st.composite
def meter_prices(draw: st.DrawFn) -> MeterPrice:
    bounds = sorted(draw(st.sets(st.integers(1, 10_000), max_size=5)))
    prices = draw(st.lists(st.integers(0, 3 * PICO), min_size=len(bounds) + 1, max_size=len(bounds) + 1))
    return MeterPrice(
        meter="messages_in",
        unit="message",
        unit_size=draw(st.sampled_from([1, 3, 1_000, 1_000_000])),
        free=draw(st.integers(0, 12_000)),
        tiers=tuple(
            Tier(up_to=end, unit_price_pico=price) for end, price in zip([*bounds, None], prices, strict=True)
        ),
    )


def oracle(price: MeterPrice, quantity: int) -> Fraction:
    """Item by item: what each of them costs by its number."""

    def unit_price(number: int) -> int:
        return next(
            tier.unit_price_pico for tier in price.tiers if tier.up_to is None or number <= tier.up_to
        )

    pico = sum(unit_price(number) for number in range(price.free + 1, quantity + 1))
    return Fraction(pico, PICO * price.unit_size)


def half_up(amount: Fraction, digits: int) -> int:
    """Micro-units of the amount rounded to minor units, halves up."""
    return int((amount * 10**digits + Fraction(1, 2)).__floor__() * 10 ** (6 - digits))


@given(meter_prices(), st.integers(0, 15_000), st.sampled_from([0, 2, 3, 6]))
def test_a_line_is_the_exact_cost_rounded_once(price: MeterPrice, quantity: int, digits: int) -> None:
    assert line_amount_micro(price, quantity, digits) == half_up(oracle(price, quantity), digits)


@given(meter_prices(), st.integers(0, 10**30), st.integers(0, 10**12))
def test_more_usage_never_costs_less(price: MeterPrice, quantity: int, more: int) -> None:
    assert line_amount_micro(price, quantity + more, 2) >= line_amount_micro(price, quantity, 2)


@given(meter_prices(), st.data())
def test_at_a_bound_one_item_costs_no_more_than_the_dearest_of_both_tiers(
    price: MeterPrice, data: st.DataObject
) -> None:
    bound = data.draw(st.sampled_from([price.free, *(tier.up_to for tier in price.tiers if tier.up_to)]))
    dearest = max(tier.unit_price_pico for tier in price.tiers)
    step = Fraction(dearest, PICO * price.unit_size) * MICRO
    gained = line_amount_micro(price, bound + 1, 6) - line_amount_micro(price, bound, 6)
    assert 0 <= gained <= step + 1


@given(meter_prices(), st.integers(0, 10**20))
def test_the_parts_of_a_line_add_up_to_its_quantity(price: MeterPrice, quantity: int) -> None:
    assert sum(part.quantity for part in price.parts(quantity)) == quantity


@given(st.dictionaries(st.sampled_from(["messages_in", "bytes_in", "bytes_out"]), st.integers(0, 10**18)))
def test_the_total_is_the_sum_of_the_lines(quantities: dict[str, int]) -> None:
    rated = rate(BOOK, quantities)
    assert rated.total_micro == sum(line.amount_micro for line in rated.lines)
    assert [line.meter for line in rated.lines] == ["messages_in", "bytes_in"]
    assert all(line.quantity == quantities.get(line.meter, 0) for line in rated.lines)


@pytest.mark.parametrize(
    ("messages", "cents"),
    [
        (0, 0),
        (1_000, 0),
        (1_001, 0),
        (1_002, 0),
        (1_003, 1),
        (20_000, 3_800),
        (20_001, 3_800),
        (54_635, 7264),
    ],
)
def test_the_standard_prices_of_messages(messages: int, cents: int) -> None:
    assert line_amount_micro(MESSAGES, messages, 2) == cents * 10_000


@pytest.mark.parametrize(("size", "cents"), [(0, 0), (4_999, 0), (5_000, 1), (14_999, 1), (1_000_000, 100)])
def test_a_megabyte_is_a_million_bytes_and_half_a_cent_is_one(size: int, cents: int) -> None:
    assert line_amount_micro(BYTES, size, 2) == cents * 10_000


def test_a_line_is_rounded_once_and_not_by_tier() -> None:
    price = MeterPrice(
        meter="m", unit="m", unit_size=1, free=0,
        tiers=(Tier(up_to=1, unit_price_pico=4 * PICO // 1000), Tier(up_to=None, unit_price_pico=4 * PICO // 1000)),
    )  # fmt: skip
    assert line_amount_micro(price, 2, 2) == 10_000  # 0.008, where two parts of 0.004 would each be nothing


def test_the_hash_is_of_the_content_and_not_of_how_it_was_written() -> None:
    rewritten = copy.deepcopy(STANDARD)
    rewritten["meters"][1]["tiers"][0]["unit_price"] = "1.0"
    again = PriceBook.read(dict(reversed(rewritten.items())))
    assert again == BOOK
    assert again.sha256 == BOOK.sha256
    assert PriceBook.read(BOOK.document()) == BOOK
    rewritten["meters"][1]["tiers"][0]["unit_price"] = "1.00000000000000000"
    assert PriceBook.read(rewritten).sha256 == BOOK.sha256
    rewritten["meters"][1]["tiers"][0]["unit_price"] = "1.000000000001"
    assert PriceBook.read(rewritten).sha256 != BOOK.sha256


def test_the_canonical_form_of_a_book_stays_what_invoices_have_named() -> None:
    assert BOOK.sha256 == "5cf0b06269623c76dd598518180fa40f5cf8a8985330d9f0517d4be407d242f6"


def test_the_id_of_a_line_tells_invoice_meter_prices_and_period() -> None:
    ids = {
        line_id("inv_1", "messages_in", "ab", 0, 10),
        line_id("inv_2", "messages_in", "ab", 0, 10),
        line_id("inv_1", "bytes_in", "ab", 0, 10),
        line_id("inv_1", "messages_in", "ac", 0, 10),
        line_id("inv_1", "messages_in", "ab", 1, 10),
        line_id("inv_1", "messages_in", "ab", 0, 11),
    }
    assert len(ids) == 6
    assert line_id("inv_1", "messages_in", "ab", 0, 10) in ids


@pytest.mark.parametrize(
    ("micro", "digits", "text"),
    [(72_640_000, 2, "72.64"), (10_000, 2, "0.01"), (-50_000, 2, "-0.05"), (3_000_000, 0, "3")],
)
def test_amounts_are_shown_with_the_places_of_the_currency(micro: int, digits: int, text: str) -> None:
    assert amount_text(micro, digits) == text


@pytest.mark.parametrize(
    ("micro", "text"),
    [(0, "0.00"), (1, "0.000001"), (9_900, "0.0099"), (1_234_500_000, "1,234.50"), (-1, "-0.000001")],
)
def test_an_amount_below_a_cent_is_not_shown_as_nothing(micro: int, text: str) -> None:
    assert grouped_amount(micro) == text


def _with(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(STANDARD), **changes}


def _with_price(price: Any) -> dict[str, Any]:
    document = copy.deepcopy(STANDARD)
    document["meters"][0]["tiers"][0]["unit_price"] = price
    return dict(document)


def _with_tiers(tiers: Any) -> dict[str, Any]:
    document = copy.deepcopy(STANDARD)
    document["meters"][0]["tiers"] = tiers
    return dict(document)


LAST = {"up_to": None, "unit_price": "1"}


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ([], "object"),
        (_with(format=3), "format"),
        (_with(format=True), "format"),
        (_with(currency="usd"), "currency"),
        (_with(version=0), "version"),
        (_with(minor_digits=7), "minor_digits"),
        (_with(meters=[]), "meters"),
        (_with(meters=[STANDARD["meters"][0]] * 2), "twice"),
        (_with_price(0.002), "unit_price"),
        (_with_price("-1"), "unit_price"),
        (_with_price("NaN"), "unit_price"),
        (_with_price("Infinity"), "unit_price"),
        (_with_price("0.0000000000001"), "12 places"),
        (_with_price("1e5"), "no decimal number"),
        (_with_price("1e-900"), "no decimal number"),
        (_with_price("1_0"), "no decimal number"),
        (_with_price("٣"), "no decimal number"),
        (_with_price(" 1"), "no decimal number"),
        (_with_price("1."), "no decimal number"),
        (_with_price(".5"), "no decimal number"),
        (_with_price("1000000.000000000001"), "not between 0 and 1000000"),
        (_with_price("9" * 50), "unit_price"),
        (_with_price("1000001"), "unit_price"),
        (_with_tiers([]), "tiers"),
        (_with_tiers([{"up_to": 5, "unit_price": "1"}]), "no end"),
        (_with_tiers([{"up_to": 5, "unit_price": "1"}, {"up_to": 5, "unit_price": "1"}, LAST]), "above 5"),
        (_with_tiers([LAST, LAST]), "above 0"),
        (_with_tiers([{"up_to": True, "unit_price": "1"}, LAST]), "up_to"),
    ],
)
def test_a_price_book_that_cannot_be_is_refused_by_name(document: object, named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PriceBook.read(document)
    assert named in refused.value.message


@given(
    meter_prices(),
    st.integers(0, 30_000),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=3),
    st.sampled_from([0, 2, 6]),
)
def test_an_invoice_less_its_credits_is_what_the_rest_costs(
    price: MeterPrice, quantity: int, losses: list[int], minor_digits: int
) -> None:
    book = PriceBook(name="b", version=1, currency="USD", minor_digits=minor_digits, meters=(price,))
    left, credited = quantity, 0
    for wanted in losses:
        lost = min(wanted, left)
        note = credit(book, {price.meter: left}, {price.meter: lost})
        assert [line.quantity for line in note.lines] == ([lost] if lost else [])
        left, credited = left - lost, credited + note.total_micro
    assert (
        rate(book, {price.meter: quantity}).total_micro - credited
        == rate(book, {price.meter: left}).total_micro
    )


def test_no_more_is_credited_than_was_billed() -> None:
    with pytest.raises(InvariantBroken, match="no more is credited"):
        credit(BOOK, {"messages_in": 5}, {"messages_in": 6})


def test_what_was_not_used_costs_nothing_and_what_was_not_lost_has_no_line() -> None:
    dear = MeterPrice(
        meter="dear", unit="item", unit_size=1, free=0, tiers=(Tier(up_to=None, unit_price_pico=PICO),)
    )
    book = PriceBook(name="b", version=1, currency="USD", minor_digits=2, meters=(dear,))
    assert rate(book, {"dear": 1}).total_micro > 0
    unused = rate(book, {})
    assert (unused.total_micro, unused.lines[0].quantity, unused.lines[0].parts) == (0, 0, ())
    assert credit(book, {"dear": 5}, {}).lines == ()


def test_no_part_of_a_line_is_empty() -> None:
    price = MeterPrice(
        meter="m",
        unit="item",
        unit_size=1,
        free=10,
        tiers=(Tier(up_to=20, unit_price_pico=2), Tier(up_to=None, unit_price_pico=1)),
    )
    for quantity, parts in ((0, []), (10, [10]), (11, [10, 1]), (20, [10, 10]), (21, [10, 10, 1])):
        assert [part.quantity for part in price.parts(quantity)] == parts
