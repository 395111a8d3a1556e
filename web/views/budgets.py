"""Budgets of a tenant: what is used of each, and for owners, admins and billing: make, change, remove."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from billing.budget_usage import used_since
from billing.unit_rates import unit_rates
from control_plane.brokers import client as brokers
from control_plane.outbox import in_request
from penstock.contract.errors import PenstockError
from penstock.contract.resources.budgets import POLICY
from penstock.rules.budgets import COST, period_at
from penstock.rules.timestamps import moment_of, time_ms
from quotas import budget_actions as actions
from quotas import budget_notices, budget_queries
from quotas.growth import is_stopped
from quotas.models import Budget
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tenants.roles import Permission
from web import notices
from web.described import choice_label
from web.forms.budgets import BudgetForm, NewBudgetForm
from web.forms.console_form import posted
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant

HERE = "budgets"
PER_PAGE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One budget, as its row shows it."""

    row: Budget
    used: str
    """Empty: the brokers do not say it."""
    amount: str
    percent: int
    bar: int
    """Of 100."""
    badge: tuple[str, str]
    """(words, kind)."""
    policy: str
    since: object
    """Where it was made within the period; else None."""
    forecast: str
    """What the month is expected to cost, of a ceiling; empty: it is not known."""
    before: str
    """What the period had used by then; empty: nothing, or it was made before the period."""
    ends: object


@in_tenant(Permission.BUDGETS_READ)
@require_safe
def budgets(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """All of them, with what is used."""
    page = page_of(request, budget_queries.budgets(access.tenant).order_by("name"), PER_PAGE)
    rows = list(page)
    uses = brokers.budget_use([access.tenant.public_id]) if rows else {}
    now_ms = time_ms(timezone.now())
    prices = unit_rates(access.tenant) if any(row.measure == COST for row in rows) else None
    currency = "" if prices is None else prices.currency
    shown = [_shown(row, budget_queries.used_of(row, uses, now_ms), currency, now_ms) for row in rows]
    context = {"here": HERE, "page": page, "budgets": shown, "silent": uses is None}
    return render(request, "web/budgets.html", context)


@in_tenant(Permission.BUDGETS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_budget(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Make one."""
    form = NewBudgetForm(posted(request))
    if form.is_valid():
        try:
            tenant, row = actions.create(
                access.actor, access.tenant, unit_rates, used_since, **form.given_new
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return _back(access, tenant, f"The budget {row.name} is made.")
    context = {"here": HERE, "form": form, "budget": None}
    return render(request, "web/budget_form.html", context, status=form.status)


@in_tenant(Permission.BUDGETS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_budget(request: HttpRequest, access: TenantAccess, budget: str) -> HttpResponse:
    """Change its name, its amount, and what happens."""
    row = budget_queries.budget(access.tenant, budget)
    form = BudgetForm(posted(request), initial=BudgetForm.of(row))
    if form.is_valid():
        try:
            tenant, changed = actions.change(access.actor, access.tenant, budget, form.given(row.measure))
        except PenstockError as error:
            form.refuse(error)
        else:
            return _back(access, tenant, f"The budget {changed.name} is changed.")
    context = {"here": HERE, "form": form, "budget": row}
    return render(request, "web/budget_form.html", context, status=form.status)


@in_tenant(Permission.BUDGETS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def remove_budget(request: HttpRequest, access: TenantAccess, budget: str) -> HttpResponse:
    """Remove it with what it counted."""
    row = budget_queries.budget(access.tenant, budget)
    if request.method == "POST":
        tenant = actions.remove(access.actor, access.tenant, budget)
        return _back(access, tenant, f"The budget {row.name} is removed.")
    return render(request, "web/budget_remove.html", {"here": HERE, "budget": row})


def reached_now(tenant: Tenant) -> list[Budget]:
    """Budgets whose highest threshold was said in this period, for the banner of the overview."""
    now_ms = time_ms(timezone.now())
    return [
        row
        for row in budget_queries.budgets(tenant).filter(noted_percent__gt=0).order_by("name")
        if row.noted_period_ms == period_at(row.period, now_ms)[0]
        and row.noted_percent >= max(row.thresholds, default=1)
    ]


def _shown(row: Budget, used: int | None, currency: str, now_ms: int) -> Shown:
    began_ms, ends_ms = period_at(row.period, now_ms)
    percent = 0 if used is None else budget_notices.percent(row, used)
    since = row.created_at if row.created_at > moment_of(began_ms) else None
    badge = ("used up", "bad") if percent >= 100 else ("below", "ok")
    if used is None:
        badge = ("not known", "")
    elif percent < 100 and budget_notices.reached(row, used):
        badge = (f"above {budget_notices.reached(row, used)} %", "caution")
    if is_stopped(row):
        badge = ("growth stopped", "bad")
    return Shown(
        row=row,
        forecast=""
        if row.forecast_micro is None
        else budget_notices.shown(COST, row.forecast_micro, currency),
        used="" if used is None else budget_notices.shown(row.measure, used, currency),
        amount=budget_notices.shown(row.measure, row.amount, currency),
        percent=percent,
        bar=min(100, percent),
        badge=badge,
        policy=choice_label(POLICY, row.policy),
        since=since,
        before="" if since is None else budget_notices.shown(row.measure, row.used_before, currency),
        ends=moment_of(ends_ms),
    )


def _back(access: TenantAccess, tenant: Tenant, done: str) -> HttpResponse:
    delivered = in_request.deliver_now(KIND_TENANT, tenant.public_id, tenant.generation)
    words = "Every broker has the change." if delivered else "The brokers get the change in a moment."
    return notices.put(redirect(access.url("budgets")), f"{done} {words}", "ok" if delivered else "caution")
