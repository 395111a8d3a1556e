"""People of a tenant with their roles, invitations, and the page of an invitation."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from control_plane import config
from control_plane.access import list_actions
from control_plane.rest.people_shapes import link_of
from penstock.contract.errors import PenstockError, split_message
from tenants import joining
from tenants import queries as tenants
from tenants.models import (
    Invitation,
    Membership,
    Organisation,
    OrganisationInvitation,
    OrganisationMember,
    Tenant,
)
from tenants.organisations.queries import is_owner_of
from tenants.people import actions, queries
from tenants.roles import KEY_ROLES, Permission, Role, Standing
from web import notices, rate_limit, sessions
from web.forms.accounts import JoinForm
from web.forms.console_form import ConsoleForm, posted
from web.forms.people import InviteForm, RoleForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant
from web.views.entering import end_session, welcome
from web.views.members import Reader, shown

MEANINGS = {
    Role.OWNER: "everything, and makes other owners",
    Role.ADMIN: "everything except owners",
    Role.DEVELOPER: "topics, messages, groups and keys",
    Role.BILLING: "usage and invoices",
    Role.AUDITOR: "reads everything except messages, and the audit log",
}
PER_PAGE = 50
JOIN_PER_ADDRESS = 60
"""Attempts within a minute."""


@in_tenant(Permission.PEOPLE_READ)
@require_safe
def people(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """All people with their roles, and open invitations."""
    reader = _reader(access)
    page = page_of(request, queries.members_with_factors(access.tenant).order_by("pk"), PER_PAGE)
    invited = queries.invitations(access.tenant).order_by("pk")
    context = {
        "here": "people",
        "page": page,
        "members": shown(
            reader,
            page.object_list,
            roles=reader.gives(MEANINGS),
            owners=queries.members(access.tenant).filter(role=Role.OWNER).count(),
        ),
        "invitations": page_of(request, invited, PER_PAGE, "invited"),
        "meanings": [(role.value, text) for role, text in MEANINGS.items()],
        # Others need not know whose account a password alone opens.
        "shows_factors": access.may(Permission.AUDIT_READ),
        "organisation": access.tenant.organisation,
        "moved_out": access.tenant.public_id,
        "may_move_out": is_owner_of(access.person, access.tenant) if access.tenant.organisation_id else False,
        "by_organisation": page_of(
            request, tenants.people_by_organisation(access.tenant).order_by("pk"), PER_PAGE, "organisation"
        ),
    }
    return render(request, "web/people.html", context)


@in_tenant(Permission.PEOPLE_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def invite(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Make an invitation. Only this one page shows its link, and only if no mail server can bring it."""
    back: dict[str, object] = {"here": "people", "back": access.url("people"), "back_name": "People"}
    form = InviteForm(_reader(access).gives(MEANINGS), posted(request))
    if form.is_valid():
        try:
            row, token = actions.invite(access.actor, access.tenant, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            by_mail = config.current().mail is not None
            link = "" if by_mail else link_of(token)
            context = back | {"invitation": row, "link": link, "by_mail": by_mail}
            return render(request, "web/invitation_shown.html", context)
    return render(request, "web/invite.html", back | {"form": form}, status=form.status)


@in_tenant(Permission.PEOPLE_WRITE)
@require_POST
def withdraw(request: HttpRequest, access: TenantAccess, invitation: str) -> HttpResponse:
    """Withdraw an invitation: its link stops working."""
    actions.withdraw(access.actor, access.tenant, invitation)
    return notices.put(redirect(access.url("people")), "The invitation is withdrawn.")


@in_tenant(Permission.PEOPLE_WRITE)
@require_POST
def change_role(request: HttpRequest, access: TenantAccess, member: str) -> HttpResponse:
    """Give a person another role, after a confirmation if their keys are revoked with it."""
    found = queries.member(access.tenant, member)
    before = found.role
    every = [role.value for role in Role]
    form = RoleForm(every, request.POST)
    if not form.is_valid():
        return notices.put(redirect(access.url("people")), "Nothing was changed: choose a role.", "caution")
    wanted = form.cleaned_data["role"]
    if wanted not in KEY_ROLES and not form.cleaned_data["confirmed"]:
        ending = tenants.keys_made_by(access.tenant, found.person)
        if ending:
            again = RoleForm(every, role=wanted, confirmed="1")
            context = {"here": "people", "member": found, "role": wanted, "form": again, "keys": ending}
            return render(request, "web/person_role.html", context)
    try:
        row = actions.change_role(access.actor, access.tenant, member, role=wanted)
    except PenstockError as error:
        return notices.put(redirect(access.url("people")), _said(error), "caution")
    if row.role == before:
        return redirect(access.url("people"))
    return notices.put(redirect(access.url("people")), f"{row.person.email} is {row.role} now.")


@in_tenant(Permission.PEOPLE_READ)
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, access: TenantAccess, member: str) -> HttpResponse:
    """Leave the tenant, or remove another person, after a confirmation."""
    row = queries.member(access.tenant, member)
    leaves = row.person_id == access.person.pk
    form = ConsoleForm(posted(request))
    if form.is_valid():
        try:
            list_actions.remove_person(access.actor, access.tenant, member)
        except PenstockError as error:
            form.refuse(error)
        else:
            if leaves:
                return notices.put(redirect("web:home"), f"You have left {access.tenant.name}.")
            return notices.put(redirect(access.url("people")), f"{row.person.email} is removed.")
    ending = tenants.keys_made_by(access.tenant, row.person)
    context = {"here": "people", "member": row, "leaves": leaves, "form": form, "keys": ending}
    return render(request, "web/person_remove.html", context, status=form.status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """The page of an invitation: join as the person who has signed in, sign in first, or sign up with a password."""
    rate_limit.spend("join", sessions.source_of(request), JOIN_PER_ADDRESS)
    invitation = joining.invitation_of(token)
    person = sessions.person_of(request)
    form = JoinForm(posted(request))
    known = queries.has_signed_up(invitation.email)
    if request.method == "POST" and person is not None:
        member = joining.join(sessions.actor_of(request, person), person, token)
        return notices.put(redirect(_home_of(member)), f"You have joined {_joined(member).name}.")
    if not known and form.is_valid():
        try:
            _, member, session = joining.sign_up_invited(
                email=invitation.email,
                password=form.cleaned_data["password"],
                token=token,
                request_id=sessions.request_id_of(request),
                source=sessions.source_of(request),
                browser=sessions.browser_of(request),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            end_session(request)
            return welcome(request, redirect(_home_of(member)), session)
    context = {
        "invitation": invitation,
        "to": _joined(invitation),
        "is_organisation": isinstance(invitation, OrganisationInvitation),
        "meaning": MEANINGS[Role(invitation.role)],
        "known": known,
        "form": form,
        "visitor": person,
        "right_person": person is not None and person.email == invitation.email,
        "next": reverse("web:join", args=[token]),
    }
    return render(request, "web/join.html", context, status=form.status)


def _joined(
    row: Membership | Invitation | OrganisationMember | OrganisationInvitation,
) -> Tenant | Organisation:
    return row.tenant if isinstance(row, Membership | Invitation) else row.organisation


def _home_of(member: Membership | OrganisationMember) -> str:
    page = "overview" if isinstance(member, Membership) else "organisation"
    return reverse(f"web:{page}", args=[_joined(member).name])


def _reader(access: TenantAccess) -> Reader:
    return Reader(
        person=access.person.pk,
        writes=access.may(Permission.PEOPLE_WRITE),
        is_owner=access.standing is Standing.OWNER,
    )


def _said(error: PenstockError) -> str:
    field, text = split_message(error.message)
    text = text if field in ("role", "tenant") else error.message
    return f"{text[:1].upper()}{text[1:]}."
