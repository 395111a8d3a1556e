"""Builds billing's documents from rows: what is billed and credited, exactly as it is stored. Writes nothing."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime

from msgspec import UNSET

from billing import parties
from billing.completeness import METERS, PartitionRef
from billing.credits import CreditedPart
from billing.measured import DueDay
from billing.models import BillingEntry, CreditNote, Cut, CutCoverage, CutReading, CutUsage, Invoice
from penstock.contract import documents, tax_documents
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.records.cut import CutEnd
from penstock.rules import charges, rating
from penstock.rules.timestamps import time_ms

MESSAGES, BYTES = METERS


def cut_ends(readings: Iterable[CutReading]) -> list[CutEnd]:
    """Stored readings with totals, as the cut's hash takes them."""
    ends = []
    for reading in readings:
        if reading.accepted_ms is None or reading.messages is None or reading.bytes is None:
            raise InvariantBroken("a cut with a hash has totals")
        ends.append(
            CutEnd(
                where=TopicPartition(TopicId(bytes.fromhex(reading.topic_id)), reading.partition),
                log_generation=reading.log_generation,
                end_offset=reading.end_offset,
                accepted_ms=reading.accepted_ms,
                messages=reading.messages,
                bytes=reading.bytes,
                last=reading.last,
            )
        )
    return ends


def invoice_document(
    invoice: Invoice,
    *,
    issued_at: datetime,
    book: rating.PriceBook,
    rated: rating.Rated,
    charged: charges.Charged | None,
    prices: documents.PricesDocument,
    open_ms: tuple[int, int],
    previous: documents.Predecessor | None,
    waived: Collection[PartitionRef],
    measured: Sequence[DueDay] | None,
    statement: tax_documents.TaxStatement | None,
) -> documents.InvoiceDocument:
    """The invoice as it is issued, of format 2 with `charged`. `open_ms`: what of the period its fees are for;
    `previous`: the tenant's previous one, if documented;
    `measured`: what is due by meters that count no offsets, None where the book has none; `statement`: of its tax,
    where that is stated.
    """
    cut = invoice.cut
    start_ms, end_ms = time_ms(cut.period_start), time_ms(cut.period_end)
    return documents.InvoiceDocument(
        format=1 if charged is None else 2,
        charges=UNSET if charged is None else _charges(invoice, charged, prices),
        balances=UNSET
        if charged is None
        else tuple(
            documents.CreditBalance(grant=one.grant, before_micro=one.before_micro, used_micro=one.used_micro)
            for one in charged.balances
        ),
        measured=UNSET
        if measured is None
        else tuple(
            documents.MeasuredDay(
                topic=one.topic, topic_id=one.topic_id, day=one.day, meter=one.meter, quantity=one.quantity
            )
            for one in measured
        ),
        tax_statement=UNSET if statement is None else statement,
        issuer_number=invoice.issuer_number or UNSET,
        seller=parties.seller(),
        buyer=parties.buyer(invoice.tenant),
        open_time=UNSET
        if charged is None or open_ms == (start_ms, end_ms)
        else documents.OpenTime(from_ms=open_ms[0], until_ms=open_ms[1]),
        kind="invoice",
        id=invoice.public_id,
        number=invoice.number,
        tenant=invoice.tenant.public_id,
        period_start_ms=start_ms,
        period_end_ms=end_ms,
        issued_at_ms=time_ms(issued_at),
        currency=book.currency,
        minor_digits=book.minor_digits,
        price_book_sha256=book.sha256,
        cut=cut_document(cut),
        partitions=_partitions(cut, waived),
        lines=tuple(
            documents.BilledLine(
                id=rating.line_id(invoice.public_id, line.meter, book.sha256, start_ms, end_ms),
                meter=line.meter,
                unit=line.unit,
                unit_size=line.unit_size,
                quantity=line.quantity,
                amount_micro=line.amount_micro,
                parts=tuple(
                    documents.BilledPart(quantity=part.quantity, unit_price=part.unit_price)
                    for part in line.parts
                ),
            )
            for line in rated.lines
        ),
        total_micro=rated.total_micro if charged is None else charged.total_micro,
        previous=previous,
    )


def cut_document(cut: Cut) -> documents.CutDocument:
    """The stored readings of a cut that has a hash."""
    return documents.CutDocument(
        id=cut.public_id,
        readings=tuple(
            documents.Reading(
                topic_id=end.where.topic_id.hex(),
                partition=end.where.partition,
                log_generation=end.log_generation,
                end_offset=end.end_offset,
                accepted_ms=end.accepted_ms,
                messages=end.messages,
                bytes=end.bytes,
                last=end.last,
            )
            for end in cut_ends(cut.readings.order_by("topic_id", "partition", "log_generation"))
        ),
    )


def credit_note_document(
    note: CreditNote,
    *,
    cut: Cut,
    credited_document: BillingEntry,
    book: rating.PriceBook,
    credited: rating.Credited | charges.ChargedCredit,
    parts: Sequence[CreditedPart],
) -> documents.CreditNoteDocument:
    """The credit note as it is issued. `credited_document` is the entry of the invoice that it lowers."""
    ordered = sorted(parts, key=lambda part: (part.topic, part.topic_id, part.partition))
    return documents.CreditNoteDocument(
        format=2 if isinstance(credited, charges.ChargedCredit) else 1,
        charges=changes_of(credited) if isinstance(credited, charges.ChargedCredit) else UNSET,
        kind="credit_note",
        id=note.public_id,
        number=note.number,
        tenant=note.tenant.public_id,
        issued_at_ms=time_ms(note.issued_at),
        invoice=documents.CreditedInvoice(
            id=credited_document.object_id, document_sha256=credited_document.document_sha256
        ),
        cut_id=cut.public_id,
        currency=book.currency,
        price_book_sha256=book.sha256,
        lines=tuple(
            documents.CreditedLine(
                id=rating.credit_line_id(note.public_id, line.meter, book.sha256),
                meter=line.meter,
                unit=line.unit,
                unit_size=line.unit_size,
                quantity=line.quantity,
                amount_micro=line.amount_micro,
            )
            for line in credited.lines
        ),
        ranges=tuple(
            documents.CreditedRange(
                topic=part.topic,
                topic_id=part.topic_id,
                partition=part.partition,
                log_generation=part.log_generation,
                first_offset=part.first_offset,
                end_offset=part.end_offset,
                messages=part.quantities.get(MESSAGES, 0),
                bytes=part.quantities.get(BYTES, 0),
            )
            for part in ordered
        ),
        total_micro=credited.total_micro,
        issuer_number=note.issuer_number or UNSET,
    )


def changes_of(credited: charges.ChargedCredit) -> tuple[documents.CreditedCharge, ...]:
    """How a credit note changes the charges of its invoice."""
    return tuple(
        documents.CreditedCharge(kind=one.kind, name=one.name, meter=one.meter, amount_micro=one.amount_micro)
        for one in credited.changes
    )


def _charges(
    invoice: Invoice, charged: charges.Charged, prices: documents.PricesDocument
) -> tuple[documents.BilledCharge, ...]:
    prices_sha256 = documents.document_sha256(prices)
    return tuple(
        documents.BilledCharge(
            id=charges.charge_id(invoice.public_id, one.key, prices_sha256),
            kind=one.kind,
            name=one.name,
            meter=one.meter,
            base_micro=one.base_micro,
            basis_points=one.basis_points,
            amount_micro=one.amount_micro,
            reason=one.reason,
        )
        for one in charged.charges
    )


def prices_document(
    tenant: str,
    book: rating.PriceBook,
    effective_from: datetime,
    terms: documents.Terms = documents.NO_TERMS,
    at_least: int = 1,
) -> documents.PricesDocument:
    """These prices for the tenant's periods that begin at `effective_from` or later. Format 2 where terms or a book of
    format 2 require it, or `at_least` does.
    """
    plain = terms == documents.NO_TERMS and max(book.format, at_least) == 1
    return documents.PricesDocument(
        format=1 if plain else 2,
        terms=UNSET if plain else terms,
        kind="prices",
        tenant=tenant,
        effective_from_ms=time_ms(effective_from),
        price_book=documents.read_document(book.document(), documents.PriceBookDocument, "price book"),
    )


def _partitions(cut: Cut, waived: Collection[PartitionRef]) -> tuple[documents.BilledPartition, ...]:
    rows: dict[PartitionRef, list[CutUsage]] = defaultdict(list)
    for row in cut.usage.filter(meter__in=METERS).order_by("first_offset", "day", "meter"):
        rows[row.topic_id, row.partition].append(row)
    # Sorted here: a database with another collation than C has another order of names, and the document has one.
    parts = sorted(
        cut.coverage.all(),
        key=lambda part: (part.topic, part.topic_id, part.partition, part.log_generation),
    )
    return tuple(
        _partition(part, rows[part.topic_id, part.partition])
        for part in parts
        if (part.topic_id, part.partition) not in waived
    )


def _partition(part: CutCoverage, rows: Iterable[CutUsage]) -> documents.BilledPartition:
    days: dict[tuple[int, int, date], dict[str, int]] = {}
    counts_from = part.start_offset
    for row in rows:
        if row.quantity < 0:
            # A reversal: this cut counts again from there.
            counts_from = min(counts_from, row.first_offset)
            continue
        days.setdefault((row.first_offset, row.end_offset, row.day), {})[row.meter] = row.quantity
    return documents.BilledPartition(
        topic=part.topic,
        topic_id=part.topic_id,
        partition=part.partition,
        log_generation=part.log_generation,
        start_offset=part.start_offset,
        counts_from=counts_from,
        end_offset=part.end_offset,
        days=tuple(
            documents.BilledDay(
                day=day,
                first_offset=first,
                end_offset=end,
                messages=quantities[MESSAGES],
                bytes=quantities[BYTES],
            )
            for (first, end, day), quantities in sorted(days.items())
        ),
    )
