"""Access reports: the months that have one, what one says, its files, and who gets e-mails about them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Page
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from control_plane.access_reports import actions, queries
from control_plane.access_reports.queries import NOW
from penstock.rules import access as rules
from penstock.rules import access_report
from tenants.roles import Permission
from web import notices
from web.forms.access_reports import MailsForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant

MONTHS_PER_PAGE = 25
PER_PAGE = 8
"""Rows of each list of a report: there are many lists on one page, and the files have all."""
HERE = "access"
_CSV, _JSON = "csv", "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One list of a report, for people."""

    name: str
    title: str
    empty: str
    columns: tuple[str, ...]
    page: Page[Mapping[str, Any]]
    rows: list[list[tuple[str, str]]]
    """Cells with their columns."""


@in_tenant(Permission.ACCESS_REPORT)
@require_safe
def reports(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The months, newest first, and the choice of e-mails."""
    mails = queries.mails(access.tenant, access.person)
    context = {
        "here": HERE,
        "page": page_of(request, queries.reports(access.tenant).order_by("-month"), MONTHS_PER_PAGE),
        "mails": mails,
        "kept_months": actions.KEPT_MONTHS,
    }
    return render(request, "web/access_reports.html", context)


@in_tenant(Permission.ACCESS_REPORT)
@require_safe
def report(request: HttpRequest, access: TenantAccess, month: str) -> HttpResponse:
    """What the report of a month says, or of now."""
    found = _found(access, month)
    context = {
        "here": HERE,
        "month": month,
        "is_now": month == NOW,
        "report": found,
        "sha256": access_report.digest(found),
        "made_at": datetime.fromisoformat(found["made_at"]),
        "sections": [_section(request, found, _names(found), *given) for given in _SECTIONS],
        "left_out": list(found["left_out"].items()),
    }
    return render(request, "web/access_report.html", context)


@in_tenant(Permission.ACCESS_REPORT)
@require_safe
def file(request: HttpRequest, access: TenantAccess, month: str, form: str) -> HttpResponse:
    """The whole report as a file: CSV for a spreadsheet, or the JSON that its digest is of."""
    if form not in (_CSV, _JSON):
        raise Http404
    found = _found(access, month)
    if form == _CSV:
        response = HttpResponse("".join(access_report.as_csv(found)), content_type="text/csv; charset=utf-8")
    else:
        response = HttpResponse(access_report.canonical(found), content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="access-{found["month"] or NOW}.{form}"'
    return response


@in_tenant(Permission.PEOPLE_WRITE)
@require_POST
def set_mails(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Choose whether the owners get e-mails, or whether this person does."""
    form = MailsForm(request.POST)
    back = redirect(access.url("access-reports"))
    if not form.is_valid():
        return notices.put(back, "Nothing was changed.", "caution")
    whose, wanted = form.whose, form.wanted
    actions.set_mails(access.actor, access.tenant, access.person, **{whose: wanted})
    who = "You get" if whose == "to_me" else "Owners get"
    return notices.put(back, f"{who} {'e-mails' if wanted else 'no e-mails'} about reports.")


def _found(access: TenantAccess, month: str) -> dict[str, Any]:
    if month == NOW:
        return queries.present(access.tenant)
    return queries.document(queries.report(access.tenant, month))


_Names = Mapping[str, str]
_Row = Callable[[Mapping[str, Any], _Names], tuple[str, ...]]


def _names(found: Mapping[str, Any]) -> dict[str, str]:
    """Principals -> what people call them."""
    return {
        rules.EVERYONE: "everyone",
        rules.SERVICE: "the service",
        **{f"{rules.PERSON_KIND}{one['id']}": one["email"] for one in found["people"]},
        **{f"{rules.ACCOUNT_KIND}{one['id']}": one["name"] for one in found["service_accounts"]},
        **{f"{rules.GROUP_KIND}{one['id']}": f"group {one['name']}" for one in found["groups"]},
    }


def _section(
    request: HttpRequest,
    found: Mapping[str, Any],
    names: _Names,
    name: str,
    title: str,
    empty: str,
    columns: tuple[str, ...],
    row: _Row,
) -> Section:
    rows: Sequence[Mapping[str, Any]] = found[name]
    page = page_of(request, rows, PER_PAGE, name)
    shown = [list(zip(columns, row(one, names), strict=True)) for one in page]
    return Section(name=name, title=title, empty=empty, columns=columns, page=page, rows=shown)


def _day(at: str | None) -> str:
    return "never" if at is None else at[:10]


def _called(names: _Names, principal: str) -> str:
    return names.get(principal, principal)


def _change(one: Mapping[str, Any], names: _Names) -> tuple[str, ...]:
    fields = ", ".join(field["field"].replace("_", " ") for field in one["fields"])
    return one["name"], one["kind"].replace("_", " "), one["change"], fields


def _person(one: Mapping[str, Any], names: _Names) -> tuple[str, ...]:
    factors = ", ".join({"totp": "codes", "webauthn": "passkey"}.get(f, f) for f in one["second_factors"])
    return one["email"], one["role"], factors or "none", _day(one["last_sign_in_at"])


def _key(one: Mapping[str, Any], names: _Names) -> tuple[str, ...]:
    scopes = "; ".join(f"{', '.join(s['operations']) or 'all'} on {s['on']}" for s in one["scopes"])
    expires = "never" if one["expires_at"] is None else _day(one["expires_at"])
    return one["name"], _called(names, one["principal"]), scopes or "all", expires, _day(one["last_used_at"])


def _entry(one: Mapping[str, Any], names: _Names) -> tuple[str, ...]:
    operations = ", ".join(one["operations"]) or "everything"
    addresses = ", ".join(one["addresses"]) or "anywhere"
    return _called(names, one["principal"]), one["effect"], operations, one["on"], addresses


def _counted(one: Mapping[str, Any], names: _Names) -> tuple[str, ...]:
    who = one["name"] or f"{one['actor_kind']} {one['actor_id']}"
    return who, one["action"], f"{one['times']:,}"


_SECTIONS: tuple[tuple[str, str, str, tuple[str, ...], _Row], ...] = (
    ("changes", "Changed", "Nothing.", ("What", "Kind", "Change", "Of it"), _change),
    (
        "unused",
        "Looks unused",
        "Nothing.",
        ("What", "Kind", "Why"),
        lambda one, names: (one["name"], one["kind"].replace("_", " "), one["reason"]),
    ),
    ("refusals", "Refused", "Nothing.", ("Who", "What", "Times"), _counted),
    ("activity", "Changes by", "Nothing.", ("Who", "What", "Times"), _counted),
    ("people", "People", "None.", ("Person", "Role", "Second factor", "Last sign-in"), _person),
    (
        "service_accounts",
        "Service accounts",
        "None.",
        ("Name", "Id", "Made"),
        lambda one, names: (one["name"], one["id"], _day(one["created_at"])),
    ),
    ("keys", "Keys", "None.", ("Name", "Of", "May", "Ends", "Last used"), _key),
    (
        "groups",
        "Groups of principals",
        "None.",
        ("Name", "Members"),
        lambda one, names: (
            one["name"],
            ", ".join(_called(names, member) for member in one["members"]) or "none",
        ),
    ),
    ("entries", "Entries of the access list", "None.", ("Who", "Effect", "What", "On", "From"), _entry),
    (
        "presets",
        "Presets that entries make up",
        "None.",
        ("Who", "Is", "Of", "Groups that begin with"),
        lambda one, names: (
            _called(names, one["principal"]),
            one["preset"],
            one["on"],
            ", ".join(prefix or "(all)" for prefix in one["group_prefixes"]),
        ),
    ),
    (
        "invitations",
        "Open invitations",
        "None.",
        ("Address", "Role", "Until"),
        lambda one, names: (one["email"], one["role"], _day(one["expires_at"])),
    ),
)
