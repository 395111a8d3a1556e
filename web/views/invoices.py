"""Invoices: list, lines with their topics, days and offsets, and the proof from the log."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from billing import focus, focus_exports, queries, tax_actions, tax_shown
from control_plane import config
from control_plane.rest.billing import bundle_answer, credit_note_answer, pdf_answer
from control_plane.rest.billing_shapes import CreditNoteShape, InvoiceShape
from payments import queries as payments
from penstock.contract.errors import NotFound, PenstockError
from tenants.roles import Permission
from web import notices, proofs
from web.costs import cost_so_far
from web.forms.console_form import posted
from web.forms.costs import TaxAddressForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant
from web.unscripted import render_part

_CSV, _PDF, _EVIDENCE = "csv", "pdf", "evidence"
PER_PAGE = 40
EVIDENCE_PER_PAGE = 100
CREDIT_NOTES_PER_PAGE = 10
PROBLEMS_MAX = 50


@in_tenant(Permission.INVOICES_READ)
@require_safe
def invoices(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Newest first."""
    page = page_of(
        request, queries.invoices(access.tenant).select_related("receivable").order_by("-number"), PER_PAGE
    )
    context = {
        "here": "invoices",
        "page": page,
        "items": [(row, InvoiceShape(row).data) for row in page],
        "cost": cost_so_far(access.tenant),
        "address": tax_actions.address_of(access.tenant),
        "needs_address": config.current().payments.stripe_tax,
    }
    return render(request, "web/invoices.html", context)


@in_tenant(Permission.PAYMENTS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def tax_address(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Set where the tenant is for taxes."""
    present = tax_actions.address_of(access.tenant)
    initial = {} if present is None else {name: getattr(present, name) for name in tax_actions.FIELDS}
    form = TaxAddressForm(posted(request), initial=initial)
    if form.is_valid():
        try:
            tax_actions.set_address(access.actor, access.tenant, now=timezone.now(), **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect(access.url("invoices")), "The billing profile is saved.")
    return render(request, "web/tax_address.html", {"here": "invoices", "form": form}, status=form.status)


@in_tenant(Permission.INVOICES_READ)
@require_safe
def invoice(request: HttpRequest, access: TenantAccess, invoice: str) -> HttpResponse:
    """One invoice with its lines."""
    row = queries.invoice(access.tenant, invoice)
    shown = InvoiceShape(row).data
    credited = queries.credit_notes(access.tenant).filter(invoice=row).order_by("number")
    notes = page_of(request, credited, CREDIT_NOTES_PER_PAGE, "credits")
    is_stated = any(charge["kind"] == "tax" for charge in shown["charges"])
    statement = queries.tax_statement(row) if is_stated else None
    context: dict[str, Any] = {
        "here": "invoices",
        "invoice": row,
        "shown": shown,
        "remaining_micro": max(0, (row.total_micro or 0) - shown["credited_micro"]),
        "page": notes,
        "receivable": payments.find_receivable(row),
        "bank_reference": payments.bank_reference(row),
        "tax": None if statement is None else tax_shown.shown(statement),
        "credit_notes": [(note, CreditNoteShape(note).data) for note in notes],
        "proof": proofs.find(access.tenant.public_id, row.public_id),
        "partitions": row.cut.readings.count() if row.cut.delivered_at else 0,
    }
    return render(request, "web/invoice.html", context)


@in_tenant(Permission.INVOICES_READ)
@require_safe
def file(request: HttpRequest, access: TenantAccess, invoice: str, form: str) -> HttpResponseBase:
    """The invoice as PDF, with its credit notes as rows of FOCUS, or with all that proves it."""
    if form not in (_CSV, _PDF, _EVIDENCE):
        raise Http404
    row = queries.invoice(access.tenant, invoice)
    if form == _PDF:
        return pdf_answer(row)
    if form == _EVIDENCE:
        return bundle_answer(row)
    issuer = config.current().invoices.issuer
    rows = focus_exports.rows(access.tenant, issuer=issuer, first=None, end=None, invoice=row.public_id)
    # A month with many topics is a row for each topic and day: written as it is made, never held as a whole.
    return StreamingHttpResponse(
        (line.encode() for line in focus.as_csv(rows)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="invoice-{row.number}.csv"'},
    )


@in_tenant(Permission.INVOICES_READ)
@require_safe
def credit_note_file(request: HttpRequest, access: TenantAccess, credit_note: str) -> HttpResponse:
    """The credit note as PDF."""
    return credit_note_answer(queries.credit_note(access.tenant, credit_note))


@in_tenant(Permission.INVOICES_READ)
@require_safe
def line_evidence(request: HttpRequest, access: TenantAccess, invoice: str, meter: str) -> HttpResponse:
    """The offsets that one line counts."""
    row = queries.invoice(access.tenant, invoice)
    rows = queries.line_evidence(row).get(meter)
    if rows is None:
        raise NotFound(f"invoice {invoice[:64]!r} has no evidence for {meter[:64]!r}")
    page = page_of(request, rows, EVIDENCE_PER_PAGE)
    context = {"invoice": row, "meter": meter, "page": page, "total": sum(one["quantity"] for one in rows)}
    return render_part(
        request,
        "web/parts/evidence.html",
        context,
        title=f"Invoice no. {row.number}: what {meter} counts",
        back=access.url("invoice", invoice),
    )


@in_tenant(Permission.INVOICES_READ, Permission.MESSAGES_READ)
@require_POST
def verify(request: HttpRequest, access: TenantAccess, invoice: str) -> HttpResponse:
    """Begin to count the invoice again from the log."""
    row = queries.invoice(access.tenant, invoice)
    proofs.start(access, row)
    if not request.headers.get("HX-Request"):
        return redirect(access.url("invoice", invoice))
    return _proof_part(request, access, row.public_id)


@in_tenant(Permission.INVOICES_READ)
@require_safe
def proof(request: HttpRequest, access: TenantAccess, invoice: str) -> HttpResponse:
    """The proof's progress or result."""
    row = queries.invoice(access.tenant, invoice)
    return _proof_part(request, access, row.public_id)


def _proof_part(request: HttpRequest, access: TenantAccess, invoice: str) -> HttpResponse:
    found = proofs.find(access.tenant.public_id, invoice)
    context = {"proof": found, "invoice_id": invoice, "problems_max": PROBLEMS_MAX}
    return render(request, "web/parts/proof.html", context)
