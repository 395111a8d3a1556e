"""Finalizes drafts: issues the invoice of a cut when its completeness check finds no gap."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone
from msgspec import UNSET

from billing import (
    chain_actions,
    credit_actions,
    credit_queries,
    document_building,
    issuer_numbers,
    measured,
    price_actions,
    queries,
    tax_actions,
)
from billing.completeness import Coverage, PartitionRef, Usage, billable_quantities, find_gaps, reversals
from billing.models import BillingEntry, Cut, Invoice, InvoiceLine, MeasuredDay
from billing.open_times import open_ms
from billing.price_actions import BILLING
from control_plane.audit import actions as audit
from control_plane.topics.queries import topics_of_all
from penstock.contract.documents import Predecessor, PricesDocument, plain
from penstock.contract.invariant import invariant
from penstock.contract.tax_documents import TaxStatement
from penstock.rules import charges, rating
from penstock.rules.issuer_numbers import INVOICES
from penstock.rules.stated_tax import taxed_lines
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant

_GAPS_MAX = 100
"""A draft stores at most so many gaps."""


def finalize(cut: str) -> Invoice:
    """Issue the cut's invoice if the completeness check finds no gap; else store the gaps on its draft.

    Reversals are credited on earlier invoices first, so the credit notes come before the invoice in the billing chain.
    An issued invoice does not change.
    """
    with transaction.atomic():
        # This lock guards a tenant's invoices and its billing chain. It is taken before any row of theirs.
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
        waived = queries.waived_partitions(row)
        vector = queries.vector(row)
        gaps = find_gaps(
            vector,
            {} if previous is None else queries.vector(previous),
            coverage,
            usage,
            waived,
            _names({key[0] for key in vector}.difference(one.topic_id for one in coverage)),
        )
        if previous is not None and previous.invoice.status != Invoice.Status.ISSUED:
            gaps.insert(0, f"the previous invoice {previous.invoice.public_id} is still a draft")
        plan = credit_actions.plan_credits(row, reversals(usage), waived)
        gaps.extend(plan.unbilled)
        if gaps:
            if gaps[:_GAPS_MAX] != invoice.gaps:
                invoice.gaps = gaps[:_GAPS_MAX]
                invoice.save(update_fields=["gaps"])
            return invoice
        try:
            # Nothing of it stays while the tax is not known: a credit note comes with its invoice.
            with transaction.atomic():
                price_actions.begin_chain(tenant)
                at = chain_actions.next_moment(tenant)
                credit_actions.issue_credit_notes(BILLING, row, plan, at)
                _issue(
                    invoice,
                    row,
                    None if previous is None else previous.invoice,
                    billable_quantities(usage, waived),
                    waived,
                    at,
                )
        except tax_actions.TaxNotStatedError as lacking:
            if lacking.ask is not None:
                tax_actions.ask(invoice, lacking.ask, timezone.now())
            Invoice.objects.filter(pk=invoice.pk).update(gaps=[lacking.gap])
            return Invoice.objects.select_related("cut", "tenant", "price_book").get(pk=invoice.pk)
        return invoice


def _names(topic_ids: Collection[str]) -> dict[str, str]:
    """Of topics that exist or are in the recycle bin."""
    if not topic_ids:
        return {}
    return dict(topics_of_all().filter(topic_id__in=topic_ids).values_list("topic_id", "name"))


def _issue(
    invoice: Invoice,
    cut: Cut,
    previous: Invoice | None,
    quantities: dict[str, int],
    waived: Collection[PartitionRef],
    at: datetime,
) -> None:
    # A cut without a hash is older than documents: its invoice has no document and keeps the prices of its draft.
    documented = bool(cut.sha256)
    if documented:
        invoice.price_book = price_actions.prices_of(invoice.tenant, cut.period_start)
    prices = price_actions.assigned_prices(invoice.tenant, cut.period_start) if documented else None
    book = rating.PriceBook.read(invoice.price_book.document)
    invariant(book.sha256 == invoice.price_book.sha256, "a price book is what its hash says")
    days = _measured_days(invoice, cut, book, prices)
    rated = rating.rate(book, quantities | measured.sums(days))
    MeasuredDay.objects.bulk_create(
        MeasuredDay(
            invoice=invoice,
            tenant=invoice.tenant,
            topic_id=one.topic_id,
            topic=one.topic,
            day=one.day,
            meter=one.meter,
            quantity=one.quantity,
        )
        for one in days
    )
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
    total_micro = rated.total_micro
    invoice.issuer_number = issuer_numbers.next_number(INVOICES)
    if prices is not None:
        charged = _charged(invoice, cut, book, prices, rated, at)
        issued = document_building.invoice_document(
            invoice,
            issued_at=at,
            book=book,
            rated=rated,
            charged=None if charged is None else charged.charged,
            statement=None if charged is None else charged.statement,
            prices=prices,
            open_ms=open_ms(invoice.tenant, cut.period_start, cut.period_end),
            previous=_predecessor(previous),
            waived=waived,
            measured=days if measured.measured_meters(book) else None,
        )
        total_micro = issued.total_micro
        if issued.charges is not UNSET:
            invoice.charges = [plain(one) for one in issued.charges]
        document = chain_actions.append(invoice.tenant, invoice.public_id, issued, at)
    entry = audit.record(
        BILLING,
        tenant=invoice.tenant.public_id,
        action="invoice.issue",
        object_id=invoice.public_id,
        after={
            "total_micro": total_micro,
            "price_book_sha256": book.sha256,
            "cut": cut.public_id,
            **chain_actions.bound(document),
        },
    )
    invoice.status = Invoice.Status.ISSUED
    invoice.total_micro, invoice.issued_at, invoice.gaps = total_micro, at, []
    invoice.audit_sequence, invoice.audit_hash = entry.sequence, entry.hash
    invoice.save(
        update_fields=[
            *(
                "status",
                "issuer_number",
                "price_book",
                "total_micro",
                "charges",
                "issued_at",
                "gaps",
                "audit_sequence",
                "audit_hash",
            )
        ]
    )


def _measured_days(
    invoice: Invoice, cut: Cut, book: rating.PriceBook, prices: PricesDocument | None
) -> list[measured.DueDay]:
    """What is due by meters that count no offsets; only invoices of format 2 have a place for it."""
    if prices is None or prices.terms is UNSET:
        return []
    return measured.due_days(
        invoice.tenant, measured.measured_meters(book), cut.period_start, cut.period_end.date()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Charged:
    """`statement`: the one that the tax stands on."""

    charged: charges.Charged
    statement: TaxStatement | None


def _charged(
    invoice: Invoice,
    cut: Cut,
    book: rating.PriceBook,
    prices: PricesDocument,
    rated: rating.Rated,
    at: datetime,
) -> _Charged | None:
    """The charges of an invoice whose prices have format 2. Raises `TaxNotStatedError`."""
    if prices.terms is UNSET:
        return None
    credit = credit_queries.standing(invoice.tenant, prices.terms, cut.period_start)
    amounts = {line.meter: line.amount_micro for line in rated.lines}
    period_ms = (time_ms(cut.period_start), time_ms(cut.period_end))
    opened_ms = open_ms(invoice.tenant, cut.period_start, cut.period_end)
    charged = charges.charge(book, credit.terms, amounts, period_ms, credit.rests, open_ms=opened_ms)
    if prices.terms.tax_stated_by is UNSET:
        return _Charged(charged=charged, statement=None)
    lines = taxed_lines(book, amounts, charged)
    statement = tax_actions.statement_for(invoice, book.currency, lines, at)
    if statement is not None:
        stated = tax_actions.stated(statement, book.currency)
        charged = charges.charge(
            book, credit.terms, amounts, period_ms, credit.rests, stated, open_ms=opened_ms
        )
    return _Charged(charged=charged, statement=statement)


def _predecessor(invoice: Invoice | None) -> Predecessor | None:
    """The previous invoice as a document names it; None when it has no document."""
    if invoice is None:
        return None
    entry = BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()
    if entry is None:
        return None
    return Predecessor(id=invoice.public_id, number=invoice.number, document_sha256=entry.document_sha256)
