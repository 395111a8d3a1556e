"""Closing a tenant, reopening it, and protecting it against being closed."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from control_plane.outbox import in_request
from control_plane.topics import queries as topics
from penstock.contract.errors import PenstockError
from tenants.actions import KIND_TENANT
from tenants.closing import actions
from tenants.models import Tenant
from tenants.roles import Permission
from web import notices
from web.forms.closing import CloseTenantForm, ProtectForm
from web.forms.console_form import posted
from web.tenant_access import TenantAccess, in_tenant


@in_tenant(Permission.TENANT_CLOSE)
@require_http_methods(["GET", "HEAD", "POST"])
def close(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Close the tenant by typing its name; of a closed one, what becomes of it."""
    form = CloseTenantForm(access.tenant.name, posted(request))
    if form.is_valid():
        try:
            changed = actions.close(access.actor, access.tenant)
        except PenstockError as error:
            form.refuse(error)
        else:
            return _changed(access, changed, f"{changed.name} is closed.")
    context = {
        "form": form,
        "grace": actions.GRACE.days,
        "topics": topics.topics(access.tenant).count(),
        "protecting": ProtectForm(initial={"protected": "no" if access.tenant.protected else "yes"}),
    }
    return render(request, "web/tenant_close.html", context, status=form.status)


@in_tenant(Permission.TENANT_CLOSE)
@require_POST
def reopen(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Open a closed tenant again."""
    changed = actions.reopen(access.actor, access.tenant)
    return _changed(access, changed, f"{changed.name} is open again.")


@in_tenant(Permission.TENANT_CLOSE)
@require_POST
def protect(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Protect the tenant against being closed, or do so no more."""
    form = ProtectForm(request.POST)
    if not form.is_valid():
        return notices.put(redirect(access.url("close-tenant")), "Nothing was changed.", "caution")
    changed = actions.set_protected(access.actor, access.tenant, form.wanted)
    said = "protected against being closed" if changed.protected else "protected no more"
    return _changed(access, changed, f"{changed.name} is {said}.", page="close-tenant")


def _changed(access: TenantAccess, tenant: Tenant, said: str, page: str = "overview") -> HttpResponse:
    response = redirect(access.url(page))
    if in_request.deliver_now(KIND_TENANT, tenant.public_id, tenant.generation):
        return notices.put(response, said)
    return notices.put(response, f"{said} The brokers get it as soon as they answer.", "caution")
