"""How `penstock invoice show` names a charge."""

from typing import Any

import pytest

from penstock.cli.invoice import charge_name

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
