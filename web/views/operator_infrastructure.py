"""For operators of the service: what the infrastructure costs, and exports of it that were taken in."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from billing import cost_imports, unit_cost_actions
from penstock.contract.errors import PenstockError
from tenants.models import OperatorToken
from web import notices, sessions
from web.forms.console_form import posted
from web.forms.operators import CostImportForm
from web.paging import page_of
from web.tenant_access import for_operators

PER_PAGE = 50
IMPORTS_PER_PAGE = 20


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def infrastructure(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """The costs, the imports, and a form that takes in a FOCUS export."""
    form = CostImportForm(posted(request), files=request.FILES if request.method == "POST" else None)
    if form.is_valid():
        try:
            done = cost_imports.take_in_export(
                sessions.operator_actor_of(request, operator),
                form.cleaned_data["source"],
                form.cleaned_data["file"],
                cost_column=form.cleaned_data["cost_column"],
                now=timezone.now(),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            counts = f"{done.created} made, {done.changed} changed, {done.removed} removed, {done.unchanged} as before"
            said = f"{done.row.rows:,} rows are {done.row.costs} costs: {counts}."
            kept = "" if done.is_new else " Nothing is new."
            return notices.put(redirect("web:operator-infrastructure"), f"{said}{kept}")
    context: dict[str, Any] = {
        "here": "infrastructure",
        "form": form,
        "page": page_of(request, unit_cost_actions.costs().order_by("-from_at", "name", "pk"), PER_PAGE),
        "imports": page_of(request, cost_imports.imports().order_by("-pk"), IMPORTS_PER_PAGE, "imports"),
    }
    return render(request, "web/operator_infrastructure.html", context, status=form.status)


@for_operators
@require_POST
def undo(request: HttpRequest, operator: OperatorToken, cost_import: str) -> HttpResponse:
    """Bring back what the source had before."""
    back = redirect("web:operator-infrastructure")
    try:
        row = cost_imports.undo(sessions.operator_actor_of(request, operator), cost_import, timezone.now())
    except PenstockError as error:
        return notices.put(back, error.message, "caution")
    return notices.put(back, f"{row.source.name} has again what it had in {', '.join(row.months)} before.")
