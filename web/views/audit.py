"""The audit log: who changed what, newest first, and whether its chain is whole."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from billing.queries import invoices
from control_plane.audit import queries
from tenants import queries as tenants
from tenants.roles import Permission
from web.places import Place, in_tenant

PER_PAGE = 50
TEXT_MAX = 64


@in_tenant(Permission.AUDIT_READ)
@require_safe
def audit(request: HttpRequest, place: Place) -> HttpResponse:
    """A page of entries; `before` is the sequence below which it begins."""
    rows = queries.entries(place.tenant.public_id).order_by("-sequence")
    action = _text(request, "action")
    object_id = _text(request, "object")
    if action:
        rows = rows.filter(action__istartswith=action)
    if object_id:
        rows = rows.filter(object_id=object_id)
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 18:
        rows = rows.filter(sequence__lt=int(before))
    found = list(rows[: PER_PAGE + 1])
    page = found[:PER_PAGE]
    emails = {person.public_id: person.email for person in tenants.people(place.tenant)}
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
def chain(request: HttpRequest, place: Place) -> HttpResponse:
    """Computes every hash again, and looks whether what invoices remember of the chain is still in it."""
    broken = queries.first_break(place.tenant.public_id)
    sequence, last = queries.head(place.tenant.public_id)
    context = {
        "broken": broken or _unlike_invoices(place),
        "count": sequence,
        "head": last,
    }
    return render(request, "web/parts/chain.html", context)


def _unlike_invoices(place: Place) -> int | None:
    """The first entry that an invoice remembers otherwise, or that is not there any more."""
    rows = invoices(place.tenant).exclude(audit_sequence=None).values_list("audit_sequence", "audit_hash")
    remembered = {sequence: noted for sequence, noted in rows if sequence is not None}
    there = queries.hashes_at(place.tenant.public_id, remembered.keys())
    return min(
        (sequence for sequence in remembered if there.get(sequence) != remembered[sequence]), default=None
    )


def _text(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").strip()[:TEXT_MAX].replace("\0", "")
