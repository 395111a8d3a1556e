"""A month's service level: the share of good requests by several formulas, days, windows with failures, the credit."""

from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from billing.service_level_reports import PER_MILLES
from billing.service_level_shown import ShownDay, shown
from control_plane.rest.service_levels import pdf_answer, report_of
from quotas.queries import plan_of
from tenants.models import Tenant
from tenants.roles import Permission
from web import charts
from web.tenant_access import TenantAccess, in_tenant

MONTHS_SHOWN = 12


@in_tenant(Permission.USAGE_READ)
@require_safe
def service_level(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The running month, or the one asked for."""
    months = _months(access.tenant, timezone.now())
    month = request.GET.get("month", months[0])
    report = report_of(access.tenant, month)
    said = shown(report)
    level = plan_of(access.tenant).service_level
    next_level = f"{level.name} {level.version}"
    context = {
        "here": "usage",
        "month": report.document.month,
        "months": months,
        "report": report,
        "shown": said,
        "next_level": next_level if report.provisional and next_level != said.level else "",
        "charts": _charts(said.days),
        "legend": [("Minutes without service, as the lost share of each day", 1)],
        "percentiles": [f"{one / 10:g} %" for one in PER_MILLES],
    }
    return render(request, "web/service_level.html", context)


@in_tenant(Permission.USAGE_READ)
@require_safe
def file(request: HttpRequest, access: TenantAccess, month: str) -> HttpResponse:
    """The month as PDF."""
    return pdf_answer(access.tenant, month)


def _months(tenant: Tenant, now: datetime) -> list[str]:
    """The newest months that the tenant was there for, the running one first."""
    first = tenant.created_at.astimezone(UTC)
    count = min(MONTHS_SHOWN, (now.year - first.year) * 12 + now.month - first.month + 1)
    numbers = [now.year * 12 + now.month - 1 - back for back in range(max(1, count))]
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in numbers]


def _charts(days: tuple[ShownDay, ...]) -> list[charts.BarChart]:
    labels = [f"{one.day.day} {one.day:%b}" for one in days]
    series = [charts.Series(name="lost", values=tuple(one.lost_minutes or 0 for one in days))]
    return [
        charts.stacked_bars(labels, series, width=charts.BROAD, height=200, name="broad"),
        charts.stacked_bars(labels, series, width=charts.NARROW, height=180, name="narrow"),
    ]
