"""Keys that prove invoices and read no message: list and make (shown once), for the roles that may verify."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.access import actions
from control_plane.access import queries as key_queries
from penstock.contract.errors import PenstockError
from tenants import queries
from tenants.roles import Permission
from web.forms.console_form import posted
from web.forms.keys import VerifyingKeyForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant
from web.views.keys import PER_PAGE, proving_keys, shown_once, state_of


@in_tenant(Permission.INVOICES_VERIFY)
@require_safe
def verifying_keys(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Those that are valid, and what they may do."""
    rows = (
        queries.verifying_keys(access.tenant)
        .filter(revoked_at=None)
        .exclude(expires_at__lte=timezone.now())
        .prefetch_related("bindings")
        .order_by("-pk")
    )
    page = page_of(request, rows, PER_PAGE)
    items = [(row, state_of(row), key_queries.bindings(row)) for row in page]
    return render(request, "web/verifying_keys.html", {"here": "invoices", "page": page, "items": items})


@in_tenant(Permission.INVOICES_VERIFY)
@require_http_methods(["GET", "HEAD", "POST"])
def new_verifying_key(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Make a key that proves invoices. Only this one page shows its text."""
    form = VerifyingKeyForm(posted(request))
    if form.is_valid():
        try:
            key, text = actions.create_verifying_key(
                access.actor,
                access.tenant,
                name=form.cleaned_data["name"],
                expires_at=None if form.days is None else timezone.now() + timedelta(days=form.days),
                topic_prefix=form.cleaned_data["topic_prefix"],
            )
            return shown_once(request, access, key, text.reveal(), of=proving_keys(access))
        except PenstockError as error:
            form.refuse(error)
    context = {"here": "invoices", "form": form}
    return render(request, "web/verifying_key_new.html", context, status=form.status)
