"""What a tenant's running period costs so far, by every charge, and its prices. An estimate until the period ends."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec import UNSET

from billing import credit_queries, measured, price_actions, queries
from billing.models import BillingEntry, Cut, Invoice
from billing.open_times import open_ms
from penstock.contract import documents
from penstock.rules import charges, rating
from penstock.rules.meters import MEASURED
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCost:
    """Usage that is on no issued invoice yet, rated as one period that ends now."""

    begins: datetime
    """Where the newest issued invoice ended."""
    book: rating.PriceBook
    credit: charges.StandingCredit
    """The terms of the running period, and what is left of each grant before it."""
    rated: rating.Rated
    charged: charges.Charged

    @property
    def total_micro(self) -> int:
        return self.charged.total_micro

    @property
    def book_document(self) -> dict[str, Any]:
        """The price book as its document says it."""
        return self.book.document()

    @property
    def terms(self) -> Any:
        """As plain JSON."""
        return documents.plain(self.credit.terms)

    @property
    def left(self) -> dict[str, int]:
        """What would be left of each grant if the period ended now."""
        return {one.grant: one.before_micro - one.used_micro for one in self.charged.balances}


def running_cost(tenant: Tenant, now: datetime) -> RunningCost | None:
    """The cost of what is on no invoice yet; None while there are no prices."""
    row = price_actions.running_prices_of(tenant)
    if row is None:
        return None
    book = rating.PriceBook.read(row.document)
    groups = queries.usage(tenant, by=[], first=None, end=None)
    meters = groups[0]["meters"] if groups else {}
    quantities = {name: max(0, numbers["provisional"]) for name, numbers in meters.items()}
    invoiced = (
        Cut.objects.filter(tenant=tenant, invoice__status=Invoice.Status.ISSUED)
        .order_by("-period_end")
        .first()
    )
    begins = price_actions.tenant_begins(tenant) if invoiced is None else invoiced.period_end
    # With the days that are not over: they count in the period in which they end.
    due = measured.due_sums(tenant, measured.measured_meters(book), begins, now.date() + timedelta(days=1))
    rated = rating.rate(book, {**quantities, **dict.fromkeys(MEASURED, 0), **due})
    credit = running_credit(tenant, running_begins(tenant))
    ends = max(begins, now)
    return RunningCost(
        begins=begins,
        book=book,
        credit=credit,
        rated=rated,
        charged=charges.charge(
            book,
            credit.terms,
            {line.meter: line.amount_micro for line in rated.lines},
            (time_ms(begins), time_ms(ends)),
            credit.rests,
            open_ms=open_ms(tenant, begins, ends),
        ),
    )


def running_begins(tenant: Tenant) -> datetime:
    """Where the newest closed period ended, issued or not; the tenant's beginning before there is one."""
    last = Cut.objects.filter(tenant=tenant).order_by("-period_end").first()
    return price_actions.tenant_begins(tenant) if last is None else last.period_end


def running_credit(tenant: Tenant, running: datetime) -> charges.StandingCredit:
    """The terms of the period that began then, and what is left of each grant before it."""
    terms = _running_terms(tenant, running)
    if terms is None:
        return charges.StandingCredit(terms=documents.NO_TERMS, rests={})
    return credit_queries.standing(tenant, terms, running)


def _running_terms(tenant: Tenant, running: datetime) -> documents.Terms | None:
    """None in format 1, and before the tenant has a chain."""
    if not BillingEntry.objects.filter(tenant=tenant, kind=BillingEntry.Kind.PRICES).exists():
        return None
    terms = price_actions.assigned_prices(tenant, running).terms
    return None if terms is UNSET else terms
