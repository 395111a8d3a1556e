"""REST: a tenant's budgets, with what was used of them."""

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.budget_usage import used_since
from billing.unit_rates import unit_rates
from control_plane.api import etags, shapes
from control_plane.brokers import client as brokers
from control_plane.rest.views import TenantView, is_delivered
from penstock.contract.limits import KEY_NAME_LENGTH_MAX
from penstock.rules.budgets import CHOSEN_POLICIES, COST, MEASURES, PERIODS, period_at
from penstock.rules.timestamps import moment_of, time_ms
from quotas import budget_actions as actions
from quotas import budget_notices
from quotas import budget_queries as queries
from quotas.models import Budget
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tenants.roles import Permission

_AMOUNT = "In a period: bytes, messages, or micro-units of the currency."
_THRESHOLDS = "Percents of the amount at which owners get an e-mail and webhooks an event."
_POLICY = (
    "What happens at the full amount: `notify` nothing else, `slow` the produce rate of `slow_bytes_per_s`,"
    " `refuse_produce` no new messages, `refuse` neither messages nor reads. `stop_growth`, of a month's cost alone: no"
    " new topics, partitions, copies and longer retention, and a twentieth more storage at most, while the month is"
    " expected to cost the amount."
)
_READS = "Whether each delivery to a consumer counts too; of bytes and messages."
_SLOW = "With the policy `slow`: bytes per second of batches as sent, over all brokers; else 0."


class BudgetInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=KEY_NAME_LENGTH_MAX, trim_whitespace=False)
    period = serializers.ChoiceField(choices=PERIODS, help_text="Of UTC.")
    measure = serializers.ChoiceField(
        choices=MEASURES,
        help_text="`bytes` and `messages` as produced; `cost` of what is produced, by the price book.",
    )
    amount = serializers.IntegerField(help_text=_AMOUNT)
    policy = serializers.ChoiceField(choices=CHOSEN_POLICIES, help_text=_POLICY)
    thresholds = serializers.ListField(
        required=False,
        child=serializers.IntegerField(),
        help_text=_THRESHOLDS + " 50, 80 and 100 unless given.",
    )
    slow_bytes_per_s = serializers.IntegerField(required=False, help_text=_SLOW)
    topic = serializers.CharField(
        required=False, allow_blank=True, trim_whitespace=False, help_text="Of this topic alone."
    )
    service_account = serializers.CharField(
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="Of the keys of this one alone: its id.",
    )
    counts_reads = serializers.BooleanField(required=False, help_text=_READS)


class BudgetChange(shapes.StrictSerializer):
    name = serializers.CharField(required=False, max_length=KEY_NAME_LENGTH_MAX, trim_whitespace=False)
    amount = serializers.IntegerField(
        required=False, help_text=_AMOUNT + " A higher one releases within seconds."
    )
    policy = serializers.ChoiceField(required=False, choices=CHOSEN_POLICIES, help_text=_POLICY)
    thresholds = serializers.ListField(
        required=False, child=serializers.IntegerField(), help_text=_THRESHOLDS
    )
    slow_bytes_per_s = serializers.IntegerField(required=False, help_text=_SLOW)


# The context has `uses`, as brokers say it (None: they do not), `now_ms`, and the `currency` of costs.
class BudgetShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    period = serializers.ChoiceField(choices=PERIODS)
    measure = serializers.ChoiceField(choices=MEASURES)
    amount = serializers.IntegerField(help_text=_AMOUNT)
    unit = serializers.SerializerMethodField(help_text="bytes, messages, or as micro-USD.")
    policy = serializers.ChoiceField(choices=CHOSEN_POLICIES)
    slow_bytes_per_s = serializers.IntegerField(help_text=_SLOW)
    thresholds = serializers.ListField(child=serializers.IntegerField(), help_text=_THRESHOLDS)
    topic = serializers.CharField(help_text="Empty: of all topics.")
    service_account = serializers.CharField(
        source="account.public_id", allow_null=True, default=None, help_text="null: of all keys."
    )
    counts_reads = serializers.BooleanField(help_text=_READS)
    period_began = serializers.SerializerMethodField()
    counted_since = serializers.SerializerMethodField(
        help_text="Since when brokers count: the period's beginning, or the budget's where it was made within."
    )
    used_before = serializers.SerializerMethodField(
        help_text="What the period had used before `counted_since`, as usage was known when the budget was made; it is"
        " in `used`."
    )
    period_ends = serializers.SerializerMethodField()
    used = serializers.SerializerMethodField(
        help_text="In this period, provisional, some seconds old; null: the brokers do not say it."
    )
    used_percent = serializers.SerializerMethodField(help_text="Rounded down; null as `used`.")
    noted_percent = serializers.SerializerMethodField(
        help_text="The highest threshold that was said in this period; 0 = none."
    )
    growth_stopped_at = shapes.Moment(
        allow_null=True, help_text="With `stop_growth`: since when growth is refused; null: it is not."
    )
    forecast = serializers.IntegerField(
        source="forecast_micro",
        allow_null=True,
        help_text="With `stop_growth`: what the month is expected to cost, in micro-units; null: not known.",
    )
    forecast_at = shapes.Moment(allow_null=True)
    created_at = shapes.Moment()

    def get_unit(self, row: Budget) -> str:
        return queries.unit_of(self.context["currency"]) if row.measure == COST else row.measure

    @extend_schema_field(shapes.Moment())
    def get_period_began(self, row: Budget) -> Any:
        return shapes.Moment().to_representation(moment_of(self._period(row)[0]))

    @extend_schema_field(shapes.Moment())
    def get_counted_since(self, row: Budget) -> Any:
        began = moment_of(self._period(row)[0])
        return shapes.Moment().to_representation(max(began, row.created_at))

    def get_used_before(self, row: Budget) -> int:
        return queries.used_before(row, self.context["now_ms"])

    @extend_schema_field(shapes.Moment())
    def get_period_ends(self, row: Budget) -> Any:
        return shapes.Moment().to_representation(moment_of(self._period(row)[1]))

    def get_used(self, row: Budget) -> int | None:
        return queries.used_of(row, self.context["uses"], self.context["now_ms"])

    def get_used_percent(self, row: Budget) -> int | None:
        used = self.get_used(row)
        return None if used is None else budget_notices.percent(row, used)

    def get_noted_percent(self, row: Budget) -> int:
        return row.noted_percent if row.noted_period_ms == self._period(row)[0] else 0

    def _period(self, row: Budget) -> tuple[int, int]:
        return period_at(row.period, self.context["now_ms"])


# The context has the `tenant` too, with which brokers get the budget, and whether it is `delivered`.
class ChangedBudget(BudgetShape):
    delivered = serializers.SerializerMethodField(help_text="Whether every broker obeys it.")
    token = serializers.SerializerMethodField()

    def get_delivered(self, _: object) -> bool:
        return bool(self.context["delivered"])

    @extend_schema_field(shapes.Token)
    def get_token(self, _: object) -> Any:
        return shapes.Token(self.context["tenant"]).data


def tag_of(row: Budget) -> str:
    return etags.of_content(row.public_id, actions.described(row))


class _BudgetsView(TenantView):
    def context(self, **more: Any) -> dict[str, Any]:
        """For the shapes."""
        prices = unit_rates(self.tenant)
        return {
            "uses": brokers.budget_use([self.tenant.public_id]),
            "now_ms": time_ms(timezone.now()),
            "currency": "" if prices is None else prices.currency,
            **more,
        }

    def unchanged(self, request: Request, budget: str) -> AbstractContextManager[None]:
        """The block changes it if it is still as the request's condition says."""
        return etags.unchanged_within(
            request, self.tenant, lambda: tag_of(queries.budget(self.tenant, budget))
        )

    def answer(self, tenant: Tenant, row: Budget, status: int = 200) -> Response:
        delivered = is_delivered(tenant, KIND_TENANT)
        shown = ChangedBudget(row, context=self.context(tenant=tenant, delivered=delivered))
        return Response(shown.data, status=status if delivered else 202, headers={"ETag": tag_of(row)})


class BudgetsView(_BudgetsView):
    permissions: ClassVar[Any] = {"GET": Permission.BUDGETS_READ, "POST": Permission.BUDGETS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="budgets_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Budget", BudgetShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's budgets, and what was used of them."""
        return self.paged(queries.budgets(self.tenant), BudgetShape, context=self.context())

    @extend_schema(
        operation_id="budgets_create",
        request=BudgetInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={
            201: ChangedBudget,
            202: ChangedBudget,
            **shapes.problems(403, 404, 409, 422),
        },
    )
    def post(self, request: Request) -> Response:
        """Make a budget. What the period is known to have used counts; brokers count from now on, and act at the full
        amount."""
        given = BudgetInput(data=request.data)
        given.is_valid(raise_exception=True)
        tenant, row = actions.create(self.actor, self.tenant, unit_rates, used_since, **given.validated_data)
        return self.answer(tenant, row, 201)


class BudgetView(_BudgetsView):
    permissions: ClassVar[Any] = {
        "GET": Permission.BUDGETS_READ,
        "PATCH": Permission.BUDGETS_WRITE,
        "DELETE": Permission.BUDGETS_WRITE,
    }
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="budgets_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: BudgetShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, budget: str) -> Response:
        """One budget, and what was used of it."""
        row = queries.budget(self.tenant, budget)
        return Response(BudgetShape(row, context=self.context()).data, headers={"ETag": tag_of(row)})

    @extend_schema(
        operation_id="budgets_change",
        request=BudgetChange,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedBudget, 202: ChangedBudget, **shapes.problems(403, 404, 409, 412)},
    )
    def patch(self, request: Request, budget: str) -> Response:
        """Change what is given. A higher amount releases within seconds. What it counts is not changed: make another
        budget for that."""
        given = BudgetChange(data=request.data)
        given.is_valid(raise_exception=True)
        with self.unchanged(request, budget):
            tenant, row = actions.change(self.actor, self.tenant, budget, given.validated_data)
        return self.answer(tenant, row)

    @extend_schema(
        operation_id="budgets_remove",
        parameters=[shapes.TENANT, shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, budget: str) -> Response:
        """Remove a budget with what it counted. What it stopped goes on within seconds."""
        with self.unchanged(request, budget):
            tenant = actions.remove(self.actor, self.tenant, budget)
        is_delivered(tenant, KIND_TENANT)
        return Response(status=204)
