"""The quarter's days and prices."""

from typing import Any

from tests.reconcile.clock import day

BEGINS, ENDS = day(2024, 1, 1), day(2024, 4, 1)
"""A quarter with a leap day."""
LEAP_DAY = day(2024, 2, 29)
BOOKS_CHANGE = day(2024, 2, 15, 12)
"""In the middle of a period."""


def book(version: int, dear: int) -> dict[str, Any]:
    """Prices in whole cents of which a month's few thousand messages show both tiers."""
    return {
        "format": 1,
        "name": "quarter",
        "version": version,
        "currency": "USD",
        "minor_digits": 2,
        "meters": [
            {
                "meter": "messages_in",
                "unit": "message",
                "unit_size": 1,
                "free": 100,
                "tiers": [
                    {"up_to": 1_500, "unit_price": f"0.0{dear}7000000000"},
                    {"up_to": None, "unit_price": f"0.0{dear}3300000000"},
                ],
            },
            {
                "meter": "bytes_in",
                "unit": "MB",
                "unit_size": 1_000_000,
                "free": 0,
                "tiers": [{"up_to": None, "unit_price": f"{dear}.170000000000"}],
            },
        ],
    }


BOOKS = (book(1, 1), book(2, 2))
