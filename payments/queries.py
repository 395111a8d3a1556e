"""Reads receivables and payments."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Left
from django.db.models.lookups import Exact
from django.utils import timezone

from billing.models import CreditNote, Invoice
from control_plane import config
from control_plane.outbox.models import Delivery
from payments.models import (
    Payment,
    Receivable,
    ReconciliationReport,
    ReconciliationRun,
    StripeCustomer,
    StripeEvent,
)
from payments.states import ALERT_AFTER, OWED, State
from penstock.contract.errors import NotFound
from tenants.models import Tenant

SHOWN_WITH = ("tenant", "invoice__price_book", "carried_by__invoice")


def receivables(state: str = "") -> QuerySet[Receivable]:
    """Of all tenants, oldest first."""
    rows = Receivable.objects.select_related(*SHOWN_WITH).order_by("pk")
    return rows.filter(state=state) if state else rows


def find_receivable(invoice: Invoice) -> Receivable | None:
    """None while the invoice is not asked for."""
    return Receivable.objects.select_related(*SHOWN_WITH).filter(invoice=invoice).first()


def receivable_of(invoice: Invoice) -> Receivable:
    """Raises `NotFound` while the invoice is not asked for."""
    row = find_receivable(invoice)
    if row is None:
        raise NotFound(
            f"{invoice.public_id}: its payment is not asked for yet; an issued invoice has one soon"
        )
    return row


def bank_reference(invoice: Invoice) -> str:
    """The reference to name when it is paid by bank; empty: the settings say no bank account to pay to."""
    return invoice.payment_reference if config.current().invoices.bank_lines else ""


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
    kinds, sums = Payment.Kind, dict.fromkeys(Payment.Kind, 0)
    for payment in row.payments.filter(source=source):
        sums[Payment.Kind(payment.kind)] += payment.amount_micro
    taken = sums[kinds.REFUND] - sums[kinds.REFUND_FAILED] + sums[kinds.DISPUTE] - sums[kinds.DISPUTE_WON]
    return sums[kinds.PAYMENT] - taken


def kept_outside_micro(row: Receivable) -> int:
    """What came without Stripe, by bank or as someone said at Stripe, and was not given back by bank."""
    return kept_micro(row, Payment.Source.BANK) + kept_micro(row, Payment.Source.OUT_OF_BAND)


def invoices_to_open() -> QuerySet[Invoice]:
    """Issued invoices whose payment is not asked for yet."""
    return (
        Invoice.objects.filter(status=Invoice.Status.ISSUED, receivable=None)
        .select_related("tenant", "price_book")
        .order_by("pk")
    )


def taken_back() -> QuerySet[Receivable]:
    """Of invoices that an operator took back. One that a credit note gives back as a whole is void without that."""
    return Receivable.objects.filter(state=State.VOID, voided_micro__gt=0)


def void() -> QuerySet[Receivable]:
    """Of invoices of which nothing is to be paid: taken back by an operator, or credited in whole."""
    return Receivable.objects.filter(state=State.VOID).order_by("pk")


def with_new_credits() -> QuerySet[Receivable]:
    """Receivables whose invoice has a credit note that they do not count yet."""
    return (
        Receivable.objects.filter(invoice__credit_notes__isnull=False, voided_micro=0)
        .annotate(notes_micro=Sum("invoice__credit_notes__total_micro"))
        .exclude(notes_micro=F("noted_micro"))
        .order_by("pk")
    )


def failed_refunds_micro(row: Receivable) -> int:
    """What Stripe could not give back, less what was since given back by bank."""
    failed = row.payments.filter(source=Payment.Source.STRIPE, kind=Payment.Kind.REFUND_FAILED)
    return int(failed.aggregate(sum=Coalesce(Sum("amount_micro"), 0))["sum"])


def to_mail() -> QuerySet[Receivable]:
    """Receivables whose invoice is still to be sent by e-mail."""
    return Receivable.objects.filter(mail_due=True).order_by("pk")


def with_credits_to_mail() -> QuerySet[Receivable]:
    """Receivables whose invoice has a credit note that is still to be sent by e-mail."""
    return (
        Receivable.objects.filter(invoice__credit_notes__isnull=False)
        .annotate(notes=Count("invoice__credit_notes"))
        .filter(notes__gt=F("notes_mailed"))
        .order_by("pk")
    )


def unsent() -> QuerySet[Receivable]:
    """Receivables that Stripe must hear of, longest waiting first."""
    return Receivable.objects.filter(unsent_since__isnull=False).order_by("unsent_since", "pk")


def to_send(now: datetime) -> QuerySet[Receivable]:
    """Those of them whose time has come."""
    return unsent().filter(Q(retry_at=None) | Q(retry_at__lte=now))


def changed() -> QuerySet[Receivable]:
    """Receivables that Stripe must hear of at once."""
    return unsent().filter(retry_at=None)


def waiting_for_a_carrier() -> QuerySet[Receivable]:
    """What is less than Stripe charges."""
    return Receivable.objects.filter(waits=True, state__in=OWED).order_by("pk")


def with_group(row: Receivable) -> list[Receivable]:
    """The receivable and those that it carries."""
    return [row, *row.carries.select_related("tenant", "invoice__price_book").order_by("pk")]


def to_remind(now: datetime, days: Sequence[int], days_to_suspend: int | None) -> QuerySet[Receivable]:
    """Receivables with a step that is due now: past their due date, a reminder to be sent, operators to be alerted, or
    a tenant that may be suspended. One that waits for its next step is not among them. One that waits to be carried is
    not past due, and of one that is carried the reminder of its carrier speaks. One that was changed at Stripe is
    not reminded of until an operator has decided.
    """
    due = Q(alerted_at=None, due_at__lte=now - timedelta(days=max(days, default=0)) - ALERT_AFTER)
    for sent, day in enumerate(days):
        due |= Q(reminders=sent, due_at__lte=now - timedelta(days=day))
    if days_to_suspend is not None:
        suspend = Q(
            tenant__suspended=False, suspended_at=None, due_at__lte=now - timedelta(days=days_to_suspend)
        )
        due |= suspend & _known() if is_through_stripe() else suspend
    steps = Q(state=State.OPEN) | (due & Q(carried_by=None, changed_there=False))
    return Receivable.objects.filter(steps, state__in=OWED, waits=False, due_at__lte=now).order_by(
        "due_at", "pk"
    )


def may_be_paid_unknown(row: Receivable) -> bool:
    """Whether Stripe may have been paid without our knowing it: what it was not asked about has no consequence."""
    return is_through_stripe() and not Receivable.objects.filter(_known(), pk=row.pk).exists()


def is_through_stripe() -> bool:
    return config.current().payments.stripe_key_file is not None


def _known() -> Q:
    """The last delivery to Stripe got to its end, and nothing is to be said since."""
    return Q(unsent_since=None, refused=False)


def begins_with(field: str, text: str) -> Q:
    """To the letter on every database: LIKE of SQLite takes no notice of case."""
    return Q(Exact(Left(field, len(text)), text))


def events_to_process() -> QuerySet[StripeEvent]:
    """Oldest first."""
    return StripeEvent.objects.filter(processed_at=None).order_by("pk")


def newest_report() -> ReconciliationReport | None:
    """The last reconciliation with Stripe; None: there was none."""
    return ReconciliationReport.objects.order_by("-pk").first()


def run_under_way() -> ReconciliationRun | None:
    """The comparison with Stripe that is not finished; None: there is none."""
    return ReconciliationRun.objects.order_by("pk").first()


def to_compare(since: datetime, started_at: datetime) -> QuerySet[Receivable]:
    """Receivables that may differ from Stripe and that the comparison has not had yet: open ones, those that were made
    or closed since, and those that say what is wrong.
    """
    overpaid = is_overpaid()
    may = Q(state__in=OWED) | Q(closed_at__gte=since) | Q(created_at__gte=since) | ~Q(problem="") | overpaid
    fresh = Q(compared_at=None) | Q(compared_at__lt=started_at)
    return receivables().filter(may, fresh)


def is_overpaid() -> Q:
    """More is kept than is asked for."""
    asked = F("total_micro") - F("credited_micro") - F("voided_micro")
    return Q(paid_micro__gt=asked + F("refunded_micro"))


def is_in_outbox(kind: str, receivable: str, age_max: timedelta) -> bool:
    """Whether a delivery of it is not made yet, and is younger."""
    rows = Delivery.objects.filter(kind=kind, object_id=receivable, delivered_at=None)
    return rows.filter(created_at__gt=timezone.now() - age_max).exists()


def payable_currency(tenant: Tenant) -> str:
    """Of the tenant's newest receivable; dollars while there is none, as in the built-in prices."""
    row = Receivable.objects.filter(tenant=tenant).order_by("-pk").first()
    return "USD" if row is None else row.currency
