"""Opens billing accounts: a tenant's currency, once and for good.

Two currencies in one tenant would need an exchange somewhere: for its prepaid credit, its balance at Stripe, its sums.
"""

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from billing.account_models import BillingAccount
from billing.models import BillingEntry, PriceBook, TenantTerms
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.rules.currencies import minor_digits
from tenants.models import Tenant


def currency_of(tenant: Tenant) -> str | None:
    """What the tenant is invoiced in: as its account says, else as its own book or its newest prices, else as the
    service's oldest book. None while there are no prices at all.

    Prices of a tenant never change their currency. Before there were accounts they could, and who was given a book of
    another currency then is invoiced in that one.
    """
    account = BillingAccount.objects.filter(tenant=tenant).first()
    if account is not None:
        return account.currency
    own = TenantTerms.objects.filter(tenant=tenant).select_related("price_book").order_by("-revision").first()
    if own is not None and own.price_book is not None:
        return own.price_book.currency
    newest = (
        BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES)
        .order_by("-sequence")
        .first()
    )
    if newest is not None:
        return str(newest.document["price_book"]["currency"])
    return default_currency()


def default_currency() -> str | None:
    """Of the service's oldest book; None while there is none."""
    return PriceBook.objects.order_by("pk").values_list("currency", flat=True).first()


def currencies_offered(now: datetime) -> list[str]:
    """What a new tenant can be invoiced in: the currencies with a book in effect, the default one first."""
    first = default_currency()
    books = PriceBook.objects.filter(effective_from__lte=now).order_by("currency")
    found = list(books.values_list("currency", flat=True).distinct())
    return sorted(found, key=lambda one: (one != first, one))


def open_for_newcomer(tenant: Tenant, owner: str, request_id: str, source: str, currency: str) -> None:
    """The currency that a person chose as they signed up; empty: the default one, which is fixed later. Part of the
    transaction that makes the tenant. Raises `InvalidRequest`.
    """
    if currency:
        actor = Actor(kind=ActorKind.PERSON, id=owner, request_id=request_id, source=source)
        open_account(actor, tenant, currency=currency, now=timezone.now())


def open_account(actor: Actor, tenant: Tenant, *, currency: str, now: datetime) -> BillingAccount:
    """Fix the currency of a tenant that has no prices yet. The same one again changes nothing.

    Raises `AlreadyExists` where it is fixed already, and `InvalidRequest` for a currency that no book in effect has.
    """
    minor_digits(currency)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        account = BillingAccount.objects.filter(tenant=tenant).first()
        if account is not None and account.currency == currency:
            return account
        if account is not None or BillingEntry.objects.filter(tenant=tenant).exists():
            raise AlreadyExists(
                f"currency: {tenant.name} is invoiced in {currency_of(tenant)}, and that never changes"
            )
        offered = currencies_offered(now)
        if currency not in offered:
            known = ", ".join(offered) or "none"
            raise InvalidRequest(f"currency: no price book in {currency} is in effect; there are: {known}")
        account = BillingAccount.objects.create(tenant=tenant, currency=currency)
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="billing_account.open",
            object_id=tenant.public_id,
            after={"currency": currency},
        )
        return account
