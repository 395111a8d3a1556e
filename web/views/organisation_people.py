"""Members of an organisation with their roles, and invitations to it."""

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from control_plane import config
from control_plane.access import organisation_actions
from control_plane.rest.people_shapes import link_of
from penstock.contract.errors import PenstockError, split_message
from tenants.models import OrganisationMember
from tenants.organisations import actions, queries
from tenants.roles import OrganisationPermission as May
from tenants.roles import OrganisationRole as Role
from web import notices
from web.forms.console_form import ConsoleForm, posted
from web.forms.people import InviteForm, RoleForm
from web.organisation_access import OrganisationAccess, in_organisation
from web.refusals import as_sentence
from web.views.members import Reader, shown

MEANINGS = {
    Role.OWNER: "everything, also in each tenant; makes other owners, moves tenants in and out",
    Role.ADMIN: "members of other roles, and everything in each tenant except owners",
    Role.BILLING: "usage and invoices of each tenant",
    Role.AUDITOR: "reads everything of each tenant except messages, and the audit logs",
}


@in_organisation(May.MEMBERS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def invite(request: HttpRequest, access: OrganisationAccess) -> HttpResponse:
    """Make an invitation. Only this one page shows its link, and only if no mail server can bring it."""
    form = InviteForm(_reader(access).gives(MEANINGS), posted(request), chosen=Role.AUDITOR.value)
    if form.is_valid():
        try:
            row, token = actions.invite(access.actor, access.organisation, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            by_mail = config.current().mail is not None
            context = {
                "invitation": row,
                "link": "" if by_mail else link_of(token),
                "by_mail": by_mail,
                "back": access.url("organisation"),
                "back_name": access.organisation.name,
            }
            return render(request, "web/invitation_shown.html", context)
    context = {"form": form, "back": access.url("organisation"), "back_name": access.organisation.name}
    return render(request, "web/invite.html", context, status=form.status)


@in_organisation(May.MEMBERS_WRITE)
@require_POST
def withdraw(request: HttpRequest, access: OrganisationAccess, invitation: str) -> HttpResponse:
    """Withdraw an invitation: its link stops working."""
    actions.withdraw(access.actor, access.organisation, invitation)
    return notices.put(redirect(access.url("organisation")), "The invitation is withdrawn.")


@in_organisation(May.MEMBERS_WRITE)
@require_POST
def change_role(request: HttpRequest, access: OrganisationAccess, member: str) -> HttpResponse:
    """Give a member another role."""
    before = queries.member(access.organisation, member).role
    form = RoleForm([role.value for role in Role], request.POST)
    back = redirect(access.url("organisation"))
    if not form.is_valid():
        return notices.put(back, "Nothing was changed: choose a role.", "caution")
    try:
        row = actions.change_role(access.actor, access.organisation, member, role=form.cleaned_data["role"])
    except PenstockError as error:
        return notices.put(back, as_sentence(split_message(error.message)[1]), "caution")
    if row.role == before:
        return back
    return notices.put(back, f"{row.person.email} is {row.role} now.")


@in_organisation(May.READ)
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, access: OrganisationAccess, member: str) -> HttpResponse:
    """Leave the organisation, or remove another person, after a confirmation."""
    row = queries.member(access.organisation, member)
    leaves = row.person_id == access.person.pk
    form = ConsoleForm(posted(request))
    if form.is_valid():
        try:
            organisation_actions.remove_member(access.actor, access.organisation, member)
        except PenstockError as error:
            form.refuse(error)
        else:
            if leaves:
                said = f"You have left {access.organisation.name}."
                return notices.put(redirect("web:organisations"), said)
            return notices.put(redirect(access.url("organisation")), f"{row.person.email} is removed.")
    context = {"organisation": access.organisation, "member": row, "leaves": leaves, "form": form}
    return render(request, "web/organisation_remove.html", context, status=form.status)


def shown_members(
    access: OrganisationAccess, rows: Iterable[OrganisationMember]
) -> list[tuple[OrganisationMember, bool, RoleForm | None, bool]]:
    """As `members.shown`."""
    reader = _reader(access)
    owners = queries.members(access.organisation).filter(role=Role.OWNER).count()
    return shown(reader, rows, roles=reader.gives(MEANINGS), owners=owners)


def _reader(access: OrganisationAccess) -> Reader:
    return Reader(
        person=access.person.pk, writes=access.may(May.MEMBERS_WRITE), is_owner=access.role is Role.OWNER
    )
