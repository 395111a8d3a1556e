"""Changes what a tenant has beside the general prices: a price book of its own, discounts, grants of credit, tax.

A change enters the tenant's billing chain when a period is closed that ends after it, for the next one
(`price_actions`). Each change is a row of its own, so a period that is closed late has the terms of its beginning.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet
from msgspec import UNSET

from billing import account_actions, price_actions
from billing.models import BillingEntry, PriceBook, TenantTerms
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract import documents
from penstock.contract.errors import InvalidRequest, NotFound, PreconditionFailed
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules import charges
from penstock.rules.service_level_months import GRANT_PREFIX
from penstock.rules.stated_tax import coin_micro
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant


def terms_of(tenant: Tenant) -> TenantTerms:
    """The tenant's terms for its next period. A row that is not saved when it has none."""
    found = terms_history(tenant).first()
    return found or TenantTerms(
        tenant=tenant,
        document=documents.plain(documents.NO_TERMS),
        revision=0,
        changed_at=tenant.created_at,
    )


def terms_history(tenant: Tenant) -> QuerySet[TenantTerms]:
    """Every change of the tenant's terms, the newest first."""
    return TenantTerms.objects.filter(tenant=tenant).select_related("price_book").order_by("-revision")


@contextmanager
def locked(tenant: Tenant) -> Iterator[TenantTerms]:
    """The tenant's terms for its next period. No one else changes them in the block."""
    with transaction.atomic():
        yield terms_of(Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk))


def change_terms(
    actor: Actor,
    tenant: str,
    *,
    terms: object,
    price_book_sha256: str | None,
    now: datetime,
    revision: int | None = None,
    for_service_level: bool = False,
    redeemed: str = "",
) -> TenantTerms:
    """Set the terms of the tenant's periods that begin at `now` or later. The same terms again change nothing.
    `revision`: of the terms that the change was made from; `PreconditionFailed` if they are others meanwhile.

    `price_book_sha256` assigns a published book to this tenant alone; None: the one that is in effect for all. A grant
    of credit that was given stays as it is until it expires, and its id is never another grant's; the discount of a
    coupon that was redeemed stays until it is over. Ids of service levels are given with `for_service_level` alone,
    that of a coupon's discount with `redeemed`. Raises `NotFound` and `InvalidRequest`.
    """
    wanted = documents.read_document(terms, documents.Terms, "terms")
    if wanted.tax_stated_by is not UNSET:
        raise InvalidRequest(
            "tax_stated_by: the setting payments.stripe_tax says it, for tenants without a table"
        )
    if not all(text.isprintable() for text in _texts(documents.plain(wanted))):
        raise InvalidRequest("terms: a text has a line end or another control character")
    with transaction.atomic():
        row = (
            Tenant.objects.select_for_update(no_key=True)
            .filter(public_id=tenant)
            .exclude(public_id=SYSTEM_TENANT)
            .first()
        )
        if row is None:
            raise NotFound(f"tenant {tenant[:64]!r}: not found")
        own = terms_of(row)
        if revision not in (None, own.revision):
            raise PreconditionFailed(
                "the terms were changed meanwhile, by another operator or a coupon; load them again"
            )
        before = documents.read_document(own.document, documents.Terms, "terms")
        book = None if price_book_sha256 is None else price_actions.book_of(price_book_sha256)
        if before == wanted and own.price_book == book:
            return own
        _is_in_its_currency(row, before, wanted, book)
        if not for_service_level:
            _is_of_whole_coins(before, wanted)
        _keeps_grants(before, wanted, time_ms(now))
        _keeps_coupons(before, wanted, time_ms(now), redeemed)
        _uses_no_id_again(row, wanted)
        if not for_service_level:
            _uses_no_id_of_service_levels(before, wanted)
        had = None if own.price_book is None else own.price_book.sha256
        changed = TenantTerms.objects.create(
            tenant=row,
            document=documents.plain(wanted),
            price_book=book,
            revision=own.revision + 1,
            changed_at=max(now, own.changed_at),
        )
        audit.record(
            actor,
            tenant=row.public_id,
            action="terms.change",
            object_id=row.public_id,
            before={"price_book_sha256": had, "terms": documents.plain(before)},
            after={"price_book_sha256": price_book_sha256, "terms": documents.plain(wanted)},
        )
        return changed


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for one in value.values() for text in _texts(one))
    elif isinstance(value, list | tuple):
        yield from (text for one in value for text in _texts(one))


def _is_in_its_currency(
    tenant: Tenant, before: documents.Terms, wanted: documents.Terms, book: PriceBook | None
) -> None:
    """There is no exchange: what is new and in another currency would pay nothing, or change what is invoiced in."""
    currency = account_actions.currency_of(tenant)
    if currency is None:
        return
    if book is not None and book.currency != currency:
        raise InvalidRequest(
            f"price_book_sha256: a book in {book.currency}, and {tenant.name} is invoiced in {currency}"
        )
    fresh: list[documents.Discount | documents.CreditGrant] = [
        *(one for one in wanted.discounts if one.amount_micro and one not in before.discounts),
        *(one for one in wanted.credits if one not in before.credits),
    ]
    for one in fresh:
        if one.currency != currency:
            raise InvalidRequest(
                f"{one.id}: an amount in {one.currency}, and {tenant.name} is invoiced in {currency}"
            )


def check_whole_coins(name: str, amount_micro: int, currency: str) -> None:
    """What is finer than a coin is rounded down where a book rounds to coins. Raises `InvalidRequest`."""
    coin = coin_micro(currency)
    if amount_micro % coin:
        raise InvalidRequest(
            f"{name}: {amount_micro} millionths; whole coins of {coin} {currency} millionths required"
        )


def _is_of_whole_coins(before: documents.Terms, wanted: documents.Terms) -> None:
    """Credit of service levels is a share of an invoice and may be finer; so may what stands in the terms already."""
    for discount in wanted.discounts:
        if discount.amount_micro and discount not in before.discounts:
            check_whole_coins(discount.id, discount.amount_micro, discount.currency)
    for grant in wanted.credits:
        if grant not in before.credits:
            check_whole_coins(grant.id, grant.amount_micro, grant.currency)


def _keeps_grants(before: documents.Terms, wanted: documents.Terms, now_ms: int) -> None:
    """The change is for periods that begin now or later, so a grant that has expired now pays for none of them."""
    after = {grant.id for grant in wanted.credits}
    for grant in before.credits:
        if grant.id not in after and not charges.is_expired(grant, now_ms):
            raise InvalidRequest(f"credits: {grant.id} was granted and has not expired; it must stay")


def _keeps_coupons(before: documents.Terms, wanted: documents.Terms, now_ms: int, redeemed: str) -> None:
    """What the tenant redeemed is its own: in its order, unchanged, and no operator names a discount so."""
    had = [one for one in before.discounts if charges.is_redeemed(one)]
    after = [one for one in wanted.discounts if charges.is_redeemed(one)]
    ids = {one.id for one in had} | {redeemed}
    for one in after:
        if one.id not in ids:
            raise InvalidRequest(
                f"discounts: {one.id}: ids that begin with {charges.COUPON_PREFIX} are those of coupons that the tenant"
                " redeems; take another"
            )
    due = [one for one in had if one in after or not charges.is_over(one, now_ms)]
    if [one for one in after if one.id != redeemed] != due:
        names = ", ".join(one.id for one in due)
        raise InvalidRequest(
            f"discounts: {names} were redeemed and are not over; they must stay, in this order"
        )


def _uses_no_id_again(tenant: Tenant, wanted: documents.Terms) -> None:
    """A grant's rest is counted on by its id, from invoice to invoice, also after it has expired."""
    after = {grant.id: grant for grant in wanted.credits}
    for grant in _grants_ever(tenant):
        found = after.get(grant.id)
        if found is not None and found != grant:
            raise InvalidRequest(f"credits: {grant.id} was granted and cannot change; give another grant")


def _uses_no_id_of_service_levels(before: documents.Terms, wanted: documents.Terms) -> None:
    """A month whose id is taken could not be credited."""
    had = {grant.id for grant in before.credits}
    for grant in wanted.credits:
        if grant.id.startswith(GRANT_PREFIX) and grant.id not in had:
            raise InvalidRequest(
                f"credits: {grant.id}: ids that begin with {GRANT_PREFIX} are those of service levels; take another"
            )


def _grants_ever(tenant: Tenant) -> Iterator[documents.CreditGrant]:
    """Those of each change, and those of the chain, which is older than the history of changes."""
    for row in terms_history(tenant):
        yield from documents.read_document(row.document, documents.Terms, "terms").credits
    for entry in BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES):
        prices = documents.read_document(entry.document, documents.PricesDocument, entry.object_id)
        if prices.terms is not UNSET:
            yield from prices.terms.credits
