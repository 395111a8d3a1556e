"""Who a tenant is to Stripe, and how it pays there."""

from django.db import transaction

from payments import actions
from payments.models import CustomerKey, Receivable, StripeCustomer
from payments.states import OWED
from payments.stripe_adapter import Gateway
from payments.stripe_shapes import AnsweredFault, Method, Refused
from tenants.models import Tenant


def ensure_customer(gateway: Gateway, tenant: Tenant) -> str:
    """Stripe's id of the tenant, which is made a customer there if it is none. No transaction is open. Raises
    `AnsweredFault` too.

    A call without an answer is made again with its key: Stripe's search finds a customer only after a minute. One that
    was refused is made again with another key, as Stripe repeats its answer to a key for a day.
    """
    known = StripeCustomer.objects.filter(tenant=tenant).first()
    if known is not None:
        return known.stripe_id
    found = gateway.find_customer(tenant.public_id) or _created(gateway, tenant)
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row, _ = StripeCustomer.objects.get_or_create(tenant=owner, defaults={"stripe_id": found})
    return row.stripe_id


def _created(gateway: Gateway, tenant: Tenant) -> str:
    version = CustomerKey.objects.filter(tenant=tenant).values_list("version", flat=True).first() or 1
    try:
        return gateway.create_customer(
            tenant.public_id, tenant.name, f"customer/{tenant.public_id}/{version}"
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
