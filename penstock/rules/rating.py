"""Rating: what usage costs by a price book, in integers, rounded once a line.

A price book is an immutable JSON document; its SHA-256 over the canonical form (compact, keys sorted, unit prices
with 12 places) stands in each invoice line:

    {"format": 1, "name": "standard", "version": 1, "currency": "USD", "minor_digits": 2,
     "meters": [{"meter": "messages_in", "unit": "message", "unit_size": 1, "free": 1000,
                 "tiers": [{"up_to": 20000, "unit_price": "0.002000000000"},
                           {"up_to": null, "unit_price": "0.001000000000"}]}]}

Prices are graduated: each tier's price holds for the part of the quantity between the bound of the tier before and its
own `up_to`; bounds and the free allowance count from the first item of the period, so the free part lies in the first
tiers. A unit is `unit_size` items of the meter (1,000,000 bytes are one MB here). The exact cost of a line is a
fraction; it is rounded half up to minor units once, and kept in micro-units of the currency. The total is the
sum of the lines.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import invariant

FORMAT = 1
PRICE_PLACES = 12
PICO = 10**PRICE_PLACES
"""Unit prices are whole multiples of a picounit of the currency."""
MICRO = 10**6
QUANTITY_MAX = 10**38 - 1
"""decimal(38,0), as in the data sets."""
UNIT_PRICE_MAX = 1_000_000
CENT_DIGITS = 2
"""Places that an amount has at least, where its currency has them."""
PRICE_TEXT_MAX = 40
"""Characters of a price: more than the largest price and 12 places need."""
TIERS_MAX = 100
METERS_MAX = 100
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}\Z")
_PRICE = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_CURRENCY = re.compile(r"[A-Z]{3}\Z")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterPrice:
    """What one meter costs. `free` items of a period cost nothing; a price is that of `unit_size` items."""

    meter: str
    unit: str
    unit_size: int
    free: int
    tiers: tuple[Tier, ...]

    def __post_init__(self) -> None:
        invariant(
            self.unit_size >= 1 and 0 <= self.free <= QUANTITY_MAX, "units and allowances are whole numbers"
        )
        invariant(0 < len(self.tiers) <= TIERS_MAX, "a meter has one tier or more")
        invariant(self.tiers[-1].up_to is None, "the last tier has no end")
        ends = [tier.up_to for tier in self.tiers[:-1]]
        invariant(None not in ends, "only the last tier has no end")
        invariant(all(a < b for a, b in pairwise(end or 0 for end in ends)), "tiers are in order")

    def parts(self, quantity: int) -> Iterator["TierPart"]:
        """The quantity divided over the tiers, the free part first; parts of 0 are left out."""
        begin = min(self.free, quantity)
        if begin:
            yield TierPart(quantity=begin, unit_price_pico=0)
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
class PriceBook:
    """One version of the prices. Two books with the same hash are the same."""

    name: str
    version: int
    currency: str
    minor_digits: int
    meters: tuple[MeterPrice, ...]

    def __post_init__(self) -> None:
        invariant(0 <= self.minor_digits <= 6, "minor units are 1 to a millionth of the currency")
        invariant(self.version >= 1, "versions count from 1")
        names = [price.meter for price in self.meters]
        invariant(0 < len(names) == len(set(names)), "a price book has one price a meter")

    def document(self) -> dict[str, Any]:
        """The canonical document."""
        return {
            "format": FORMAT,
            "name": self.name,
            "version": self.version,
            "currency": self.currency,
            "minor_digits": self.minor_digits,
            "meters": [
                {
                    "meter": price.meter,
                    "unit": price.unit,
                    "unit_size": price.unit_size,
                    "free": price.free,
                    "tiers": [
                        {"up_to": tier.up_to, "unit_price": price_text(tier.unit_price_pico)}
                        for tier in price.tiers
                    ],
                }
                for price in self.meters
            ],
        }

    @property
    def sha256(self) -> str:
        """Hash of the canonical form, hex."""
        canonical = json.dumps(self.document(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @classmethod
    def read(cls, document: object) -> Self:
        """The book of a document. Raises `InvalidRequest` naming the field that is wrong."""
        fields = _mapping(document, "price book")
        if type(fields.get("format")) is not int or fields["format"] != FORMAT:
            raise InvalidRequest(f"price book: format {fields.get('format')!r}, {FORMAT} required")
        meters = fields.get("meters")
        if not isinstance(meters, list) or not 0 < len(meters) <= METERS_MAX:
            raise InvalidRequest(f"price book: meters must be a list of 1 to {METERS_MAX}")
        prices = tuple(_meter_price(entry, f"meters[{index}]") for index, entry in enumerate(meters))
        names = [price.meter for price in prices]
        if len(names) != len(set(names)):
            raise InvalidRequest("price book: a meter stands in it twice")
        return cls(
            name=_text(fields, "name", _NAME, "price book"),
            version=_whole(fields, "version", 1, 10**9, "price book"),
            currency=_text(fields, "currency", _CURRENCY, "price book"),
            minor_digits=_whole(fields, "minor_digits", 0, 6, "price book"),
            meters=prices,
        )


def line_amount_micro(price: MeterPrice, quantity: int, minor_digits: int) -> int:
    """What `quantity` items cost, rounded half up to minor units, in micro-units. Raises `InvariantBroken` below 0."""
    invariant(0 <= quantity <= QUANTITY_MAX, "a quantity is a whole number from 0 on")
    numerator = sum(part.quantity * part.unit_price_pico for part in price.parts(quantity))
    denominator = price.unit_size * PICO
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


def amount_text(amount_micro: int, minor_digits: int = 2) -> str:
    """An amount with the places of the currency: `1234.50`. It must be whole minor units."""
    scale = MICRO // 10**minor_digits
    invariant(amount_micro % scale == 0, "an amount is whole minor units")
    minor = abs(amount_micro) // scale
    sign = "-" if amount_micro < 0 else ""
    if minor_digits == 0:
        return f"{sign}{minor}"
    return f"{sign}{minor // 10**minor_digits}.{minor % 10**minor_digits:0{minor_digits}d}"


def shown_amount(amount_micro: int, minor_digits: int) -> str:
    """An amount as people read it: cents always, what is finer only as far as it says something: `1234.50`, `0.0153`.

    `minor_digits` are those of the currency or of its price book; any amount may be shown.
    """
    whole, part = divmod(abs(amount_micro), MICRO)
    places = f"{part:06d}".rstrip("0").ljust(min(minor_digits, CENT_DIGITS), "0")
    return f"{'-' if amount_micro < 0 else ''}{whole}{'.' + places if places else ''}"


def unit_text(meter: str, unit: str, unit_size: int) -> str:
    """What a unit price is for, so that it is not taken for another: `message`, `GB of 1,000,000,000 bytes`."""
    items = "bytes" if meter.startswith("bytes") else "messages"
    return unit if unit_size == 1 else f"{unit} of {unit_size:,} {items}"


def _meter_price(entry: object, where: str) -> MeterPrice:
    fields = _mapping(entry, where)
    tiers = fields.get("tiers")
    if not isinstance(tiers, list) or not 0 < len(tiers) <= TIERS_MAX:
        raise InvalidRequest(f"price book: {where}.tiers must be a list of 1 to {TIERS_MAX}")
    read = tuple(_tier(tier, f"{where}.tiers[{index}]") for index, tier in enumerate(tiers))
    if read[-1].up_to is not None:
        raise InvalidRequest(f"price book: {where}: the last tier must have no end (up_to null)")
    before = 0
    for index, tier in enumerate(read[:-1]):
        if tier.up_to is None or tier.up_to <= before:
            raise InvalidRequest(f"price book: {where}.tiers[{index}].up_to must be a number above {before}")
        before = tier.up_to
    return MeterPrice(
        meter=_text(fields, "meter", _NAME, where),
        unit=_text(fields, "unit", re.compile(r"[A-Za-z]{1,20}\Z"), where),
        unit_size=_whole(fields, "unit_size", 1, 10**15, where),
        free=_whole(fields, "free", 0, QUANTITY_MAX, where),
        tiers=read,
    )


def _tier(entry: object, where: str) -> Tier:
    fields = _mapping(entry, where)
    up_to = fields.get("up_to")
    return Tier(
        up_to=None if up_to is None else _whole(fields, "up_to", 1, QUANTITY_MAX, where),
        unit_price_pico=_price(fields.get("unit_price"), where),
    )


def _price(value: object, where: str) -> int:
    """Picounits of a price as decimal text; a number of JSON would be a float."""
    if not isinstance(value, str) or len(value) > PRICE_TEXT_MAX:
        raise InvalidRequest(
            f'price book: {where}.unit_price must be decimal text such as "0.002", not {value!r}'
        )
    match = _PRICE.fullmatch(value)
    if match is None:
        raise InvalidRequest(f"price book: {where}.unit_price {value!r} is no decimal number")
    whole, places = match[1], (match[2] or "").rstrip("0")
    if len(places) > PRICE_PLACES:
        raise InvalidRequest(f"price book: {where}.unit_price {value!r} has more than {PRICE_PLACES} places")
    pico: int = int(whole) * PICO + int(places.ljust(PRICE_PLACES, "0"))
    if pico > UNIT_PRICE_MAX * PICO:
        raise InvalidRequest(
            f"price book: {where}.unit_price {value!r} is not between 0 and {UNIT_PRICE_MAX}"
        )
    return pico


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"price book: {where} must be an object, not {type(value).__name__}")
    return value


def _whole(fields: Mapping[str, Any], name: str, least: int, most: int, where: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidRequest(
            f"price book: {where}.{name} must be a whole number from {least} to {most}, not {value!r}"
        )
    return value


def _text(fields: Mapping[str, Any], name: str, pattern: re.Pattern[str], where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not pattern.match(value):
        raise InvalidRequest(f"price book: {where}.{name} {value!r} does not match {pattern.pattern}")
    return value
