"""Numbers of the issuer are written and read in one way."""

import pytest

from penstock.rules.issuer_numbers import (
    CREDIT_NOTES,
    INVOICES,
    issuer_number,
    read_issuer_number,
    series_of,
)


@pytest.mark.parametrize("prefix", ["", "EU", "2027", "INV"])
@pytest.mark.parametrize("kind", [INVOICES, CREDIT_NOTES])
@pytest.mark.parametrize("count", [1, 999_999, 1_000_000])
def test_a_number_is_read_as_it_was_written(prefix: str, kind: str, count: int) -> None:
    series = series_of(kind, prefix)
    number = read_issuer_number(issuer_number(series, count))
    assert number is not None
    assert (number.kind, number.series, number.count) == (kind, series, count)


@pytest.mark.parametrize(
    "text",
    ["", "1", "INV-1", "INV-000000", "INV-0000001", "inv-000001", "INV-000001\n", "XX-000001", "INV-٠٠٠٠٠١"],
)
def test_another_spelling_is_no_number(text: str) -> None:
    assert read_issuer_number(text) is None
