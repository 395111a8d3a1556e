"""Service accounts, and groups of principals that access lists name."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from control_plane.access import list_actions as actions
from control_plane.access import queries
from control_plane.outbox import in_request
from penstock.contract.errors import InUse, PenstockError
from penstock.rules import access as rules
from tenants import actions as tenant_actions
from tenants import queries as tenants
from tenants.roles import Permission
from web import notices
from web.forms.access import AccountForm, GroupForm, MembersForm
from web.forms.console_form import ConsoleForm, posted
from web.tenant_access import TenantAccess, in_tenant
from web.views.access import HERE, answer, choices_of


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_account(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Make a service account. Its keys are made on the page of a new key."""
    form = AccountForm(posted(request))
    if form.is_valid():
        try:
            row = actions.create_account(access.actor, access.tenant, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            text = f"{row.name} is made. Now make a key of it."
            return notices.put(redirect(access.url("new-key") + f"?account={row.public_id}"), text)
    context = {"here": HERE, "form": form}
    return render(request, "web/service_account_new.html", context, status=form.status)


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def delete_account(request: HttpRequest, access: TenantAccess, account: str) -> HttpResponse:
    """Delete a service account: its keys are revoked, and entries that name it are removed."""
    row = tenants.service_account(access.tenant, account)
    keys = tenants.keys(access.tenant).filter(service_account=row, revoked_at=None)
    if request.method == "POST":
        ending = list(keys)
        actions.end_account(access.actor, access.tenant, row)
        for key in ending:
            key.refresh_from_db()
            in_request.deliver_now(tenant_actions.KIND_KEY, key.public_id, key.generation)
        return notices.put(redirect(access.url("access")), f"{row.name} is deleted.")
    context = {"here": HERE, "account": row, "keys": keys.count()}
    return render(request, "web/service_account_delete.html", context)


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_group(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Make a group of principals."""
    form = GroupForm(choices_of(access.tenant), posted(request))
    if form.is_valid():
        try:
            row, group = actions.create_group(access.actor, access.tenant, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            return answer(access, row, f"The group {group.name} is made.")
    return _group_page(request, form, name="")


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def principal_group(request: HttpRequest, access: TenantAccess, group: str) -> HttpResponse:
    """Change the members of a group of principals."""
    row = queries.group(access.tenant, group)
    own = f"{rules.GROUP_KIND}{row.public_id}"
    offered = [choice for choice in choices_of(access.tenant) if choice[0] != own]
    # Who may hold keys no longer is a member still, until the members are set again.
    offered += [(member, member) for member in row.members if member not in dict(offered)]
    form = MembersForm(offered, posted(request), initial={"members": row.members})
    if form.is_valid():
        try:
            changed, _ = actions.set_members(access.actor, access.tenant, group, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            return answer(access, changed, f"The group {row.name} has other members.")
    return _group_page(request, form, name=row.name)


@in_tenant(Permission.ACCESS_WRITE)
@require_POST
def delete_group(request: HttpRequest, access: TenantAccess, group: str) -> HttpResponse:
    """Delete a group that no entry and no other group names."""
    try:
        row, gone = actions.remove_group(access.actor, access.tenant, group)
    except InUse as error:
        return notices.put(redirect(access.url("access")), error.message, "caution")
    return answer(access, row, f"The group {gone.name} is deleted.")


def _group_page(request: HttpRequest, form: ConsoleForm, *, name: str) -> HttpResponse:
    context = {"here": HERE, "form": form, "group_name": name}
    return render(request, "web/principal_group.html", context, status=form.status)
