"""For operators of the service: what is owed of every invoice, what keeps it from being collected, and trying again."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from billing import granted_credits
from control_plane import config
from payments import actions, queries, totals
from payments.models import Receivable
from penstock.contract.errors import PenstockError
from penstock.rules.csv_lines import csv_line
from penstock.rules.rating import MICRO
from tenants.models import OperatorToken
from web import notices, sessions
from web.forms.console_form import posted
from web.forms.operators import CreditForm, VoidForm
from web.paging import page_of, searched
from web.tenant_access import for_operators

PER_PAGE = 50
CHUNK = 500
EXPORT_MAX = 50_000
"""Rows of one file, which is made in memory."""
COLUMNS = (
    *("tenant", "tenant_name", "invoice", "number", "state", "currency", "total_micro", "credited_micro"),
    *(
        "paid_micro",
        "refunded_micro",
        "open_micro",
        "overpaid_micro",
        "due_at",
        "waits",
        "carried_by",
        "unsent",
    ),
    *("retry_at", "problem", "voided_micro", "issuer_number"),
)
LABELS = {
    "owed": "Owed",
    "open": "Not due yet",
    "past_due": "Past due",
    "problem": "With a problem",
    "waits": "Too small to charge",
    "unsent": "Not at Stripe yet",
    "overpaid": "To be refunded",
    "all": "All",
}


@for_operators
@require_safe
def receivables(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """Sums by currency, and the receivables that are asked for, oldest first."""
    show, wanted = _asked(request)
    page = page_of(request, totals.narrowed(show, wanted), PER_PAGE)
    report = queries.newest_report()
    context: dict[str, Any] = {
        "here": "receivables",
        "q": wanted,
        "show": show,
        "choices": [(name, LABELS[name]) for name in totals.SHOWN],
        "totals": totals.by_currency(),
        "unsent": queries.unsent().count(),
        "stripe": config.current().payments.stripe_key_file is not None,
        "report": report,
        "differences": 0 if report is None else len(report.differences),
        "page": page,
        "items": list(page),
        "export": f"{reverse('web:operator-receivables-csv')}?{urlencode({'show': show, 'q': wanted})}",
    }
    return render(request, "web/operator_receivables.html", context)


@for_operators
@require_safe
def export(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """The same receivables as CSV, at most `EXPORT_MAX`. Amounts are micro-units."""
    rows = totals.narrowed(*_asked(request))[:EXPORT_MAX]
    response = HttpResponse(
        "".join(_csv(rows.iterator(chunk_size=CHUNK))), content_type="text/csv; charset=utf-8"
    )
    response["Content-Disposition"] = 'attachment; filename="receivables.csv"'
    return response


@for_operators
@require_POST
def retry(request: HttpRequest, operator: OperatorToken, invoice: str) -> HttpResponse:
    """Compare with Stripe at once, and charge the payment method once more."""
    row = queries.any_invoice(invoice)
    actions.try_again(sessions.operator_actor_of(request, operator), row)
    said = f"Invoice no. {row.number} of {row.tenant.name} is tried again in a moment."
    return notices.put(redirect("web:operator-receivables"), said)


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def credit(request: HttpRequest, operator: OperatorToken, invoice: str) -> HttpResponse:
    """What can be credited of an invoice; posted with an amount and a reason, a credit note is issued."""
    row = queries.receivable_of(queries.any_invoice(invoice))
    form = CreditForm(
        posted(request), [(one.id, one.named) for one in granted_credits.creditable(row.invoice)]
    )
    if form.is_valid():
        given = form.cleaned_data
        micro = None if given["amount"] is None else int(given["amount"] * MICRO)
        parts = [granted_credits.PartAsked(id=given["part"], amount_micro=micro)] if given["part"] else []
        try:
            note = granted_credits.grant_credit(
                sessions.operator_actor_of(request, operator),
                row.invoice,
                reference=given["reference"],
                reason=given["reason"],
                parts=parts,
                amount_micro=None if parts else micro,
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            said = f"Credit note no. {note.number} of {row.tenant.name} is issued."
            return notices.put(redirect("web:operator-receivables"), said)
    context = {
        "here": "receivables",
        "row": row,
        "form": form,
        "parts": granted_credits.creditable(row.invoice),
        "left_micro": granted_credits.left_micro(row.invoice),
    }
    return render(request, "web/operator_credit.html", context, status=form.status)


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def void(request: HttpRequest, operator: OperatorToken, invoice: str) -> HttpResponse:
    """What becomes of an unpaid invoice that is taken back; posted with a reason, it is."""
    row = queries.receivable_of(queries.any_invoice(invoice))
    form = VoidForm(posted(request))
    if form.is_valid():
        actor = sessions.operator_actor_of(request, operator)
        try:
            actions.void(actor, row.invoice, reason=form.cleaned_data["reason"])
        except PenstockError as error:
            form.refuse(error)
        else:
            said = (
                f"Invoice no. {row.invoice.number} of {row.tenant.name} is void. Nothing of it is asked for."
            )
            return notices.put(redirect("web:operator-receivables"), said)
    context = {"here": "receivables", "row": row, "form": form}
    return render(request, "web/operator_void.html", context, status=form.status)


def _asked(request: HttpRequest) -> tuple[str, str]:
    show = request.GET.get("show", "")
    return show if show in totals.SHOWN else "owed", searched(request)


def _csv(rows: Iterator[Receivable]) -> Iterator[str]:
    yield csv_line(COLUMNS)
    for row in rows:
        yield csv_line(_values(row))


def _values(row: Receivable) -> Iterator[object]:
    yield from (row.tenant.public_id, row.tenant.name, row.invoice.public_id, row.invoice.number)
    yield from (row.state, row.currency, row.total_micro, row.credited_micro, row.paid_micro)
    yield from (row.refunded_micro, row.open_micro, row.overpaid_micro, row.due_at.isoformat(), row.waits)
    yield "" if row.carried_by is None else row.carried_by.invoice.public_id
    yield row.unsent_since is not None
    yield "" if row.retry_at is None else row.retry_at.isoformat()
    yield row.problem
    yield row.voided_micro
    yield row.invoice.issuer_number
