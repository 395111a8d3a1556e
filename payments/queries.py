"""Reads receivables and payments."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from billing.models import CreditNote, Invoice
from payments.models import Payment, Receivable, ReconciliationReport, StripeCustomer, StripeEvent
from payments.states import ALERT_AFTER, OWED, State
from penstock.contract.errors import NotFound
from tenants.models import Tenant


def receivables(state: str = "") -> QuerySet[Receivable]:
    """Of all tenants, oldest first."""
    rows = Receivable.objects.select_related("tenant", "invoice__price_book").order_by("pk")
    return rows.filter(state=state) if state else rows


def find_receivable(invoice: Invoice) -> Receivable | None:
    """None while the invoice is not asked for."""
    return Receivable.objects.select_related("tenant", "invoice__price_book").filter(invoice=invoice).first()


def receivable_of(invoice: Invoice) -> Receivable:
    """Raises `NotFound` while the invoice is not asked for."""
    row = find_receivable(invoice)
    if row is None:
        raise NotFound(
            f"{invoice.public_id}: its payment is not asked for yet; an issued invoice has one soon"
        )
    return row


def any_invoice(invoice: str) -> Invoice:
    """An invoice of any tenant, for operators. Raises `NotFound`."""
    row = Invoice.objects.select_related("tenant", "price_book").filter(public_id=invoice).first()
    if row is None:
        raise NotFound(f"invoice {invoice[:64]!r} does not exist")
    return row


def payments(tenant: Tenant) -> QuerySet[Payment]:
    """Payments and refunds, oldest first."""
    return (
        Payment.objects.filter(tenant=tenant)
        .select_related("tenant", "receivable__invoice__price_book")
        .order_by("pk")
    )


def customer(tenant: Tenant) -> StripeCustomer | None:
    """None: Stripe has not heard of the tenant."""
    return StripeCustomer.objects.filter(tenant=tenant).first()


def credited_micro(invoice: Invoice) -> int:
    """What credit notes take back of the invoice."""
    return int(
        CreditNote.objects.filter(invoice=invoice).aggregate(sum=Coalesce(Sum("total_micro"), 0))["sum"]
    )


def kept_micro(row: Receivable, source: Payment.Source) -> int:
    """What came from there and was not given back there."""
    sums = {
        kind: row.payments.filter(source=source, kind=kind).aggregate(sum=Coalesce(Sum("amount_micro"), 0))[
            "sum"
        ]
        for kind in Payment.Kind
    }
    return int(sums[Payment.Kind.PAYMENT] - sums[Payment.Kind.REFUND])


def invoices_to_open() -> QuerySet[Invoice]:
    """Issued invoices whose payment is not asked for yet."""
    return (
        Invoice.objects.filter(status=Invoice.Status.ISSUED, receivable=None)
        .select_related("tenant", "price_book")
        .order_by("pk")
    )


def with_new_credits() -> QuerySet[Receivable]:
    """Receivables whose invoice has a credit note that they do not count yet."""
    return (
        Receivable.objects.filter(invoice__credit_notes__isnull=False)
        .annotate(notes_micro=Sum("invoice__credit_notes__total_micro"))
        .exclude(notes_micro=F("noted_micro"))
        .order_by("pk")
    )


def unsent() -> QuerySet[Receivable]:
    """Receivables that Stripe has not heard of: they were made while payment through Stripe was off."""
    return Receivable.objects.filter(state__in=OWED, generation=0).order_by("pk")


def to_remind(now: datetime, days: Sequence[int], days_to_suspend: int | None) -> QuerySet[Receivable]:
    """Receivables with a step that is due now: past their due date, a reminder to be sent, operators to be alerted, or
    a tenant that may be suspended. One that waits for its next step is not among them.
    """
    due = Q(state=State.OPEN)
    due |= Q(alerted_at=None, due_at__lte=now - timedelta(days=max(days, default=0)) - ALERT_AFTER)
    for sent, day in enumerate(days):
        due |= Q(reminders=sent, due_at__lte=now - timedelta(days=day))
    if days_to_suspend is not None:
        due |= Q(
            tenant__suspended=False, suspended_at=None, due_at__lte=now - timedelta(days=days_to_suspend)
        )
    return Receivable.objects.filter(due, state__in=OWED, due_at__lte=now).order_by("due_at", "pk")


def events_to_process() -> QuerySet[StripeEvent]:
    """Oldest first."""
    return StripeEvent.objects.filter(processed_at=None).order_by("pk")


def newest_report() -> ReconciliationReport | None:
    """The last reconciliation with Stripe; None: there was none."""
    return ReconciliationReport.objects.order_by("-pk").first()


def payable_currency(tenant: Tenant) -> str:
    """Of the tenant's newest receivable; dollars while there is none, as in the built-in prices."""
    row = Receivable.objects.filter(tenant=tenant).order_by("-pk").first()
    return "USD" if row is None else row.currency
