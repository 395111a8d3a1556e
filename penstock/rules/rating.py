"""Rating: what usage costs by a price book, in integers, rounded once a line.

A price book is an immutable JSON document; its SHA-256 over the canonical form (compact, keys sorted, unit prices
with 12 places) stands in each invoice line:

    {"format": 1, "name": "standard", "version": 1, "currency": "USD", "minor_digits": 2,
     "meters": [{"meter": "messages_in", "unit": "message", "unit_size": 1, "free": 1000,
                 "tiers": [{"up_to": 20000, "unit_price": "0.002000000000"},
                           {"up_to": null, "unit_price": "0.001000000000"}]}]}

Prices are graduated: each tier's price holds for the part of the quantity between the bound of the tier before and its
own `up_to`; bounds and the free allowance count from the first item of the period, so the free part lies in the first
tiers. Format 2 adds other models for a meter (`Model`), fees and a minimum by the month (`penstock.rules.charges`):

    {"format": 2, …, "meters": [{…, "model": "volume"}], "fees": [{"fee": "support", "month": "50.000000"}],
     "minimum_month": "100.000000"}

A unit is `unit_size` items of the meter (1,000,000 bytes are one MB here). The exact cost of a line is a
fraction; it is rounded half up to minor units once, and kept in micro-units of the currency. The total is the
sum of the lines.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Self

from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import invariant
from penstock.rules.meters import MEASURED, items_of
from penstock.rules.price_book_fields import decimal, mapping, text, whole

FORMATS = (1, 2)
"""1 knows graduated tiers only. 2 adds models, monthly fees and a monthly minimum. Both are read for as long as
invoices stand on them, with the same hashes.
"""
PRICE_PLACES = 12
PICO = 10**PRICE_PLACES
"""Unit prices are whole multiples of a picounit of the currency."""
MICRO = 10**6
QUANTITY_MAX = 10**38 - 1
"""decimal(38,0), as in the data sets."""
UNIT_PRICE_MAX = 1_000_000
CENT_DIGITS = 2
"""Places that an amount has at least, where its currency has them."""
TIERS_MAX = 100
METERS_MAX = 100
FEES_MAX = 20
MONTH_PLACES = 6
MONTH_AMOUNT_MAX = 10**9
"""Of a fee or a minimum, in units of the currency."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}\Z")
_CURRENCY = re.compile(r"[A-Z]{3}\Z")


class Model(StrEnum):
    """How a meter's quantity becomes an amount."""

    UNIT = "unit"
    """One price for every item."""
    GRADUATED = "graduated"
    """Each item at the price of the tier in which its number lies."""
    VOLUME = "volume"
    """All items at the price of the tier in which the whole quantity lies."""
    PACKAGE = "package"
    """Blocks of `unit_size` items; one that was begun is paid whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The price of a unit up to `up_to` items of the period (None = no end), in picounits."""

    up_to: int | None
    unit_price_pico: int

    @property
    def unit_price(self) -> str:
        return price_text(self.unit_price_pico)

    def __post_init__(self) -> None:
        invariant(self.up_to is None or 0 < self.up_to <= QUANTITY_MAX, "a tier ends above 0 or not at all")
        invariant(self.unit_price_pico >= 0, "no price is negative")


ONE_TIER = (Model.UNIT, Model.PACKAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterPrice:
    """What one meter costs. `free` items of a period cost nothing; a price is that of `unit_size` items."""

    meter: str
    unit: str
    unit_size: int
    free: int
    tiers: tuple[Tier, ...]
    model: Model = Model.GRADUATED

    def __post_init__(self) -> None:
        invariant(
            self.unit_size >= 1 and 0 <= self.free <= QUANTITY_MAX, "units and allowances are whole numbers"
        )
        invariant(0 < len(self.tiers) <= TIERS_MAX, "a meter has one tier or more")
        invariant(self.tiers[-1].up_to is None, "the last tier has no end")
        ends = [tier.up_to for tier in self.tiers[:-1]]
        invariant(None not in ends, "only the last tier has no end")
        invariant(all(a < b for a, b in pairwise(end or 0 for end in ends)), "tiers are in order")
        invariant(len(self.tiers) == 1 or self.model not in ONE_TIER, "one price, one tier")

    def parts(self, quantity: int) -> Iterator["TierPart"]:
        """The quantity divided over the tiers, the free part first; parts of 0 are left out."""
        begin = min(self.free, quantity)
        if begin:
            yield TierPart(quantity=begin, unit_price_pico=0)
        if self.model is Model.VOLUME:
            if quantity > begin:
                price = next(t for t in self.tiers if t.up_to is None or quantity <= t.up_to)
                yield TierPart(quantity=quantity - begin, unit_price_pico=price.unit_price_pico)
            return
        for tier in self.tiers:
            end = quantity if tier.up_to is None else min(tier.up_to, quantity)
            if end > begin:
                yield TierPart(quantity=end - begin, unit_price_pico=tier.unit_price_pico)
                begin = end


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPart:
    """So many items of a line at one price."""

    quantity: int
    unit_price_pico: int

    @property
    def unit_price(self) -> str:
        return price_text(self.unit_price_pico)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedLine:
    """One meter x price version x period. `amount_micro` is whole minor units."""

    meter: str
    unit: str
    unit_size: int
    quantity: int
    parts: tuple[TierPart, ...]
    amount_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Lines in the order of the price book, and their sum."""

    lines: tuple[RatedLine, ...]
    total_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fee:
    """A flat amount a UTC month, whatever is used."""

    fee: str
    """Its name."""
    month_micro: int

    def __post_init__(self) -> None:
        invariant(0 <= self.month_micro <= MONTH_AMOUNT_MAX * MICRO, "a fee is not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """One version of the prices. Two books with the same hash are the same."""

    name: str
    version: int
    currency: str
    minor_digits: int
    meters: tuple[MeterPrice, ...]
    format: int = 1
    fees: tuple[Fee, ...] = ()
    minimum_month_micro: int = 0
    """What a UTC month costs at least, before credits and tax. 0: nothing."""

    def __post_init__(self) -> None:
        invariant(0 <= self.minor_digits <= 6, "minor units are 1 to a millionth of the currency")
        invariant(self.format in FORMATS, "a book has a known format")
        invariant(0 <= self.minimum_month_micro <= MONTH_AMOUNT_MAX * MICRO, "a minimum is not negative")
        plain = not self.fees and not self.minimum_month_micro
        graduated = all(price.model is Model.GRADUATED for price in self.meters)
        invariant(self.format != 1 or (plain and graduated), "format 1 has graduated tiers and nothing else")
        invariant(len({fee.fee for fee in self.fees}) == len(self.fees), "a fee stands in a book once")
        invariant(self.version >= 1, "versions count from 1")
        names = [price.meter for price in self.meters]
        invariant(0 < len(names) == len(set(names)), "a price book has one price a meter")

    def document(self) -> dict[str, Any]:
        """The canonical document."""
        meters = [
            {
                "meter": price.meter,
                "unit": price.unit,
                "unit_size": price.unit_size,
                "free": price.free,
                "tiers": [
                    {"up_to": tier.up_to, "unit_price": price_text(tier.unit_price_pico)}
                    for tier in price.tiers
                ],
                **({} if self.format == 1 else {"model": price.model.value}),
            }
            for price in self.meters
        ]
        added: dict[str, Any] = {
            "fees": [{"fee": fee.fee, "month": micro_text(fee.month_micro)} for fee in self.fees],
            "minimum_month": micro_text(self.minimum_month_micro),
        }
        return {
            "format": self.format,
            "name": self.name,
            "version": self.version,
            "currency": self.currency,
            "minor_digits": self.minor_digits,
            "meters": meters,
            **({} if self.format == 1 else added),
        }

    @property
    def sha256(self) -> str:
        """Hash of the canonical form, hex."""
        canonical = json.dumps(self.document(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @classmethod
    def read(cls, document: object) -> Self:
        """The book of a document. Raises `InvalidRequest` naming the field that is wrong."""
        fields = mapping(document, "price book")
        book_format = fields.get("format")
        if type(book_format) is not int or book_format not in FORMATS:
            raise InvalidRequest(f"price book: format {book_format!r}, 1 or 2 required")
        meters = fields.get("meters")
        if not isinstance(meters, list) or not 0 < len(meters) <= METERS_MAX:
            raise InvalidRequest(f"price book: meters must be a list of 1 to {METERS_MAX}")
        prices = tuple(
            _meter_price(entry, f"meters[{index}]", book_format) for index, entry in enumerate(meters)
        )
        names = [price.meter for price in prices]
        if len(names) != len(set(names)):
            raise InvalidRequest("price book: a meter stands in it twice")
        measured = sorted(MEASURED.intersection(names))
        if book_format == 1 and measured:
            raise InvalidRequest(f"price book: {measured[0]} has a price in format 2, this book says 1")
        return cls(
            name=text(fields, "name", _NAME, "price book"),
            version=whole(fields, "version", 1, 10**9, "price book"),
            currency=text(fields, "currency", _CURRENCY, "price book"),
            minor_digits=whole(fields, "minor_digits", 0, 6, "price book"),
            meters=prices,
            format=book_format,
            **_monthly(fields, book_format),
        )


def line_amount_micro(price: MeterPrice, quantity: int, minor_digits: int) -> int:
    """What `quantity` items cost, rounded half up to minor units, in micro-units. Raises `InvariantBroken` below 0."""
    invariant(0 <= quantity <= QUANTITY_MAX, "a quantity is a whole number from 0 on")
    if price.model is Model.PACKAGE:
        blocks = -(-max(0, quantity - price.free) // price.unit_size)
        return rounded_micro(blocks * price.tiers[0].unit_price_pico, PICO, minor_digits)
    numerator = sum(part.quantity * part.unit_price_pico for part in price.parts(quantity))
    return rounded_micro(numerator, price.unit_size * PICO, minor_digits)


def rounded_micro(numerator: int, denominator: int, minor_digits: int) -> int:
    """numerator / denominator units of the currency, not negative: rounded half up to minor units, in micro-units."""
    minor = (2 * numerator * 10**minor_digits + denominator) // (2 * denominator)
    return int(minor * (MICRO // 10**minor_digits))


def rate(book: PriceBook, quantities: Mapping[str, int]) -> Rated:
    """A line for each meter of the book; a meter without usage costs what 0 items cost.

    Meters that the book does not price are not billed.
    """
    lines = tuple(
        RatedLine(
            meter=price.meter,
            unit=price.unit,
            unit_size=price.unit_size,
            quantity=quantities.get(price.meter, 0),
            parts=tuple(price.parts(quantities.get(price.meter, 0))),
            amount_micro=line_amount_micro(price, quantities.get(price.meter, 0), book.minor_digits),
        )
        for price in book.meters
    )
    return Rated(lines=lines, total_micro=sum(line.amount_micro for line in lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditedLine:
    """What a meter's line is lowered by."""

    meter: str
    unit: str
    unit_size: int
    quantity: int
    amount_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credited:
    """Lines in the order of the price book, those of meters that lost nothing left out, and their sum."""

    lines: tuple[CreditedLine, ...]
    total_micro: int


def credit(book: PriceBook, billed: Mapping[str, int], lost: Mapping[str, int]) -> Credited:
    """What an invoice over `billed` costs less when `lost` of it never became part of the log.

    By meter the difference of two rated quantities, so that an invoice and all its credits add up to what the rest
    costs by the same prices, whatever tiers it lay in. Raises `InvariantBroken` when more is lost than was billed.
    """
    lines = []
    for price in book.meters:
        quantity, whole = lost.get(price.meter, 0), billed.get(price.meter, 0)
        invariant(0 <= quantity <= whole, "no more is credited than was billed")
        if quantity:
            amount = line_amount_micro(price, whole, book.minor_digits) - line_amount_micro(
                price, whole - quantity, book.minor_digits
            )
            lines.append(
                CreditedLine(
                    meter=price.meter,
                    unit=price.unit,
                    unit_size=price.unit_size,
                    quantity=quantity,
                    amount_micro=amount,
                )
            )
    return Credited(lines=tuple(lines), total_micro=sum(line.amount_micro for line in lines))


def credit_line_id(credit_note: str, meter: str, price_book_sha256: str) -> str:
    """The id of a credit note's line: `cl_` and 32 hex digits."""
    key = f"penstock credit line 1\n{credit_note}\n{meter}\n{price_book_sha256}\n"
    return "cl_" + hashlib.sha256(key.encode()).hexdigest()[:32]


def line_id(
    invoice: str, meter: str, price_book_sha256: str, period_start_ms: int, period_end_ms: int
) -> str:
    """The id of a line, the same however often it is rated: `il_` and 32 hex digits."""
    key = f"penstock line 1\n{invoice}\n{meter}\n{price_book_sha256}\n{period_start_ms}\n{period_end_ms}\n"
    return "il_" + hashlib.sha256(key.encode()).hexdigest()[:32]


def price_text(unit_price_pico: int) -> str:
    """A unit price with its 12 places."""
    return f"{unit_price_pico // PICO}.{unit_price_pico % PICO:012d}"


def micro_text(amount_micro: int) -> str:
    """An amount of a month with its 6 places."""
    return f"{amount_micro // MICRO}.{amount_micro % MICRO:06d}"


def amount_text(amount_micro: int, minor_digits: int = 2) -> str:
    """An amount with the places of the currency: `1234.50`. It must be whole minor units."""
    scale = MICRO // 10**minor_digits
    invariant(amount_micro % scale == 0, "an amount is whole minor units")
    minor = abs(amount_micro) // scale
    sign = "-" if amount_micro < 0 else ""
    if minor_digits == 0:
        return f"{sign}{minor}"
    return f"{sign}{minor // 10**minor_digits}.{minor % 10**minor_digits:0{minor_digits}d}"


def grouped_amount(amount_micro: int, minor_digits: int = CENT_DIGITS) -> str:
    """An amount as people read it everywhere: commas between thousands, cents always, what is finer only as far as it
    says something: `1,234.50`, `0.0153`.

    `minor_digits` are those of the currency or of its price book; any amount may be shown.
    """
    whole, part = divmod(abs(amount_micro), MICRO)
    places = f"{part:06d}".rstrip("0").ljust(min(minor_digits, CENT_DIGITS), "0")
    return f"{'-' if amount_micro < 0 else ''}{whole:,}{'.' + places if places else ''}"


def change_text(kind: str, change_micro: int) -> str:
    """What a credit note's change of a charge means to people. The change is what the charge is higher by."""
    higher, lower = _CHANGES.get(kind, ("higher", "lower"))
    return higher if change_micro > 0 else lower


_CHANGES = {
    "discount": ("a smaller discount", "a larger discount"),
    "minimum": ("more is due for the minimum", "less is due for the minimum"),
    "credit": ("goes back to the grant", "taken from the grant"),
    "tax": ("more tax", "less tax"),
}


def unit_text(meter: str, unit: str, unit_size: int) -> str:
    """What a unit price is for, so that it is not taken for another: `message`, `GB of 1,000,000,000 bytes`."""
    return unit if unit_size == 1 else f"{unit} of {unit_size:,} {items_of(meter)}"


def _monthly(fields: Mapping[str, Any], book_format: int) -> dict[str, Any]:
    """Fees and minimum of a book of format 2."""
    unknown = sorted({"fees", "minimum_month"} & fields.keys())
    if book_format == 1:
        if unknown:
            raise InvalidRequest(f"price book: {unknown[0]} is of format 2, this book says 1")
        return {}
    fees = fields.get("fees", [])
    if not isinstance(fees, list) or len(fees) > FEES_MAX:
        raise InvalidRequest(f"price book: fees must be a list of at most {FEES_MAX}")
    read = []
    for index, entry in enumerate(fees):
        where = f"fees[{index}]"
        fee = mapping(entry, where)
        if set(fee) != {"fee", "month"}:
            raise InvalidRequest(
                f"price book: {where} has {', '.join(sorted(map(str, fee))) or 'nothing'}; "
                '{"fee": NAME, "month": AMOUNT} required'
            )
        month = decimal(fee.get("month"), f"{where}.month", MONTH_PLACES, MONTH_AMOUNT_MAX)
        read.append(Fee(fee=text(fee, "fee", _NAME, where), month_micro=month))
    if len({fee.fee for fee in read}) != len(read):
        raise InvalidRequest("price book: a fee stands in it twice")
    minimum = decimal(fields.get("minimum_month", "0"), "minimum_month", MONTH_PLACES, MONTH_AMOUNT_MAX)
    return {"fees": tuple(read), "minimum_month_micro": minimum}


def _model(fields: Mapping[str, Any], where: str, book_format: int) -> Model:
    if book_format == 1:
        if "model" in fields:
            raise InvalidRequest(f"price book: {where}.model is of format 2, this book says 1")
        return Model.GRADUATED
    value = fields.get("model")
    if not isinstance(value, str) or value not in [one.value for one in Model]:
        raise InvalidRequest(f"price book: {where}.model {value!r} is none of {', '.join(Model)}")
    return Model(value)


def _meter_price(entry: object, where: str, book_format: int) -> MeterPrice:
    fields = mapping(entry, where)
    model = _model(fields, where, book_format)
    tiers = fields.get("tiers")
    if not isinstance(tiers, list) or not 0 < len(tiers) <= TIERS_MAX:
        raise InvalidRequest(f"price book: {where}.tiers must be a list of 1 to {TIERS_MAX}")
    read = tuple(_tier(tier, f"{where}.tiers[{index}]") for index, tier in enumerate(tiers))
    if read[-1].up_to is not None:
        raise InvalidRequest(f"price book: {where}: the last tier must have no end (up_to null)")
    if len(read) > 1 and model in ONE_TIER:
        raise InvalidRequest(f"price book: {where}: the model {model} has one tier")
    before = 0
    for index, tier in enumerate(read[:-1]):
        if tier.up_to is None or tier.up_to <= before:
            raise InvalidRequest(f"price book: {where}.tiers[{index}].up_to must be a number above {before}")
        before = tier.up_to
    return MeterPrice(
        meter=text(fields, "meter", _NAME, where),
        unit=text(fields, "unit", re.compile(r"[A-Za-z]{1,20}\Z"), where),
        unit_size=whole(fields, "unit_size", 1, 10**15, where),
        free=whole(fields, "free", 0, QUANTITY_MAX, where),
        tiers=read,
        model=model,
    )


def _tier(entry: object, where: str) -> Tier:
    fields = mapping(entry, where)
    up_to = fields.get("up_to")
    return Tier(
        up_to=None if up_to is None else whole(fields, "up_to", 1, QUANTITY_MAX, where),
        unit_price_pico=_price(fields.get("unit_price"), where),
    )


def _price(value: object, where: str) -> int:
    """Picounits of a price."""
    return decimal(value, f"{where}.unit_price", PRICE_PLACES, UNIT_PRICE_MAX)
