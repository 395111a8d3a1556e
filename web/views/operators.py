"""For operators of the service: brokers, partitions, and changes and invoices that wait."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from billing import anchor_actions, draft_queries, service_level_actions
from billing.queries import data_set_states
from control_plane.audit.tallies import tallies
from control_plane.brokers import client as brokers
from control_plane.brokers.view import ClusterView, PartitionSeen
from control_plane.outbox import queries as outbox
from penstock.contract.audit_entries import REFUSED
from penstock.contract.errors import PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from quotas import growth
from tenants import audited, queries
from tenants.models import OperatorToken
from web import rate_limit, sessions
from web.forms.console_form import posted
from web.forms.operators import OperatorSignInForm
from web.paging import page_of
from web.tenant_access import for_operators
from web.unscripted import first_answer

PER_PAGE = 100
ATTEMPTS = 10
TIMEOUT_S = 5.0


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in with an operator's token. The browser stores the signed id of the token, never the token."""
    form = OperatorSignInForm(posted(request))
    if form.is_valid():
        try:
            rate_limit.spend("operator", sessions.source_of(request), ATTEMPTS)
        except PenstockError as error:
            form.refuse(error)
        else:
            operator = queries.operator_of(form.cleaned_data["token"].strip()[:200])
            if operator is not None:
                rotate_token(request)
                response = redirect("web:operator")
                sessions.keep_operator(response, operator)
                return response
            stranger = sessions.stranger_of(request)
            tallies().count(stranger, tenant=SYSTEM_TENANT, action=audited.OPERATOR, outcome=REFUSED)
            form.add_error("token", "This is not an operator's token, or it was revoked")
    elif not form.is_bound and sessions.operator_of(request) is not None:
        return redirect("web:operator")
    return render(request, "web/operator_sign_in.html", {"form": form}, status=form.status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    response = redirect("web:operator-sign-in")
    sessions.forget_operator(response)
    return response


@for_operators
@require_safe
def operator(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """Brokers, changes that wait for them, drafts, and the data sets for billing."""
    waiting, since = outbox.waiting()
    context: dict[str, Any] = {
        "here": "brokers",
        "waiting": waiting,
        "since": since,
        "data_sets": data_set_states(),
        "drafts": draft_queries.drafts().count(),
        "alerts": draft_queries.alerts(timezone.now()),
        "months": service_level_actions.overdue_months(timezone.now()),
        "anchor_days": anchor_actions.overdue_days(timezone.now()),
        "ceilings": growth.failing(),
    }
    context |= first_answer(request, operator_live)
    return render(request, "web/operator.html", context)


@for_operators
@require_safe
def operator_live(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    context: dict[str, Any] = {}
    try:
        seen = brokers.describe(partitions=True, timeout_s=TIMEOUT_S)
    except PenstockError as error:
        context["trouble"] = error
    else:
        context |= {
            "seen": seen,
            "leaderless": sum(part.leader < 0 for part in seen.partitions),
            "behind": sum(len(part.in_sync) < len(part.replicas) for part in seen.partitions),
            "warnings": dict.fromkeys(text for texts in seen.warnings.values() for text in texts),
            "leaders_max": max((one.leaders for one in seen.brokers), default=0),
        }
    return render(request, "web/parts/operator_live.html", context)


@for_operators
@require_safe
def partitions(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """Every partition with leader and in-sync set; on request only those with a problem."""
    wanted = request.GET.get("q", "").strip()[:249]
    troubled = request.GET.get("show") == "troubled"
    context: dict[str, Any] = {"here": "partitions", "q": wanted, "troubled": troubled}
    try:
        seen = brokers.describe(partitions=True, timeout_s=TIMEOUT_S)
    except PenstockError as error:
        context["trouble"] = error
    else:
        page = page_of(request, _chosen(seen, wanted, troubled), PER_PAGE)
        names = dict(
            queries.all_tenants()
            .filter(public_id__in=sorted({part.tenant for part in page}))
            .values_list("public_id", "name")
        )
        context |= {
            "page": page,
            "items": [(part, names.get(part.tenant, part.tenant)) for part in page],
            "whole": len(seen.partitions),
        }
    return render(request, "web/operator_partitions.html", context)


def _chosen(seen: ClusterView, wanted: str, troubled: bool) -> list[PartitionSeen]:
    return sorted(
        (
            part
            for part in seen.partitions
            if (not wanted or wanted in part.topic or wanted == part.tenant)
            and (not troubled or part.leader < 0 or len(part.in_sync) < len(part.replicas))
        ),
        key=lambda part: (part.tenant, part.topic, part.partition),
    )
