"""How `penstock invoice show` names a charge."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from penstock.cli.invocation import Invocation
from penstock.cli.invoice import _print_credit_note, charge_name, rows_of_csv

INVOICE = {"minor_digits": 2, "currency": "USD"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "fee", "name": "support"}, "fee support, of 10.00 USD"),
        ({"kind": "minimum", "name": "minimum"}, "minimum, of 10.00 USD"),
        (
            {"kind": "tax", "name": "DE", "basis_points": 1_900, "reason": "VAT"},
            "tax DE, 19 % of 10.00 USD (VAT)",
        ),
        (
            {"kind": "discount", "name": "di_1", "meter": "bytes_in", "basis_points": 1_050},
            "discount di_1 for bytes_in, 10.5 % of 10.00 USD",
        ),
    ],
)
def test_a_charge_says_what_it_is_and_of_what(changes: dict[str, Any], text: str) -> None:
    charge = {"meter": "", "base_micro": 10_000_000, "basis_points": 0, "reason": "", **changes}
    assert charge_name(INVOICE, charge) == text


def test_a_credit_note_says_how_each_charge_changes() -> None:
    def change(kind: str, name: str, amount: int, meter: str = "") -> dict[str, Any]:
        return {"kind": kind, "name": name, "meter": meter, "amount_micro": amount}

    note = {
        **INVOICE, "number": 3, "id": "cn_3", "total_micro": 300_000, "issued_at": "2026-11-01T00:00:00Z",
        "lines": [{"meter": "messages_in", "quantity": 1_000, "amount_micro": 3_000_000}], "ranges": [],
        "charges": [
            change("discount", "di_1", 300_000, "messages_in"), change("minimum", "minimum", 100_000),
            change("credit", "cr_1", 2_400_000), change("tax", "DE", -100_000),
        ],
    }  # fmt: skip

    @click.command()
    def show() -> None:
        _print_credit_note(note)

    text = CliRunner().invoke(show, obj=Invocation()).output
    for row in (
        ("discount di_1 for messages_in", "a smaller discount", "+0.30 USD"),
        ("minimum", "more is due for the minimum", "+0.10 USD"),
        ("credit cr_1", "goes back to the grant", "+2.40 USD"),
        ("tax DE", "less tax", "-0.10 USD"),
    ):
        found = [line for line in text.splitlines() if row[0] in line]
        assert found and all(part in found[0] for part in row), (row, text)


def test_a_name_with_ends_of_lines_in_it_stays_in_its_row_of_a_csv() -> None:
    name = 'Acme\u2028and "Sons",\nLimited'
    quoted = name.replace('"', '""')
    assert rows_of_csv(f'Buyer,Cost\r\n"{quoted}",1\r\n') == [{"Buyer": name, "Cost": "1"}]
