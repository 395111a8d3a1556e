"""For operators of the service: people, links for new passwords, and operators' tokens."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from penstock.contract.errors import NotFound, PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import TENANTS_PER_PERSON_MAX
from tenants import actions, queries
from tenants.accounts import actions as accounts
from tenants.accounts import queries as account_queries
from tenants.accounts.links import reset_link
from tenants.factors import actions as factors
from tenants.factors import queries as factor_queries
from tenants.models import OperatorToken, Person
from web import notices, sessions
from web.forms.console_form import ConsoleForm, posted
from web.forms.operators import TenantsMaxForm
from web.paging import page_of, searched
from web.tenant_access import for_operators

PER_PAGE = 50


@for_operators
@require_safe
def people(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """All people who have signed up, or those whose address contains a text."""
    wanted = searched(request)
    rows = account_queries.people().order_by("email")
    whole = rows.count()
    if wanted:
        rows = rows.filter(email__icontains=wanted)
    page = page_of(request, rows, PER_PAGE)
    context: dict[str, Any] = {
        "here": "people",
        "q": wanted,
        "whole": whole,
        "page": page,
    }
    return render(request, "web/operator_people.html", context)


@for_operators
@require_safe
def person(request: HttpRequest, operator: OperatorToken, member: str) -> HttpResponse:
    """One person: their tenants and sign-ins, and a link for a new password."""
    row = account_queries.person(member)
    return _shown(request, row, TenantsMaxForm(initial={"tenants_max": queries.tenants_max_of(row)}))


@for_operators
@require_POST
def set_limit(request: HttpRequest, operator: OperatorToken, member: str) -> HttpResponse:
    """How many tenants the person may own."""
    row = account_queries.person(member)
    form = TenantsMaxForm(request.POST)
    if form.is_valid():
        wanted = form.cleaned_data["tenants_max"]
        try:
            accounts.set_tenants_max(sessions.operator_actor_of(request, operator), row, tenants_max=wanted)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(
                redirect("web:operator-person", member), f"{row.email} may own {wanted} tenants."
            )
    return _shown(request, row, form)


def _shown(request: HttpRequest, row: Person, form: TenantsMaxForm) -> HttpResponse:
    context = {
        "here": "people",
        "row": row,
        "form": form,
        "page": page_of(request, queries.belongings(row), PER_PAGE),
        "owned": queries.tenants_owned(row).count(),
        "standard": TENANTS_PER_PERSON_MAX,
        "sign_ins": account_queries.sign_ins(row).count(),
        "factors": [(one, factor_queries.name_of(one)) for one in factor_queries.factors(row)],
    }
    return render(request, "web/operator_person.html", context, status=form.status)


@for_operators
@require_POST
def make_reset(request: HttpRequest, operator: OperatorToken, member: str) -> HttpResponse:
    """Make a link for a new password. Only this one page shows it."""
    row = account_queries.person(member)
    reset, token = accounts.make_reset(sessions.operator_actor_of(request, operator), row)
    context = {"here": "people", "row": row, "reset": reset, "link": reset_link(token)}
    return render(request, "web/reset_shown.html", context)


@for_operators
@require_POST
def remove_factors(request: HttpRequest, operator: OperatorToken, member: str) -> HttpResponse:
    """Remove the second factors of a person who has lost theirs."""
    row = account_queries.person(member)
    factors.remove_all(sessions.operator_actor_of(request, operator), row)
    return notices.put(redirect("web:operator-person", member), f"{row.email} has no second factor now.")


@for_operators
@require_safe
def operators(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """Every operator's token that is not revoked."""
    page = page_of(request, queries.operators().order_by("pk"), PER_PAGE)
    return render(request, "web/operators.html", {"here": "operators", "page": page})


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, operator: OperatorToken, token_id: str) -> HttpResponse:
    """Revoke the operator's token `token_id` (a public id), also one's own, after a confirmation."""
    row = queries.operator(token_id)
    if row is None:
        raise NotFound(f"operator {token_id[:40]!r} does not exist, or was revoked")
    form = ConsoleForm(posted(request))
    if form.is_valid():
        try:
            actions.revoke_operator(
                sessions.operator_actor_of(request, operator), public_id=token_id, tenant=SYSTEM_TENANT
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:operators"), f"The token of {row.name} is revoked.")
    context = {"here": "operators", "row": row, "form": form}
    return render(request, "web/operator_revoke.html", context, status=form.status)
