"""The audit log: who changed, was refused or read what, newest first, and a check of its chain."""

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
from tenants.roles import Permission
from web.paging import searched
from web.tenant_access import TenantAccess, in_tenant

PER_PAGE = 50
TEXT_MAX = 64
FILTERS = ("action", "object", "actor", "outcome", "from", "to")


@in_tenant(Permission.AUDIT_READ)
@require_safe
def audit(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """A page of entries; `before` is the sequence of the entry that it follows."""
    given = {name: searched(request, name, length_max=TEXT_MAX) for name in FILTERS}
    given["name"] = searched(request, "name", length_max=NAME_MAX)
    emails = {person.public_id: person.email for person in tenants.people(access.tenant)}
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
    tenant = access.tenant.public_id
    text = request.GET.get("before", "")
    before = int(text) if text.isdecimal() and text.isascii() and len(text) < 18 else None
    after = None if before is None else queries.position_of(tenant, before)
    if wrong or (before is not None and after is None):
        found = []
    else:
        found = queries.page(tenant, search, after=after, most=PER_PAGE + 1, newest_first=True)
    page = found[:PER_PAGE]
    asked = {name: value for name, value in given.items() if value}
    context = {
        "here": "audit",
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
    broken = queries.first_break(access.tenant.public_id)
    sequence, last = queries.head(access.tenant.public_id)
    context = {
        "broken": broken or _unlike_invoices(access),
        "count": sequence,
        "head": last,
    }
    return render(request, "web/parts/chain.html", context)


def _unlike_invoices(access: TenantAccess) -> int | None:
    """The first entry that an invoice names with another hash, or that is missing."""
    rows = invoices(access.tenant).exclude(audit_sequence=None).values_list("audit_sequence", "audit_hash")
    named = {sequence: noted for sequence, noted in rows if sequence is not None}
    stored = queries.hashes_at(access.tenant.public_id, named.keys())
    return min((sequence for sequence in named if stored.get(sequence) != named[sequence]), default=None)
