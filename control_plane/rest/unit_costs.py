"""REST of unit economics, for operators: what the infrastructure costs, and the margins of a month."""

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import margins, unit_cost_actions
from billing.models import NAME_LENGTH_MAX
from billing.unit_cost_models import InfrastructureCost
from control_plane.api import etags, shapes
from control_plane.api.pages import in_memory
from control_plane.rest.views import OperatorView
from penstock.contract.errors import InvalidRequest
from penstock.rules.allocation import METHOD, Driver, Idle, Kind, Per
from tenants.roles import Permission

KINDS = [one.value for one in Kind]
_CURRENCY = r"^[A-Z]{3}$"
_DRIVER = "What it is divided by. Without it: bytes of hosts, bytes_in of disk, bytes_out of traffic, none of other."
_CAPACITY = (
    "Of the driver, of all pieces in a whole UTC month. What is not used of it is idle. null: not known."
)
_UNTIL = "null: it has no end yet."


class CostFields(shapes.StrictSerializer):
    name = serializers.CharField(max_length=NAME_LENGTH_MAX, help_text="For people.")
    kind = serializers.ChoiceField(KINDS)
    driver = serializers.ChoiceField([one.value for one in Driver], required=False, help_text=_DRIVER)
    amount = serializers.IntegerField(
        required=False,
        default=1,
        min_value=0,
        max_value=unit_cost_actions.AMOUNT_MAX,
        help_text="How many pieces.",
    )
    price_micro = serializers.IntegerField(
        min_value=0, max_value=unit_cost_actions.PRICE_MICRO_MAX, help_text="Of one piece, in millionths."
    )
    per = serializers.ChoiceField(
        [one.value for one in Per],
        help_text="What the price is for: an hour, a UTC month, or the whole period from `from_at` to `until_at`.",
    )
    currency = serializers.RegexField(_CURRENCY)
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField(required=False, default=None, allow_null=True, help_text=_UNTIL)
    capacity_month = serializers.IntegerField(
        required=False,
        default=None,
        allow_null=True,
        min_value=1,
        max_value=unit_cost_actions.CAPACITY_MAX,
        help_text=_CAPACITY,
    )


class InfrastructureCostInput(CostFields):
    """So many pieces of one price, for a time."""


class InfrastructureCostChange(CostFields):
    """What is not given stays. Another kind without a driver has that kind's."""


class InfrastructureCostShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    kind = serializers.CharField()
    driver = serializers.CharField(help_text="none: it is overhead.")
    amount = serializers.IntegerField()
    price_micro = serializers.IntegerField()
    per = serializers.CharField(help_text="hour, month or period.")
    currency = serializers.CharField()
    from_at = shapes.Moment()
    until_at = shapes.Moment(allow_null=True, help_text=_UNTIL)
    capacity_month = serializers.IntegerField(allow_null=True, help_text=_CAPACITY)
    source = serializers.CharField(  # type: ignore[assignment]
        help_text="Whose export it was read from; empty: it was entered."
    )
    revision = serializers.IntegerField(help_text="Counted up with each change.")


def _tag(row: InfrastructureCost) -> str:
    return etags.of_content(row.public_id, row.revision)


def _shown(row: InfrastructureCost, status: int = 200) -> Response:
    return Response(InfrastructureCostShape(row).data, status=status, headers={"ETag": _tag(row)})


class InfrastructureCostsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.COSTS_READ, "POST": Permission.COSTS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="infrastructure_costs_list",
        parameters=[*shapes.PAGING],
        responses={
            200: shapes.listed("InfrastructureCost", InfrastructureCostShape(many=True)),
            **shapes.problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: what the infrastructure costs, as it was entered or read from exports."""
        return self.paged(unit_cost_actions.costs(), InfrastructureCostShape)

    @extend_schema(
        operation_id="infrastructure_costs_create",
        request=InfrastructureCostInput,
        parameters=[shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: InfrastructureCostShape, **shapes.problems(403)},
    )
    def post(self, request: Request) -> Response:
        """Operators: enter a cost. Every report of its months has it from now on."""
        given = InfrastructureCostInput(data=request.data)
        given.is_valid(raise_exception=True)
        return _shown(unit_cost_actions.enter(self.actor, given.validated_data), 201)


class InfrastructureCostView(OperatorView):
    permissions: ClassVar[Any] = {
        "GET": Permission.COSTS_READ,
        "PATCH": Permission.COSTS_WRITE,
        "DELETE": Permission.COSTS_WRITE,
    }
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="infrastructure_costs_get",
        parameters=[shapes.ETAG],
        responses={200: InfrastructureCostShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, cost: str) -> Response:
        """Operators: one cost."""
        return _shown(unit_cost_actions.cost_of(cost))

    @extend_schema(
        operation_id="infrastructure_costs_change",
        request=InfrastructureCostChange,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: InfrastructureCostShape, **shapes.problems(403, 404, 412)},
    )
    def patch(self, request: Request, cost: str) -> Response:
        """Operators: change what is given, in every month that has the cost. For a new price from some day on, end
        this one and enter another.
        """
        given = InfrastructureCostChange(data=request.data, partial=True)
        given.is_valid(raise_exception=True)
        with unit_cost_actions.locked(cost) as row:
            etags.check(request, _tag(row))
            changed = unit_cost_actions.change(self.actor, row, given.validated_data)
        return _shown(changed)

    @extend_schema(
        operation_id="infrastructure_costs_remove",
        parameters=[shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, cost: str) -> Response:
        """Operators: remove a cost that never was. One that ends has its `until_at`."""
        with unit_cost_actions.locked(cost) as row:
            etags.check(request, _tag(row))
            unit_cost_actions.remove(self.actor, row)
        return Response(status=204)


class MarginShape(serializers.Serializer[Any]):
    """Amounts are micro-units of the report's currency."""

    tenant = serializers.CharField(help_text="Its id; empty: several together.")
    name = serializers.CharField()
    plan = serializers.CharField(help_text="That the tenant is on now.")
    tenants = serializers.IntegerField(help_text="How many they are.")
    messages_in = serializers.IntegerField(help_text="Produced.")
    bytes_in = serializers.IntegerField()
    direct_micro = serializers.IntegerField(source="share.direct_micro", help_text="By use.")
    idle_micro = serializers.IntegerField(source="share.idle_micro", help_text="Its part of what is idle.")
    overhead_micro = serializers.IntegerField(source="share.overhead_micro")
    unborne_micro = serializers.IntegerField(help_text="Idle that is kept, and what has no tenant to go to.")
    cost_micro = serializers.IntegerField(help_text="The sum of these.")
    billed_micro = serializers.IntegerField(
        help_text="Of periods that begin in the month: invoices less credit notes, before tax, and the cost so far."
    )
    billing = serializers.CharField(
        help_text="invoiced; provisional: some of it is no invoice yet; nothing: no period begins in the month;"
        " unrated: too many periods run; other_currency: nothing is exchanged."
    )
    margin_micro = serializers.IntegerField(allow_null=True, help_text="null: what was billed is not known.")
    cost_micro_per_million_messages = serializers.IntegerField(
        allow_null=True, help_text="null: no messages."
    )
    direct_micro_per_million_messages = serializers.IntegerField(
        allow_null=True, help_text="What a million more would cost while there is capacity."
    )
    cost_micro_per_gib_in = serializers.IntegerField(allow_null=True, help_text="null: no bytes.")


class DividedCostShape(serializers.Serializer[Any]):
    """One asset's cost in the month: direct + idle + overhead + unspread = cost."""

    name = serializers.CharField(source="asset.name")
    kind = serializers.CharField(source="asset.kind.value")
    driver = serializers.CharField(source="asset.driver.value")
    cost_micro = serializers.IntegerField()
    used = serializers.IntegerField(help_text="Of the driver, by all tenants.")
    capacity = serializers.IntegerField(allow_null=True, help_text="Of the driver, in the month.")
    direct_micro = serializers.IntegerField()
    idle_micro = serializers.IntegerField()
    overhead_micro = serializers.IntegerField()
    unspread_micro = serializers.IntegerField(help_text="No tenant used any of it.")


_SUMS = {
    "period": serializers.CharField(),
    "currency": serializers.CharField(),
    "method": serializers.CharField(help_text="Names the rules of the division."),
    "idle": serializers.CharField(help_text="spread or kept."),
    "total": MarginShape(),
    "plans": MarginShape(many=True),
    "assets": DividedCostShape(many=True),
}
_PERIOD = OpenApiParameter("period", str, required=True, description="A UTC month, as 2026-11.")
_OF_CURRENCY = OpenApiParameter(
    "currency", str, description="Without it: that of the month's costs. Needed when they have several."
)
_IDLE = OpenApiParameter(
    "idle",
    str,
    enum=[one.value for one in Idle],
    description="`spread` (without it): over the tenants, in proportion to direct costs. `kept`: by the service.",
)


class TopicMarginShape(serializers.Serializer[Any]):
    """Amounts are micro-units of the report's currency."""

    topic = serializers.CharField(help_text="Empty: what is of no topic, with what was billed beside use.")
    messages_in = serializers.IntegerField(help_text="Produced.")
    bytes_in = serializers.IntegerField()
    direct_micro = serializers.IntegerField(source="share.direct_micro", help_text="By use.")
    idle_micro = serializers.IntegerField(source="share.idle_micro")
    overhead_micro = serializers.IntegerField(source="share.overhead_micro")
    cost_micro = serializers.IntegerField(help_text="The sum of these.")
    billed_micro = serializers.IntegerField(
        allow_null=True, help_text="null: it is billed in another currency."
    )
    margin_micro = serializers.IntegerField(allow_null=True)
    cost_micro_per_million_messages = serializers.IntegerField(
        allow_null=True, help_text="null: no messages."
    )


_OF_TENANT = OpenApiParameter("tenant", str, required=True, description="Its public id.")


def asked_margins(request: Request) -> margins.Report:
    """The report that query parameters name. Raises `InvalidRequest`."""
    asked = request.query_params
    idle = asked.get("idle", Idle.SPREAD.value)
    if idle not in set(Idle):
        raise InvalidRequest(f"idle: one of {', '.join(Idle)} required")
    return margins.margins(
        asked.get("period", ""), timezone.now(), currency=asked.get("currency", ""), idle=Idle(idle)
    )


class TopicMarginsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.COSTS_READ}

    @extend_schema(
        operation_id="margins_topics",
        parameters=[_PERIOD, _OF_TENANT, _OF_CURRENCY, _IDLE, *shapes.PAGING],
        responses={
            200: shapes.listed(
                "TopicMargin",
                TopicMarginShape(many=True),
                period=serializers.CharField(),
                currency=serializers.CharField(),
                tenant=serializers.CharField(),
            ),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: a tenant's margin by topic. The topics add up to the tenant's cost and to what it was billed."""
        found = asked_margins(request)
        tenant = request.query_params.get("tenant", "")
        rows = in_memory(
            lambda: margins.topic_margins(tenant, found, timezone.now()), lambda one: (one.topic,)
        )
        sums = {"period": found.period, "currency": found.currency, "tenant": tenant}
        return self.paged(rows, TopicMarginShape, extra=sums)


class MarginsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.COSTS_READ}

    @extend_schema(
        operation_id="margins_list",
        parameters=[_PERIOD, _OF_CURRENCY, _IDLE, *shapes.PAGING],
        responses={
            200: shapes.listed("Margin", MarginShape(many=True), **_SUMS),
            **shapes.problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: what a month cost, divided over the tenants by their use, beside what was billed. A page of
        tenants by id; the sums, plans and assets are of all.
        """
        found = asked_margins(request)
        sums = {
            "period": found.period,
            "currency": found.currency,
            "method": METHOD,
            "idle": found.found.idle.value,
            "total": MarginShape(found.total).data,
            "plans": MarginShape(found.plans, many=True).data,
            "assets": DividedCostShape(found.found.assets, many=True).data,
        }
        return self.paged(
            in_memory(lambda: found.tenants, lambda one: (one.tenant,)), MarginShape, extra=sums
        )
