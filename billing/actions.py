"""Writes cuts and invoices. What data sets bring is written by `import_actions`, prices by `price_actions`."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.utils import timezone

from billing import chain_actions, credit_actions, document_building, price_actions, queries
from billing.chain_actions import whole_ms
from billing.models import BillingEntry, Cut, CutReading, Invoice, InvoiceLine
from billing.price_actions import BILLING
from billing.settlement import Coverage, Place, Usage, Vector, gaps_of, quantities_of, taken_back
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.outbox import actions as outbox
from penstock.contract.documents import Predecessor
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.contract.invariant import invariant
from penstock.records.cut import CutEnd, cut_sha256
from penstock.rules import rating
from penstock.rules.usage_folding import time_ms
from tenants.models import Tenant

KIND_CUT = "cut"
_log = logging.getLogger(__name__)
_GAPS_MAX = 100
"""Texts of gaps that a draft keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorEntry:
    """One partition's end in a cut, with the committed totals of its log's prefix."""

    topic_id: str
    partition: int
    log_generation: int
    end_offset: int
    accepted_ms: int
    messages: int
    bytes: int
    last: bool = False


# -- cuts -----------------------------------------------------------------------------------------------


def close_period(actor: Actor, tenant: str, *, end: datetime) -> Cut:
    """End the tenant's running period at `end` (exclusive, whole ms): a cut and the draft of its invoice.

    The first period begins with the tenant, each later one where the last ended. What the next period is rated with is
    settled here, too: prices that are in effect at `end` and differ from the tenant's come into its billing chain.
    Asked again with the end of the last one, it returns that cut. Raises `NotFound`, `InvalidRequest`.
    """
    end = whole_ms(end.astimezone(UTC))
    with transaction.atomic():
        row = (
            Tenant.objects.select_for_update(no_key=True)
            .filter(public_id=tenant)
            .exclude(public_id=SYSTEM_TENANT)
            .first()
        )
        if row is None:
            raise NotFound(f"tenant {tenant[:64]!r} does not exist")
        last = Cut.objects.filter(tenant=row).order_by("-period_end").first()
        if last is not None and last.period_end == end:
            return last
        start = price_actions.tenant_begins(row) if last is None else last.period_end
        now = timezone.now()
        if end > now:
            raise InvalidRequest(
                f"end: {end.isoformat()} is in the future; messages may still be accepted before it"
            )
        if end <= start:
            raise InvalidRequest(
                f"end: {end.isoformat()} is not after the period's start, {start.isoformat()}"
            )
        price_actions.begin_chain(row)
        book = price_actions.prices_of(row, start)
        price_actions.prices_from(row, end)
        sequence, digest = chain_actions.head(row)
        cut = Cut.objects.create(
            tenant=row, period_start=start, period_end=end, chain_sequence=sequence, chain_hash=digest
        )
        number = Invoice.objects.filter(tenant=row).count() + 1
        invoice = Invoice.objects.create(
            tenant=row,
            number=number,
            cut=cut,
            price_book=book,
            gaps=["the brokers have not answered the cut yet"],
        )
        audit.record(
            actor,
            tenant=row.public_id,
            action="billing.close_period",
            object_id=cut.public_id,
            after={
                "invoice": invoice.public_id,
                "period_start": start.isoformat(),
                "period_end": end.isoformat(),
            },
        )
        outbox.enqueue(kind=KIND_CUT, object_id=cut.public_id, tenant=row.public_id, generation=1)
        return cut


def close_months(now: datetime) -> int:
    """End periods at every start of a UTC month that passed within them; how many were ended.

    A service that was away for months ends each of them by itself.
    """
    month = _month_of(now)
    if now - month < MONTH_GRACE:
        return 0
    count = 0
    tenants = Tenant.objects.exclude(public_id=SYSTEM_TENANT).filter(created_at__lt=month)
    for tenant in list(tenants.exclude(cuts__period_end__gte=month).order_by("pk")):
        last = Cut.objects.filter(tenant=tenant).order_by("-period_end").first()
        begins = price_actions.tenant_begins(tenant) if last is None else last.period_end
        end = _next_month(begins)
        try:
            while end <= month:
                close_period(BILLING, tenant.public_id, end=end)
                count += 1
                end = _next_month(end)
        except InvalidRequest as error:
            # Somebody else ended it meanwhile; the next round sees what is left.
            _log.warning("period not ended", extra={"tenant": tenant.public_id, "error": error.message})
    return count


def _month_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next_month(moment: datetime) -> datetime:
    """The first start of a month after `moment`."""
    return _month_of(_month_of(moment) + timedelta(days=32))


MONTH_GRACE = timedelta(seconds=2)
"""Clocks of brokers may be this much behind ours when a month ends."""


def store_vector(cut: str, entries: Sequence[VectorEntry], sha256: str) -> None:
    """The brokers' answer to a cut, once, with the hash by which they keep it.

    Raises `InvalidRequest` when the hash is not that of the entries, or the answer is another one than was stored.
    """
    with transaction.atomic():
        # Not the tenant's row: settling takes that before the cut's.
        row = (
            Cut.objects.select_for_update(of=("self",), no_key=True)
            .select_related("tenant")
            .get(public_id=cut)
        )
        found = cut_sha256(
            row.tenant.public_id, row.public_id, time_ms(row.period_end), [_cut_end(e) for e in entries]
        )
        if found != sha256:
            raise InvalidRequest(
                f"{cut}: the brokers keep it as sha256 {sha256 or '(none)'}, their readings give {found}"
            )
        if row.delivered_at is not None:
            if not _same_answer(row, entries, sha256):
                raise InvalidRequest(f"{cut}: the brokers answered other offsets than the first time")
            return
        CutReading.objects.bulk_create(
            CutReading(
                cut=row,
                topic_id=entry.topic_id,
                partition=entry.partition,
                log_generation=entry.log_generation,
                end_offset=entry.end_offset,
                accepted_ms=entry.accepted_ms,
                messages=entry.messages,
                bytes=entry.bytes,
                last=entry.last,
            )
            for entry in entries
        )
        row.delivered_at, row.error, row.sha256 = timezone.now(), "", sha256
        row.save(update_fields=["delivered_at", "error", "sha256"])
        Invoice.objects.filter(cut=row, status=Invoice.Status.DRAFT).update(
            gaps=["the cut's readings are not in the data sets yet"]
        )
        audit.record(
            BILLING,
            tenant=row.tenant.public_id,
            action="billing.cut",
            object_id=row.public_id,
            after={
                "partitions": len(entries),
                "messages_below": sum(e.end_offset for e in entries),
                "sha256": sha256,
            },
        )


def _cut_end(entry: VectorEntry) -> CutEnd:
    return CutEnd(
        where=TopicPartition(TopicId(bytes.fromhex(entry.topic_id)), entry.partition),
        log_generation=entry.log_generation,
        end_offset=entry.end_offset,
        accepted_ms=entry.accepted_ms,
        messages=entry.messages,
        bytes=entry.bytes,
        last=entry.last,
    )


def _same_answer(cut: Cut, entries: Sequence[VectorEntry], sha256: str) -> bool:
    """A cut that was delivered before brokers gave totals is compared by its offsets."""
    if cut.sha256:
        return cut.sha256 == sha256
    return _vector(cut) == {(e.topic_id, e.partition, e.log_generation): e.end_offset for e in entries}


def note_cut_failed(cut: str, message: str) -> None:
    """Why the brokers have not answered yet. In the transaction of the caller."""
    Cut.objects.filter(public_id=cut, delivered_at=None).update(error=message)


# -- invoices -------------------------------------------------------------------------------------------


def settle(cut: str) -> Invoice:
    """Issue the cut's invoice if everything is there and agrees; else its draft names what is missing.

    What the cut takes back of invoices before is credited first, so the credit notes stand before the invoice in the
    billing chain. An issued invoice stays as it is.
    """
    with transaction.atomic():
        # The lock under which a tenant's invoices and its billing chain change, before any row of theirs.
        tenant = Tenant.objects.select_for_update(no_key=True).get(cuts__public_id=cut)
        row = Cut.objects.select_for_update(no_key=True).get(public_id=cut)
        invoice = Invoice.objects.select_for_update(no_key=True).get(cut=row)
        if invoice.status == Invoice.Status.ISSUED or row.delivered_at is None:
            return invoice
        previous = Cut.objects.filter(tenant=tenant, period_end=row.period_start).first()
        coverage = [
            Coverage(
                topic_id=c.topic_id,
                topic=c.topic,
                partition=c.partition,
                log_generation=c.log_generation,
                start_offset=c.start_offset,
                end_offset=c.end_offset,
                covered=c.status == "covered",
                reason=c.reason,
                missing=c.missing,
            )
            for c in row.coverage.order_by("topic", "topic_id", "partition", "log_generation")
        ]
        usage = [
            Usage(
                topic_id=u.topic_id,
                partition=u.partition,
                day=u.day,
                meter=u.meter,
                quantity=u.quantity,
                first_offset=u.first_offset,
                end_offset=u.end_offset,
            )
            for u in row.usage.order_by("topic_id", "partition", "meter", "first_offset")
        ]
        waived = queries.waived(row)
        gaps = gaps_of(_vector(row), {} if previous is None else _vector(previous), coverage, usage, waived)
        if previous is not None and previous.invoice.status != Invoice.Status.ISSUED:
            gaps.insert(0, f"the invoice before, {previous.invoice.public_id}, is a draft still")
        notes = credit_actions.owed(row, taken_back(usage), waived)
        gaps.extend(notes.unexplained)
        if gaps:
            if gaps[:_GAPS_MAX] != invoice.gaps:
                invoice.gaps = gaps[:_GAPS_MAX]
                invoice.save(update_fields=["gaps"])
            return invoice
        price_actions.begin_chain(tenant)
        at = chain_actions.next_moment(tenant)
        credit_actions.issue(BILLING, row, notes, at)
        before = None if previous is None else previous.invoice
        _issue(invoice, row, before, quantities_of(usage, waived), waived, at)
        return invoice


def _issue(
    invoice: Invoice,
    cut: Cut,
    previous: Invoice | None,
    quantities: dict[str, int],
    waived: Collection[Place],
    at: datetime,
) -> None:
    # A cut without a hash was delivered before documents existed: its invoice has none, and the prices of its draft.
    documented = bool(cut.sha256)
    if documented:
        invoice.price_book = price_actions.prices_of(invoice.tenant, cut.period_start)
    book = rating.PriceBook.read(invoice.price_book.document)
    invariant(book.sha256 == invoice.price_book.sha256, "a price book is what its hash says")
    rated = rating.rate(book, quantities)
    InvoiceLine.objects.bulk_create(
        InvoiceLine(
            invoice=invoice,
            line_id=rating.line_id(
                invoice.public_id, line.meter, book.sha256, time_ms(cut.period_start), time_ms(cut.period_end)
            ),
            position=position,
            meter=line.meter,
            unit=line.unit,
            unit_size=line.unit_size,
            quantity=line.quantity,
            amount_micro=line.amount_micro,
            parts=[{"quantity": part.quantity, "unit_price": part.unit_price} for part in line.parts],
            price_book_sha256=book.sha256,
        )
        for position, line in enumerate(rated.lines, 1)
    )
    document = None
    if documented:
        document = chain_actions.append(
            invoice.tenant,
            invoice.public_id,
            document_building.invoice_document(
                invoice,
                issued_at=at,
                book=book,
                rated=rated,
                previous=_predecessor(previous),
                waived=waived,
            ),
            at,
        )
    entry = audit.record(
        BILLING,
        tenant=invoice.tenant.public_id,
        action="invoice.issue",
        object_id=invoice.public_id,
        after={
            "total_micro": rated.total_micro,
            "price_book_sha256": book.sha256,
            "cut": cut.public_id,
            **chain_actions.bound(document),
        },
    )
    invoice.status = Invoice.Status.ISSUED
    invoice.total_micro, invoice.issued_at, invoice.gaps = rated.total_micro, at, []
    invoice.audit_sequence, invoice.audit_hash = entry.sequence, entry.hash
    invoice.save(
        update_fields=[
            *("status", "price_book", "total_micro", "issued_at", "gaps", "audit_sequence", "audit_hash")
        ]
    )


def _predecessor(invoice: Invoice | None) -> Predecessor | None:
    """The invoice before, as a document names it; None when it has no document."""
    if invoice is None:
        return None
    entry = BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()
    if entry is None:
        return None
    return Predecessor(id=invoice.public_id, number=invoice.number, document_sha256=entry.document_sha256)


def _vector(cut: Cut) -> Vector:
    return {
        (reading.topic_id, reading.partition, reading.log_generation): reading.end_offset
        for reading in cut.readings.all()
    }
