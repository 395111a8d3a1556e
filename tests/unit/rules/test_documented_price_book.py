"""The form of a price book's fees, as the documents say it, and what is said of another form."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.errors import InvalidRequest
from penstock.rules.rating import MICRO, PriceBook

PAGE = Path(__file__).parents[3] / "docs" / "pricing.md"


def documented() -> dict[str, Any]:
    """The book of format 2 on the page of pricing."""
    (block,) = re.findall(r"```json\n(\{\n  \"format\": 2.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    book: dict[str, Any] = json.loads(block)
    return book


def test_the_book_on_the_page_of_pricing_has_its_fee_and_minimum() -> None:
    book = PriceBook.read(documented())
    assert [(fee.fee, fee.month_micro) for fee in book.fees] == [("support", 25 * MICRO)]
    assert book.minimum_month_micro == 50 * MICRO


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"fees": [{"name": "support", "amount": "25"}]},
            r'fees\[0\] has amount, name; \{"fee": NAME, "month"',
        ),
        ({"fees": [{"fee": "support"}]}, r'fees\[0\] has fee; \{"fee": NAME, "month": AMOUNT\} required'),
        ({"fees": [{"fee": "support", "month": 25}]}, "decimal text with up to 6 places"),
        ({"minimum_month": 50}, "minimum_month must be decimal text with up to 6 places"),
        ({"minimum_month": "1.0000001"}, "more than 6 places"),
    ],
)
def test_another_form_of_a_fee_or_minimum_is_refused_with_the_right_one(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        PriceBook.read(documented() | changes)
