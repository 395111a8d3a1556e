"""What a tenant's periods cost, by meter and beside their meters: issued invoices, and the running period so far."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Prefetch, QuerySet

from billing.models import CreditNote, Invoice
from billing.running_costs import running_cost
from billing.voids import without_void
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Amounts are micro-units. `lines` and both others add up to the invoice's total less its credit notes."""

    cut: int | None
    """Its primary key; None: the period runs."""
    begins: datetime
    ends: datetime
    currency: str
    minor_digits: int
    lines: Mapping[str, int]
    """By meter, after its own discounts."""
    beside_micro: int
    """Fees, the minimum and credits: of no meter. Negative where credits pay."""
    tax_micro: int

    @property
    def first_day(self) -> date:
        return self.begins.astimezone(UTC).date()

    @property
    def last_day(self) -> date:
        """That it has a part of."""
        ends = self.ends.astimezone(UTC) - timedelta(microseconds=1)
        return max(self.first_day, ends.date())

    @property
    def is_provisional(self) -> bool:
        return self.cut is None


def periods_of_days(tenant: Tenant, first: date, end: date, now: datetime) -> list[Period]:
    """Those that have a part of the days [first, end), the oldest first."""
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    until = datetime(end.year, end.month, end.day, tzinfo=UTC)
    rows = _issued(tenant).filter(cut__period_start__lt=until, cut__period_end__gt=begin)
    found = [_period(row) for row in rows]
    running = _running(tenant, now)
    if running is not None and running.begins < until and running.ends >= begin:
        found.append(running)
    return found


def periods_that_begin(tenant: Tenant, first: datetime, end: datetime, now: datetime) -> list[Period]:
    """Those that begin in [first, end), as margins have them; the oldest first."""
    rows = _issued(tenant).filter(cut__period_start__gte=first, cut__period_start__lt=end)
    found = [_period(row) for row in rows]
    running = _running(tenant, now)
    if running is not None and first <= running.begins < end:
        found.append(running)
    return found


def _issued(tenant: Tenant) -> QuerySet[Invoice]:
    notes = Prefetch("credit_notes", queryset=CreditNote.objects.prefetch_related("lines").order_by("number"))
    return (
        without_void(Invoice.objects.filter(tenant=tenant, status=Invoice.Status.ISSUED))
        .select_related("cut", "price_book")
        .prefetch_related("lines", notes)
        .order_by("cut__period_start")
    )


def _period(invoice: Invoice) -> Period:
    sums = _Sums()
    for line in invoice.lines.all():
        sums.add("usage", line.meter, line.amount_micro)
    for charge in invoice.charges:
        sums.add(charge["kind"], charge["meter"], int(charge["amount_micro"]))
    for note in invoice.credit_notes.all():
        for credited in note.lines.all():
            sums.add("usage", credited.meter, -credited.amount_micro)
        for change in note.charges:
            sums.add(change["kind"], change["meter"], int(change["amount_micro"]))
        sums.add("granted", "", -note.granted_micro)
    return Period(
        cut=invoice.cut_id,
        begins=invoice.cut.period_start,
        ends=invoice.cut.period_end,
        currency=invoice.price_book.currency,
        minor_digits=int(invoice.price_book.document["minor_digits"]),
        lines=sums.lines,
        beside_micro=sums.beside,
        tax_micro=sums.tax,
    )


def _running(tenant: Tenant, now: datetime) -> Period | None:
    cost = running_cost(tenant, now)
    if cost is None:
        return None
    sums = _Sums()
    for line in cost.rated.lines:
        sums.add("usage", line.meter, line.amount_micro)
    for charge in cost.charged.charges:
        sums.add(charge.kind, charge.meter, charge.amount_micro)
    return Period(
        cut=None,
        begins=cost.begins,
        ends=max(cost.begins, now),
        currency=cost.book.currency,
        minor_digits=cost.book.minor_digits,
        lines=sums.lines,
        beside_micro=sums.beside,
        tax_micro=sums.tax,
    )


class _Sums:
    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.beside = self.tax = 0

    def add(self, kind: str, meter: Any, amount_micro: int) -> None:
        if kind == "tax":
            self.tax += amount_micro
        elif meter:
            self.lines[meter] = self.lines.get(meter, 0) + amount_micro
        else:
            self.beside += amount_micro
