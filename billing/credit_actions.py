"""Writes credit notes, in the transaction that settles the cut at which a declared loss was seen."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from billing import chain_actions, document_building, queries
from billing.completeness import Place, Usage
from billing.credits import BilledPart, CreditedPart, allocate
from billing.models import BillingEntry, CreditedRange, CreditNote, CreditNoteLine, Cut, Invoice
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.rules import rating


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """Issued invoices with what is to be credited of each. `unexplained`: lost, and on no invoice."""

    notes: tuple[tuple[Invoice, tuple[CreditedPart, ...]], ...]
    unexplained: tuple[str, ...]


def owed(cut: Cut, lost: Sequence[Usage], waived: Collection[Place]) -> Owed:
    """What the invoices before this cut have billed too much. Within the transaction of the caller, who holds the
    tenant's lock.

    A waived partition is credited as far as it was billed, and what was never billed of it keeps no draft.
    """
    if not lost:
        return Owed(notes=(), unexplained=())
    invoices = list(
        Invoice.objects.filter(
            tenant=cut.tenant, status=Invoice.Status.ISSUED, cut__period_end__lte=cut.period_start
        )
        .select_related("cut", "price_book")
        .order_by("-cut__period_end")
    )
    billed = [_billed(invoice) for invoice in invoices]
    allocation = allocate(lost, billed)
    demanded = allocate([row for row in lost if (row.topic_id, row.partition) not in waived], billed)
    notes = [(invoice, parts) for invoice, parts in zip(invoices, allocation.credits, strict=True) if parts]
    return Owed(notes=tuple(notes), unexplained=demanded.unexplained)


def issue(actor: Actor, cut: Cut, owed: Owed, at: datetime) -> None:
    """A credit note for each invoice, with lines, lost ranges, its document and an audit entry.

    `at` is the chain's next moment. The credit of an invoice that was issued before documents existed has none either.
    """
    number = CreditNote.objects.filter(tenant=cut.tenant).count()
    for invoice, parts in owed.notes:
        number += 1
        lost: dict[str, int] = defaultdict(int)
        for part in parts:
            for meter, quantity in part.quantities.items():
                lost[meter] += quantity
        billed = {line.meter: line.quantity for line in invoice.lines.all()}
        for line in CreditNoteLine.objects.filter(credit_note__invoice=invoice):
            billed[line.meter] -= line.quantity
        book = rating.PriceBook.read(invoice.price_book.document)
        credited = rating.credit(book, billed, lost)
        note = CreditNote.objects.create(
            tenant=cut.tenant,
            number=number,
            invoice=invoice,
            cut=cut,
            total_micro=credited.total_micro,
            issued_at=at,
        )
        CreditNoteLine.objects.bulk_create(
            CreditNoteLine(
                credit_note=note,
                line_id=rating.credit_line_id(note.public_id, row.meter, book.sha256),
                position=position,
                meter=row.meter,
                unit=row.unit,
                unit_size=row.unit_size,
                quantity=row.quantity,
                amount_micro=row.amount_micro,
                price_book_sha256=book.sha256,
            )
            for position, row in enumerate(credited.lines, 1)
        )
        CreditedRange.objects.bulk_create(
            CreditedRange(
                credit_note=note,
                topic_id=part.topic_id,
                topic=part.topic,
                partition=part.partition,
                log_generation=part.log_generation,
                meter=meter,
                quantity=quantity,
                first_offset=part.first_offset,
                end_offset=part.end_offset,
            )
            for part in parts
            for meter, quantity in part.quantities.items()
        )
        credited_document = BillingEntry.objects.filter(
            tenant=cut.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
        ).first()
        entry = None
        if credited_document is not None:
            document = document_building.credit_note_document(
                note, credited_document=credited_document, book=book, credited=credited, parts=parts
            )
            entry = chain_actions.append(cut.tenant, note.public_id, document, at)
        audit.record(
            actor,
            tenant=cut.tenant.public_id,
            action="credit_note.issue",
            object_id=note.public_id,
            after={
                "invoice": invoice.public_id,
                "total_micro": credited.total_micro,
                "cut": cut.public_id,
                **chain_actions.bound(entry),
            },
        )


def _billed(invoice: Invoice) -> dict[Place, BilledPart]:
    """What the invoice still bills of each partition."""
    quantities: dict[Place, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    bounds: dict[Place, tuple[str, int, int, int]] = {}
    given_up = queries.waived(invoice.cut)
    for row in invoice.cut.usage.filter(quantity__gte=0).order_by("topic_id", "partition", "first_offset"):
        place = (row.topic_id, row.partition)
        if place in given_up:
            continue
        quantities[place][row.meter] += row.quantity
        _, generation, first, end = bounds.get(place, (row.topic, 0, row.first_offset, 0))
        bounds[place] = (
            row.topic,
            max(generation, row.log_generation),
            min(first, row.first_offset),
            max(end, row.end_offset),
        )
    for gone in CreditedRange.objects.filter(credit_note__invoice=invoice):
        place = (gone.topic_id, gone.partition)
        quantities[place][gone.meter] -= gone.quantity
        topic, generation, first, end = bounds[place]
        bounds[place] = (topic, generation, first, min(end, gone.first_offset))
    return {
        place: BilledPart(
            topic=topic,
            log_generation=generation,
            first_offset=first,
            end_offset=end,
            quantities=dict(quantities[place]),
        )
        for place, (topic, generation, first, end) in bounds.items()
    }
