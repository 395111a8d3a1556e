"""Usage by day and topic."""

from datetime import date, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from billing import month_forecasts, queries
from penstock.rules.meters import (
    BYTES_OTHER_ZONE,
    BYTES_OWN_ZONE,
    CONNECTIONS,
    GB_HOUR,
    HOUR_MINUTES,
    HOUR_MS,
    PARTITIONS,
    REPLICATED,
    REQUESTS,
    RETAINED,
    THROTTLED,
)
from tenants.roles import Permission
from web import charts, formats
from web.costs import cost_so_far, prices_of
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant

PER_PAGE = 50
SPANS = (7, 30, 90)
ANOMALY_DAYS, ANOMALIES_SHOWN = 31, 5
METERS = {
    "messages_in": "Messages in",
    "bytes_in": "Bytes in",
    RETAINED: "Stored",
    PARTITIONS: "Partition time",
    REQUESTS: "Requests",
    CONNECTIONS: "Connections",
    BYTES_OTHER_ZONE: "Bytes to other zones",
}
_KEPT = (
    ("stored", RETAINED),
    ("replicated", REPLICATED),
    ("partitions", PARTITIONS),
    ("requests", REQUESTS),
    ("own_zone", BYTES_OWN_ZONE),
    ("other_zones", BYTES_OTHER_ZONE),
    ("connections", CONNECTIONS),
    ("throttled", THROTTLED),
)
CHART_UNITS = {
    RETAINED: (GB_HOUR // 1_000, "MB-hours"),
    PARTITIONS: (HOUR_MINUTES, "hours"),
    CONNECTIONS: (HOUR_MS, "hours"),
}
"""What a bar's number is of, where it is not of single items."""


@in_tenant(Permission.USAGE_READ)
@require_safe
def usage(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """A chart and two tables of the last days."""
    days = next((span for span in SPANS if str(span) == request.GET.get("days")), 30)
    meter = request.GET.get("meter", "messages_in")
    meter = meter if meter in METERS else "messages_in"
    today = timezone.now().date()
    first = today - timedelta(days=days - 1)
    rows = queries.usage(access.tenant, by=["topic", "day"], first=first, end=today + timedelta(days=1))
    shown_days = [first + timedelta(days=number) for number in range(days)]
    series = charts.folded(_series(rows, shown_days, meter))
    by_topic = queries.usage(access.tenant, by=["topic"], first=first, end=None)
    by_day = queries.usage(access.tenant, by=["day"], first=first, end=None)
    cost = cost_so_far(access.tenant)
    context: dict[str, Any] = {
        "here": "usage",
        "days": days,
        "spans": SPANS,
        "meter": meter,
        "meters": METERS,
        "chart_unit": CHART_UNITS.get(meter, (1, ""))[1],
        "any": bool(rows),
        "charts": _charts(series, shown_days),
        "legend": [(one.name, number) for number, one in enumerate(series, start=1)],
        "by_topic": page_of(
            request,
            sorted(
                (_flat(row, "topic") for row in by_topic if row["topic"]),
                key=lambda row: (-row["messages"], -row["stored"]),
            ),
            PER_PAGE,
            "topics",
        ),
        "by_day": [_flat(row, "day") for row in reversed(by_day)],
        "cost": cost,
        "prices": prices_of(cost),
        **forecast_shown(month_forecasts.month_forecast(access.tenant, timezone.now())),
        "anomalies": month_forecasts.tenant_anomalies(
            access.tenant, days=ANOMALY_DAYS, now=timezone.now(), most=ANOMALIES_SHOWN
        ),
        "anomaly_days": ANOMALY_DAYS,
        "availability": queries.availability(access.tenant, first=None, end=None),
    }
    return render(request, "web/usage.html", context)


def forecast_shown(found: month_forecasts.MonthForecast) -> dict[str, Any]:
    """The forecast and its chart of cost, from the period's beginning to the month's end."""
    drawn: list[charts.BandChart] = []
    days = () if found.cost is None else found.cost.days
    coming = [(day.low_micro, day.expected_micro, day.high_micro) for day in days if not day.is_over]
    if coming:
        past = [0, *(day.expected_micro for day in days if day.is_over)]
        first, last = days[0].day, days[-1].day
        marks = (f"{first.day} {first:%b}", "today", f"{last.day} {last:%b}")
        for width, height, name in ((charts.BROAD, 220, "broad"), (charts.NARROW, 200, "narrow")):
            drawn.append(
                charts.band(
                    past, coming, marks, width=width, height=height, name=name, text=formats.short_amount
                )
            )
    return {"forecast": found, "band_charts": drawn}


def _series(rows: list[dict[str, Any]], days: list[date], meter: str) -> list[charts.Series]:
    found: dict[str, dict[date, int]] = {}
    for row in rows:
        quantity = row["meters"].get(meter, {}).get("quantity", 0) // CHART_UNITS.get(meter, (1, ""))[0]
        if quantity or row["topic"]:
            found.setdefault(row["topic"] or "no topic", {})[row["day"]] = quantity
    return [
        charts.Series(name=topic, values=tuple(numbers.get(day, 0) for day in days))
        for topic, numbers in sorted(found.items())
    ]


def _charts(series: tuple[charts.Series, ...], days: list[date]) -> list[charts.BarChart]:
    labels = [f"{day.day} {day:%b}" for day in days]
    return [
        charts.stacked_bars(labels, series, width=charts.BROAD, height=230, name="broad"),
        charts.stacked_bars(labels, series, width=charts.NARROW, height=200, name="narrow"),
    ]


def _flat(row: dict[str, Any], by: str) -> dict[str, Any]:
    messages = row["meters"].get("messages_in", {})
    size = row["meters"].get("bytes_in", {})
    return {
        "name": row[by],
        "messages": messages.get("quantity", 0),
        "bytes": size.get("quantity", 0),
        "provisional": messages.get("provisional", 0),
        **{name: row["meters"].get(meter, {}).get("quantity", 0) for name, meter in _KEPT},
    }
