"""What an invoice bills by meters that count no offsets: each row against the periods, the clock and the log. Pure.

These are not counted again: a log does not say when its oldest segments went. So each row may be at most what is
possible, and what is left of it is the service's word, which the report says of each line.

    partition_minutes         a topic's day has at most 1,440 minutes for each partition of the cut
    retained_byte_minutes     at most 1,440 times the bytes that the topic's log ever had up to that day's end
    replicated_byte_minutes   at least what one replica kept, and at most `REPLICAS_MAX` times what it can have kept
    requests                  no bound
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date

from msgspec import UNSET

from penstock.contract.documents import BilledPartition, InvoiceDocument, MeasuredDay
from penstock.contract.ids import TopicPartition
from penstock.records.cut import CutEnd
from penstock.rules.meters import MEASURED, METERS, PARTITIONS, REPLICATED, RETAINED, Rule
from penstock.rules.rating import PriceBook
from penstock.rules.timestamps import moment_of
from penstock.verification.claims import where_of
from penstock.verification.findings import Kind, Problem

DAY_MINUTES = 24 * 60
REPLICAS_MAX = 32
"""More than any partition has."""
Key = tuple[str, str, str, date]
"""Meter, topic, topic id, day."""


def check_measured(
    invoice: InvoiceDocument,
    book: PriceBook,
    before: Mapping[TopicPartition, CutEnd] | None,
    lost: Collection[TopicPartition],
    earlier: Callable[[], Sequence[InvoiceDocument]],
) -> Iterator[Problem]:
    """`before`: the readings of the cut before, None when they are not known; `lost`: partitions of which a loss was
    declared; `earlier`: the invoices before, asked for only when a row is of a day before the period.
    """
    meters = MEASURED & {price.meter for price in book.meters}
    rows = () if invoice.measured is UNSET else invoice.measured
    if (invoice.measured is UNSET) == bool(meters):
        yield _line(
            invoice.id, f"its prices have {', '.join(sorted(meters)) or 'no such meter'}, its rows differ"
        )
        return
    keys = [_key(row) for row in rows]
    if keys != sorted(set(keys)):
        yield _line(invoice.id, "its rows by topic and day are not in order, once each")
    first, end = _day(invoice.period_start_ms), _day(invoice.period_end_ms)
    billed: dict[Key, int] = defaultdict(int)
    periods: dict[str, list[tuple[date, date]]] = defaultdict(list)
    if any(row.day < first for row in rows):
        for document in earlier():
            for line in document.lines:
                span = (_day(document.period_start_ms), _day(document.period_end_ms))
                periods[line.meter].append(span)
            for row in () if document.measured is UNSET else document.measured:
                billed[_key(row)] += row.quantity
    for row in rows:
        where = f"{row.topic or 'no topic'} {row.day} {row.meter}"
        if row.meter not in meters:
            yield _line(where, "has no price, and stands on the invoice")
            continue
        due = first <= row.day < end or any(start <= row.day < until for start, until in periods[row.meter])
        if not due:
            yield Problem(
                kind=Kind.DAY_DIFFERS,
                where=where,
                message="ends in no period in which the meter had a price, this one or one before",
            )
        billed[_key(row)] += row.quantity
    yield from _bounds(invoice, billed, [row for row in rows if row.meter in meters], before, lost)
    for line in invoice.lines:
        if line.meter in meters and line.amount_micro:
            rule = METERS[line.meter].rule
            message = (
                "each topic's day is at most what its log and the clock allow; the rest is the service's word"
                if rule is Rule.BOUNDED
                else "adds up; what was counted is the service's word"
            )
            yield Problem(kind=Kind.UNPROVEN, where=f"line {line.meter}", message=f"{rule.value}: {message}")


def _bounds(
    invoice: InvoiceDocument,
    billed: Mapping[Key, int],
    rows: Sequence[MeasuredDay],
    before: Mapping[TopicPartition, CutEnd] | None,
    lost: Collection[TopicPartition],
) -> Iterator[Problem]:
    parts: dict[str, list[BilledPartition]] = defaultdict(list)
    for part in invoice.partitions:
        parts[part.topic_id].append(part)
    partitions: dict[str, int] = defaultdict(int)
    for reading in invoice.cut.readings:
        partitions[reading.topic_id] += 1
    for row in rows:
        key = _key(row)
        possible: int | None = None
        if before is not None and not any(where_of(part) in lost for part in parts[row.topic_id]):
            possible = sum(_stored(part, before.get(where_of(part)), row.day) for part in parts[row.topic_id])
        kept = billed.get((RETAINED, *key[1:]), 0)
        least, most = 0, None
        if row.meter == PARTITIONS:
            most = partitions[row.topic_id] * DAY_MINUTES
        elif row.meter == RETAINED and possible is not None:
            most = possible * DAY_MINUTES
        elif row.meter == REPLICATED:
            least, most = kept, None if possible is None else possible * DAY_MINUTES * REPLICAS_MAX
        if billed[key] < least or (most is not None and billed[key] > most):
            yield Problem(
                kind=Kind.QUANTITY_DIFFERS,
                where=f"{row.topic or 'no topic'} {row.day} {row.meter}",
                message=f"{billed[key]} are billed, {least} to {'any number' if most is None else most} are possible",
            )


def _stored(part: BilledPartition, begin: CutEnd | None, day: date) -> int:
    """The bytes that the log ever had up to the end of that day. A range counts on the day of its last batch, so the
    first one of a later day may have begun on this one.
    """
    size = 0 if begin is None else begin.bytes
    for row in part.days:
        size += row.bytes
        if row.day > day:
            break
    return size


def _key(row: MeasuredDay) -> Key:
    return row.meter, row.topic, row.topic_id, row.day


def _day(time_ms: int) -> date:
    return moment_of(time_ms).date()


def _line(where: str, message: str) -> Problem:
    return Problem(kind=Kind.LINE_DIFFERS, where=where, message=message)
