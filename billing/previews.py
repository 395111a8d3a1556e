"""What a tenant's last invoiced period would have cost by another price book. Writes nothing."""

from dataclasses import dataclass

from msgspec import UNSET

from billing import price_actions
from billing.models import BillingEntry, Invoice
from penstock.contract import documents
from penstock.contract.errors import NotFound
from penstock.rules import charges, rating
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`charged.total_micro` is in the currency of the book, `billed_micro` in that of the invoice."""

    invoice: Invoice
    book: rating.PriceBook
    rated: rating.Rated
    charged: charges.Charged

    @property
    def billed_micro(self) -> int:
        return self.invoice.total_micro or 0


def last_period(tenant: Tenant, book: rating.PriceBook) -> Preview:
    """The newest issued invoice, rated by this book with the terms that it had, in one code path with real invoices.

    Raises `NotFound` without an issued invoice.
    """
    invoice = (
        Invoice.objects.filter(tenant=tenant, status=Invoice.Status.ISSUED)
        .select_related("cut", "price_book", "tenant")
        .order_by("-cut__period_end")
        .first()
    )
    if invoice is None:
        raise NotFound(f"tenant {tenant.public_id}: no period was invoiced yet")
    rated = rating.rate(book, {line.meter: line.quantity for line in invoice.lines.all()})
    terms, rests = documents.NO_TERMS, dict[str, int]()
    entry = BillingEntry.objects.filter(
        tenant=tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()
    if entry is not None:
        issued = documents.read_document(entry.document, documents.InvoiceDocument, entry.object_id)
        charged_by = price_actions.charged_terms(tenant, invoice.cut.period_start, issued)
        if issued.balances is not UNSET and charged_by is not None:
            terms = charged_by
            rests = {one.grant: one.before_micro for one in issued.balances}
    charged = charges.charge(
        book,
        terms,
        {line.meter: line.amount_micro for line in rated.lines},
        (time_ms(invoice.cut.period_start), time_ms(invoice.cut.period_end)),
        rests,
    )
    return Preview(invoice=invoice, book=book, rated=rated, charged=charged)
