"""The shipped book of format 2, and the examples of docs/pricing.md."""

import json
from pathlib import Path

import pytest

from penstock.rules.rating import MICRO, PriceBook, rate

ROOT = Path(__file__).parents[3]
BOOKS = ROOT / "billing" / "price_books"
STANDARD_2, STANDARD_3, STANDARD_4 = (
    PriceBook.read(json.loads((BOOKS / f"standard-{number}.json").read_text(encoding="utf-8")))
    for number in (2, 3, 4)
)


def dollars(book: PriceBook, messages: int, size: int) -> float:
    return rate(book, {"messages_in": messages, "bytes_in": messages * size}).total_micro / MICRO


@pytest.mark.parametrize(
    ("book", "sha256"),
    [
        (STANDARD_3, "a9085837d7e12b78be885732d87486b6cd20e3a53863327690f0003d8d395fc8"),
        (STANDARD_4, "3089cd28aea1c23e35287d51412796b83acd7d52d6c1da2fb5cb112dff880462"),
    ],
    ids=["3", "4"],
)
def test_the_file_is_canonical_and_its_hash_stays(book: PriceBook, sha256: str) -> None:
    written = json.loads((BOOKS / f"standard-{book.version}.json").read_text(encoding="utf-8"))
    assert book.document() == written
    assert book.sha256 == sha256


@pytest.mark.parametrize(
    ("size", "million", "billion"),
    [(100, "0.05", "50"), (1_000, "0.14", "140"), (10_000, "1.04", "860"), (100_000, "10.04", "5,360")],
)
def test_a_million_and_a_billion_messages_cost_what_the_page_says(
    size: int, million: str, billion: str
) -> None:
    assert f"{dollars(STANDARD_3, 10**6, size):.2f}" == million
    assert f"{dollars(STANDARD_3, 10**9, size):,.0f}" == billion
    page = (ROOT / "docs" / "pricing.md").read_text(encoding="utf-8")
    assert f"{million} USD | {billion} USD" in page


def test_the_three_workloads_cost_what_the_page_says() -> None:
    loads = ((10**8, 1_000), (10**9, 1_000), (20 * 10**9, 250))
    page = (ROOT / "docs" / "pricing.md").read_text(encoding="utf-8")
    for name, book in (("standard-2", STANDARD_2), ("standard-3", STANDARD_3)):
        row = " | ".join(f"{dollars(book, messages, size):,.0f}" for messages, size in loads)
        assert f"`{name}` | {row} |" in page
    assert round(dollars(STANDARD_3, 10**9, 193_000), -2) == 10_000
    kept = ((10, 10), (233, 50), (167, 200))
    row = " | ".join(
        f"{month(messages, size, *held):,.0f}" for (messages, size), held in zip(loads, kept, strict=True)
    )
    assert f"`standard-4` | {row} |" in page


def month(messages: int, size: int, stored_gb: int, partitions: int) -> float:
    """By the newest book, in a month of 730 hours."""
    minutes = 730 * 60
    used = {
        "messages_in": messages,
        "bytes_in": messages * size,
        "retained_byte_minutes": stored_gb * 10**9 * minutes,
        "partition_minutes": partitions * minutes,
    }
    return rate(STANDARD_4, used).total_micro / MICRO
