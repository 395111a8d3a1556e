"""A tenant's access list: its entries and default, and who may do what, and why not."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.access import list_actions as actions
from control_plane.access import queries
from control_plane.access.models import AclEntry, PrincipalGroup, TenantAccessList
from control_plane.outbox import in_request
from penstock.contract.errors import PenstockError
from penstock.rules import access as rules
from quotas.queries import limits_of
from tenants import queries as tenants
from tenants.models import ApiKey, Tenant
from tenants.roles import Permission
from web import notices
from web.forms.access import EntryForm, QuestionForm
from web.forms.console_form import posted
from web.paging import page_of, searched
from web.tenant_access import TenantAccess, in_tenant

PER_PAGE = 25
"""Rows of each of the three lists on one page."""
HERE = "access"


@in_tenant(Permission.ACCESS_READ)
@require_safe
def access_list(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The default, the entries, the service accounts and the groups of principals."""
    tenant = access.tenant
    known = queries.access_of(tenant)
    names = names_of(tenant)
    page = page_of(request, queries.acls(tenant).order_by("-pk"), PER_PAGE)
    accounts = page_of(request, tenants.service_accounts(tenant).order_by("name"), PER_PAGE, "accounts")
    groups = page_of(request, queries.groups(tenant).order_by("name"), PER_PAGE, "groups")
    context = {
        "here": HERE,
        "default": rules.ALLOW if known is None else known.default,
        "delivered": known is None or known.delivered_generation >= known.generation,
        "page": page,
        "entries": [ShownEntry.of(row, names) for row in page],
        "accounts": accounts,
        "groups": groups,
        "shown_groups": [(row, _members(row, names)) for row in groups],
    }
    return render(request, "web/access.html", context)


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def set_default(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """What holds for what no entry speaks of. Refusing it may stop programs, so a page says so first."""
    if request.method != "POST":
        context = {"here": HERE, "entries": queries.acls(access.tenant).filter(effect=rules.ALLOW).count()}
        return render(request, "web/access_default.html", context)
    row = actions.set_default(access.actor, access.tenant, request.POST.get("default", ""))
    words = "Everything is refused that no entry allows." if row.default == rules.DENY else ""
    return answer(access, row, words or "Everything is allowed that no entry denies.")


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_entry(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Add a preset's entries, or one."""
    form = EntryForm(choices_of(access.tenant), posted(request))
    if form.is_valid():
        try:
            row, _ = actions.add_acls(access.actor, access.tenant, form.acls())
        except PenstockError as error:
            form.refuse(error)
        else:
            return answer(access, row, "The access list has the new entries.")
    return render(request, "web/access_entry_new.html", {"here": HERE, "form": form}, status=form.status)


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def remove_entry(request: HttpRequest, access: TenantAccess, acl: str) -> HttpResponse:
    """The entry holds no longer. A page shows before what that means."""
    if request.method != "POST":
        entry = ShownEntry.of(queries.acl(access.tenant, acl), names_of(access.tenant))
        context = {"here": HERE, "entry": entry, "days": limits_of(access.tenant).bin_days}
        return render(request, "web/access_entry_remove.html", context)
    row, _ = actions.remove_acl(access.actor, access.tenant, acl)
    return answer(access, row, "The entry is removed.")


@in_tenant(Permission.ACCESS_READ)
@require_safe
def who_may(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Who may do that, and why; or may one key, and why not?"""
    asked = bool(request.GET)
    keys = tenants.keys(access.tenant).filter(revoked_at=None).order_by("name", "pk")[:PER_PAGE]
    offered = [(row.public_id, f"{row.name} ({row.public_id})") for row in keys]
    wanted = searched(request, "key", length_max=64)
    of_key: ApiKey | None = None
    if wanted:
        of_key = tenants.key(access.tenant, wanted)
        if wanted not in dict(offered):
            offered.append((of_key.public_id, of_key.name))
    form = QuestionForm.asked(request.GET, keys=offered) if asked else QuestionForm(offered)
    context: dict[str, object] = {"here": HERE, "form": form, "asked": asked}
    if asked and form.is_valid():
        try:
            if of_key is not None:
                context["of_key"] = queries.answer_for_key(of_key, *form.question)
            else:
                answers = queries.who_may(access.tenant, *form.question)
                context["page"] = page_of(request, answers, PER_PAGE)
                context["allowed"] = sum(one.allowed for one in answers)
        except PenstockError as error:
            form.refuse(error)
    return render(request, "web/access_who.html", context, status=form.status)


# -- parts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEntry:
    """An entry of the list for people."""

    row: AclEntry
    who: str
    resource: str

    @classmethod
    def of(cls, row: AclEntry, names: dict[str, str]) -> "ShownEntry":
        acl = row.acl
        return cls(
            row=row,
            who=names.get(acl.principal, acl.principal),
            resource=rules.described_resource(acl.resource, acl.name, acl.literal),
        )


def names_of(tenant: Tenant) -> dict[str, str]:
    """Principals that entries name -> what people call them."""
    groups = {principal: f"group {name}" for principal, name in queries.group_names(tenant).items()}
    return {**queries.principals(tenant), **groups, rules.EVERYONE: "everyone"}


def choices_of(tenant: Tenant) -> list[tuple[str, str]]:
    """Principals to choose from: (principal, name)."""
    return [item for item in names_of(tenant).items() if item[0] != rules.EVERYONE]


def answer(access: TenantAccess, row: TenantAccessList, text: str) -> HttpResponse:
    """Back to the list, saying whether the brokers have it."""
    delivered = in_request.deliver_now(actions.KIND_ACCESS, row.public_id, row.generation)
    words = (
        "It holds on every broker, on open connections too."
        if delivered
        else "The brokers get it in a moment."
    )
    return notices.put(redirect(access.url("access")), f"{text} {words}", "ok" if delivered else "caution")


def _members(group: PrincipalGroup, names: dict[str, str]) -> list[str]:
    return [names.get(member, member) for member in group.members]
