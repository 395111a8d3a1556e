"""Organisations of a person: their list, each with its members and tenants, names, moves of tenants, and the end."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.access import organisation_actions
from control_plane.outbox import in_request
from penstock.contract.errors import PenstockError
from tenants.actions import KIND_TENANT
from tenants.models import Person, Tenant
from tenants.organisations import actions, queries, tenant_actions
from tenants.roles import OrganisationPermission as May
from tenants.roles import OrganisationRole
from web import notices, sessions
from web.forms.console_form import ConsoleForm, posted
from web.forms.organisations import DeleteOrganisationForm, MoveInForm, OrganisationForm
from web.organisation_access import OrganisationAccess, in_organisation
from web.paging import page_of
from web.tenant_access import signed_in
from web.views.organisation_people import MEANINGS, shown_members

PER_PAGE = 30
"""Of each of the lists on an organisation's page."""


@signed_in
@require_safe
def organisations(request: HttpRequest, person: Person) -> HttpResponse:
    """All organisations of the person."""
    rows = queries.organisations_of(person).order_by("name")
    return render(request, "web/organisations.html", {"page": page_of(request, rows, PER_PAGE)})


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def new_organisation(request: HttpRequest, person: Person) -> HttpResponse:
    """One more organisation, owned by the person."""
    form = OrganisationForm(posted(request))
    if form.is_valid():
        try:
            made = actions.create(sessions.actor_of(request, person), person, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:organisation", made.name), f"{made.name} is made.")
    return render(request, "web/organisation_form.html", {"form": form}, status=form.status)


@in_organisation(May.READ, May.MEMBERS_READ)
@require_safe
def organisation(request: HttpRequest, access: OrganisationAccess) -> HttpResponse:
    """Its tenants, members and open invitations."""
    members = page_of(request, queries.members(access.organisation).order_by("pk"), PER_PAGE)
    tenants = queries.tenants(access.organisation).order_by("name")
    invited = queries.invitations(access.organisation).order_by("pk")
    context = _context(access) | {
        "page": members,
        "members": shown_members(access, members.object_list),
        "tenants": page_of(request, tenants, PER_PAGE, "tenants"),
        "invitations": page_of(request, invited, PER_PAGE, "invited"),
        "meanings": [(role.value, text) for role, text in MEANINGS.items()],
    }
    return render(request, "web/organisation.html", context)


@in_organisation(May.WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, access: OrganisationAccess) -> HttpResponse:
    """Other names."""
    row = access.organisation
    form = OrganisationForm(posted(request), initial={"name": row.name, "display_name": row.display_name})
    if form.is_valid():
        name = form.cleaned_data["name"]
        called = form.cleaned_data["display_name"] or name
        try:
            changed = actions.change(access.actor, row, name=name, display_name=called)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:organisation", changed.name), "The names are changed.")
    return render(
        request, "web/organisation_form.html", _context(access) | {"form": form}, status=form.status
    )


@in_organisation(May.DELETE)
@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, access: OrganisationAccess) -> HttpResponse:
    """Delete it by typing its name, once it has no tenants."""
    form = DeleteOrganisationForm(access.organisation.name, posted(request))
    if form.is_valid():
        try:
            actions.delete(access.actor, access.organisation)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:organisations"), f"{access.organisation.name} is deleted.")
    context = _context(access) | {"form": form, "tenants": queries.tenants(access.organisation).count()}
    return render(request, "web/organisation_delete.html", context, status=form.status)


@in_organisation(May.TENANTS_MOVE)
@require_http_methods(["GET", "HEAD", "POST"])
def move_in(request: HttpRequest, access: OrganisationAccess) -> HttpResponse:
    """Move a tenant in that the person owns themselves and that stands alone."""
    own = queries.tenants_to_move_in(access.person).order_by("name")
    choices = list(own.values_list("public_id", "name"))
    form = MoveInForm(choices, posted(request))
    if form.is_valid():
        try:
            moved = tenant_actions.move_in(access.actor, access.organisation, form.cleaned_data["tenant"])
        except PenstockError as error:
            form.refuse(error)
        else:
            return _moved(access, moved, f"{moved.name} belongs to {access.organisation.name} now.")
    context = _context(access) | {"form": form, "any": bool(choices)}
    return render(request, "web/organisation_move_in.html", context, status=form.status)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def move_out(request: HttpRequest, person: Person, organisation: str, moved: str) -> HttpResponse:
    """Move a tenant out, after a confirmation. Who owns it themselves need not belong to the organisation."""
    found = queries.tenant_to_move_out_by_name(person, organisation, moved)
    if found is None or found.organisation is None:
        # A member hears that an owner of the tenant itself is needed; a stranger that there is no such organisation.
        return _no_owner(request, organisation=organisation, moved=moved)
    form = ConsoleForm(posted(request))
    back = reverse("web:people", args=[found.name])
    if form.is_valid():
        try:
            actor = sessions.actor_of(request, person)
            row = organisation_actions.move_out(actor, found.organisation, found)
        except PenstockError as error:
            form.refuse(error)
        else:
            return _delivered(redirect(back), row, f"{row.name} stands alone now.")
    context = {
        "form": form,
        "moved": found,
        "organisation": found.organisation,
        "may_move": True,
        "back": back,
    }
    return render(request, "web/organisation_move_out.html", context, status=form.status)


@in_organisation(May.TENANTS_MOVE)
def _no_owner(request: HttpRequest, access: OrganisationAccess, moved: str) -> HttpResponse:
    found = queries.tenant(access.organisation, moved)
    context = _context(access) | {"moved": found, "may_move": False, "back": access.url("organisation")}
    status = 403 if request.method == "POST" else 200
    return render(request, "web/organisation_move_out.html", context, status=status)


def _context(access: OrganisationAccess) -> dict[str, object]:
    return {
        "organisation": access.organisation,
        "organisation_rights": access.rights,
        "own_role": access.role.value,
        "owner": access.role is OrganisationRole.OWNER,
    }


def _moved(access: OrganisationAccess, tenant: Tenant, said: str) -> HttpResponse:
    return _delivered(redirect(access.url("organisation")), tenant, said)


def _delivered(response: HttpResponse, tenant: Tenant, said: str) -> HttpResponse:
    if in_request.deliver_now(KIND_TENANT, tenant.public_id, tenant.generation):
        return notices.put(response, said)
    return notices.put(response, f"{said} The brokers hear of it as soon as they answer.", "caution")
