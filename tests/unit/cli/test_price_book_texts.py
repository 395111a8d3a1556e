"""How `penstock price-book publish` shows the prices of both formats."""

from penstock.cli.price_books import _monthly, _prices

METER = {
    "meter": "messages_in",
    "unit": "million",
    "unit_size": 1_000_000,
    "free": 0,
    "tiers": [
        {"up_to": 10, "unit_price": "0.500000000000"},
        {"up_to": None, "unit_price": "0.250000000000"},
    ],
}


def test_prices_say_their_model() -> None:
    assert _prices(METER) == "0.5 up to 10, 0.25 each million of 1,000,000 messages"
    assert _prices(METER | {"model": "graduated"}) == _prices(METER)
    assert _prices(METER | {"model": "volume"}).endswith("messages, by the whole volume")
    assert _prices(METER | {"model": "package"}).endswith("messages, begun ones whole")
    assert _prices(None) == "not billed"


def test_fees_and_the_minimum_are_rows_where_a_book_has_them() -> None:
    assert _monthly({}, {"fees": [], "minimum_month": "0.000000"}) == []
    book = {"fees": [{"fee": "support", "month": "50.500000"}], "minimum_month": "100.000000"}
    assert _monthly({}, book) == [
        ["minimum", "0 a month", "100 a month"],
        ["fee support", "0 a month", "50.5 a month"],
    ]
    assert _monthly(book, {})[0] == ["minimum", "100 a month", "0 a month"]
