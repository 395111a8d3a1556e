"""Rows of FOCUS: what they add up to, and the rules of version 1.2 for every cell."""

import csv
import json
import os
import re
import subprocess
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import focus
from penstock.contract import documents
from penstock.rules import charges, rating
from penstock.rules.timestamps import time_ms

START = datetime(2026, 10, 1, tzinfo=UTC)
END = datetime(2026, 11, 1, tzinfo=UTC)
PARTIES = focus.Parties(tenant="tn_acme", name="acme", issuer="Penstock Ltd.")
MICRO = Decimal(1_000_000)

NEVER_NULL = {
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeDescription", "ChargeFrequency",
    "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceId", "InvoiceIssuerName",
    "ListCost", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "ServiceSubcategory",
}  # fmt: skip
MANDATORY = NEVER_NULL | {"ChargeClass", "PricingQuantity", "PricingUnit"}
OF_USAGE_AND_PURCHASE = {
    "ListUnitPrice", "ContractedUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "SkuId",
    "SkuMeter", "SkuPriceId",
}  # fmt: skip
DECIMALS = {
    "BilledCost", "ConsumedQuantity", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "ListCost",
    "ListUnitPrice", "PricingQuantity",
}  # fmt: skip
MOMENTS = {"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"}
CATEGORIES = {"Usage", "Purchase", "Tax", "Credit", "Adjustment"}
FREQUENCIES = {"One-Time", "Recurring", "Usage-Based"}
FOCUS_COLUMN = re.compile(r"(x_)?[A-Z][A-Za-z]*\Z")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?\Z")
MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")


def assert_is_of_focus(row: focus.Row) -> None:
    """The rules of the specification that bear on this row, cell by cell."""
    assert set(row) <= set(focus.COLUMNS)
    cells = {column: row.get(column, "") for column in focus.COLUMNS}
    assert all(cells[column] for column in NEVER_NULL), cells
    category, correction = cells["ChargeCategory"], cells["ChargeClass"] == "Correction"
    assert category in CATEGORIES and cells["ChargeClass"] in ("", "Correction")
    assert cells["ChargeFrequency"] in FREQUENCIES
    assert category != "Purchase" or cells["ChargeFrequency"] != "Usage-Based"
    assert all(NUMBER.match(cells[column]) for column in DECIMALS if cells[column]), cells
    assert all(MOMENT.match(cells[column]) for column in MOMENTS)
    assert cells["BillingPeriodStart"] < cells["BillingPeriodEnd"]
    assert cells["ChargePeriodStart"] < cells["ChargePeriodEnd"]
    if category == "Tax":
        assert not any(cells[column] for column in OF_USAGE_AND_PURCHASE | {"SkuPriceDetails"})
    elif category in ("Usage", "Purchase") and not correction:
        assert all(cells[column] for column in OF_USAGE_AND_PURCHASE), cells
    assert bool(cells["ConsumedQuantity"]) == bool(cells["ConsumedUnit"]) == (category == "Usage")
    assert bool(cells["PricingQuantity"]) == bool(cells["PricingUnit"])
    assert not cells["SkuMeter"] or cells["SkuId"]
    assert not cells["SkuPriceDetails"] or cells["SkuPriceId"]
    assert all(key.startswith("x_") for key in json.loads(cells["SkuPriceDetails"] or "{}"))
    assert bool(cells["ResourceId"]) == bool(cells["ResourceType"])
    for cost, price in (("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")):
        if cells[price] and not correction:
            product = Decimal(cells[price]) * Decimal(cells["PricingQuantity"])
            assert abs(product - Decimal(cells[cost])) <= Decimal("1e-11"), cells
        elif category == "Credit":
            assert cells[cost] == cells["BilledCost"] == cells["EffectiveCost"]


def test_each_column_stands_once_and_none_that_is_mandatory_is_missing() -> None:
    assert len(set(focus.COLUMNS)) == len(focus.COLUMNS)
    assert set(focus.COLUMNS) >= MANDATORY
    assert all(FOCUS_COLUMN.match(column) for column in focus.COLUMNS)


# -- documents ------------------------------------------------------------------------------------------


def book_of(meters: list[dict[str, Any]], digits: int = 2, **more: Any) -> rating.PriceBook:
    return rating.PriceBook.read(
        {"format": 2, "name": "b", "version": 1, "currency": "USD", "minor_digits": digits, "meters": meters,
         "fees": [], "minimum_month": "0.000000"} | more
    )  # fmt: skip


def meter(name: str, model: str, *tiers: tuple[int | None, str], unit_size: int = 1, free: int = 0) -> Any:
    return {
        "meter": name, "unit": "GB" if unit_size == 10**9 else "message", "unit_size": unit_size, "free": free,
        "model": model, "tiers": [{"up_to": up_to, "unit_price": price} for up_to, price in tiers],
    }  # fmt: skip


GRADUATED = book_of(
    [
        meter("messages_in", "graduated", (2_000, "0.001500000000"), (None, "0.000700000000"), free=100),
        meter("bytes_in", "volume", (10**6, "3.000000000000"), (None, "1.250000000000"), unit_size=10**9),
    ],
    fees=[{"fee": "support", "month": "50.000000"}],
    minimum_month="80.000000",
)
PACKAGES = book_of([meter("messages_in", "package", (None, "0.500000000000"), unit_size=1_000)])
TERMS = documents.Terms(
    discounts=(
        documents.Discount(
            id="di_1", basis_points=1_000, amount_micro=0, currency="", meters=(), from_ms=0, until_ms=2**50,
            reason="partner",
        ),
    ),
    credits=(
        documents.CreditGrant(
            id="cr_1", amount_micro=7_000_000, currency="USD", granted_ms=0, expires_ms=None, reason="=prepaid"
        ),
    ),
    tax=documents.Tax(
        country="DE", region="", reverse_charge=False, reason="VAT",
        rates=(documents.TaxRate(from_ms=0, basis_points=1_900),),
    ),
)  # fmt: skip

Usage = dict[tuple[str, int, int], tuple[int, int]]
"""Topic, partition and day (0: that before the period) to messages and bytes."""


def invoice_of(
    book: rating.PriceBook, usage: Usage, terms: documents.Terms = TERMS
) -> documents.InvoiceDocument:
    quantities = {
        "messages_in": sum(messages for messages, _ in usage.values()),
        "bytes_in": sum(size for _, size in usage.values()),
    }
    rated = rating.rate(book, quantities)
    period = time_ms(START), time_ms(END)
    charged = charges.charge(
        book, terms, {line.meter: line.amount_micro for line in rated.lines}, period,
        {grant.id: grant.amount_micro for grant in terms.credits},
    )  # fmt: skip
    partitions: dict[tuple[str, int], list[documents.BilledDay]] = defaultdict(list)
    for (topic, partition, day), (messages, size) in sorted(usage.items()):
        partitions[topic, partition].append(
            documents.BilledDay(
                day=(START + timedelta(days=day - 1)).date(), first_offset=0, end_offset=messages,
                messages=messages, bytes=size,
            )
        )  # fmt: skip
    return documents.InvoiceDocument(
        format=2, kind="invoice", id="inv_1", number=1, tenant="tn_acme", period_start_ms=period[0],
        period_end_ms=period[1], issued_at_ms=period[1], currency="USD", minor_digits=book.minor_digits,
        price_book_sha256=book.sha256, cut=documents.CutDocument(id="cut_1", readings=()),
        partitions=tuple(
            documents.BilledPartition(
                topic=topic, topic_id=f"{sum(topic.encode()):032x}", partition=partition, log_generation=1,
                start_offset=0, counts_from=0, end_offset=9, days=tuple(days),
            )
            for (topic, partition), days in partitions.items()
        ),
        lines=tuple(
            documents.BilledLine(
                id=f"ln_{line.meter}", meter=line.meter, unit=line.unit, unit_size=line.unit_size,
                quantity=line.quantity, amount_micro=line.amount_micro,
                parts=tuple(
                    documents.BilledPart(quantity=part.quantity, unit_price=part.unit_price)
                    for part in line.parts
                ),
            )
            for line in rated.lines
        ),
        total_micro=charged.total_micro, previous=None,
        charges=tuple(
            documents.BilledCharge(
                id=f"ic_{number}", kind=one.kind, name=one.name, meter=one.meter, base_micro=one.base_micro,
                basis_points=one.basis_points, amount_micro=one.amount_micro, reason=one.reason,
            )
            for number, one in enumerate(charged.charges)
        ),
        balances=(),
    )  # fmt: skip


def rows_of(book: rating.PriceBook, usage: Usage, terms: documents.Terms = TERMS) -> list[focus.Row]:
    return list(focus.invoice_rows(invoice_of(book, usage, terms), book, PARTIES))


def total(rows: list[focus.Row], column: str = "BilledCost", **where: str) -> Decimal:
    return sum(
        (Decimal(row[column]) for row in rows if all(row.get(k) == v for k, v in where.items())), Decimal(0)
    )


# -- invoices -------------------------------------------------------------------------------------------


@given(
    book=st.sampled_from([GRADUATED, PACKAGES]),
    usage=st.dictionaries(
        st.tuples(st.sampled_from(["orders", "logs"]), st.integers(0, 1), st.integers(0, 31)),
        st.tuples(st.integers(0, 4_000), st.integers(0, 10**10)),
        max_size=6,
    ),
    terms=st.sampled_from([TERMS, documents.NO_TERMS]),
)
def test_rows_add_up_to_the_invoice_and_keep_every_rule(
    book: rating.PriceBook, usage: Usage, terms: documents.Terms
) -> None:
    invoice = invoice_of(book, usage, terms)
    rows = list(focus.invoice_rows(invoice, book, PARTIES))
    for row in rows:
        assert_is_of_focus(row)
    assert total(rows) * MICRO == total(rows, "EffectiveCost") * MICRO == invoice.total_micro
    for line in invoice.lines:
        assert total(rows, x_InvoiceDetailId=line.id) * MICRO == line.amount_micro
        assert total(rows, "ConsumedQuantity", x_InvoiceDetailId=line.id) == line.quantity
    consumed = Counter[tuple[str, str]]()
    for row in rows:
        if row["ChargeCategory"] == "Usage" and row["SkuId"] == "messages_in":
            consumed[row.get("ResourceName", ""), row["ChargePeriodStart"]] += int(row["ConsumedQuantity"])
    wanted = Counter[tuple[str, str]]()
    for (topic, _, day), (messages, _) in usage.items():
        wanted[topic, f"{START + timedelta(days=day - 1):%Y-%m-%dT%H:%M:%SZ}"] += messages
    assert +consumed == +wanted


def test_days_fill_the_tiers_in_their_order() -> None:
    rows = rows_of(
        GRADUATED, {("orders", 0, 1): (1_500, 0), ("orders", 1, 2): (1_000, 0)}, documents.NO_TERMS
    )
    assert [
        (row["ChargePeriodStart"][:10], row["ConsumedQuantity"], row["ListUnitPrice"], row["ListCost"])
        for row in rows
        if row.get("SkuId") == "messages_in"
    ] == [
        ("2026-10-01", "100", "0", "0"),
        ("2026-10-01", "1400", "0.0015", "2.1"),
        ("2026-10-02", "500", "0.0015", "0.75"),
        ("2026-10-02", "500", "0.0007", "0.35"),
    ]


def test_a_package_that_was_begun_is_paid_whole_and_consumed_in_part() -> None:
    rows = rows_of(PACKAGES, {("orders", 0, 1): (1_250, 0)}, documents.NO_TERMS)
    assert [(r["ConsumedQuantity"], r["PricingQuantity"], r["PricingUnit"], r["ListCost"]) for r in rows] == [
        ("1250", "1.25", "1000 Messages", "0.625"),
        ("0", "0.75", "1000 Messages", "0.375"),
    ]
    assert total(rows) == 1 and "package" in rows[1]["ChargeDescription"] and "ResourceId" not in rows[1]


def test_charges_have_their_categories() -> None:
    rows = rows_of(GRADUATED, {("orders", 0, 1): (3_000, 10**9)})
    shown = [(row["ChargeCategory"], row["ChargeDescription"], row["BilledCost"]) for row in rows[-6:]]
    assert shown == [
        ("Purchase", "Fee support", "50"),
        ("Credit", "Discount di_1: partner", "-0.36"),
        ("Credit", "Discount di_1: partner", "-0.13"),
        ("Purchase", "Minimum", "25.69"),
        ("Credit", "Credit cr_1: =prepaid", "-7"),
        ("Tax", "Tax DE: VAT", "13.87"),
    ]
    # 19 % of lines, fee and minimum at list prices.
    assert rows[-1]["ListCost"] == "15.2931"


def test_no_cell_of_text_is_a_formula_and_negative_costs_stay_numbers() -> None:
    hostile = focus.Parties(tenant="tn_acme", name="=cmd|calc", issuer="+Penstock")
    document = invoice_of(GRADUATED, {("-orders", 0, 1): (3_000, 10**9)})
    rows = list(focus.invoice_rows(document, GRADUATED, hostile))
    rows[0] = {**rows[0], "BilledCost": "-5.25"}
    (first, *_) = csv.DictReader("".join(focus.as_csv(rows)).splitlines())
    assert [first[name] for name in ("BillingAccountName", "InvoiceIssuerName", "ResourceName", "BilledCost")] == [
        "'=cmd|calc", "'+Penstock", "'-orders", "-5.25",
    ]  # fmt: skip
    assert {focus.COLUMNS[at] for at in focus._DECIMALS} == {*DECIMALS, "x_InvoiceNumber"}
    texts = [value for column, value in first.items() if column not in DECIMALS]
    assert not [text for text in texts if text[:1] in tuple("=+-@")]


def test_another_book_than_that_of_the_invoice_is_refused() -> None:
    with pytest.raises(Exception, match="its own prices"):
        list(focus.invoice_rows(invoice_of(GRADUATED, {}), PACKAGES, PARTIES))


# -- credit notes ---------------------------------------------------------------------------------------


def note_of(invoice: documents.InvoiceDocument) -> documents.CreditNoteDocument:
    return documents.CreditNoteDocument(
        format=2, kind="credit_note", id="cn_1", number=1, tenant="tn_acme",
        issued_at_ms=time_ms(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)),
        invoice=documents.CreditedInvoice(id=invoice.id, document_sha256=documents.document_sha256(invoice)),
        cut_id="cut_2", currency="USD", price_book_sha256=invoice.price_book_sha256,
        lines=(
            documents.CreditedLine(
                id="cl_1", meter="messages_in", unit="message", unit_size=1, quantity=700, amount_micro=500_001
            ),
        ),
        ranges=tuple(
            documents.CreditedRange(
                topic=topic, topic_id="0" * 32, partition=0, log_generation=1, first_offset=0, end_offset=lost,
                messages=lost, bytes=0,
            )
            for topic, lost in (("logs", 300), ("orders", 400))
        ),
        total_micro=550_001,
        charges=(
            documents.CreditedCharge(kind="discount", name="di_1", meter="messages_in", amount_micro=50_000),
            documents.CreditedCharge(kind="tax", name="DE", meter="", amount_micro=-100_000),
        ),
    )  # fmt: skip


def test_a_credit_note_corrects_the_invoices_period_in_the_month_of_its_issue() -> None:
    invoice = invoice_of(GRADUATED, {("orders", 0, 1): (3_000, 10**9)})
    rows = list(focus.credit_note_rows(note_of(invoice), invoice, PARTIES, left_micro=invoice.total_micro))
    for row in rows:
        assert_is_of_focus(row)
        assert row["ChargeClass"] == "Correction" and row["x_CorrectedInvoiceId"] == "inv_1"
        assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == (
            "2026-12-01T00:00:00Z",
            "2027-01-01T00:00:00Z",
        )
        assert row["ChargePeriodStart"] == "2026-10-01T00:00:00Z"
    assert total(rows, InvoiceId="cn_1") == Decimal("-0.550001")
    lines = [(r["ResourceName"], r["ConsumedQuantity"], r["BilledCost"]) for r in rows if "ResourceName" in r]
    assert lines == [("logs", "-300", "-0.214286"), ("orders", "-400", "-0.285715")]


# -- the file -------------------------------------------------------------------------------------------


def test_the_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    rows = rows_of(GRADUATED, {("orders", 0, 1): (3_000, 10**9)})
    read = list(csv.DictReader("".join(focus.as_csv(rows)).splitlines()))
    assert [{k: v for k, v in row.items() if v} for row in read] == rows


OF_THE_VALIDATOR = {
    # Columns that the specification asks of who has such a thing: commitments, regions, sub accounts, tags.
    *(f"CommitmentDiscount{name}_Required" for name in ("Category", "Id", "Name", "Status", "Type")),
    "RegionId_Required", "RegionName_Required", "SubAccountId_Required", "SubAccountName_Required", "Tags_Required",
    # Names that no published version of the specification has.
    "InvoiceIssuer_Required", "Provider_Required", "Publisher_Required", "ResourceID_Required", "SkuPriceId_Nullable",
    # It misses a file of its own.
    "BillingCurrency_IsCurrencyCode",
}  # fmt: skip
"""What release 1.0.0 finds, whatever the file holds."""


@pytest.mark.optional_peer
def test_the_validator_of_the_specification_finds_nothing_of_the_file(tmp_path: Path) -> None:
    """It knows the rules of 1.0; those of 1.2 are in this module."""
    validator = os.environ.get("FOCUS_VALIDATOR")
    if not validator:
        pytest.skip("FOCUS_VALIDATOR does not name the program of the package focus-validator 1.0.0")
    invoice = invoice_of(GRADUATED, {("orders", 0, 1): (3_000, 10**9), ("logs", 0, 3): (5, 100)})
    rows = [*focus.invoice_rows(invoice, GRADUATED, PARTIES)]
    rows += focus.credit_note_rows(note_of(invoice), invoice, PARTIES, left_micro=invoice.total_micro)

    def failed(written: list[focus.Row]) -> set[str]:
        file = tmp_path / "focus.csv"
        file.write_text("".join(focus.as_csv(written)))
        command = [validator, "--data-file", str(file), "--validate-version", "1.0"]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        assert "Validation failed!" in said or "Validation succeeded!" in said, said
        return set(re.findall(r"^(\w+) failed:$", said, re.MULTILINE))

    assert failed(rows) == OF_THE_VALIDATOR
    wrong = [row | {"ChargeCategory": "Fee", "BilledCost": "1 USD"} for row in rows]
    assert failed(wrong) > OF_THE_VALIDATOR, "and it would find something"
