"""Publishes price books, and assigns them to tenants.

A tenant's prices are in its billing chain. The first entry holds from the tenant's beginning, a later one from the
start of the next period. A newly published book never changes the prices of a running period.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from msgspec import UNSET

from billing import account_actions, chain_actions, document_building, tax_actions
from billing.models import BillingEntry, Cut, Invoice, PriceBook, TenantTerms, new_prices_id
from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from control_plane.processes import setbacks
from penstock.contract import documents, strict_json
from penstock.contract.errors import (
    AlreadyExists,
    ConfigurationError,
    InvalidRequest,
    NotFound,
    PenstockError,
)
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.invariant import invariant
from penstock.contract.limits import MIB
from penstock.rules import charges, rating
from penstock.rules.currencies import check_rounding
from penstock.rules.timestamps import time_ms, whole_ms
from tenants.models import Tenant

FIRST_PRICES = "first prices"
BILLING = system("billing")
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
STANDARD_PRICE_BOOK = Path(__file__).parent / "price_books" / "standard-4.json"
"""For new services. Older standard books stay beside it: a service keeps the one that it began with."""
FILE_BYTES_MAX = 4 * MIB
"""Size limit of the configured file. The largest valid price book is smaller."""


# -- books ----------------------------------------------------------------------------------------------


def checked_price_book(document: object, *, effective_from: datetime, now: datetime) -> rating.PriceBook:
    """The book of this document, if it can be published with this `effective_from`, or was published already.

    Prices change for the future only. Only the first book is effective from `now` or earlier, as every tenant needs
    prices. Raises `InvalidRequest`, and `AlreadyExists` when the version or the time is taken by other prices.
    """
    book = rating.PriceBook.read(document)
    # Each price book becomes a document of tenants, so it must be a valid one.
    check_rounding(book.currency, book.minor_digits)
    content = documents.read_document(book.document(), documents.PriceBookDocument, "price book")
    invariant(documents.document_sha256(content) == book.sha256, "both forms of a price book are one")
    if PriceBook.objects.filter(sha256=book.sha256).exists():
        return book
    newest = PriceBook.objects.filter(name=book.name).order_by("-version").first()
    if newest is not None and newest.version == book.version:
        raise AlreadyExists(
            f"price book {book.name} {book.version} exists with other prices; count the version up"
        )
    if newest is not None and newest.version > book.version:
        raise InvalidRequest(
            f"price book {book.name} {book.version}: version {newest.version} is published; count the version up"
        )
    first = not PriceBook.objects.exists()
    if first and effective_from > now:
        raise InvalidRequest(
            f"effective_from: {effective_from.isoformat()} is in the future; the first price book must hold already"
        )
    if not first and effective_from < now:
        raise InvalidRequest(
            f"effective_from: {effective_from.isoformat()} is in the past; prices change for future periods only"
        )
    if PriceBook.objects.filter(currency=book.currency, effective_from=effective_from).exists():
        raise AlreadyExists(
            f"price book: another one in {book.currency} is effective from {effective_from.isoformat()}"
        )
    return book


def publish_price_book(
    actor: Actor, *, document: object, effective_from: datetime, now: datetime
) -> PriceBook:
    """The price book of this document. Publishing the same document again returns the same book, at any time.

    Raises as `checked_price_book` does.
    """
    with transaction.atomic():
        book = checked_price_book(document, effective_from=effective_from, now=now)
        known = PriceBook.objects.filter(sha256=book.sha256).first()
        if known is not None:
            return known
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
                f"price book {book.name} {book.version}: another book was published at the same moment; retry"
            ) from None
        audit.record(
            actor,
            tenant=SYSTEM_TENANT,
            action="price_book.publish",
            object_id=row.public_id,
            after={
                "name": book.name,
                "version": book.version,
                "sha256": book.sha256,
                "effective_from": effective_from.isoformat(),
            },
        )
        return row


def publish_first_price_book(now: datetime) -> PriceBook:
    """The oldest price book. The first call publishes the configured file or the service's standard book, effective
    from the beginning.

    Raises `ConfigurationError` when the file cannot be read, and as `publish_price_book` does.
    """
    oldest = PriceBook.objects.order_by("effective_from").first()
    if oldest is not None:
        return oldest
    document = _read(config.current().price_book_file or STANDARD_PRICE_BOOK)
    return publish_price_book(BILLING, document=document, effective_from=BEGINNING, now=now)


def follow_configured_file(now: datetime) -> None:
    """Publish the configured file when it is new, for periods that begin from now on.

    The service's standard book is published once. An upgrade of the service changes no prices.

    Raises `ConfigurationError`, and as `publish_price_book` does.
    """
    publish_first_price_book(now)
    file = config.current().price_book_file
    if file is not None:
        publish_price_book(BILLING, document=_read(file), effective_from=now, now=now)


def configured_file_problem(now: datetime) -> str:
    """Why the configured file is refused; empty when it is accepted, or none is configured."""
    file = config.current().price_book_file
    if file is None:
        return ""
    try:
        checked_price_book(_read(file), effective_from=now, now=now)
    except PenstockError as error:
        return f"price_book_file: {error.message}"
    return ""


def _read(file: Path) -> object:
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise ConfigurationError(f"{file}: over {FILE_BYTES_MAX} bytes")
        document: object = strict_json.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file}: {error}") from error
    return document


# -- the prices of a tenant -----------------------------------------------------------------------------


def begin_chain(tenant: Tenant) -> None:
    """Assign the tenant's first prices, if its chain is empty: the book in effect when its first period began.

    A tenant that is older than billing chains gets the prices of its drafts and of its running period. Runs in the
    caller's transaction; the caller holds the lock on the tenant's row.
    """
    if BillingEntry.objects.filter(tenant=tenant).exists():
        return
    drafts = Invoice.objects.filter(tenant=tenant, status=Invoice.Status.DRAFT).select_related(
        "cut", "price_book"
    )
    assigned = [(draft.cut.period_start, draft.price_book) for draft in drafts.order_by("cut__period_start")]
    last = Cut.objects.filter(tenant=tenant).order_by("-period_end").first()
    running = tenant_begins(tenant) if last is None else last.period_end
    # Without a book that was in effect then: the oldest book.
    assigned.append((running, _first_book(tenant, running)))
    # No period that has ended, or that ran before there were chains, is taxed otherwise than it was.
    terms = tax_actions.by_configuration(documents.NO_TERMS) if last is None else documents.NO_TERMS
    _assign(tenant, assigned[0][1], tenant_begins(tenant), terms)
    for (_, before), (begins, book) in pairwise(assigned):
        if book != before:
            _assign(tenant, book, begins)


def _first_book(tenant: Tenant, begins: datetime) -> PriceBook:
    """Of the tenant's currency: the one in effect then, else the oldest."""
    if not PriceBook.objects.exists():
        publish_first_price_book(timezone.now())
    found = book_for(tenant, begins)
    if found is None:
        books = PriceBook.objects.filter(currency=account_actions.currency_of(tenant))
        found = books.order_by("effective_from")[:1].get()
    return found


def without_chain() -> QuerySet[Tenant]:
    """Tenants that have no prices yet."""
    return Tenant.objects.exclude(public_id=SYSTEM_TENANT).filter(billing_entries=None)


def begin_chains(limit: int) -> int:
    """Assign first prices to tenants that have none. Returns the number of tenants."""

    def begin(tenant: Tenant) -> None:
        with transaction.atomic():
            begin_chain(Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk))

    return setbacks.each(FIRST_PRICES, without_chain().order_by("pk"), begin, most=limit)


def prices_from(tenant: Tenant, begins: datetime) -> None:
    """Assign the book and the terms in effect at `begins` to the next period, if they are new ones. Runs as
    `begin_chain`, after it. A period may be closed late: what was changed since `begins` is for the period after.
    """
    newest = BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES).latest("sequence")
    before = documents.read_document(newest.document, documents.PricesDocument, newest.object_id)
    own = terms_at(tenant, begins)
    book = own.price_book if own is not None and own.price_book is not None else book_for(tenant, begins)
    terms = tax_actions.by_configuration(documents.NO_TERMS if own is None else terms_from(own, begins))
    if book is None:
        return
    had = documents.NO_TERMS if before.terms is UNSET else before.terms
    if (book.sha256, terms) != (documents.document_sha256(before.price_book), had):
        _assign(tenant, book, begins, terms, at_least=before.format)


def terms_at(tenant: Tenant, begins: datetime) -> TenantTerms | None:
    """The tenant's terms for a period that begins then."""
    changes = TenantTerms.objects.filter(tenant=tenant).select_related("price_book").order_by("-revision")
    found = changes.filter(changed_at__lte=begins).first()
    if found is None:
        # Terms that are older than their history keep their newest revision alone.
        oldest = changes.last()
        found = oldest if oldest is not None and oldest.revision > 1 else None
    return found


def terms_from(own: TenantTerms, begins: datetime) -> documents.Terms:
    """The tenant's terms for a period that begins then: without what has expired."""
    terms = documents.read_document(own.document, documents.Terms, "terms")
    start_ms = time_ms(begins)
    return documents.Terms(
        discounts=tuple(one for one in terms.discounts if one.until_ms > start_ms),
        credits=tuple(one for one in terms.credits if not charges.is_expired(one, start_ms)),
        tax=terms.tax,
    )


def prices_of(tenant: Tenant, period_start: datetime) -> PriceBook:
    """The book of a period that begins then, from the tenant's chain."""
    assigned = assigned_prices(tenant, period_start)
    return PriceBook.objects.get(sha256=documents.document_sha256(assigned.price_book))


def assigned_prices(tenant: Tenant, period_start: datetime) -> documents.PricesDocument:
    """The prices document of a period that begins then, from the tenant's chain."""
    for prices in prices_until(tenant, period_start):
        return prices
    raise InvalidRequest(
        f"{tenant.public_id}: its billing chain has no prices for {period_start.isoformat()}"
    )


def prices_until(tenant: Tenant, period_start: datetime) -> Iterator[documents.PricesDocument]:
    """The prices documents of periods that begin then or earlier, from the tenant's chain, newest first."""
    start_ms = time_ms(period_start)
    entries = BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES)
    for entry in entries.order_by("-sequence").iterator():
        prices = documents.read_document(entry.document, documents.PricesDocument, entry.object_id)
        if prices.effective_from_ms <= start_ms:
            yield prices


def grants_until(tenant: Tenant, period_start: datetime) -> list[documents.CreditGrant]:
    """Every grant of credit that the tenant's chain had for periods that begin then or earlier."""
    found = [
        grant
        for prices in prices_until(tenant, period_start)
        if prices.terms is not UNSET
        for grant in prices.terms.credits
    ]
    return list({grant.id: grant for grant in found}.values())


def charged_terms(
    tenant: Tenant, period_start: datetime, issued: documents.InvoiceDocument
) -> documents.Terms | None:
    """The terms by which an issued invoice was charged, with the expired grants of its balances; None in format 1."""
    prices = assigned_prices(tenant, period_start)
    if issued.balances is UNSET or prices.terms is UNSET:
        return None
    rests = {one.grant: one.before_micro for one in issued.balances}
    return charges.charged_terms(prices.terms, grants_until(tenant, period_start), rests)


def running_prices_of(tenant: Tenant) -> PriceBook | None:
    """The book of the tenant's running period, or the one that its chain will begin with. None while no book exists."""
    last = Cut.objects.filter(tenant=tenant).order_by("-period_end").first()
    begins = tenant_begins(tenant) if last is None else last.period_end
    if BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES).exists():
        return prices_of(tenant, begins)
    return _first_book(tenant, begins) if PriceBook.objects.exists() else None


def tenant_begins(tenant: Tenant) -> datetime:
    """Where the tenant's first period begins: its creation, in whole ms."""
    return whole_ms(tenant.created_at.astimezone(UTC))


def _assign(
    tenant: Tenant,
    book: PriceBook,
    effective_from: datetime,
    terms: documents.Terms = documents.NO_TERMS,
    at_least: int = 1,
) -> None:
    """A tenant whose prices had format 2 keeps it, as its grants are counted on from invoice to invoice."""
    document = document_building.prices_document(
        tenant.public_id, rating.PriceBook.read(book.document), effective_from, terms, at_least
    )
    # A book to which the tenant comes back stands in its chain already, and nothing stands there twice.
    known = BillingEntry.objects.filter(
        tenant=tenant, kind=BillingEntry.Kind.PRICES, object_id=book.public_id
    ).exists()
    object_id = new_prices_id() if known or document.format == 2 else book.public_id
    entry = chain_actions.append(tenant, object_id, document, chain_actions.next_moment(tenant))
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


def book_of(sha256: str) -> PriceBook:
    """The published book of this hash. Raises `NotFound`."""
    book = PriceBook.objects.filter(sha256=sha256).first()
    if book is None:
        raise NotFound(f"price_book_sha256: no price book {sha256[:64]!r} was published")
    return book


def book_for(tenant: Tenant, moment: datetime) -> PriceBook | None:
    """The book that is in effect then for a tenant without one of its own: one of its currency."""
    return book_at(moment, account_actions.currency_of(tenant))


def book_at(moment: datetime, currency: str | None) -> PriceBook | None:
    """The book of a currency that is in effect then."""
    books = PriceBook.objects.filter(currency=currency, effective_from__lte=moment)
    return books.order_by("-effective_from").first()


def books_at(moment: datetime) -> list[PriceBook]:
    """The books that are in effect then, one of each currency."""
    newest: dict[str | None, PriceBook] = {}
    for row in PriceBook.objects.filter(effective_from__lte=moment).order_by("effective_from"):
        newest[row.currency] = row
    return list(newest.values())
