"""The inbox of Stripe's webhooks: an event is stored once, and processed by the worker.

An event is a hint, not a fact. It names what may have changed; that is asked of Stripe again. So an event that comes
twice, late or in another order does no harm, and none changes anything of another tenant.
"""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from payments import actions, queries
from payments.customers import refresh_method
from payments.models import Payment, Receivable, StripeCustomer, StripeEvent
from payments.stripe_adapter import Gateway, read_event
from payments.stripe_shapes import AnsweredFault, Event
from penstock.contract.errors import ErrorKind, Forbidden, InvalidRequest, PenstockError

BODY_BYTES_MAX = 256 * 1024
"""Stripe's largest events are smaller."""
KEPT = timedelta(days=90)
"""After an event was processed. Stripe sends one again for three days, and its signature is believed for minutes."""
METHOD_EVENTS = (
    "checkout.session.completed",
    "customer.deleted",
    "customer.updated",
    "payment_method.",
    "setup_intent.succeeded",
)
INVOICE_EVENTS = ("invoice.", "credit_note.", "invoice_payment.")
MONEY_EVENTS = ("charge.", "refund.")
"""Refunds, also those that fail later, and disputes."""


def receive(body: bytes, signature: str, secret: str | None, now: datetime) -> bool:
    """Store the event; False: it was stored before. Raises `Forbidden` and `InvalidRequest`."""
    if secret is None:
        raise Forbidden("payments.stripe_webhook_secret_file is not configured, so no event is believed")
    if len(body) > BODY_BYTES_MAX:
        raise InvalidRequest(f"body: {len(body)} bytes, at most {BODY_BYTES_MAX} allowed")
    event = read_event(body, signature, secret)
    try:
        with transaction.atomic():
            _store(event, now)
    except IntegrityError:
        return False
    return True


def _store(event: Event, now: datetime) -> None:
    StripeEvent.objects.create(
        event_id=event.id,
        type=event.type,
        customer=event.customer,
        object_id=event.object_id,
        invoice=event.invoice,
        payment=event.payment,
        received_at=now,
    )


def process(gateway: Gateway | None, now: datetime, events_max: int) -> int:
    """Process stored events, oldest first. Returns how many were. What Stripe gave no answer for is left, and so is
    what it refused because of the key; events about payment methods wait until there is a key.
    """
    count = 0
    rows = queries.events_to_process()
    if gateway is None:
        for kind in METHOD_EVENTS:
            rows = rows.exclude(queries.begins_with("type", kind))
    for event in rows[:events_max]:
        try:
            outcome = _processed(gateway, event)
        except AnsweredFault:
            break
        except PenstockError as error:
            if error.kind is not ErrorKind.FATAL:
                break
            outcome = error.message[:500]
        StripeEvent.objects.filter(pk=event.pk, processed_at=None).update(processed_at=now, outcome=outcome)
        count += 1
    return count


def forget(now: datetime, events_max: int) -> int:
    """Remove the oldest processed events, of those that have been kept long enough. Returns how many were."""
    old = StripeEvent.objects.filter(processed_at__lte=now - KEPT).order_by("pk")
    return StripeEvent.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:events_max])).delete()[0]


def _processed(gateway: Gateway | None, event: StripeEvent) -> str:
    """What was done."""
    if event.type.startswith(INVOICE_EVENTS) and event.invoice:
        return _invoice_changed(event)
    if event.type.startswith(MONEY_EVENTS) and event.payment:
        return _money_changed(event)
    if event.type.startswith(METHOD_EVENTS) and gateway is not None:
        return _method_changed(gateway, event)
    return "ignored: not of a kind that is processed"


def _invoice_changed(event: StripeEvent) -> str:
    found = Receivable.objects.filter(stripe_invoice=event.invoice).first()
    if found is None:
        return "ignored: no receivable has this invoice"
    with actions.locked(found.public_id) as row:
        customer = StripeCustomer.objects.filter(tenant=row.tenant).first()
        if customer is None or event.customer not in (customer.stripe_id, *customer.former_ids):
            return "refused: its customer is not the one of the invoice's tenant"
        actions.tell_stripe(row, at_once=False)
    return f"{row.public_id} is compared with Stripe"


def _money_changed(event: StripeEvent) -> str:
    """Refunds and disputes do not name the customer. What they are is asked of Stripe."""
    paid = Payment.objects.filter(
        kind=Payment.Kind.PAYMENT, source=Payment.Source.STRIPE, reference=event.payment
    ).select_related("receivable")
    known = paid.first()
    if known is None:
        return "ignored: no receivable has this payment"
    with actions.locked(known.receivable.public_id) as row:
        actions.tell_stripe(row, at_once=False)
    return f"{row.public_id} is compared with Stripe"


def _method_changed(gateway: Gateway, event: StripeEvent) -> str:
    # A method that was removed names no customer any more.
    its = Q(stripe_id=event.customer) if event.customer else Q(method_id=event.object_id) & ~Q(method_id="")
    customer = StripeCustomer.objects.select_related("tenant").filter(its).first()
    if customer is None:
        return "ignored: no tenant has this customer"
    refresh_method(gateway, customer.tenant)
    return "the tenant's payment method was read; a new one is tried"
