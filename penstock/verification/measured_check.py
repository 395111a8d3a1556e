"""What an invoice bills by meters that count no offsets: each row against the periods, the clock and the log. Pure.

These are not counted again: a log does not say when its oldest segments went. So a topic's day may be at most what is
possible, and what is left of it is the service's word, which the report says of each line. A topic is its id, whatever
names stand beside it, and its days lie between the cuts that the brokers had before it was made and after it was gone.

    partition_minutes         a topic's day has at most 1,440 minutes for each partition of the cut
    retained_byte_minutes     at most 1,440 times the bytes that the topic's log ever had up to that day's end
    replicated_byte_minutes   at most `REPLICAS_MAX` times that
    requests, deliveries by zone, time of connections and of delays: no bound
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from msgspec import UNSET

from penstock.contract.documents import BilledPartition, InvoiceDocument, MeasuredDay
from penstock.contract.ids import TopicPartition
from penstock.records.cut import CutEnd
from penstock.rules.meters import MEASURED, METERS, PARTITIONS, REPLICATED, RETAINED, Rule
from penstock.rules.rating import PriceBook
from penstock.rules.timestamps import moment_of
from penstock.verification.claims import where_of
from penstock.verification.commitments import Commitments
from penstock.verification.findings import Kind, Problem

DAY_MINUTES = 24 * 60
REPLICAS_MAX = 32
"""More than any partition has."""
GONE_LATE_MS = 3_600_000
"""Usage of a deleted topic may be counted so long after the cut that has the last of it."""
Key = tuple[str, str, date]
"""Meter, topic id, day. Names are labels: a topic that was restored under another one has two of a day."""


def check_measured(
    invoice: InvoiceDocument,
    book: PriceBook,
    before: Mapping[TopicPartition, CutEnd] | None,
    commitments: Commitments,
    earlier: Callable[[], Sequence[InvoiceDocument]],
) -> Iterator[Problem]:
    """`before`: the readings of the cut before, None when they are not known; `earlier`: the invoices before in their
    order, asked for only when a row is of a day before the period, or of a topic that the period's cut no longer has.
    """
    meters = MEASURED & {price.meter for price in book.meters}
    rows = () if invoice.measured is UNSET else invoice.measured
    if (invoice.measured is UNSET) == bool(meters):
        yield _line(
            invoice.id, f"its prices have {', '.join(sorted(meters)) or 'no such meter'}, its rows differ"
        )
        return
    order = [(row.meter, row.topic, row.topic_id, row.day) for row in rows]
    if order != sorted(set(order)):
        yield _line(invoice.id, "its rows by topic and day are not in order, once each")
    documents = [*(earlier() if asks_for_earlier(invoice) else ()), invoice]
    periods: dict[str, list[tuple[date, date]]] = defaultdict(list)
    billed: dict[Key, int] = defaultdict(int)
    for document in documents[:-1]:
        for line in document.lines:
            periods[line.meter].append((_day(document.period_start_ms), _day(document.period_end_ms)))
        for row in () if document.measured is UNSET else document.measured:
            billed[_key(row)] += row.quantity
    first, end = _day(invoice.period_start_ms), _day(invoice.period_end_ms)
    for row in rows:
        billed[_key(row)] += row.quantity
    lives = _lives(documents, commitments)
    bounds = _Bounds(invoice, before, {loss.where for loss in commitments.losses})
    for row in rows:
        where = f"{row.topic or 'no topic'} {row.day} {row.meter}"
        if row.meter not in meters:
            yield _line(where, "has no price, and stands on the invoice")
            continue
        if row.topic and not row.topic_id:
            yield _line(where, "names a topic without its id")
        if row.topic_id and not METERS[row.meter].by_topic:
            yield _line(where, "is of a topic, and the meter is of none")
        if not first <= row.day < end and not any(
            start <= row.day < until for start, until in periods[row.meter]
        ):
            yield Problem(
                kind=Kind.DAY_DIFFERS,
                where=where,
                message="ends in no period in which the meter had a price, this one or one before",
            )
        life = lives.get(row.topic_id)
        if life is not None and not life.first <= row.day <= life.last:
            yield Problem(
                kind=Kind.DAY_DIFFERS,
                where=where,
                message=f"the topic was there from {life.first} to {life.last} at most, by the brokers' cuts",
            )
        most = bounds.of(row, None if life is None else life.document)
        if most is not None and billed[_key(row)] > most:
            yield Problem(
                kind=Kind.QUANTITY_DIFFERS,
                where=where,
                message=f"{billed[_key(row)]} are billed of the topic's day, at most {most} are possible",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """On which days a topic can have been there, and the newest document whose cut has it."""

    first: date
    last: date
    document: InvoiceDocument


def _lives(documents: Sequence[InvoiceDocument], commitments: Commitments) -> dict[str, _Life]:
    """By topic id. `documents`: in their order, the verified one last. A topic was made after the last cut without it
    had ended, and is gone since the first one that it is missing in: before that one was kept.
    """
    kept_ms = {cut.cut_id: cut.kept_ms for cut in commitments.cuts}
    lives: dict[str, _Life] = {}
    for document in documents:
        # The newest cut's topics may go on: no day behind its period is billed by it.
        is_newest = document is documents[-1]
        gone_ms = kept_ms.get(document.cut.id, document.issued_at_ms) + GONE_LATE_MS
        last = date.max if is_newest else _day(gone_ms)
        for topic_id in {reading.topic_id for reading in document.cut.readings}:
            life = lives.get(topic_id)
            first = _day(document.period_start_ms) if life is None else life.first
            lives[topic_id] = _Life(first=first, last=last, document=document)
    return lives


class _Bounds:
    """How much a topic's day can hold at most."""

    def __init__(
        self,
        invoice: InvoiceDocument,
        before: Mapping[TopicPartition, CutEnd] | None,
        lost: Collection[TopicPartition],
    ) -> None:
        self._invoice = invoice
        self._before = before
        self._lost = lost
        self._partitions = Counter(reading.topic_id for reading in invoice.cut.readings)
        self._parts: dict[str, list[BilledPartition]] = defaultdict(list)
        for part in invoice.partitions:
            self._parts[part.topic_id].append(part)

    def of(self, row: MeasuredDay, newest: InvoiceDocument | None) -> int | None:
        """The bound of a row's meter, topic and day; None: there is none. `newest`: the newest document whose cut has
        the topic.
        """
        if METERS[row.meter].rule is not Rule.BOUNDED:
            return None
        if newest is None or newest is self._invoice:
            partitions, stored = self._partitions[row.topic_id], self._ever_stored(row)
        else:
            partitions, stored = _at_the_end(newest, row.topic_id)
        if row.meter == PARTITIONS:
            return partitions * DAY_MINUTES
        if stored is None:
            return None
        return stored * DAY_MINUTES * {RETAINED: 1, REPLICATED: REPLICAS_MAX}[row.meter]

    def _ever_stored(self, row: MeasuredDay) -> int | None:
        """How many bytes the topic's log ever had up to that day's end; None: not known."""
        parts = self._parts[row.topic_id]
        if self._before is None or any(where_of(part) in self._lost for part in parts):
            return None
        return sum(_stored(part, self._before.get(where_of(part)), row.day) for part in parts)


def asks_for_earlier(invoice: InvoiceDocument) -> bool:
    """Whether the invoices before have a say: a row is of a day before the period, or of a topic that is gone."""
    first = _day(invoice.period_start_ms)
    known = {reading.topic_id for reading in invoice.cut.readings}
    rows = () if invoice.measured is UNSET else invoice.measured
    return any(row.day < first or (row.topic_id and row.topic_id not in known) for row in rows)


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
    return row.meter, row.topic_id, row.day


def _day(time_ms: int) -> date:
    return moment_of(time_ms).date()


def _line(where: str, message: str) -> Problem:
    return Problem(kind=Kind.LINE_DIFFERS, where=where, message=message)
