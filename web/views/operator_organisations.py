"""For operators of the service: organisations, their tenants and members."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from tenants.models import OperatorToken
from tenants.organisations import queries
from web.paging import page_of, searched
from web.tenant_access import for_operators

PER_PAGE = 50


@for_operators
@require_safe
def organisations(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """All organisations, or those whose name contains a text or whose id it is."""
    wanted = searched(request)
    context: dict[str, Any] = {
        "here": "organisations",
        "q": wanted,
        "whole": queries.all_organisations().count(),
        "page": page_of(request, queries.all_organisations(wanted).order_by("name"), PER_PAGE),
    }
    return render(request, "web/operator_organisations.html", context)


@for_operators
@require_safe
def organisation(request: HttpRequest, operator: OperatorToken, organisation: str) -> HttpResponse:
    """One organisation: its tenants and members."""
    row = queries.any_organisation(organisation)
    context: dict[str, Any] = {
        "here": "organisations",
        "row": row,
        "page": page_of(request, queries.members(row).order_by("person__email"), PER_PAGE),
        "tenants": page_of(request, queries.tenants(row).order_by("name"), PER_PAGE, "tenants"),
    }
    return render(request, "web/operator_organisation.html", context)
