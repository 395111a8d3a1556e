"""What a document may hold: only what can be hashed, shown as a time, noted, and asked of brokers."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from penstock.contract.document_fields import TIME_MAX_MS, Strict
from penstock.contract.documents import (
    CreditNoteDocument,
    InvoiceDocument,
    PricesDocument,
    document_sha256,
    plain,
    read_document,
)
from penstock.contract.errors import InvalidRequest
from penstock.rules.timestamps import day_of
from tests.golden.billing.documents import CREDIT_NOTE, INVOICE, PRICES

DOCUMENTS: dict[type[Strict], Strict] = {
    InvoiceDocument: INVOICE,
    CreditNoteDocument: CREDIT_NOTE,
    PricesDocument: PRICES,
}


def changed(kind: type[Strict], place: str, value: object) -> Strict:
    """The document read again with another value at `place`, such as `cut.readings.0.partition`."""
    document = plain(DOCUMENTS[kind])
    at: Any = document
    *names, last = place.split(".")
    for name in names:
        at = at[int(name)] if isinstance(at, list) else at[name]
    assert last in at
    at[last] = value
    return read_document(json.loads(json.dumps(document)), kind, "changed")


@pytest.mark.parametrize(
    ("kind", "place", "largest"),
    [
        (InvoiceDocument, "number", 10**9),
        (InvoiceDocument, "previous.number", 10**9),
        (CreditNoteDocument, "number", 10**9),
        (InvoiceDocument, "issued_at_ms", TIME_MAX_MS),
        (InvoiceDocument, "period_start_ms", TIME_MAX_MS),
        (InvoiceDocument, "period_end_ms", TIME_MAX_MS),
        (InvoiceDocument, "cut.readings.0.accepted_ms", TIME_MAX_MS),
        (PricesDocument, "effective_from_ms", TIME_MAX_MS),
        (InvoiceDocument, "cut.readings.0.end_offset", 2**62),
        (InvoiceDocument, "partitions.0.days.0.end_offset", 2**62),
        (CreditNoteDocument, "ranges.0.end_offset", 2**62),
    ],
)
def test_numbers_end_before_what_cannot_be_computed_with(
    kind: type[Strict], place: str, largest: int
) -> None:
    changed(kind, place, largest)
    with pytest.raises(InvalidRequest, match=f"<= {largest}"):
        changed(kind, place, largest + 1)


@pytest.mark.parametrize(
    ("kind", "place", "valid"),
    [
        (InvoiceDocument, "price_book_sha256", "ab" * 32),
        (InvoiceDocument, "previous.document_sha256", "ab" * 32),
        (InvoiceDocument, "cut.readings.0.topic_id", "ab" * 16),
        (InvoiceDocument, "currency", "CHF"),
        (InvoiceDocument, "lines.0.parts.0.unit_price", "1234567.000000000001"),
        (PricesDocument, "price_book.meters.0.tiers.0.unit_price", "0.000000000001"),
    ],
)
def test_text_of_a_fixed_form_has_nothing_around_it(kind: type[Strict], place: str, valid: str) -> None:
    changed(kind, place, valid)
    for other in (valid + "\n", "\n" + valid, valid + " ", f"{valid}\n{valid}"):
        with pytest.raises(InvalidRequest):
            changed(kind, place, other)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (InvoiceDocument, "id"),
        (InvoiceDocument, "partitions.0.topic"),
        (InvoiceDocument, "lines.0.meter"),
        (InvoiceDocument, "currency"),
        (InvoiceDocument, "price_book_sha256"),
        (InvoiceDocument, "kind"),
        (CreditNoteDocument, "ranges.0.topic"),
        (PricesDocument, "price_book.name"),
    ],
)
def test_text_without_utf_8_is_refused(kind: type[Strict], place: str, text: str) -> None:
    with pytest.raises(InvalidRequest):
        changed(kind, place, text)


def test_names_of_fields_without_utf_8_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_document({**plain(INVOICE), "\ud800": 1}, InvoiceDocument, "changed")


def test_whole_surrogate_pairs_are_ordinary_text() -> None:
    read = read_document(json.loads(json.dumps({**plain(INVOICE), "id": "🚰"})), InvoiceDocument, "changed")
    assert len(document_sha256(read)) == 64


def test_the_last_time_of_a_document_is_the_calendars_last() -> None:
    last = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=TIME_MAX_MS)
    assert last == datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert day_of(TIME_MAX_MS) == date(9999, 12, 31)


def test_stamped_times_beyond_the_calendar_are_of_its_last_day() -> None:
    assert [day_of(at) for at in (TIME_MAX_MS + 1, 2**53, 2**63 - 1)] == [date.max] * 3
    assert day_of(-(2**63)) == date.min
    assert (day_of(-1), day_of(0)) == (date(1969, 12, 31), date(1970, 1, 1))
