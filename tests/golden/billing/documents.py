"""One document of each kind with every field away from its default, and an entry of the chain that holds them."""

from datetime import date

from penstock.contract.documents import (
    BilledDay,
    BilledLine,
    BilledPart,
    BilledPartition,
    ChainEntry,
    CreditedInvoice,
    CreditedLine,
    CreditedRange,
    CreditNoteDocument,
    CutDocument,
    InvoiceDocument,
    Predecessor,
    PriceBookDocument,
    PricedMeter,
    PricesDocument,
    PriceTier,
    Reading,
)

BEGIN_MS = 1_767_225_600_000
END_MS = 1_769_904_000_000
TOPIC_ID = "00112233445566778899aabbccddeeff"

INVOICE = InvoiceDocument(
    format=1,
    kind="invoice",
    id="inv_2",
    number=2,
    tenant="tn_1",
    period_start_ms=BEGIN_MS,
    period_end_ms=END_MS,
    issued_at_ms=END_MS + 61_003,
    currency="EUR",
    minor_digits=2,
    price_book_sha256="ab" * 32,
    cut=CutDocument(
        id="cut_2",
        readings=(
            Reading(
                topic_id=TOPIC_ID,
                partition=3,
                log_generation=1,
                end_offset=25,
                accepted_ms=END_MS - 1,
                messages=24,
                bytes=1_890,
                last=False,
            ),
            Reading(
                topic_id="ff" * 16,
                partition=0,
                log_generation=0,
                end_offset=0,
                accepted_ms=-1,
                messages=0,
                bytes=0,
                last=True,
            ),
        ),
    ),
    partitions=(
        BilledPartition(
            topic="größen",
            topic_id=TOPIC_ID,
            partition=3,
            log_generation=1,
            start_offset=13,
            counts_from=11,
            end_offset=25,
            days=(
                BilledDay(
                    day=date(2026, 1, 31), first_offset=11, end_offset=25, messages=14, bytes=2**53 + 1
                ),
            ),
        ),
    ),
    lines=(
        BilledLine(
            id="li_1",
            meter="messages_in",
            unit="message",
            unit_size=1,
            quantity=14,
            amount_micro=180_000,
            parts=(
                BilledPart(quantity=5, unit_price="0.000000000000"),
                BilledPart(quantity=9, unit_price="0.020000000000"),
            ),
        ),
    ),
    total_micro=180_000,
    previous=Predecessor(id="inv_1", number=1, document_sha256="cd" * 32),
)

CREDIT_NOTE = CreditNoteDocument(
    format=1,
    kind="credit_note",
    id="cn_1",
    number=1,
    tenant="tn_1",
    issued_at_ms=END_MS + 70_000,
    invoice=CreditedInvoice(id="inv_1", document_sha256="cd" * 32),
    cut_id="cut_2",
    currency="EUR",
    price_book_sha256="ab" * 32,
    lines=(
        CreditedLine(
            id="cl_1",
            meter="bytes_in",
            unit="GiB",
            unit_size=2**30,
            quantity=600,
            amount_micro=20_000,
        ),
    ),
    ranges=(
        CreditedRange(
            topic="orders",
            topic_id=TOPIC_ID,
            partition=3,
            log_generation=0,
            first_offset=11,
            end_offset=13,
            messages=2,
            bytes=600,
        ),
    ),
    total_micro=20_000,
)

PRICES = PricesDocument(
    format=1,
    kind="prices",
    tenant="tn_1",
    effective_from_ms=BEGIN_MS,
    price_book=PriceBookDocument(
        format=1,
        name="standard",
        version=3,
        currency="EUR",
        minor_digits=2,
        meters=(
            PricedMeter(
                meter="messages_in",
                unit="message",
                unit_size=1,
                free=1_000,
                tiers=(
                    PriceTier(up_to=20_000, unit_price="0.002000000000"),
                    PriceTier(up_to=None, unit_price="0.001000000000"),
                ),
            ),
        ),
    ),
)

ENTRY = ChainEntry(
    sequence=4,
    kind="invoice",
    object_id="inv_2",
    document_sha256="ef" * 32,
    at_ms=END_MS + 61_003,
    hash="00" * 32,
)
