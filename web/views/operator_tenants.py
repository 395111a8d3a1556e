"""For operators of the service: tenants, their limits, and suspending them."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from control_plane.audit import queries as audit
from control_plane.brokers import client as brokers
from control_plane.brokers.view import TenantUseSeen
from control_plane.outbox import in_request
from control_plane.topics import plan_use
from control_plane.topics import queries as topics
from penstock.contract.errors import PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from quotas import actions as quotas
from quotas.plans import STANDARD
from quotas.queries import limits_by_tenant, limits_of, quota_of
from tenants import actions, queries
from tenants.models import OperatorToken, Tenant
from web import notices, sessions
from web.forms.console_form import posted
from web.forms.operators import LimitsForm, SuspendForm
from web.paging import page_of, searched
from web.tenant_access import for_operators

PER_PAGE = 50
RECENT = 10


@for_operators
@require_safe
def tenants(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """All tenants, or those whose name contains a text or whose id it is."""
    wanted = searched(request)
    rows = queries.all_tenants().exclude(public_id=SYSTEM_TENANT).order_by("name")
    whole = rows.count()
    if wanted:
        rows = rows.filter(Q(name__icontains=wanted) | Q(public_id=wanted))
    rows = rows.annotate(people=Count("memberships", distinct=True))
    page = page_of(request, rows, PER_PAGE)
    shown = list(page)
    limits, partitions = limits_by_tenant(shown), topics.partitions_by_tenant(shown)
    context: dict[str, Any] = {
        "here": "tenants",
        "q": wanted,
        "whole": whole,
        "page": page,
        "items": [(row, limits[row.public_id], partitions.get(row.public_id, 0)) for row in shown],
    }
    return render(request, "web/operator_tenants.html", context)


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def tenant(request: HttpRequest, operator: OperatorToken, tenant: str) -> HttpResponse:
    """One tenant: a form for its limits, and the last changes."""
    row = tenant_of_operators(tenant)
    limits = limits_of(row)
    form = LimitsForm(posted(request), initial=asdict(limits))
    if form.is_valid():
        try:
            actor, before = sessions.operator_actor_of(request, operator), quota_of(row)
            asks = any(form.cleaned_data.get(name) is not None for name in plan_use.SEEN_BY_BROKERS)
            seen = brokers.tenant_use(row.public_id) if asks else TenantUseSeen()
            changed = plan_use.set_limits(actor, row, plan=None, seen=seen, **form.cleaned_data)
            if changed.generation == row.generation:
                return notices.put(redirect("web:operator-tenant", tenant), "Nothing was changed.")
            take_back = partial(quotas.take_back, actor, changed, row, before)
            return _delivered(changed, f"{row.name} has new limits", take_back)
        except PenstockError as error:
            form.refuse(error)
    context: dict[str, Any] = {
        "here": "tenants",
        "row": row,
        "form": form,
        "suspending": SuspendForm(initial={"suspended": "no" if row.suspended else "yes"}),
        "partitions": topics.partitions_by_tenant([row]).get(row.public_id, 0),
        "standard": STANDARD,
        "recent": audit.entries(row.public_id).order_by("-sequence")[:RECENT],
    }
    return render(request, "web/operator_tenant.html", context, status=form.status)


@for_operators
@require_POST
def suspend(request: HttpRequest, operator: OperatorToken, tenant: str) -> HttpResponse:
    """Suspend or resume the tenant: its keys are refused or accepted."""
    row = tenant_of_operators(tenant)
    form = SuspendForm(request.POST)
    if not form.is_valid():
        return notices.put(
            redirect("web:operator-tenant", tenant), "Nothing was changed: suspend or resume?", "caution"
        )
    wanted = form.wanted
    actor = sessions.operator_actor_of(request, operator)
    changed = actions.set_suspended(actor, row, wanted)
    if changed.generation == row.generation:
        return redirect("web:operator-tenant", tenant)
    take_back = partial(actions.take_back_suspended, actor, changed, row)
    return _delivered(changed, f"{row.name} is {'suspended' if wanted else 'resumed'}", take_back)


def tenant_of_operators(public_id: str) -> Tenant:
    """A tenant other than the system tenant, which has no limits and is never suspended. Raises `NotFound`."""
    if public_id == SYSTEM_TENANT:
        raise queries.tenant_missing(public_id)
    return queries.tenant_by_id(public_id)


def _delivered(row: Tenant, text: str, take_back: Callable[[str], bool]) -> HttpResponse:
    """To the tenant, saying whether the brokers have the change already. Raises what they refused it with for good."""
    delivered = in_request.deliver_or_take_back(actions.KIND_TENANT, row.public_id, row.generation, take_back)
    response = redirect("web:operator-tenant", row.public_id)
    if delivered:
        return notices.put(response, f"{text} on every broker.")
    return notices.put(response, f"{text}; the brokers get the change in a moment.", "caution")
