"""For operators of the service: what a month cost, whose cost it is, and what stays of what was billed."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from billing import margins as month_margins
from billing.margins import Margin, Report
from penstock.contract.errors import PenstockError
from penstock.rules.allocation import Idle
from tenants.models import OperatorToken
from web.paging import page_of
from web.tenant_access import for_operators

PER_PAGE = 25
MONTHS = 13
ORDERS = {"cost": "Cost", "margin": "Margin, the least first", "billed": "Billed"}


@for_operators
@require_safe
def margins(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """The month's sums, its plans, assets and tenants; with `tenant` that one's topics."""
    now = timezone.now()
    months = _months(now)
    month = request.GET.get("period", months[0])[:20]
    currency = request.GET.get("currency", "")[:10]
    idle = Idle.KEPT if request.GET.get("idle") == Idle.KEPT else Idle.SPREAD
    order = request.GET.get("order", "cost")
    order = order if order in ORDERS else "cost"
    context: dict[str, Any] = {
        "here": "margins",
        "months": months,
        "period": month,
        "currency": currency,
        "idle": idle.value,
        "order": order,
        "orders": ORDERS.items(),
    }
    try:
        found = month_margins.margins(month, now, currency=currency, idle=idle)
        context |= _shown(request, found, order, now)
    except PenstockError as error:
        context["refused"] = error
    return render(request, "web/operator_margins.html", context, status=422 if "refused" in context else 200)


def _shown(request: HttpRequest, found: Report, order: str, now: datetime) -> dict[str, Any]:
    tenants = sorted(found.tenants, key=lambda one: _rank(one, order))
    wanted = request.GET.get("tenant", "")[:64].replace("\0", "")
    shown: dict[str, Any] = {
        "report": found,
        "page": page_of(request, tenants, PER_PAGE),
        "assets": page_of(
            request, sorted(found.found.assets, key=lambda one: -one.cost_micro), PER_PAGE, "assets"
        ),
        "busy": sum(bool(one.messages_in or one.billed_micro) for one in tenants),
        "idle_micro": found.found.idle_micro,
        "idle_percent": 100 * found.found.idle_micro // found.found.cost_micro
        if found.found.cost_micro
        else 0,
        "of_tenant": None,
    }
    if wanted:
        topics = month_margins.topic_margins(wanted, found, now)
        topics.sort(key=lambda one: (-one.cost_micro, one.topic))
        shown["of_tenant"] = next(one for one in found.tenants if one.tenant == wanted)
        shown["topics"] = page_of(request, topics, PER_PAGE, "topics")
    return shown


def _rank(one: Margin, order: str) -> tuple[int, str]:
    if order == "billed":
        return -one.billed_micro, one.tenant
    if order == "margin":
        return (0 if one.margin_micro is None else one.margin_micro), one.tenant
    return -one.cost_micro, one.tenant


def _months(now: datetime) -> list[str]:
    numbers = [now.year * 12 + now.month - 1 - back for back in range(MONTHS)]
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in numbers]
