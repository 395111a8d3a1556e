"""The audit log: who changed what, newest first, and a check of its chain."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from billing.queries import invoices
from control_plane.audit import queries
from tenants import queries as tenants
from tenants.roles import Permission
from web.paging import searched
from web.tenant_access import TenantAccess, in_tenant

PER_PAGE = 50
TEXT_MAX = 64


@in_tenant(Permission.AUDIT_READ)
@require_safe
def audit(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """A page of entries; `before` is the sequence below which it begins."""
    rows = queries.entries(access.tenant.public_id).order_by("-sequence")
    action = searched(request, "action", length_max=TEXT_MAX)
    object_id = searched(request, "object", length_max=TEXT_MAX)
    if action:
        rows = rows.filter(action__istartswith=action)
    if object_id:
        rows = rows.filter(object_id=object_id)
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 18:
        rows = rows.filter(sequence__lt=int(before))
    found = list(rows[: PER_PAGE + 1])
    page = found[:PER_PAGE]
    emails = {person.public_id: person.email for person in tenants.people(access.tenant)}
    context = {
        "here": "audit",
        "entries": [(entry, emails.get(entry.actor_id, "")) for entry in page],
        "older": page[-1].sequence if len(found) > PER_PAGE else None,
        "newest": not before,
        "action": action,
        "object": object_id,
    }
    return render(request, "web/audit.html", context)


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
