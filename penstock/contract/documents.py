"""Billing's documents: what a tenant is charged and credited, each written once and bound into its billing chain.

A document is strict JSON: every field is there, none is unknown, whole numbers are whole numbers. Its hash is SHA-256
over the canonical form (compact, fields sorted, UTF-8). The *billing chain* of a tenant has one entry a document, in
the order in which they were made; each entry's hash holds the hash of the entry before, so one hash stands for every
document up to there. Brokers keep the chain's newest hash with each cut, tenants in their notes.

Times are ms since 1970 UTC, days UTC dates, offsets half open. Quantities are whole messages and bytes (whole batches
as stored), amounts micro-units of the currency.
"""

import hashlib
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from penstock.contract.document_fields import (
    TERMS_MAX,
    AcceptedTime,
    BasisPoints,
    Currency,
    MonthAmount,
    Name,
    Number,
    Ordinal,
    Partition,
    Quantity,
    Reason,
    Sha256,
    Signed,
    Strict,
    Time,
    TopicIdHex,
    UnitPrice,
    Whole,
)
from penstock.contract.errors import InvalidRequest
from penstock.contract.tax_documents import TaxStatement


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


class MeasuredDay(Strict, frozen=True):
    """What one topic's day is billed as, by a meter that counts no offsets; on a later invoice, what came late."""

    topic: Annotated[str, msgspec.Meta(max_length=255)]
    """Empty, as is its id: of no topic."""
    topic_id: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{32})?\Z")]
    day: date
    meter: Name
    quantity: Ordinal


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


class BilledCharge(Strict, frozen=True):
    """A line that is not a meter's."""

    id: Name
    kind: Literal["fee", "discount", "minimum", "credit", "tax"]
    name: Name
    """Of the fee; the id of the discount or of the grant; `minimum`; the place of the tax."""
    meter: Annotated[str, msgspec.Meta(max_length=255)]
    """Whose line a discount lowers; else empty."""
    base_micro: Whole
    """What the amount is of: a month's fee, the line that is discounted, the minimum due, the grant's rest, what is
    taxed.
    """
    basis_points: BasisPoints
    """Of the base, for tax and discounts in percent; else 0."""
    amount_micro: Signed
    """Negative for discounts and credits."""
    reason: Reason


class CreditBalance(Strict, frozen=True):
    """What an invoice took of one grant of credit."""

    grant: Name
    before_micro: Whole
    used_micro: Whole


class Predecessor(Strict, frozen=True):
    """The invoice before."""

    id: Name
    number: Number
    document_sha256: Sha256


class Party(Strict, frozen=True):
    """Who invoices or is invoiced, as it was called when the document was issued."""

    name: Name
    lines: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=255)], ...], msgspec.Meta(max_length=12)]
    """Its address; of the issuer also its registration."""
    tax_id: Annotated[str, msgspec.Meta(max_length=50)]
    """Empty: none was given."""


IssuerNumber = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
"""Unique for the issuer, over all tenants, and without gaps in its series: `INV-000001`."""


class OpenTime(Strict, frozen=True):
    """From the first to the last moment of a period in which the tenant was open, half open; empty if it was not."""

    from_ms: Time
    until_ms: Time


class InvoiceDocument(Strict, frozen=True):
    """An issued invoice, whole. Format 2 has charges beside its lines."""

    format: Literal[1, 2]
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
    """The sum of lines and charges."""
    previous: Predecessor | None
    charges: tuple[BilledCharge, ...] | UnsetType = UNSET
    """Fees, discounts, the minimum, credits, tax: in this order."""
    balances: tuple[CreditBalance, ...] | UnsetType = UNSET
    """Of every grant of the prices, in the order in which grants are used."""
    measured: tuple[MeasuredDay, ...] | UnsetType = UNSET
    """Where the price book has a meter that counts no offsets: by meter, topic, topic id and day."""
    tax_statement: TaxStatement | UnsetType = UNSET
    """Where the terms say that the tax is stated, and something is taxed."""
    issuer_number: IssuerNumber | UnsetType = UNSET
    """Invoices from before there were such numbers have `number` alone."""
    seller: Party | UnsetType = UNSET
    buyer: Party | UnsetType = UNSET
    open_time: OpenTime | UnsetType = UNSET
    """Where it is less than the period: fees and the minimum are for it."""

    def __post_init__(self) -> None:
        _only_in_format_2(self.format, charges=self.charges, balances=self.balances)
        optional = (
            ("measured", self.measured),
            ("tax_statement", self.tax_statement),
            ("open_time", self.open_time),
        )
        for name, value in optional:
            if self.format == 1 and value is not UNSET:
                raise ValueError(f"format 1 has no field {name}")
        if self.open_time is not UNSET:
            whole = (self.period_start_ms, self.period_end_ms)
            begins, ends = self.open_ms
            if not whole[0] <= begins <= ends <= whole[1] or whole == self.open_ms:
                raise ValueError("the open time is a part of the period, and less than it")

    @property
    def open_ms(self) -> tuple[int, int]:
        """The part of the period that fees and the minimum are for, half open."""
        if self.open_time is UNSET:
            return self.period_start_ms, self.period_end_ms
        return self.open_time.from_ms, self.open_time.until_ms


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


class CreditedCharge(Strict, frozen=True):
    """How one of its charges changes when its lines are lowered."""

    kind: Literal["fee", "discount", "minimum", "credit", "tax"]
    name: Name
    meter: Annotated[str, msgspec.Meta(max_length=255)]
    amount_micro: Signed
    """What the charge is higher by afterwards: a discount that shrinks and a credit that goes back to its grant are
    positive, a tax that shrinks is negative.
    """


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


class GrantedCredit(Strict, frozen=True):
    """Why an operator granted a credit note, where no declared loss is its reason."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    amount_micro: Whole
    """What is credited of the invoice as a whole, before tax; 0 where it is credited by lines and charges."""


class CreditNoteDocument(Strict, frozen=True):
    """What an issued invoice is lowered by. It has the format of its invoice."""

    format: Literal[1, 2]
    kind: Literal["credit_note"]
    id: Name
    number: Number
    tenant: Name
    issued_at_ms: Time
    invoice: CreditedInvoice
    cut_id: Name
    """At whose readings the loss was seen; for a granted one that of its invoice."""
    currency: Currency
    price_book_sha256: Sha256
    lines: tuple[CreditedLine, ...]
    ranges: tuple[CreditedRange, ...]
    total_micro: Whole
    """Lines less charges, and what was granted of the whole."""
    charges: tuple[CreditedCharge, ...] | UnsetType = UNSET
    granted: GrantedCredit | UnsetType = UNSET
    """Where an operator granted it. Its lines have a quantity of 0, and it has no ranges."""
    issuer_number: IssuerNumber | UnsetType = UNSET

    def __post_init__(self) -> None:
        _only_in_format_2(self.format, charges=self.charges)


class PriceTier(Strict, frozen=True):
    up_to: Annotated[int, msgspec.Meta(ge=1)] | None
    unit_price: UnitPrice


class PricedMeter(Strict, frozen=True):
    meter: Name
    unit: Name
    unit_size: Ordinal
    free: Annotated[int, msgspec.Meta(ge=0)]
    tiers: tuple[PriceTier, ...]
    model: Literal["unit", "graduated", "volume", "package"] | UnsetType = UNSET


class MonthlyFee(Strict, frozen=True):
    fee: Name
    month: MonthAmount


class PriceBookDocument(Strict, frozen=True):
    """A price book in its canonical form; `penstock.rules.rating` says what it means."""

    format: Literal[1, 2]
    name: Name
    version: Ordinal
    currency: Currency
    minor_digits: Annotated[int, msgspec.Meta(ge=0, le=6)]
    meters: tuple[PricedMeter, ...]
    fees: tuple[MonthlyFee, ...] | UnsetType = UNSET
    minimum_month: MonthAmount | UnsetType = UNSET

    def __post_init__(self) -> None:
        _only_in_format_2(self.format, fees=self.fees, minimum_month=self.minimum_month)
        for price in self.meters:
            _only_in_format_2(self.format, model=price.model)


class Discount(Strict, frozen=True):
    """Lowers what meters cost, in periods that begin from `from_ms` on and before `until_ms`."""

    id: Name
    basis_points: BasisPoints
    """Of what a meter's line costs after the discounts before; 0 for an amount."""
    amount_micro: Whole
    """Of each period, taken from the meters in the order of the price book; 0 for a percentage."""
    currency: Annotated[str, msgspec.Meta(pattern=r"^([A-Z]{3})?\Z")]
    """Of the amount. It lowers lines of this currency only."""
    meters: tuple[Name, ...]
    """Empty: all."""
    from_ms: Time
    until_ms: Time
    reason: Reason

    def __post_init__(self) -> None:
        if bool(self.basis_points) == bool(self.amount_micro):
            raise ValueError("a discount is a percentage or an amount, and not 0")
        if bool(self.amount_micro) != bool(self.currency):
            raise ValueError("an amount has a currency, a percentage has none")
        if self.until_ms <= self.from_ms:
            raise ValueError("a discount ends after it begins")


class CreditGrant(Strict, frozen=True):
    """Credit that pays for periods that begin before it expires."""

    id: Name
    amount_micro: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    currency: Currency
    granted_ms: Time
    expires_ms: Time | None
    reason: Reason


class TaxRate(Strict, frozen=True):
    """Holds for periods that end later than that."""

    from_ms: Time
    basis_points: BasisPoints


class Tax(Strict, frozen=True):
    """How the tenant is taxed: by the rates of its place, or not at all for the reason given."""

    country: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{2}\Z")]
    region: Annotated[str, msgspec.Meta(pattern=r"^[A-Z0-9]{0,3}\Z")]
    reverse_charge: bool
    reason: Reason
    rates: tuple[TaxRate, ...]
    """By time."""

    def __post_init__(self) -> None:
        times = [rate.from_ms for rate in self.rates]
        if times != sorted(set(times)):
            raise ValueError("rates of tax are in the order of time")
        if self.reverse_charge and not self.reason:
            raise ValueError("a reverse charge has a reason")


class Terms(Strict, frozen=True):
    """What a tenant has beside a price book."""

    discounts: Annotated[tuple[Discount, ...], msgspec.Meta(max_length=TERMS_MAX)]
    """In the order in which they are taken."""
    credits: Annotated[tuple[CreditGrant, ...], msgspec.Meta(max_length=TERMS_MAX)]
    tax: Tax | None
    tax_stated_by: Literal["stripe_tax"] | UnsetType = UNSET
    """Who states the tax of each invoice, where no table does."""

    def __post_init__(self) -> None:
        if self.tax is not None and self.tax_stated_by is not UNSET:
            raise ValueError("tax is by a table or stated, not both")
        ids = [*(one.id for one in self.discounts), *(one.id for one in self.credits)]
        if len(ids) != len(set(ids)):
            raise ValueError("a discount or a grant stands in the terms twice")


NO_TERMS = Terms(discounts=(), credits=(), tax=None)


class PricesDocument(Strict, frozen=True):
    """Which prices a tenant's periods are rated with: those from `effective_from_ms` on, until the next. Format 2 has
    terms, and its invoices have format 2.
    """

    format: Literal[1, 2]
    kind: Literal["prices"]
    tenant: Name
    effective_from_ms: Time
    price_book: PriceBookDocument
    terms: Terms | UnsetType = UNSET

    def __post_init__(self) -> None:
        _only_in_format_2(self.format, terms=self.terms)
        if self.format == 1 and self.price_book.format != 1:
            raise ValueError("prices of format 1 have a price book of format 1")


class ChainEntry(Strict, frozen=True):
    """One document of a tenant's billing chain."""

    sequence: Ordinal
    """1, 2, … without gaps."""
    kind: Literal["prices", "invoice", "credit_note"]
    object_id: Name
    document_sha256: Sha256
    at_ms: Time
    hash: Sha256


def _only_in_format_2(found: int, **fields: object) -> None:
    """Format 1 has no such field, format 2 has every one. So what was hashed in format 1 keeps its hash."""
    for name, value in fields.items():
        if (value is UNSET) != (found == 1):
            raise ValueError(f"format {found} has {'no' if found == 1 else 'the'} field {name}")


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
