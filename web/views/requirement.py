"""Whether a tenant requires a second factor of its people."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from control_plane.outbox import in_request
from penstock.contract.errors import PenstockError
from tenants.actions import KIND_TENANT
from tenants.factors import queries as factors
from tenants.models import Tenant
from tenants.people import queries
from tenants.people import requirement_actions as actions
from tenants.roles import Permission
from web import notices
from web.forms.console_form import posted
from web.forms.people import RequireFactorsForm
from web.tenant_access import TenantAccess, in_tenant


@in_tenant(Permission.FACTORS_REQUIRE)
@require_http_methods(["GET", "HEAD", "POST"])
def require_factors(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Require a second factor after some days; of a tenant that does, since when, and who has none yet."""
    form = RequireFactorsForm(posted(request))
    if form.is_valid():
        try:
            changed = actions.require(access.actor, access.tenant, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            return _changed(access, changed, f"{changed.name} requires a second factor.")
    without = queries.people_without_factor(access.tenant)
    context = {
        "here": "people",
        "form": form,
        "own": factors.are_asked_for(access.person),
        "without": [row.email for row in without.order_by("pk")[: actions.NAMED_MAX]],
        "count": without.count(),
    }
    return render(request, "web/require_factors.html", context, status=form.status)


@in_tenant(Permission.FACTORS_REQUIRE)
@require_POST
def require_no_more(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Let in people without a second factor again."""
    changed = actions.require_no_more(access.actor, access.tenant)
    return _changed(access, changed, f"{changed.name} requires no second factor any more.")


def _changed(access: TenantAccess, tenant: Tenant, said: str) -> HttpResponse:
    # Brokers have nothing to do with it; they only get the tenant's new generation.
    in_request.deliver_now(KIND_TENANT, tenant.public_id, tenant.generation)
    return notices.put(redirect(access.url("people")), said)
