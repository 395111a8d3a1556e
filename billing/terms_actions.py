"""Changes what a tenant has beside the general prices: a price book of its own, discounts, grants of credit, tax.

A change enters the tenant's billing chain when its running period is closed, for the next one (`price_actions`).
"""

from django.db import transaction

from billing.models import PriceBook, TenantTerms
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract import documents
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.rules import charges
from tenants.models import Tenant


def terms_of(tenant: Tenant) -> TenantTerms:
    """The tenant's terms for its next period. A row that is not saved when it has none."""
    found = TenantTerms.objects.filter(tenant=tenant).select_related("price_book").first()
    return found or TenantTerms(tenant=tenant, document=documents.plain(documents.NO_TERMS), revision=0)


def change_terms(
    actor: Actor, tenant: str, *, terms: object, price_book_sha256: str | None, now_ms: int
) -> TenantTerms:
    """Set the terms of the tenant's next period. The same terms again change nothing.

    `price_book_sha256` assigns a published book to this tenant alone; None: the one that is in effect for all. A grant
    of credit that was given stays as it is until it expires. Raises `NotFound` and `InvalidRequest`.
    """
    wanted = documents.read_document(terms, documents.Terms, "terms")
    with transaction.atomic():
        row = Tenant.objects.select_for_update(no_key=True).filter(public_id=tenant).first()
        if row is None:
            raise NotFound(f"tenant {tenant}: not found")
        own = terms_of(row)
        before = documents.read_document(own.document, documents.Terms, "terms")
        _keeps_grants(before, wanted, now_ms)
        book = _book(price_book_sha256)
        if before == wanted and own.price_book == book:
            return own
        had = None if own.price_book is None else own.price_book.sha256
        own.document, own.price_book, own.revision = documents.plain(wanted), book, own.revision + 1
        own.save()
        audit.record(
            actor,
            tenant=row.public_id,
            action="terms.change",
            object_id=row.public_id,
            before={"price_book_sha256": had, "terms": documents.plain(before)},
            after={"price_book_sha256": price_book_sha256, "terms": documents.plain(wanted)},
        )
        return own


def _book(sha256: str | None) -> PriceBook | None:
    if sha256 is None:
        return None
    book = PriceBook.objects.filter(sha256=sha256).first()
    if book is None:
        raise NotFound(f"price_book_sha256: no price book {sha256[:64]!r} was published")
    return book


def _keeps_grants(before: documents.Terms, wanted: documents.Terms, now_ms: int) -> None:
    after = {grant.id: grant for grant in wanted.credits}
    for grant in before.credits:
        found = after.get(grant.id)
        if found is None and not charges.is_expired(grant, now_ms):
            raise InvalidRequest(f"credits: {grant.id} was granted and has not expired; it must stay")
        if found is not None and found != grant:
            raise InvalidRequest(f"credits: {grant.id} was granted and cannot change; give another grant")
