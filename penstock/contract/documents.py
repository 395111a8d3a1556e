"""Billing's documents: what a tenant is charged and credited, each written once and bound into its billing chain.

A document is strict JSON: every field is there, none is unknown, whole numbers are whole numbers. Its hash is SHA-256
over the canonical form (compact, fields sorted, UTF-8). The *billing chain* of a tenant has one entry a document, in
the order in which they were made; each entry's hash holds the hash of the entry before, so one hash stands for every
document up to there. Brokers keep the chain's newest hash with each cut, tenants in their notes.

Times are ms since 1970 UTC, days UTC dates, offsets half open. Quantities are whole messages and bytes (whole batches
as stored), amounts micro-units of the currency.
"""

import hashlib
import re
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import PARTITION_MAX

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""Offsets, generations and amounts: far enough below the 64 bits of the brokers' interface that one more fits."""
Quantity = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Ordinal = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Number = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
"""Of invoices and of credit notes: 1, 2, … within the tenant."""
Partition = Annotated[int, msgspec.Meta(ge=0, le=PARTITION_MAX)]
TIME_MAX_MS = 253_402_300_799_999
"""The calendar's last ms, at the end of the year 9999."""
Time = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX_MS)]
AcceptedTime = Annotated[int, msgspec.Meta(ge=-1, le=TIME_MAX_MS)]
"""-1: nothing was accepted yet."""
SHA256_HEX = re.compile(r"[0-9a-f]{64}")
# \Z, as $ would let a line end follow.
Sha256 = Annotated[str, msgspec.Meta(pattern=rf"^{SHA256_HEX.pattern}\Z")]
TopicIdHex = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Currency = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]
UnitPrice = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,7}\.[0-9]{12}\Z")]
NO_HASH = "0" * 64
"""What the first entry of a chain follows."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value of a document."""


class Reading(Strict, frozen=True):
    """Where one partition's log stood at a cut, as the brokers read it. Totals are those of the log's whole prefix."""

    topic_id: TopicIdHex
    partition: Partition
    log_generation: Whole
    end_offset: Whole
    accepted_ms: AcceptedTime
    """Acceptance of the last batch below `end_offset`."""
    messages: Quantity
    bytes: Quantity
    last: bool
    """The topic was deleted: the partition is in no later cut. Its last batch may be younger than the period's end."""


class CutDocument(Strict, frozen=True):
    """The end of a period. Readings are sorted by topic id and partition."""

    id: Name
    readings: tuple[Reading, ...]


class BilledDay(Strict, frozen=True):
    """What one day's part of a partition's log, [first_offset, end_offset), is billed as."""

    day: date
    first_offset: Whole
    end_offset: Whole
    messages: Quantity
    bytes: Quantity


class BilledPartition(Strict, frozen=True):
    """One partition in the period, [start_offset, end_offset)."""

    topic: Name
    topic_id: TopicIdHex
    partition: Partition
    log_generation: Whole
    start_offset: Whole
    """Where the cut before ended."""
    counts_from: Whole
    """Below `start_offset` when a loss, declared since, made this invoice count a part of the log again."""
    end_offset: Whole
    days: tuple[BilledDay, ...]


class BilledPart(Strict, frozen=True):
    """So many items of a line at one price."""

    quantity: Quantity
    unit_price: UnitPrice


class BilledLine(Strict, frozen=True):
    """One meter x price version x period."""

    id: Name
    meter: Name
    unit: Name
    unit_size: Ordinal
    quantity: Quantity
    amount_micro: Whole
    parts: tuple[BilledPart, ...]


class Predecessor(Strict, frozen=True):
    """The invoice before."""

    id: Name
    number: Number
    document_sha256: Sha256


class InvoiceDocument(Strict, frozen=True):
    """An issued invoice, whole."""

    format: Literal[1]
    kind: Literal["invoice"]
    id: Name
    number: Number
    tenant: Name
    period_start_ms: Time
    period_end_ms: Time
    issued_at_ms: Time
    currency: Currency
    minor_digits: Annotated[int, msgspec.Meta(ge=0, le=6)]
    price_book_sha256: Sha256
    cut: CutDocument
    partitions: tuple[BilledPartition, ...]
    """By topic, topic id, partition and log generation."""
    lines: tuple[BilledLine, ...]
    """In the order of the price book."""
    total_micro: Whole
    previous: Predecessor | None


class CreditedInvoice(Strict, frozen=True):
    """Which invoice a credit note lowers."""

    id: Name
    document_sha256: Sha256


class CreditedLine(Strict, frozen=True):
    """What one of its lines is lowered by, at that invoice's prices."""

    id: Name
    meter: Name
    unit: Name
    unit_size: Ordinal
    quantity: Quantity
    amount_micro: Whole


class CreditedRange(Strict, frozen=True):
    """Offsets of the invoice's that a declared loss took, with what they had been counted as."""

    topic: Name
    topic_id: TopicIdHex
    partition: Partition
    log_generation: Whole
    """That ended with the loss."""
    first_offset: Whole
    end_offset: Whole
    messages: Quantity
    bytes: Quantity


class CreditNoteDocument(Strict, frozen=True):
    """What an issued invoice is lowered by."""

    format: Literal[1]
    kind: Literal["credit_note"]
    id: Name
    number: Number
    tenant: Name
    issued_at_ms: Time
    invoice: CreditedInvoice
    cut_id: Name
    """At whose readings the loss was seen."""
    currency: Currency
    price_book_sha256: Sha256
    lines: tuple[CreditedLine, ...]
    ranges: tuple[CreditedRange, ...]
    total_micro: Whole


class PriceTier(Strict, frozen=True):
    up_to: Annotated[int, msgspec.Meta(ge=1)] | None
    unit_price: UnitPrice


class PricedMeter(Strict, frozen=True):
    meter: Name
    unit: Name
    unit_size: Ordinal
    free: Annotated[int, msgspec.Meta(ge=0)]
    tiers: tuple[PriceTier, ...]


class PriceBookDocument(Strict, frozen=True):
    """A price book in its canonical form; `penstock.rules.rating` says what it means."""

    format: Literal[1]
    name: Name
    version: Ordinal
    currency: Currency
    minor_digits: Annotated[int, msgspec.Meta(ge=0, le=6)]
    meters: tuple[PricedMeter, ...]


class PricesDocument(Strict, frozen=True):
    """Which prices a tenant's periods are rated with: those from `effective_from_ms` on, until the next."""

    format: Literal[1]
    kind: Literal["prices"]
    tenant: Name
    effective_from_ms: Time
    price_book: PriceBookDocument


class ChainEntry(Strict, frozen=True):
    """One document of a tenant's billing chain."""

    sequence: Ordinal
    """1, 2, … without gaps."""
    kind: Literal["prices", "invoice", "credit_note"]
    object_id: Name
    document_sha256: Sha256
    at_ms: Time
    hash: Sha256


Document = InvoiceDocument | CreditNoteDocument | PricesDocument
_Read = TypeVar("_Read", bound=Strict)


def read_document(value: object, kind: type[_Read], what: str) -> _Read:
    """A parsed JSON value as a document, which then has a hash. Raises `InvalidRequest` with the place of the first
    thing that is wrong.
    """
    try:
        read = msgspec.convert(value, kind, strict=True)
        # JSON may name half of a surrogate pair, which has no UTF-8: such text can be neither hashed nor noted.
        msgspec.json.encode(read)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidRequest(f"{what}: {error}") from None
    return read


def plain(document: Strict) -> dict[str, Any]:
    """The document as plain JSON values, to be stored or sent."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return value


def document_sha256(document: Strict) -> str:
    """64 hex digits: SHA-256 over the canonical form."""
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()


def chain_hash(tenant: str, previous_hash: str, entry: ChainEntry) -> str:
    """The hash of an entry of this tenant's chain behind `previous_hash` (NO_HASH for the first); `entry.hash` is not
    read.
    """
    content = {
        "tenant": tenant,
        "sequence": entry.sequence,
        "kind": entry.kind,
        "object_id": entry.object_id,
        "document_sha256": entry.document_sha256,
        "at_ms": entry.at_ms,
    }
    encoded = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(b"penstock billing chain 1\n" + bytes.fromhex(previous_hash) + encoded).hexdigest()
