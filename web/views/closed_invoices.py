"""Invoices of tenants that were purged, for the people who could pay them then."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from payments import former_payers, queries
from tenants.models import Person
from web.paging import page_of
from web.tenant_access import signed_in

PER_PAGE = 20


@signed_in
@require_safe
def closed_invoices(request: HttpRequest, person: Person) -> HttpResponse:
    """Newest first, each with its lines and where it can be paid."""
    names = former_payers.tenants_of(person)
    page = page_of(request, former_payers.receivables(person), PER_PAGE)
    items = [(row, names[row.tenant_id], queries.bank_reference(row.invoice)) for row in page]
    return render(request, "web/closed_invoices.html", {"page": page, "items": items})
