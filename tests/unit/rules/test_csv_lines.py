"""No text in a file of CSV is a formula, and every number stays a number."""

import pytest

from penstock.rules.csv_lines import csv_line, safe_cell


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u00a0=1",
        "\ufeff=1",
        "\uff1d1",
        "|x",
        "\u200b-2",
    ],
)
def test_what_a_spreadsheet_would_compute_is_text(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "orders", "a=b", "1+1", "'x", "orders-7", "café", "\u00a0x"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert safe_cell(text) == text


def test_a_line_makes_texts_safe_and_leaves_numbers() -> None:
    assert csv_line(["=1", -2, "-3", "a,b", None], numbers={2}) == '\'=1,-2,-3,"a,b",\n'
    assert csv_line(["-3", "a"], quoted=True) == '"\'-3","a"\r\n'
