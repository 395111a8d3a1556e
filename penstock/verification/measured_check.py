"""What an invoice bills by meters that count no offsets: each row against the periods, the clock and the log. Pure.

These are not counted again: a log does not say when its oldest segments went. So each row may be at most what is
possible, and what is left of it is the service's word, which the report says of each line.

    partition_minutes         a topic's day has at most 1,440 minutes for each partition of the cut
    retained_byte_minutes     at most 1,440 times the bytes that the topic's log ever had up to that day's end
    replicated_byte_minutes   at most `REPLICAS_MAX` times that
    requests, deliveries by zone, time of connections and of delays: no bound
"""

from collections import Counter, defaultdict
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
    declared; `earlier`: the invoices before, asked for only when a row is of a day before the period, or of a topic
    that the period's cut no longer has.
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
    known = Counter(reading.topic_id for reading in invoice.cut.readings)
    parts: dict[str, list[BilledPartition]] = defaultdict(list)
    for part in invoice.partitions:
        parts[part.topic_id].append(part)
    gone: dict[str, InvoiceDocument] = {}
    if asks_for_earlier(invoice):
        for document in earlier():
            gone |= dict.fromkeys((reading.topic_id for reading in document.cut.readings), document)
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
    for row in rows:
        if row.meter not in meters:
            continue
        last = None if row.topic_id in known else gone.get(row.topic_id)
        partitions, stored = (
            (known[row.topic_id], _ever_stored(parts[row.topic_id], row.day, before, lost))
            if last is None
            else _at_the_end(last, row.topic_id)
        )
        most = {
            PARTITIONS: partitions * DAY_MINUTES,
            RETAINED: None if stored is None else stored * DAY_MINUTES,
            REPLICATED: None if stored is None else stored * DAY_MINUTES * REPLICAS_MAX,
        }.get(row.meter)
        if most is not None and billed[_key(row)] > most:
            yield Problem(
                kind=Kind.QUANTITY_DIFFERS,
                where=f"{row.topic or 'no topic'} {row.day} {row.meter}",
                message=f"{billed[_key(row)]} are billed, at most {most} are possible",
            )
    for line in invoice.lines:
        if line.meter in meters and line.amount_micro:
            rule = METERS[line.meter].rule
            message = (
                "each topic's day is at most what its log and the clock allow; the rest is the service's word"
                if rule is Rule.BOUNDED
                else "adds up; what was counted is the service's word"
            )
            yield Problem(kind=Kind.UNPROVEN, where=f"line {line.meter}", message=f"{rule.value}: {message}")


def asks_for_earlier(invoice: InvoiceDocument) -> bool:
    """Whether the invoices before have a say: a row is of a day before the period, or of a topic that is gone."""
    first = _day(invoice.period_start_ms)
    known = {reading.topic_id for reading in invoice.cut.readings}
    rows = () if invoice.measured is UNSET else invoice.measured
    return any(row.day < first or (row.topic_id and row.topic_id not in known) for row in rows)


def _ever_stored(
    parts: Sequence[BilledPartition],
    day: date,
    before: Mapping[TopicPartition, CutEnd] | None,
    lost: Collection[TopicPartition],
) -> int | None:
    """How many bytes a topic's log ever had up to that day's end; None: not known."""
    if before is None or any(where_of(part) in lost for part in parts):
        return None
    return sum(_stored(part, before.get(where_of(part)), day) for part in parts)


def _at_the_end(document: InvoiceDocument, topic_id: str) -> tuple[int, int]:
    """Of a topic that was deleted: what the last cut that had it says."""
    readings = [reading for reading in document.cut.readings if reading.topic_id == topic_id]
    return len(readings), sum(reading.bytes for reading in readings)


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
