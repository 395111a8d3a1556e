"""The audit logs of tenants and organisations: who changed, was refused or read what, and a check of the chain."""

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from billing.queries import invoices
from control_plane.audit import queries
from penstock.contract.audit_entries import NAME_MAX, OUTCOMES
from penstock.rules.timestamps import read_moment
from tenants import queries as tenants
from tenants.organisations import queries as organisations
from tenants.roles import OrganisationPermission as May
from tenants.roles import Permission
from web.organisation_access import OrganisationAccess, in_organisation
from web.paging import searched
from web.tenant_access import TenantAccess, in_tenant

PER_PAGE = 50
TEXT_MAX = 64
FILTERS = ("action", "object", "actor", "outcome", "from", "to")


@in_tenant(Permission.AUDIT_READ)
@require_safe
def audit(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """A page of the tenant's entries; `before` is the sequence of the entry that it follows."""
    emails = {person.public_id: person.email for person in tenants.people(access.tenant)}
    context = {"here": "audit", "chain": access.url("audit-chain"), "all": access.url("audit")}
    return _page(request, access.tenant.public_id, emails, context)


@in_organisation(May.AUDIT_READ)
@require_safe
def organisation_audit(request: HttpRequest, access: OrganisationAccess) -> HttpResponse:
    """As `audit`, of the organisation itself."""
    members = organisations.members(access.organisation)
    emails = {row.person.public_id: row.person.email for row in members}
    context = {
        "organisation": access.organisation,
        "chain": access.url("organisation-audit-chain"),
        "all": access.url("organisation-audit"),
    }
    return _page(request, access.organisation.public_id, emails, context)


def _page(
    request: HttpRequest, log: str, emails: dict[str, str], of_log: Mapping[str, object]
) -> HttpResponse:
    """Entries of a log that are searched for; `emails` of the people who may have made them."""
    given = {name: searched(request, name, length_max=TEXT_MAX) for name in FILTERS}
    given["name"] = searched(request, "name", length_max=NAME_MAX)
    wrong: dict[str, str] = {}
    since, until = _moment(given, "from", wrong), _moment(given, "to", wrong)
    outcome = given["outcome"] if given["outcome"] in OUTCOMES else ""
    kind, action = _of_action(given["action"])
    search = queries.Search(
        actor=_actor(given["actor"], emails) or None,
        object_id=given["object"] or None,
        kind=kind or None,
        name=given["name"] or None,
        action=action or None,
        outcome=outcome or None,
        since=since,
        until=until,
    )
    text = request.GET.get("before", "")
    before = int(text) if text.isdecimal() and text.isascii() and len(text) < 18 else None
    after = None if before is None else queries.position_of(log, before)
    if wrong or (before is not None and after is None):
        found = []
    else:
        found = queries.page(log, search, after=after, most=PER_PAGE + 1, newest_first=True)
    page = found[:PER_PAGE]
    asked = {name: value for name, value in given.items() if value}
    context = {
        **of_log,
        "entries": [(entry, emails.get(entry.actor_id, "")) for entry in page],
        "older": urlencode({**asked, "before": page[-1].sequence}) if len(found) > PER_PAGE else "",
        "newest": not text,
        "asked": asked,
        "first": urlencode(asked),
        "given": given,
        "outcome": outcome,
        "outcomes": OUTCOMES,
        "wrong": wrong,
    }
    return render(request, "web/audit.html", context, status=422 if wrong else 200)


def _of_action(text: str) -> tuple[str, str]:
    """(kind, action) that were typed: `topic` and `topic.` are all actions on topics."""
    kind, _, rest = text.partition(".")
    return ("", text) if rest else (kind, "")


def _actor(text: str, emails: dict[str, str]) -> str:
    """The id of who was typed: an id, or the e-mail address of a person of the tenant."""
    wanted = text.lower()
    return next((person for person, email in emails.items() if email == wanted), text)


def _moment(given: dict[str, str], name: str, wrong: dict[str, str]) -> datetime | None:
    text = given[name]
    if not text:
        return None
    try:
        return read_moment(text)
    except ValueError:
        wrong[name] = "A day like 2026-01-31, or a time like 2026-01-31T12:00Z."
        return None


@in_tenant(Permission.AUDIT_READ)
@require_safe
def chain(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Compute every hash again, and check that the entries which invoices name are still in the chain."""
    context = _checked(access.tenant.public_id)
    context["broken"] = context["broken"] or _unlike_invoices(access)
    return render(request, "web/parts/chain.html", context)


@in_organisation(May.AUDIT_READ)
@require_safe
def organisation_chain(request: HttpRequest, access: OrganisationAccess) -> HttpResponse:
    """Compute every hash of the organisation's log again."""
    context = _checked(access.organisation.public_id) | {"organisation": access.organisation}
    return render(request, "web/parts/chain.html", context)


def _checked(log: str) -> dict[str, object]:
    broken = queries.first_break(log)
    sequence, last = queries.head(log)
    return {"broken": broken, "count": sequence, "head": last}


def _unlike_invoices(access: TenantAccess) -> int | None:
    """The first entry that an invoice names with another hash, or that is missing."""
    rows = invoices(access.tenant).exclude(audit_sequence=None).values_list("audit_sequence", "audit_hash")
    named = {sequence: noted for sequence, noted in rows if sequence is not None}
    stored = queries.hashes_at(access.tenant.public_id, named.keys())
    return min((sequence for sequence in named if stored.get(sequence) != named[sequence]), default=None)
