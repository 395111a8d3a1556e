"""REST: a tenant's budgets, with what was used of them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.budget_usage import used_since
from billing.unit_rates import unit_rates
from control_plane.api import etags, shapes
from control_plane.brokers import client as brokers
from control_plane.brokers.view import BudgetUseSeen
from control_plane.rest import described
from control_plane.rest.views import TenantView, is_delivered
from penstock.contract.resources import BUDGETS
from penstock.contract.resources.description import Method
from penstock.rules.budgets import COST, period_at
from penstock.rules.timestamps import moment_of, time_ms
from quotas import budget_actions as actions
from quotas import budget_notices
from quotas import budget_queries as queries
from quotas.models import Budget
from tenants.actions import KIND_TENANT
from tenants.models import Tenant

Uses = Mapping[tuple[str, str], BudgetUseSeen]

BudgetInput = described.made_of(BUDGETS, "BudgetInput")
BudgetChange = described.change_of(BUDGETS.fields, "BudgetChange")
# Of what `_shown` makes of a budget.
BudgetShape = described.shape_of(BUDGETS.fields, "BudgetShape")


# The context has the `tenant`, with which brokers get the budget, and whether it is `delivered`.
class ChangedBudget(BudgetShape):  # type: ignore[misc,valid-type]
    delivered = serializers.SerializerMethodField(help_text="Whether every broker obeys it.")
    token = serializers.SerializerMethodField()

    def get_delivered(self, _: object) -> bool:
        return bool(self.context["delivered"])

    @extend_schema_field(shapes.Token)
    def get_token(self, _: object) -> Any:
        return shapes.Token(self.context["tenant"]).data


def _shown(row: Budget, uses: Uses | None, currency: str, now_ms: int) -> dict[str, Any]:
    """The budget as it is answered. `uses` as brokers say them; None: they do not."""
    began_ms, ends_ms = period_at(row.period, now_ms)
    used = queries.used_of(row, uses, now_ms)
    return {
        **actions.described(row),
        "id": row.public_id,
        "unit": queries.unit_of(currency) if row.measure == COST else row.measure,
        "period_began": moment_of(began_ms),
        "counted_since": max(moment_of(began_ms), row.created_at),
        "used_before": queries.used_before(row, now_ms),
        "period_ends": moment_of(ends_ms),
        "used": used,
        "used_percent": None if used is None else budget_notices.percent(row, used),
        "noted_percent": row.noted_percent if row.noted_period_ms == began_ms else 0,
        "growth_stopped_at": row.growth_stopped_at,
        "forecast": row.forecast_micro,
        "forecast_at": row.forecast_at,
        "created_at": row.created_at,
    }


def tag_of(row: Budget) -> str:
    return etags.of_content(row.public_id, actions.described(row))


class _BudgetsView(TenantView):
    def shown(self, rows: Sequence[Budget]) -> list[dict[str, Any]]:
        """The budgets as they are answered."""
        uses = brokers.budget_use([self.tenant.public_id])
        prices = unit_rates(self.tenant)
        now_ms = time_ms(timezone.now())
        return [_shown(row, uses, "" if prices is None else prices.currency, now_ms) for row in rows]

    def unchanged(self, request: Request, budget: str) -> AbstractContextManager[None]:
        """The block changes it if it is still as the request's condition says."""
        return etags.unchanged_within(
            request, self.tenant, lambda: tag_of(queries.budget(self.tenant, budget))
        )

    def answer(self, tenant: Tenant, row: Budget, status: int = 200) -> Response:
        delivered = is_delivered(tenant, KIND_TENANT)
        shown = ChangedBudget(self.shown([row])[0], context={"tenant": tenant, "delivered": delivered})
        return Response(shown.data, status=status if delivered else 202, headers={"ETag": tag_of(row)})


@described.operations(
    BUDGETS, Method.LIST, Method.CREATE, shape=BudgetShape, takes=BudgetInput, changed=ChangedBudget
)
class BudgetsView(_BudgetsView):
    def get(self, request: Request) -> Response:
        return self.paged(queries.budgets(self.tenant), BudgetShape, shown_as=self.shown)

    def post(self, request: Request) -> Response:
        body = described.taken(request, BudgetInput)
        tenant, row = actions.create(self.actor, self.tenant, unit_rates, used_since, **body)
        return self.answer(tenant, row, 201)


@described.operations(
    BUDGETS,
    Method.READ,
    Method.CHANGE,
    Method.REMOVE,
    shape=BudgetShape,
    takes=BudgetChange,
    changed=ChangedBudget,
)
class BudgetView(_BudgetsView):
    def get(self, request: Request, budget: str) -> Response:
        row = queries.budget(self.tenant, budget)
        return Response(BudgetShape(self.shown([row])[0]).data, headers={"ETag": tag_of(row)})

    def patch(self, request: Request, budget: str) -> Response:
        body = described.taken(request, BudgetChange)
        with self.unchanged(request, budget):
            tenant, row = actions.change(self.actor, self.tenant, budget, body)
        return self.answer(tenant, row)

    def delete(self, request: Request, budget: str) -> Response:
        with self.unchanged(request, budget):
            tenant = actions.remove(self.actor, self.tenant, budget)
        is_delivered(tenant, KIND_TENANT)
        return Response(status=204)
