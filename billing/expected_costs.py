"""What a tenant's present month is expected to cost, for ceilings."""

from datetime import UTC, datetime

from django.db.models import Sum

from billing.models import Cut, Invoice
from billing.month_forecasts import month_forecast
from billing.voids import without_void
from quotas.growth import Expected
from tenants.models import Tenant


def expected_month(tenant: Tenant, now: datetime) -> Expected | None:
    """What the forecast expects of the running period and, where a period was closed within the month, its invoice,
    unless that was taken back; until it is issued not all is known. A forecast that does not stand on enough days yet
    counts with its low end. None: there are no prices.
    """
    found = month_forecast(tenant, now)
    if found.cost is None:
        return None
    month = datetime(found.begins.year, found.begins.month, 1, tzinfo=UTC)
    closed = Cut.objects.filter(tenant=tenant, period_end__gt=month)
    invoices = Invoice.objects.filter(cut__in=closed, total_micro__isnull=False)
    invoiced = without_void(invoices).aggregate(total=Sum("total_micro"))["total"]
    priced = found.cost.expected if found.is_tested else found.cost.low
    return Expected(
        cost_micro=max(0, priced.total_micro) + max(0, invoiced or 0),
        currency=found.cost.book.currency,
        is_whole=invoices.count() == closed.count(),
    )
