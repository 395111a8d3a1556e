"""What tests of payments share: issued invoices, credits, rounds of the worker, and signed events."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import stripe
from django.utils import timezone

from billing.models import CreditNote, Cut, Invoice, InvoiceLine, PriceBook
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from payments import actions, queries, reconciling, sending, stripe_adapter, tasks
from payments.models import Receivable
from payments.sending import KIND_RECEIVABLE
from tenants.models import Tenant
from tests.control_plane.billing.world import Part, World

KEY = "sk_test_fake"
WEBHOOK_SECRET = "whsec_fake"
DAY = timedelta(days=1)
CENT = 10_000


def issued(world: World, name: str, *, messages: int = 25_000) -> Invoice:
    """An issued invoice of a new tenant; of 25,000 messages it is 49.01 USD less its bytes."""
    tenant = world.tenant(name)
    parts = [Part(first=0, end=messages, size=messages * 200)] if messages else []
    cut = world.cut(tenant, parts)
    if parts:
        world.covered(cut, parts)
    # The other seven data sets have no row, and to import nothing takes as long.
    world.spark("cut_usage", "cut_coverage", "usage_day")
    world.bill()
    invoice = world.invoice(cut)
    assert invoice.status == "issued", invoice.gaps
    return invoice


def of_amount(tenant: Tenant, micro: int) -> Invoice:
    """The tenant's next issued invoice: one line of this amount."""
    number = Invoice.objects.filter(tenant=tenant).count() + 1
    newest = Cut.objects.filter(tenant=tenant).order_by("-period_end").first()
    start = timezone.now() if newest is None else newest.period_end
    cut = Cut.objects.create(tenant=tenant, period_start=start, period_end=start + timedelta(seconds=1))
    invoice = Invoice.objects.create(
        tenant=tenant,
        number=number,
        cut=cut,
        price_book=PriceBook.objects.order_by("pk")[0],
        status=Invoice.Status.ISSUED,
        total_micro=micro,
        issued_at=timezone.now(),
    )
    InvoiceLine.objects.create(
        invoice=invoice,
        line_id=f"{invoice.public_id}.messages_in",
        position=0,
        meter="messages_in",
        unit="",
        unit_size=1,
        quantity=5,
        amount_micro=micro,
        parts=[{"quantity": 5, "unit_price": "0.2"}],
        price_book_sha256=invoice.price_book.sha256,
    )
    return invoice


def credit(invoice: Invoice, micro: int) -> CreditNote:
    """A credit note as billing issues one."""
    return CreditNote.objects.create(
        tenant=invoice.tenant,
        number=CreditNote.objects.filter(tenant=invoice.tenant).count() + 1,
        invoice=invoice,
        cut=_cut(invoice),
        total_micro=micro,
        issued_at=timezone.now(),
    )


def _cut(invoice: Invoice) -> Cut:
    newest = Cut.objects.filter(tenant=invoice.tenant).order_by("-period_end")[0]
    return Cut.objects.create(
        tenant=invoice.tenant,
        period_start=newest.period_end,
        period_end=newest.period_end + timedelta(seconds=1),
    )


def worker(rounds: int = 1) -> None:
    """The worker's round and its deliveries, due now."""
    for _ in range(rounds):
        tasks.payment_round()
        deliver()


def deliver() -> None:
    """What waits for Stripe, each once, and what that has changed. What it refuses now waits for the next call."""
    Receivable.objects.update(retry_at=None)
    for _ in range(50):
        waiting = Delivery.objects.filter(kind=KIND_RECEIVABLE, delivered_at=None)
        for receivable in list(waiting.values_list("object_id", flat=True)):
            delivery.deliver(KIND_RECEIVABLE, receivable)
        if not sending.send_next():
            return
    raise AssertionError("deliveries go on without an end")


def again(invoice: Invoice) -> None:
    """Its receivable is compared with Stripe."""
    with actions.locked(asked(invoice).public_id) as row:
        actions.tell_stripe(row)
    deliver()


def differences() -> list[dict[str, Any]]:
    """As an operator's comparison finds them now."""
    gateway = stripe_adapter.configured()
    assert gateway is not None
    report = reconciling.reconcile(gateway, timezone.now())
    assert report is not None and isinstance(report.differences, list)
    return report.differences


def asked(invoice: Invoice) -> Receivable:
    """Its receivable as it is now."""
    return queries.receivable_of(invoice)


def due(invoice: Invoice, days: int) -> None:
    """As if the invoice had been due so many days ago."""
    Receivable.objects.filter(invoice=invoice).update(due_at=timezone.now() - days * DAY)


def event(
    kind: str,
    thing: dict[str, Any],
    *,
    event_id: str,
    at: datetime | None = None,
    secret: str = WEBHOOK_SECRET,
) -> tuple[bytes, str]:
    """The body and the signature of a webhook call."""
    body = json.dumps({"id": event_id, "object": "event", "type": kind, "data": {"object": thing}})
    moment = int((at or datetime.now(UTC)).timestamp())
    return body.encode(), str(stripe.WebhookSignature.generate_signature_header(body, secret, moment))
