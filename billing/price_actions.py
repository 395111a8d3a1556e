"""Writes price books, and which of them a tenant's periods are rated with.

A tenant's prices stand in its billing chain: the first entry from the tenant's beginning on, a later one for the period
that begins when another ends. A book that is published never changes the prices of a period that runs already.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from django.db import IntegrityError, transaction

from billing import chain_actions, document_building
from billing.models import BillingEntry, Cut, Invoice, PriceBook
from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from penstock.contract import documents
from penstock.contract.errors import AlreadyExists, ConfigurationError, InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.invariant import invariant
from penstock.rules import rating
from penstock.rules.usage_folding import time_ms
from tenants.models import Tenant

BILLING = system("billing")
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
STANDARD_PRICE_BOOK = Path(__file__).parent / "price_books" / "standard-1.json"


# -- books ----------------------------------------------------------------------------------------------


def publish_price_book(actor: Actor, *, document: object, effective_from: datetime = BEGINNING) -> PriceBook:
    """The price book of this document; the same document again is the same book.

    Raises `InvalidRequest`, and `AlreadyExists` when the version or the time is taken by other prices.
    """
    book = rating.PriceBook.read(document)
    # What a tenant's document cannot hold is no price book.
    content = documents.read_document(book.document(), documents.PriceBookDocument, "price book")
    invariant(documents.document_sha256(content) == book.sha256, "both forms of a price book are one")
    with transaction.atomic():
        known = PriceBook.objects.filter(sha256=book.sha256).first()
        if known is not None:
            return known
        if PriceBook.objects.filter(name=book.name, version=book.version).exists():
            raise AlreadyExists(
                f"price book {book.name} {book.version} exists with other prices; count the version up"
            )
        if PriceBook.objects.filter(effective_from=effective_from).exists():
            raise AlreadyExists(f"price book: another one is effective from {effective_from.isoformat()}")
        try:
            with transaction.atomic():
                row = PriceBook.objects.create(
                    name=book.name,
                    version=book.version,
                    currency=book.currency,
                    document=book.document(),
                    sha256=book.sha256,
                    effective_from=effective_from,
                )
        except IntegrityError:
            raise AlreadyExists(
                f"price book {book.name} {book.version}: a book was published at the same moment; ask again"
            ) from None
        audit.record(
            actor,
            tenant=SYSTEM_TENANT,
            action="price_book.publish",
            object_id=row.public_id,
            after={"name": book.name, "version": book.version, "sha256": book.sha256},
        )
        return row


def publish_configured_price_book() -> PriceBook:
    """The price book of the configuration, or the standard one that comes with the service.

    Raises `ConfigurationError` when the file cannot be read, and as `publish_price_book` does.
    """
    file = config.current().price_book_file or STANDARD_PRICE_BOOK
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"price_book_file: {file}: {error}") from error
    return publish_price_book(BILLING, document=document)


# -- the prices of a tenant -----------------------------------------------------------------------------


def begin_chain(tenant: Tenant) -> None:
    """The tenant's first prices, if its chain has none yet.

    They are those of its first draft where one was made before chains existed, else those that were in effect when its
    running period began. Within the transaction of the caller, who holds the tenant's row lock.
    """
    if BillingEntry.objects.filter(tenant=tenant).exists():
        return
    draft = (
        Invoice.objects.filter(tenant=tenant, status=Invoice.Status.DRAFT)
        .select_related("price_book")
        .order_by("number")
        .first()
    )
    began = tenant_begins(tenant)
    last = Cut.objects.filter(tenant=tenant).order_by("-period_end").first()
    running = began if last is None else last.period_end
    book = _book_at(running) if draft is None else draft.price_book
    if book is None:
        # Every book was published later: the first one is the first that there ever were prices of.
        book = PriceBook.objects.order_by("effective_from").first() or publish_configured_price_book()
    _assign(tenant, book, began)


def begin_chains(limit: int) -> int:
    """The first prices of tenants that have none; how many tenants that were."""
    waiting = Tenant.objects.exclude(public_id=SYSTEM_TENANT).filter(billing_entries=None)
    ids = list(waiting.order_by("pk").values_list("pk", flat=True)[:limit])
    for pk in ids:
        with transaction.atomic():
            begin_chain(Tenant.objects.select_for_update().get(pk=pk))
    return len(ids)


def prices_from(tenant: Tenant, begins: datetime) -> None:
    """A period ends and another begins: from then on the newest book in effect counts. As `begin_chain`, behind it."""
    newest = _book_at(begins)
    assigned = BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES).latest("sequence")
    if newest is not None and newest.public_id != assigned.object_id:
        _assign(tenant, newest, begins)


def prices_of(tenant: Tenant, period_start: datetime) -> PriceBook:
    """The book by which a period that begins then is rated, as the tenant's chain says."""
    start_ms = time_ms(period_start)
    entries = BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES)
    for entry in entries.order_by("-sequence").iterator():
        prices = documents.read_document(entry.document, documents.PricesDocument, entry.object_id)
        if prices.effective_from_ms <= start_ms:
            book = PriceBook.objects.get(public_id=entry.object_id)
            invariant(
                book.sha256 == documents.document_sha256(prices.price_book),
                "a tenant's prices are those of the book that they name",
            )
            return book
    raise InvalidRequest(
        f"{tenant.public_id}: its billing chain has no prices for {period_start.isoformat()}"
    )


def tenant_begins(tenant: Tenant) -> datetime:
    """Where the tenant's first period begins: its creation, in whole ms."""
    return chain_actions.whole_ms(tenant.created_at.astimezone(UTC))


def _assign(tenant: Tenant, book: PriceBook, effective_from: datetime) -> None:
    document = document_building.prices_document(
        tenant.public_id, rating.PriceBook.read(book.document), effective_from
    )
    entry = chain_actions.append(tenant, book.public_id, document, chain_actions.next_moment(tenant))
    audit.record(
        BILLING,
        tenant=tenant.public_id,
        action="prices.assign",
        object_id=book.public_id,
        after={
            "price_book_sha256": book.sha256,
            "effective_from": effective_from.isoformat(),
            **chain_actions.bound(entry),
        },
    )


def _book_at(moment: datetime) -> PriceBook | None:
    return PriceBook.objects.filter(effective_from__lte=moment).order_by("-effective_from").first()
