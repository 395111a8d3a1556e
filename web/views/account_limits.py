"""Limits of service accounts beside their tenant's: of one, and of each that has none of its own."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from control_plane.outbox import in_request
from penstock.contract.errors import Forbidden, PenstockError
from quotas import account_actions as actions
from quotas import account_queries as queries
from quotas.account_queries import AccountLimitsFound
from quotas.queries import limits_of
from tenants import queries as tenants
from tenants.actions import KIND_TENANT
from tenants.models import ServiceAccount, Tenant
from tenants.roles import Permission
from web import notices
from web.forms.access import AccountLimitsForm
from web.forms.console_form import posted
from web.tenant_access import TenantAccess, in_tenant
from web.views.access import HERE

LABELS = {
    "produce_bytes_per_s": "Produce rate",
    "consume_bytes_per_s": "Consume rate",
    "requests_per_s": "Requests",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holding:
    """What holds of one limit, and why."""

    label: str
    value: int
    """0 = no limit."""
    in_bytes: bool
    why: str


@in_tenant(Permission.ACCESS_READ)
@require_http_methods(["GET", "HEAD", "POST"])
def account_limits(request: HttpRequest, access: TenantAccess, account: str) -> HttpResponse:
    """What holds for one service account; owners and admins set it."""
    return _page(request, access, tenants.service_account(access.tenant, account))


@in_tenant(Permission.ACCESS_READ)
@require_http_methods(["GET", "HEAD", "POST"])
def each_account_limits(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """What holds for each service account that has no limits of its own."""
    return _page(request, access, None)


def _page(request: HttpRequest, access: TenantAccess, account: ServiceAccount | None) -> HttpResponse:
    found = queries.limits_of_account(access.tenant, account)
    if request.method == "POST" and not access.may(Permission.ACCOUNT_LIMITS_WRITE):
        raise Forbidden(f"{Permission.ACCOUNT_LIMITS_WRITE.value} is not for {access.standing.value}")
    form = AccountLimitsForm(posted(request), initial=found.own)
    if form.is_valid():
        wanted = form.cleaned_data
        try:
            if all(value is None for value in wanted.values()):
                tenant = actions.remove_account_limits(access.actor, access.tenant, account)
            else:
                tenant = actions.set_account_limits(access.actor, access.tenant, account, wanted)
        except PenstockError as error:
            form.refuse(error)
        else:
            done = "removed" if all(value is None for value in wanted.values()) else "set"
            return _answer(access, tenant, account, done)
    context = {
        "here": HERE,
        "account": account,
        "form": form,
        "holding": _holding(access.tenant, found),
    }
    return render(request, "web/account_limits.html", context, status=form.status)


def _answer(access: TenantAccess, tenant: Tenant, account: ServiceAccount | None, done: str) -> HttpResponse:
    delivered = in_request.deliver_now(KIND_TENANT, tenant.public_id, tenant.generation)
    words = (
        "Every broker has the change, for open streams too."
        if delivered
        else "The brokers get the change in a moment."
    )
    where = (
        access.url("each-account-limits")
        if account is None
        else access.url("account-limits", account.public_id)
    )
    return notices.put(redirect(where), f"The limits are {done}. {words}", "ok" if delivered else "caution")


def _holding(tenant: Tenant, found: AccountLimitsFound) -> list[_Holding]:
    of_tenant = limits_of(tenant)
    rows = []
    for name, label in LABELS.items():
        own: int = getattr(found.effective, name)
        most: int = getattr(of_tenant, name)
        if own and not 0 < most < own:
            mine = found.account is None or found.own[name] is not None
            value, why = own, "its own" if mine else "that of each service account"
            why = "for all keys of one account together" if found.account is None else why
        else:
            value = most
            why = "the tenant's, for all its clients together" if most else ""
            why += "; the one that is set is higher" if own else ""
        rows.append(_Holding(label=label, value=value, in_bytes="bytes" in name, why=why))
    return rows
