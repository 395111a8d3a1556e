"""Issues credit notes, in the transaction that finalizes the invoice of the cut at which a declared loss was seen."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import UNSET

from billing import chain_actions, document_building, issuer_numbers, price_actions, queries, tax_actions
from billing.completeness import PartitionRef, Usage
from billing.credits import BilledPart, CreditedPart, allocate
from billing.models import BillingEntry, CreditedRange, CreditNote, CreditNoteLine, Cut, Invoice
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract import documents
from penstock.rules import charges, rating
from penstock.rules.issuer_numbers import CREDIT_NOTES


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditPlan:
    """Issued invoices with the parts to credit of each. `unbilled` names reversals that are on no invoice."""

    notes: tuple[tuple[Invoice, tuple[CreditedPart, ...]], ...]
    unbilled: tuple[str, ...]


def plan_credits(cut: Cut, reversals: Sequence[Usage], waived: Collection[PartitionRef]) -> CreditPlan:
    """The credits that the cut's reversals require on earlier invoices.

    Runs in the caller's transaction; the caller holds the lock on the tenant's row. A waived partition is credited up
    to what was billed. What was never billed of it does not keep the invoice a draft.
    """
    if not reversals:
        return CreditPlan(notes=(), unbilled=())
    invoices = list(
        Invoice.objects.filter(
            tenant=cut.tenant, status=Invoice.Status.ISSUED, cut__period_end__lte=cut.period_start
        )
        .select_related("cut", "price_book")
        .order_by("-cut__period_end")
    )
    billed = [_billed(invoice) for invoice in invoices]
    allocation = allocate(reversals, billed)
    required = allocate([row for row in reversals if (row.topic_id, row.partition) not in waived], billed)
    notes = [(invoice, parts) for invoice, parts in zip(invoices, allocation.credits, strict=True) if parts]
    return CreditPlan(notes=tuple(notes), unbilled=required.unbilled)


def issue_credit_notes(actor: Actor, cut: Cut, plan: CreditPlan, at: datetime) -> None:
    """Issue a credit note for each invoice of the plan: its lines, lost ranges, document and audit entry.

    `at` is from `chain_actions.next_moment`. The credit note of an invoice without a document has none either.
    """
    number = CreditNote.objects.filter(tenant=cut.tenant).count()
    for invoice, parts in plan.notes:
        number += 1
        lost: dict[str, int] = defaultdict(int)
        for part in parts:
            for meter, quantity in part.quantities.items():
                lost[meter] += quantity
        credited_document = BillingEntry.objects.filter(
            tenant=cut.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
        ).first()
        book = rating.PriceBook.read(invoice.price_book.document)
        credited = _credited(invoice, book, lost, credited_document)
        changes = (
            document_building.changes_of(credited) if isinstance(credited, charges.ChargedCredit) else ()
        )
        note = CreditNote.objects.create(
            tenant=cut.tenant,
            number=number,
            issuer_number=issuer_numbers.next_number(CREDIT_NOTES),
            invoice=invoice,
            cut=cut,
            total_micro=credited.total_micro,
            charges=[documents.plain(one) for one in changes],
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
        entry = None
        if credited_document is not None:
            document = document_building.credit_note_document(
                note, cut=cut, credited_document=credited_document, book=book, credited=credited, parts=parts
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


def _credited(
    invoice: Invoice, book: rating.PriceBook, lost: Mapping[str, int], entry: BillingEntry | None
) -> rating.Credited | charges.ChargedCredit:
    """What the invoice costs less, after its earlier credit notes."""
    lines = list(invoice.lines.all())
    billed = {line.meter: line.quantity for line in lines}
    amounts = {line.meter: line.amount_micro for line in lines}
    # What was granted changes no quantity, and losses are credited as they were billed.
    for gone in CreditNoteLine.objects.filter(credit_note__invoice=invoice, credit_note__cut__isnull=False):
        billed[gone.meter] -= gone.quantity
        amounts[gone.meter] -= gone.amount_micro
    if entry is not None:
        issued = documents.read_document(entry.document, documents.InvoiceDocument, entry.object_id)
        terms = price_actions.charged_terms(invoice.tenant, invoice.cut.period_start, issued)
        if issued.balances is not UNSET and terms is not None:
            return charges.credit_charged(
                book,
                terms,
                (issued.period_start_ms, issued.period_end_ms),
                {one.grant: one.before_micro for one in issued.balances},
                amounts,
                billed,
                lost,
                None
                if issued.tax_statement is UNSET
                else tax_actions.stated(issued.tax_statement, issued.currency),
                open_ms=issued.open_ms,
            )
    return rating.credit(book, billed, lost)


def _billed(invoice: Invoice) -> dict[PartitionRef, BilledPart]:
    """What the invoice still bills of each partition, less earlier credits."""
    quantities: dict[PartitionRef, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    bounds: dict[PartitionRef, tuple[str, int, int, int]] = {}
    waived = queries.waived_partitions(invoice.cut)
    for row in invoice.cut.usage.filter(quantity__gte=0).order_by("topic_id", "partition", "first_offset"):
        ref = (row.topic_id, row.partition)
        if ref in waived:
            continue
        quantities[ref][row.meter] += row.quantity
        _, generation, first, end = bounds.get(
            ref, (row.topic, row.log_generation, row.first_offset, row.end_offset)
        )
        bounds[ref] = (
            row.topic,
            max(generation, row.log_generation),
            min(first, row.first_offset),
            max(end, row.end_offset),
        )
    for gone in CreditedRange.objects.filter(credit_note__invoice=invoice):
        ref = (gone.topic_id, gone.partition)
        quantities[ref][gone.meter] -= gone.quantity
        topic, generation, first, end = bounds[ref]
        bounds[ref] = (topic, generation, first, min(end, gone.first_offset))
    return {
        ref: BilledPart(
            topic=topic,
            log_generation=generation,
            first_offset=first,
            end_offset=end,
            quantities=dict(quantities[ref]),
        )
        for ref, (topic, generation, first, end) in bounds.items()
    }
