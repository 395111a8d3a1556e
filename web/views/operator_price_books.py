"""For operators of the service: the price books, what each would change for every tenant, and publishing another."""

from datetime import UTC
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from billing import price_actions, queries, what_ifs
from penstock.contract.errors import PenstockError
from penstock.rules import rating
from tenants.models import OperatorToken
from web import costs, notices, sessions
from web.forms.console_form import posted
from web.forms.operators import PriceBookForm
from web.paging import page_of
from web.tenant_access import for_operators

PER_PAGE = 50
HERE = "price-books"


@for_operators
@require_safe
def price_books(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """Every published book, the newest first, and which of them are in effect."""
    now = timezone.now()
    holds = {row.pk for row in price_actions.books_at(now)}
    page = page_of(request, queries.price_books().order_by("-effective_from", "-pk"), PER_PAGE)
    context = {"here": HERE, "page": page, "holds": holds, "now": now}
    return render(request, "web/operator_price_books.html", context)


@for_operators
@require_safe
def price_book(request: HttpRequest, operator: OperatorToken, book: str) -> HttpResponse:
    """One book's prices; with `what_if` what every tenant's last invoiced period would have cost by it."""
    row = price_actions.book_of(book)
    read = rating.PriceBook.read(row.document)
    context: dict[str, Any] = {"here": HERE, "row": row, "prices": costs.prices_shown(read), "what_if": None}
    if request.GET.get("what_if"):
        found = what_ifs.what_if_of_all(read, timezone.now())
        context |= {"what_if": found, "page": page_of(request, found.tenants, PER_PAGE)}
    return render(request, "web/operator_price_book.html", context)


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def new_price_book(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """Check a document, show its prices, and publish it."""
    form = PriceBookForm(posted(request))
    checked = None
    if form.is_valid():
        document, now = form.cleaned_data["document"], timezone.now()
        begins = form.cleaned_data["effective_from"].replace(tzinfo=UTC)
        try:
            if form.is_check:
                book = price_actions.checked_price_book(document, effective_from=begins, now=now)
                checked = costs.prices_shown(book)
            else:
                row = price_actions.publish_price_book(
                    sessions.operator_actor_of(request, operator),
                    document=document,
                    effective_from=begins,
                    now=now,
                )
                since = f"{row.effective_from:%Y-%m-%d %H:%M}"
                said = f"{row.name} {row.version} holds for periods that begin from {since} on."
                return notices.put(redirect("web:operator-price-book", row.sha256), said)
        except PenstockError as error:
            form.refuse(error)
    context = {"here": HERE, "form": form, "checked": checked}
    return render(request, "web/operator_price_book_new.html", context, status=form.status)
