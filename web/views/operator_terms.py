"""For operators of the service: what a tenant has beside the general prices, and what other terms would have cost."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from billing import previews, price_actions, queries, terms_actions
from billing.models import TenantTerms
from penstock.contract import documents
from penstock.contract.errors import NotFound, PenstockError
from penstock.rules import rating
from tenants.models import OperatorToken, Tenant
from web import notices, sessions
from web.forms.console_form import posted
from web.forms.terms import GENERAL, PREVIEW, TermsForm
from web.paging import page_of
from web.tenant_access import for_operators
from web.views.operator_tenants import tenant_of_operators

HISTORY_PER_PAGE = 20


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def terms(request: HttpRequest, operator: OperatorToken, tenant: str) -> HttpResponse:
    """A tenant's terms for its next period: shown, previewed with the last invoiced period, and set."""
    row = tenant_of_operators(tenant)
    own = terms_actions.terms_of(row)
    books = [
        (book.sha256, f"{book.name} {book.version} in {book.currency}") for book in queries.price_books()
    ]
    present = {
        "revision": own.revision,
        "price_book": GENERAL if own.price_book is None else own.price_book.sha256,
        # In the order of its fields, which a database does not keep.
        "terms": json.dumps(
            documents.plain(documents.read_document(own.document, documents.Terms, "terms")),
            indent=2,
            ensure_ascii=False,
        ),
    }
    form = TermsForm(posted(request), initial=present, books=books)
    previewed, missing = None, ""
    if form.is_valid():
        try:
            if form.cleaned_data["intent"] == PREVIEW:
                previewed = _preview(row, form)
            else:
                changed = terms_actions.change_terms(
                    sessions.operator_actor_of(request, operator),
                    row.public_id,
                    terms=form.cleaned_data["terms"],
                    price_book_sha256=form.book,
                    now=timezone.now(),
                    revision=form.cleaned_data["revision"],
                )
                said = "Nothing was changed." if changed.revision == own.revision else _said(changed)
                return notices.put(redirect("web:operator-terms", tenant), said)
        except NotFound as error:
            missing = error.message
        except PenstockError as error:
            form.refuse(error)
    context: dict[str, Any] = {
        "here": "tenants",
        "row": row,
        "own": own,
        "form": form,
        "preview": previewed,
        "missing": missing,
        "history": page_of(request, terms_actions.terms_history(row), HISTORY_PER_PAGE),
    }
    return render(request, "web/operator_terms.html", context, status=form.status)


def _said(changed: TenantTerms) -> str:
    return f"{changed.tenant.name} has these terms from its next period on."


def _preview(tenant: Tenant, form: TermsForm) -> previews.Preview:
    now = timezone.now()
    wanted = documents.read_document(form.cleaned_data["terms"], documents.Terms, "terms")
    book = price_actions.book_for(tenant, now) if form.book is None else price_actions.book_of(form.book)
    by = None if book is None else rating.PriceBook.read(book.document)
    return previews.last_periods(tenant, book=by, terms=wanted, now=now)[-1]
