"""Who a tenant is to Stripe, and how it pays there."""

from django.db import transaction

from control_plane.audit import actions as audit
from payments import actions
from payments.models import CustomerKey, Receivable, StripeCustomer
from payments.states import OWED
from payments.stripe_adapter import Gateway
from payments.stripe_shapes import AnsweredFault, Method, Refused
from tenants.models import Tenant


def ensure_customer(gateway: Gateway, tenant: Tenant) -> str:
    """Stripe's id of the tenant, which is made a customer there if it is none, or if someone has deleted it there. No
    transaction is open. Raises `AnsweredFault` too.

    A call without an answer is made again with its key: Stripe's search finds a customer only after a minute. One that
    was refused is made again with another key, as Stripe repeats its answer to a key for a day.
    """
    known = StripeCustomer.objects.filter(tenant=tenant).first()
    if known is not None:
        if gateway.has_customer(known.stripe_id):
            return known.stripe_id
        return _replaced(gateway, tenant, known.stripe_id)
    found = gateway.find_customer(tenant.public_id) or _created(gateway, tenant)
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row, _ = StripeCustomer.objects.get_or_create(tenant=owner, defaults={"stripe_id": found})
    return row.stripe_id


def _replaced(gateway: Gateway, tenant: Tenant, deleted: str) -> str:
    """Another customer in place of the one that was deleted. What is owed is asked of it."""
    made = gateway.find_customer(tenant.public_id)
    if made is None or made == deleted:
        # Stripe answers a key that made a customer with that one, also after it was deleted.
        made = _created(gateway, tenant, f"/{deleted}")
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = StripeCustomer.objects.get(tenant=owner)
        if row.stripe_id == deleted:
            row.former_ids = [*row.former_ids, deleted]
            row.stripe_id, row.method_id, row.method = made, "", ""
            row.save(update_fields=["former_ids", "stripe_id", "method_id", "method"])
            audit.record(
                actions.ACTOR,
                tenant=owner.public_id,
                action="payment_customer.replace",
                object_id=made,
                before={"customer": deleted},
                after={"customer": made},
            )
            owed = Receivable.objects.filter(tenant=owner, state__in=OWED, carried_by=None)
            for one in owed.exclude(stripe_invoice="").order_by("pk"):
                actions.tell_stripe(one)
    return row.stripe_id


def _created(gateway: Gateway, tenant: Tenant, after: str = "") -> str:
    version = CustomerKey.objects.filter(tenant=tenant).values_list("version", flat=True).first() or 1
    try:
        return gateway.create_customer(
            tenant.public_id, tenant.name, f"customer/{tenant.public_id}/{version}{after}"
        )
    except (AnsweredFault, Refused):
        # Of two that were refused at once, one counts.
        CustomerKey.objects.update_or_create(tenant=tenant, defaults={"version": version + 1})
        raise


def refresh_method(gateway: Gateway, tenant: Tenant) -> Method | None:
    """How the tenant pays at Stripe now; it is stored. A new way is tried for everything that is owed, once: it is
    stored together with that.
    """
    customer = ensure_customer(gateway, tenant)
    method = gateway.method(customer)
    fresh = "" if method is None else method.id
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = StripeCustomer.objects.get(tenant=owner)
        if row.method_id != fresh:
            row.method_id, row.method = fresh, "" if method is None else method.label
            row.save(update_fields=["method_id", "method"])
            if method is not None:
                _try_what_is_owed(owner)
    return method


def _try_what_is_owed(tenant: Tenant) -> None:
    """The caller has locked the tenant."""
    owed = Receivable.objects.filter(tenant=tenant, state__in=OWED, waits=False, carried_by=None)
    for row in owed.order_by("pk"):
        # Else the attempt that is due is made with the new method.
        if row.charged >= row.charge:
            row.charge += 1
            row.save(update_fields=["charge"])
        actions.tell_stripe(row)
