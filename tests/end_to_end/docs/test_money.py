"""What the pages' Python does with money is exact."""

import ast
from decimal import Decimal
from typing import Any

import pytest

from tests.end_to_end.docs.pages import ROOT, blocks, documented


def test_the_exactly_once_sample_turns_every_amount_into_its_cents() -> None:
    page = ROOT / "docs/guides/delivery-guarantees.md"
    (source,) = [block.text for block in blocks(page) if "INSERT INTO paid" in block.text]
    statements = ast.parse(source).body
    kept = [each for each in statements if type(each) in (ast.FunctionDef, ast.ImportFrom)]
    sample: dict[str, Any] = {}
    exec(compile(ast.Module(body=kept, type_ignores=[]), str(page), "exec"), sample)
    for wanted in range(10_000):
        amount = f"{Decimal(wanted) / 100:.2f}".encode()
        assert sample["cents"](amount) == wanted, amount


@pytest.mark.parametrize("page", documented(), ids=lambda page: page.name)
def test_no_sample_counts_in_floats(page: Any) -> None:
    found = [block.line for block in blocks(page) if block.language == "python" and "float(" in block.text]
    assert found == []
