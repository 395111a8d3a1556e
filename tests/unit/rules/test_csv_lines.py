"""No text in a file of CSV is a formula, and every number stays a number."""

import csv
import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rules.csv_lines import csv_line, safe_cell


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
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


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a;=1+1", "a;'=1+1"),
        ("a\t=1", "a\t'=1"),
        ("a\r\n=1", "a\r\n'=1"),
        ("a; \u3000@x", "a;' \u3000@x"),
        ("a;\uff1d1", "a;'\uff1d1"),
        ('a;"=1+1"', 'a;\'"=1+1"'),
        ("\t=1", "'\t'=1"),
        ("\u2003=1", "'\u2003=1"),
        ("a;b=1", "a;b=1"),
    ],
)
def test_a_text_is_safe_behind_each_separator_of_some_spreadsheet(text: str, safe: str) -> None:
    assert safe_cell(text) == safe
    line = csv_line(["x", text, "y"])
    assert next(csv.reader(io.StringIO(line, newline=""))) == ["x", safe, "y"]


@pytest.mark.parametrize("text", ["a;b", "a\tb", "a|b", "a\rb", 'a"b', "a,b"])
def test_a_cell_that_some_spreadsheet_would_split_stands_in_quotes(text: str) -> None:
    doubled = text.replace('"', '""')
    assert csv_line([text, 1]) == f'"{doubled}",1\n'


def test_a_text_in_the_place_of_a_number_is_made_safe() -> None:
    assert csv_line(["-1.5", "-1+1", "=1"], numbers={0, 1, 2}) == "-1.5,'-1+1,'=1\n"


SIGNS = "=+-@|\uff1d\uff0b\uff0d\uff20"
pieces = st.sampled_from([*SIGNS, *"\t\r\n;, \"'ab1", "\u00a0", "\u3000", "\ufeff", "\u200b", "\u2028", "\v"])


@given(st.lists(st.lists(pieces, max_size=8).map("".join), min_size=1, max_size=4), st.booleans())
def test_no_spreadsheet_finds_a_formula_whatever_its_separator_and_its_quotes(
    cells: list[str], quoted: bool
) -> None:
    line = csv_line(cells, quoted=quoted)
    found = next(csv.reader(io.StringIO(line, newline="")), [])
    assert found == [safe_cell(cell) for cell in cells] or not any(cells)
    for separator in ",;\t":
        parts = [
            part for row in csv.reader(io.StringIO(line, newline=""), delimiter=separator) for part in row
        ]
        # One that knows no quotes at all, too.
        parts += re.split(r"[\r\n;\t]" if separator != "," else r"[\r\n]", line)
        for part in parts:
            assert not shown_first(part).startswith(tuple(SIGNS)), (part, line)


def shown_first(part: str) -> str:
    """The cell from its first character on that a spreadsheet keeps."""
    at = 0
    while at < len(part) and (
        part[at].isspace() or part[at] == '"' or unicodedata.category(part[at]) == "Cf"
    ):
        at += 1
    return part[at:]
