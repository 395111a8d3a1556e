"""How `penstock price-book publish` shows the prices of both formats."""

from penstock.cli.price_books import monthly_texts, price_text_of

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
    assert price_text_of(METER) == "0.5 up to 10, 0.25 each million of 1,000,000 messages"
    assert price_text_of(METER | {"model": "graduated"}) == price_text_of(METER)
    assert price_text_of(METER | {"model": "volume"}).endswith("messages, by the whole volume")
    assert price_text_of(METER | {"model": "package"}).endswith("messages, begun ones whole")
    assert price_text_of(None) == "not billed"


def test_fees_and_the_minimum_are_rows_where_a_book_has_them() -> None:
    assert monthly_texts({}, {"fees": [], "minimum_month": "0.000000"}) == []
    book = {"fees": [{"fee": "support", "month": "50.500000"}], "minimum_month": "100.000000"}
    assert monthly_texts({}, book) == [
        ["minimum", "0 a month", "100 a month"],
        ["fee support", "0 a month", "50.5 a month"],
    ]
    assert monthly_texts(book, {})[0] == ["minimum", "100 a month", "0 a month"]
