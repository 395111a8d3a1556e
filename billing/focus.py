"""Issued invoices and credit notes as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification. Pure.

A line of an invoice becomes a row for each topic, day and price: days in their order fill the tiers of the price book
from the first on, so that each row's quantity times its unit price is its list cost. What a line costs after its one
rounding is divided over its rows, so that BilledCost adds up to the document's total to the micro-unit. Fees and the
minimum are purchases, discounts and credit are credits, and a credit note's rows are corrections.

Columns of Penstock's own begin with `x_`. An empty cell is null. Times are UTC, periods half open.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction

from msgspec import UNSET

from penstock.contract import documents
from penstock.contract.invariant import invariant
from penstock.rules import meters
from penstock.rules.csv_lines import csv_line
from penstock.rules.rating import MICRO, PICO, Model, PriceBook

VERSION = "1.2"
COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription",
    "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost", "ListUnitPrice",
    "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ResourceId",
    "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter",
    "SkuPriceDetails", "SkuPriceId", "x_CorrectedInvoiceId", "x_CutId", "x_DocumentHash", "x_InvoiceDetailId",
    "x_InvoiceNumber", "x_PriceBookHash",
)  # fmt: skip
"""In the order of the file."""
_DECIMALS = frozenset(
    position
    for position, column in enumerate(COLUMNS)
    if column.endswith(("Cost", "Quantity", "UnitPrice")) or column == "x_InvoiceNumber"
)
PLACES = 18
"""Of a quantity or a cost that has no end."""
COUNTED = {"messages_in": "messages", "bytes_in": "bytes"}
"""Meters that a document divides by topic and day, with the field that counts them."""
UNITS = {
    "messages_in": "Messages",
    "bytes_in": "B",
    meters.RETAINED: "B-Minutes",
    meters.REPLICATED: "B-Minutes",
    meters.PARTITIONS: "Minutes",
    meters.REQUESTS: "Requests",
    meters.MESSAGES_OWN_ZONE: "Messages",
    meters.MESSAGES_OTHER_ZONE: "Messages",
    meters.BYTES_OWN_ZONE: "B",
    meters.BYTES_OTHER_ZONE: "B",
    meters.CONNECTIONS: "Seconds",
    meters.THROTTLED: "Seconds",
}
"""Of what was consumed, in FOCUS's words."""
MILLISECONDS = (meters.CONNECTIONS, meters.THROTTLED)
"""FOCUS knows seconds only."""

Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """Who is billed and who bills."""

    tenant: str
    """Its id."""
    name: str
    issuer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """A part of a line in one topic on one day. Without a topic: what no topic has alone."""

    quantity: int
    topic: str = ""
    topic_id: str = ""
    day: date | None = None
    consumed: bool = True
    """False: the rest of a package that was begun."""


def as_csv(rows: Iterable[Row]) -> Iterator[str]:
    """The header, then a line each. A text that a spreadsheet would take as a formula begins with an apostrophe."""
    yield csv_line(COLUMNS)
    for row in rows:
        yield csv_line([row.get(column, "") for column in COLUMNS], numbers=_DECIMALS)


def invoice_rows(document: documents.InvoiceDocument, book: PriceBook, parties: Parties) -> Iterator[Row]:
    """An invoice's rows; their BilledCost is its total. `book` is the one that it was rated with."""
    invariant(book.sha256 == document.price_book_sha256, "an invoice is read with its own prices")
    period = document.period_start_ms, document.period_end_ms
    common = _common(document, parties, period) | {
        "ChargePeriodStart": _time(period[0]),
        "ChargePeriodEnd": _time(period[1]),
        "x_CutId": document.cut.id,
    }
    models = {price.meter: price.model for price in book.meters}
    listed = Fraction(0)
    for line in document.lines:
        for row, cost in _line_rows(line, models[line.meter], document, common):
            listed += cost
            yield row
    for charge in () if document.charges is UNSET else document.charges:
        if charge.kind in ("fee", "minimum"):
            listed += Fraction(charge.amount_micro, MICRO)
        yield common | _charge_cells(charge, listed, document.price_book_sha256)


def credit_note_rows(
    note: documents.CreditNoteDocument,
    invoice: documents.InvoiceDocument,
    parties: Parties,
    *,
    left_micro: int,
) -> Iterator[Row]:
    """A credit note's rows, corrections of the invoice's period; their BilledCost is its total, negative, and no more
    than `left_micro`, what the credit notes before it have left of the invoice: no more than that is given back.
    """
    issued = datetime.fromtimestamp(note.issued_at_ms / 1_000, UTC)
    common = _common(note, parties, _month(issued)) | {
        "ChargeClass": "Correction",
        "ChargePeriodStart": _time(invoice.period_start_ms),
        "ChargePeriodEnd": _time(invoice.period_end_ms),
        "x_CorrectedInvoiceId": note.invoice.id,
        "x_CutId": note.cut_id,
    }
    if note.granted is not UNSET:
        yield from _granted_rows(note, note.granted.reason, common)
    else:
        yield from _lost_rows(note, common)
    if note.total_micro > left_micro:
        yield common | _costs(note.total_micro - left_micro) | {
            "ChargeCategory": "Adjustment",
            "ChargeFrequency": "One-Time",
            "ChargeDescription": "Lost of what was credited before, and not given back twice",
        }  # fmt: skip


def _lost_rows(note: documents.CreditNoteDocument, common: Row) -> Iterator[Row]:
    """What a declared loss took, at the invoice's prices."""
    for line in note.lines:
        slices = _lost(line, note.ranges)
        costs = _divided(line.amount_micro, [one.quantity for one in slices])
        for one, micro in zip(slices, costs, strict=True):
            cells = _usage_cells(line.meter, line.unit, line.unit_size, -one.quantity)
            described = f"Messages lost after they were billed{_of(one)}, {_meter(line.meter)}"
            yield common | cells | _resource(one) | _costs(-micro) | {
                "ChargeDescription": described,
                "x_InvoiceDetailId": line.id,
                "x_PriceBookHash": note.price_book_sha256,
            }  # fmt: skip
    for change in () if note.charges is UNSET else note.charges:
        named = f" {change.name}" if change.name != change.kind else ""
        yield common | _costs(change.amount_micro) | {
            "ChargeCategory": _CATEGORIES[change.kind],
            "ChargeFrequency": "Recurring" if change.kind in ("fee", "minimum") else "One-Time",
            "ChargeDescription": f"Change of the {change.kind}{named} after a loss",
        }  # fmt: skip


def _granted_rows(note: documents.CreditNoteDocument, reason: str, common: Row) -> Iterator[Row]:
    """What an operator took off: no quantity changes."""
    for line in note.lines:
        yield common | _costs(-line.amount_micro) | {
            "ChargeCategory": "Credit",
            "ChargeFrequency": "One-Time",
            "ChargeDescription": f"Credited of {_meter(line.meter)}: {reason}",
            "x_InvoiceDetailId": line.id,
            "x_PriceBookHash": note.price_book_sha256,
        }  # fmt: skip
    for change in () if note.charges is UNSET else note.charges:
        named = f" {change.name}" if change.name != change.kind else ""
        yield common | _costs(change.amount_micro) | {
            "ChargeCategory": "Tax" if change.kind == "tax" else "Credit",
            "ChargeFrequency": "One-Time",
            "ChargeDescription": f"Credited of the {change.kind}{named}: {reason}",
        }  # fmt: skip
    if note.granted is not UNSET and note.granted.amount_micro:
        yield common | _costs(-note.granted.amount_micro) | {
            "ChargeCategory": "Credit",
            "ChargeFrequency": "One-Time",
            "ChargeDescription": f"Credited: {reason}",
        }  # fmt: skip


def taken_back(row: Row, at: datetime) -> Row:
    """The row's correction, since its invoice was made void then: what was sent before stands, and this takes it back,
    as FOCUS has it for a charge of an earlier period.
    """
    first, after = _month(at)
    return row | {name: _negative(row.get(name, "")) for name in _TAKEN_BACK} | {
        "BillingPeriodStart": _time(first),
        "BillingPeriodEnd": _time(after),
        "ChargeClass": "Correction",
        "ChargeDescription": f"Taken back: {row['ChargeDescription']}",
        "x_CorrectedInvoiceId": row["InvoiceId"],
    }  # fmt: skip


_TAKEN_BACK = (
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "ContractedCost",
    "ConsumedQuantity",
    "PricingQuantity",
)


def _negative(decimal: str) -> str:
    return decimal if decimal in ("", "0") else decimal[1:] if decimal.startswith("-") else f"-{decimal}"


def _month(at: datetime) -> tuple[int, int]:
    """[begin, end) of the UTC month in ms."""
    first = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return _ms(first), _ms((first + timedelta(days=31)).replace(day=1))


_CATEGORIES = {
    "fee": "Purchase",
    "minimum": "Purchase",
    "discount": "Credit",
    "credit": "Credit",
    "tax": "Tax",
}


def _common(
    document: documents.InvoiceDocument | documents.CreditNoteDocument,
    parties: Parties,
    period: tuple[int, int],
) -> Row:
    return {
        "BillingAccountId": parties.tenant,
        "BillingAccountName": parties.name,
        "BillingAccountType": "Tenant",
        "BillingCurrency": document.currency,
        "BillingPeriodStart": _time(period[0]),
        "BillingPeriodEnd": _time(period[1]),
        "InvoiceId": document.id,
        "InvoiceIssuerName": parties.issuer,
        "ProviderName": parties.issuer,
        "PublisherName": parties.issuer,
        "ServiceCategory": "Integration",
        "ServiceName": "Penstock",
        "ServiceSubcategory": "Messaging",
        "x_DocumentHash": documents.document_sha256(document),
        "x_InvoiceNumber": str(document.number),
    }


# -- lines ----------------------------------------------------------------------------------------------


def _line_rows(
    line: documents.BilledLine, model: Model, document: documents.InvoiceDocument, common: Row
) -> Iterator[tuple[Row, Fraction]]:
    """The rows of a line, each with its exact list cost."""
    found = list(_priced(line, _slices(line, document)))
    if model is Model.PACKAGE and line.parts:
        paid, price = line.parts[-1].quantity, line.parts[-1].unit_price
        if _pico(price) and -paid % line.unit_size:
            found.append((_Slice(quantity=-paid % line.unit_size, consumed=False), price))
    weights = [one.quantity * _pico(price) for one, price in found]
    for (one, price), weight, micro in zip(found, weights, _divided(line.amount_micro, weights), strict=True):
        cost = Fraction(weight, line.unit_size * PICO)
        cells = _usage_cells(line.meter, line.unit, line.unit_size, one.quantity)
        if not one.consumed:
            cells["ConsumedQuantity"] = "0"
        unit_price = _text(Fraction(_pico(price), PICO))
        yield common | cells | _resource(one) | _days(one.day, document) | {
            "BilledCost": _micro(micro),
            "EffectiveCost": _micro(micro),
            "ListCost": _text(cost),
            "ContractedCost": _text(cost),
            "ListUnitPrice": unit_price,
            "ContractedUnitPrice": unit_price,
            "PricingCategory": "Standard",
            "ChargeDescription": f"{_meter(line.meter)}{_of(one)}"
            + (", free allowance" if not _pico(price) else "")
            + ("" if one.consumed else ", the rest of a package that was begun"),
            "SkuPriceId": f"{document.price_book_sha256[:16]}/{line.meter}/{unit_price}",
            "SkuPriceDetails": json.dumps({"x_PricingModel": model.value}),
            "x_InvoiceDetailId": line.id,
            "x_PriceBookHash": document.price_book_sha256,
        }, cost  # fmt: skip


def _slices(line: documents.BilledLine, document: documents.InvoiceDocument) -> list[_Slice]:
    """The line by day and topic; what is in no topic comes last."""
    sums: dict[tuple[date, str, str], int] = defaultdict(int)
    field = COUNTED.get(line.meter)
    if field is not None:
        for partition in document.partitions:
            for day in partition.days:
                sums[day.day, partition.topic, partition.topic_id] += getattr(day, field)
    for row in () if document.measured is UNSET else document.measured:
        if row.meter == line.meter:
            sums[row.day, row.topic, row.topic_id] += row.quantity
    slices = [
        _Slice(quantity=quantity, topic=topic, topic_id=topic_id, day=day)
        for (day, topic, topic_id), quantity in sorted(sums.items())
        if quantity
    ]
    rest = line.quantity - sum(one.quantity for one in slices)
    invariant(rest >= 0, "a line counts what its topics count")
    return [*slices, *([_Slice(quantity=rest)] if rest else [])]


def _priced(line: documents.BilledLine, slices: Iterable[_Slice]) -> Iterator[tuple[_Slice, str]]:
    """Slices at one price each: they fill the parts of the line from the first on."""
    parts = [(part.quantity, part.unit_price) for part in reversed(line.parts)]
    for one in slices:
        left = one.quantity
        while left:
            most, price = parts.pop()
            taken = min(left, most)
            yield _Slice(quantity=taken, topic=one.topic, topic_id=one.topic_id, day=one.day), price
            left -= taken
            if most > taken:
                parts.append((most - taken, price))


def _lost(line: documents.CreditedLine, ranges: Iterable[documents.CreditedRange]) -> list[_Slice]:
    sums: dict[tuple[str, str], int] = defaultdict(int)
    field = COUNTED.get(line.meter)
    if field is not None:
        for one in ranges:
            sums[one.topic, one.topic_id] += getattr(one, field)
    slices = [
        _Slice(quantity=n, topic=topic, topic_id=by_id) for (topic, by_id), n in sorted(sums.items()) if n
    ]
    rest = line.quantity - sum(one.quantity for one in slices)
    return [*slices, *([_Slice(quantity=rest)] if rest else [])]


def _divided(amount_micro: int, weights: Sequence[int]) -> list[int]:
    """Whole micro-units in proportion to the weights; they add up to the amount."""
    whole = sum(weights)
    if not whole:
        invariant(amount_micro == 0 or not weights, "what costs something has a price")
        return [0] * len(weights)
    shares, before, seen = [], 0, 0
    for weight in weights:
        seen += weight
        until = amount_micro * seen // whole
        shares.append(until - before)
        before = until
    return shares


# -- charges --------------------------------------------------------------------------------------------


def _charge_cells(charge: documents.BilledCharge, listed: Fraction, prices: str) -> Row:
    category = _CATEGORIES[charge.kind]
    amount = _micro(charge.amount_micro)
    named = f" {charge.name}" if charge.name != charge.kind else ""
    reason = f": {charge.reason}" if charge.reason else ""
    cells = _costs(charge.amount_micro) | {
        "ChargeCategory": category,
        "ChargeFrequency": "Recurring" if category == "Purchase" else "One-Time",
        "ChargeDescription": f"{charge.kind.capitalize()}{named}{reason}",
        "x_InvoiceDetailId": charge.id,
    }
    if category == "Tax":
        # Of what the related charges cost at list prices.
        at_list = _text(listed * charge.basis_points / 10_000)
        return cells | {"ListCost": at_list, "ContractedCost": at_list}
    if category == "Purchase":
        return cells | {
            "ListUnitPrice": amount,
            "ContractedUnitPrice": amount,
            "PricingCategory": "Standard",
            "PricingQuantity": "1",
            "PricingUnit": "Periods",
            "SkuId": charge.kind if charge.kind == "minimum" else f"fee/{charge.name}",
            "SkuMeter": charge.kind.capitalize(),
            "SkuPriceId": f"{prices[:16]}/{charge.kind}/{charge.name}",
            "SkuPriceDetails": json.dumps({"x_MonthlyAmount": _micro(charge.base_micro)}),
            "x_PriceBookHash": prices,
        }
    return cells


# -- cells ----------------------------------------------------------------------------------------------


def _usage_cells(meter: str, unit: str, unit_size: int, quantity: int) -> Row:
    return {
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": _text(Fraction(quantity, meters.SECOND_MS if meter in MILLISECONDS else 1)),
        "ConsumedUnit": UNITS.get(meter, "Units"),
        "PricingQuantity": _text(Fraction(quantity, unit_size)),
        "PricingUnit": _pricing_unit(meter, unit, unit_size),
        "SkuId": meter,
        "SkuMeter": _meter(meter),
    }


def _pricing_unit(meter: str, unit: str, unit_size: int) -> str:
    if meter in MILLISECONDS:
        seconds = _text(Fraction(unit_size, meters.SECOND_MS))
        return "Seconds" if seconds == "1" else f"{seconds} Seconds"
    if UNITS.get(meter) == "B" and unit_size > 1:
        sizes = {1_000**n: name for n, name in enumerate(("B", "KB", "MB", "GB", "TB", "PB"))}
        return sizes.get(unit_size, f"{unit_size} B")
    counted = UNITS.get(meter, unit.capitalize())
    return counted if unit_size == 1 else f"{unit_size} {counted}"


def _resource(one: _Slice) -> Row:
    if not one.topic:
        return {}
    return {"ResourceId": one.topic_id, "ResourceName": one.topic, "ResourceType": "Topic"}


def _days(day: date | None, document: documents.InvoiceDocument) -> Row:
    """A day's part of the period. A batch that was accepted while the period ended may lie behind it."""
    if day is None:
        return {}
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000
    end = begin + 86_400_000
    inside = max(begin, document.period_start_ms), min(end, document.period_end_ms)
    first, last = inside if inside[0] < inside[1] else (begin, end)
    return {"ChargePeriodStart": _time(first), "ChargePeriodEnd": _time(last)}


def _costs(amount_micro: int) -> Row:
    amount = _micro(amount_micro)
    return dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"), amount)


def _of(one: _Slice) -> str:
    return f" of topic {one.topic}" if one.topic else ""


def _meter(meter: str) -> str:
    return meter.replace("_", " ").title()


def _pico(price: str) -> int:
    """Of a price with its 12 places."""
    whole, _, places = price.partition(".")
    return int(whole + places)


def _micro(amount_micro: int) -> str:
    return _text(Fraction(amount_micro, MICRO))


def _text(value: Fraction) -> str:
    """A decimal without an exponent; exact where it ends within 18 places."""
    with localcontext(prec=100):
        found = (Decimal(value.numerator) / value.denominator).quantize(Decimal(1).scaleb(-PLACES))
    text = f"{found:f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0", "-") else text


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000
