"""What a tenant's last invoiced periods would have cost by another price book or other terms. Writes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace

from billing import price_actions, tax_actions, voids
from billing.models import BillingEntry, Invoice
from penstock.contract import documents
from penstock.contract.errors import NotFound
from penstock.rules import charges, rating
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant

PERIODS_MAX = 12
USAGE = "usage"
"""The kind of a meter's line beside those of charges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewLine:
    """A line of the invoice, of the preview or of both. 0 where it is not."""

    kind: str
    name: str
    meter: str
    billed_micro: int
    preview_micro: int

    @property
    def difference_micro(self) -> int:
        return self.preview_micro - self.billed_micro


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`charged.total_micro` is in the currency of the book, `billed_micro` in that of the invoice."""

    invoice: Invoice
    book: rating.PriceBook
    rated: rating.Rated
    charged: charges.Charged

    @property
    def billed_micro(self) -> int:
        return self.invoice.total_micro or 0

    @property
    def preview_micro(self) -> int:
        return self.charged.total_micro

    @property
    def difference_micro(self) -> int | None:
        """None where the currencies differ."""
        same = self.book.currency == self.invoice.price_book.currency
        return self.preview_micro - self.billed_micro if same else None

    @property
    def lines(self) -> list[PreviewLine]:
        """Meters first, then charges, each in the order of the preview; what the preview no longer has is last."""
        return compared(
            amounts(
                ((line.meter, line.amount_micro) for line in self.invoice.lines.all()),
                (
                    ((one["kind"], one["name"], one["meter"]), int(one["amount_micro"]))
                    for one in self.invoice.charges
                ),
            ),
            amounts_of(self.rated, self.charged),
        )


def last_periods(
    tenant: Tenant,
    *,
    book: rating.PriceBook | None = None,
    terms: documents.Terms | None = None,
    count: int = 1,
    now: datetime,
) -> list[Preview]:
    """The newest issued invoices that were not taken back, at most `count`, oldest first, in one code path with real
    ones.

    Without a book or terms each has its own. Given terms are as they would be for a period that begins `now`, with all
    of each grant at the first of these periods. Raises `NotFound` without an issued invoice.
    """
    newest = (
        voids.without_void(Invoice.objects.filter(tenant=tenant, status=Invoice.Status.ISSUED))
        .select_related("cut", "price_book", "tenant")
        .prefetch_related("lines")
        .order_by("-cut__period_end")[:count]
    )
    invoices = list(reversed(newest))
    if not invoices:
        raise NotFound(f"tenant {tenant.public_id}: no period was invoiced yet")
    found: list[Preview] = []
    rests = None if terms is None else {grant.id: grant.amount_micro for grant in terms.credits}
    for invoice in invoices:
        by = rating.PriceBook.read(invoice.price_book.document) if book is None else book
        period_ms = (time_ms(invoice.cut.period_start), time_ms(invoice.cut.period_end))
        issued = _document(invoice)
        if terms is None or rests is None:
            had, left, stated = _own_terms(invoice, issued)
        else:
            stated = None
            had, left = _as_of(terms, time_ms(now), period_ms[0]), rests
            left = {
                grant.id: 0 if charges.is_expired(grant, period_ms[0]) else left[grant.id]
                for grant in had.credits
            }
        rated = rating.rate(by, {line.meter: line.quantity for line in invoice.lines.all()})
        amounts = {line.meter: line.amount_micro for line in rated.lines}
        opened_ms = period_ms if issued is None else issued.open_ms
        charged = charges.charge(by, had, amounts, period_ms, left, stated, open_ms=opened_ms)
        if rests is not None:
            rests = rests | {one.grant: one.before_micro - one.used_micro for one in charged.balances}
        found.append(Preview(invoice=invoice, book=by, rated=rated, charged=charged))
    return found


def last_period(tenant: Tenant, book: rating.PriceBook, now: datetime) -> Preview:
    """The newest issued invoice, rated by this book with the terms that it had. Raises as `last_periods`."""
    return last_periods(tenant, book=book, now=now)[-1]


def _document(invoice: Invoice) -> documents.InvoiceDocument | None:
    """None of an invoice that is older than documents."""
    entry = BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()
    if entry is None:
        return None
    return documents.read_document(entry.document, documents.InvoiceDocument, entry.object_id)


def _own_terms(
    invoice: Invoice, issued: documents.InvoiceDocument | None
) -> tuple[documents.Terms, Mapping[str, int], charges.StatedTax | None]:
    """The terms by which it was charged, what was left of each grant, and the tax that was stated: what costs more or
    less is taxed in proportion.
    """
    if issued is not None:
        terms = price_actions.charged_terms(invoice.tenant, invoice.cut.period_start, issued)
        if issued.balances is not UNSET and terms is not None:
            statement = issued.tax_statement
            return (
                terms,
                {one.grant: one.before_micro for one in issued.balances},
                None if statement is UNSET else tax_actions.stated(statement, issued.currency),
            )
    return documents.NO_TERMS, {}, None


def _as_of(terms: documents.Terms, now_ms: int, period_start_ms: int) -> documents.Terms:
    """The terms with every time moved from `now` to the period's beginning, so that the period has what holds now."""
    by = now_ms - period_start_ms
    return documents.Terms(
        discounts=tuple(
            replace(one, from_ms=one.from_ms - by, until_ms=one.until_ms - by) for one in terms.discounts
        ),
        credits=tuple(
            replace(one, expires_ms=None if one.expires_ms is None else one.expires_ms - by)
            for one in terms.credits
        ),
        tax=None
        if terms.tax is None
        else replace(
            terms.tax, rates=tuple(replace(one, from_ms=one.from_ms - by) for one in terms.tax.rates)
        ),
    )


Amounts = dict[tuple[str, str, str], int]
"""By kind, name and meter of a line."""


def amounts_of(rated: rating.Rated, charged: charges.Charged) -> Amounts:
    """The amount of each line."""
    return amounts(
        ((line.meter, line.amount_micro) for line in rated.lines),
        ((one.key, one.amount_micro) for one in charged.charges),
    )


def amounts(meters: Iterable[tuple[str, int]], others: Iterable[tuple[tuple[str, str, str], int]]) -> Amounts:
    """Meters first, then charges."""
    return {(USAGE, meter, meter): amount for meter, amount in meters} | dict(others)


def compared(before: Amounts, after: Amounts) -> list[PreviewLine]:
    """In the order of what is after; what is no longer there is last."""
    return [
        PreviewLine(
            kind=key[0],
            name=key[1],
            meter=key[2],
            billed_micro=before.get(key, 0),
            preview_micro=after.get(key, 0),
        )
        for key in dict.fromkeys([*after, *before])
    ]
