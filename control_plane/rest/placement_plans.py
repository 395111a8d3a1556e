"""REST: placement plans, the balancer, what brokers carry, and hot partitions."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, pages, shapes
from control_plane.placement import hot, plan_actions, planning, queries
from control_plane.placement.models import (
    CELL_NAME_LENGTH_MAX,
    BalancerMode,
    MoveState,
    PlacementPlan,
    PlanKind,
)
from control_plane.placement.weighing import reports_skew
from control_plane.rest.views import OperatorView, TenantView, tagged
from data_plane.placement.heat import Heat
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import BROKER_ID_MAX
from tenants.roles import Permission

_BYTES_PER_S_MIN = 2**20
_BYTES_PER_S_MAX = 2**40
_MOVES_AT_ONCE_MAX = 1_000
_TENANT_LENGTH_MAX = 64
_FIELDS = {
    PlanKind.DRAIN: {"broker"},
    PlanKind.REBALANCE: set[str](),
    PlanKind.MOVE_TENANT: {"tenant", "cell"},
}
"""What each kind takes, beside `kind`; all of it is required."""


class SkewShape(serializers.Serializer[Any]):
    """Largest distance of a broker from the mean of all, in percent of the mean. What is counted has none within 1."""

    replicas = serializers.FloatField()
    log_bytes = serializers.FloatField(help_text="Of replicas' logs as stored.")
    leaders = serializers.FloatField()
    bytes_per_s = serializers.FloatField(help_text="That leaders take and give, a mean over about 20 s.")


class PlannedMoveShape(serializers.Serializer[Any]):
    topic_id = serializers.CharField()
    topic = serializers.CharField()
    tenant = serializers.CharField()
    partition = serializers.IntegerField()
    replicas = serializers.ListField(child=serializers.IntegerField(), help_text="When the plan was made.")
    target = serializers.ListField(child=serializers.IntegerField(), help_text="The first should lead.")
    copied_bytes = serializers.IntegerField()


class PlacementPlanProgress(serializers.Serializer[Any]):
    waiting = serializers.IntegerField()
    moving = serializers.IntegerField()
    done = serializers.IntegerField()
    cancelled = serializers.IntegerField()


# The context has `moves`: numbers of moves by plan and state, and the balancer's `bytes_per_s`.
class PlacementPlanShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    kind = serializers.CharField(help_text="drain, rebalance or move_tenant.")
    state = serializers.CharField(help_text="draft, running, done or cancelled.")
    broker = serializers.IntegerField(allow_null=True, help_text="That is drained.")
    tenant = serializers.CharField(help_text="That moves; empty: none.")
    cell = serializers.CharField(help_text="To which it moves; empty: it may be on every broker.")
    automatic = serializers.BooleanField(help_text="Made by the balancer.")
    move_count = serializers.SerializerMethodField()
    copied_bytes = serializers.IntegerField(help_text="To copy, as far as brokers have reported sizes.")
    copy_s = serializers.SerializerMethodField(
        help_text="Seconds that copying takes at the balancer's budget."
    )
    skew_before = SkewShape()
    skew_after = SkewShape(help_text="As expected once every move has ended.")
    progress = serializers.SerializerMethodField(
        help_text="Numbers of its moves by state, once it is confirmed."
    )
    created_at = shapes.Moment()
    confirmed_at = shapes.Moment(allow_null=True)
    finished_at = shapes.Moment(allow_null=True)

    def get_move_count(self, plan: PlacementPlan) -> int:
        return len(plan.moves)

    def get_copy_s(self, plan: PlacementPlan) -> int:
        return -(-plan.copied_bytes // int(self.context["bytes_per_s"]))

    @extend_schema_field(PlacementPlanProgress)
    def get_progress(self, plan: PlacementPlan) -> Any:
        known = self.context["moves"].get(plan.public_id, {})
        return {state.value: known.get(state.value, 0) for state in MoveState}


class WholePlacementPlanShape(PlacementPlanShape):
    moves = PlannedMoveShape(many=True)


class PlacementPlanInput(shapes.StrictSerializer):
    kind = serializers.ChoiceField(choices=PlanKind.choices, help_text="What the plan is for.")
    broker = serializers.IntegerField(
        min_value=0, max_value=BROKER_ID_MAX, required=False, help_text="With drain: the broker to empty."
    )
    tenant = serializers.CharField(
        max_length=_TENANT_LENGTH_MAX, required=False, help_text="With move_tenant: its public id."
    )
    cell = serializers.CharField(
        max_length=CELL_NAME_LENGTH_MAX,
        required=False,
        allow_blank=True,
        help_text="With move_tenant: the cell's name; empty: the tenant may be on every broker.",
    )


class BalancerShape(serializers.Serializer[Any]):
    mode = serializers.CharField(help_text="off, advise (it makes drafts only) or on.")
    bytes_per_s = serializers.IntegerField(help_text="Budget of all moves' copying, over the whole cluster.")
    moves_at_once = serializers.IntegerField()
    skew = serializers.DictField(child=serializers.FloatField(), help_text="At its last look.")
    uneven_since = shapes.Moment(allow_null=True)
    looked_at = shapes.Moment(allow_null=True)
    waits = serializers.CharField(
        help_text="Why it did nothing at its last look; empty: nothing is in its way."
    )


class BalancerInput(shapes.StrictSerializer):
    mode = serializers.ChoiceField(choices=BalancerMode.choices, required=False)
    bytes_per_s = serializers.IntegerField(
        min_value=_BYTES_PER_S_MIN, max_value=_BYTES_PER_S_MAX, required=False
    )
    moves_at_once = serializers.IntegerField(min_value=1, max_value=_MOVES_AT_ONCE_MAX, required=False)


class BrokerLoadShape(serializers.Serializer[Any]):
    broker = serializers.IntegerField()
    replicas = serializers.IntegerField()
    leaders = serializers.IntegerField()
    log_bytes = serializers.IntegerField()
    bytes_in_per_s = serializers.IntegerField()
    bytes_out_per_s = serializers.IntegerField()
    connections = serializers.IntegerField()
    disk_used_bytes = serializers.IntegerField()
    disk_total_bytes = serializers.IntegerField()


class LoadShape(serializers.Serializer[Any]):
    skew = SkewShape()
    brokers = BrokerLoadShape(many=True, help_text="Those that reported within the last 90 s.")


class OwnHotShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    bytes_in_per_s = serializers.IntegerField()
    bytes_out_per_s = serializers.IntegerField()
    of_tenant_percent = serializers.IntegerField(help_text="Of all that the tenant sends and reads.")
    slow_downs_per_s = serializers.FloatField(help_text="Results that asked a producer to slow down.")
    hot_key_percent = serializers.IntegerField(
        help_text="The largest part of its messages that one key has, as producers report; 0 = none is known."
    )
    reasons = serializers.ListField(
        child=serializers.ChoiceField([one.value for one in Heat]),
        help_text="Why it is hot: a large part of what its broker or its tenant does, far more than its topic's other"
        " partitions, or a long queue of its leader.",
    )


class HotShape(OwnHotShape):
    tenant = serializers.CharField()
    broker = serializers.IntegerField()
    of_broker_percent = serializers.IntegerField(help_text="Of all that its broker takes and gives.")


class PlansView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="placement_plans_list",
        parameters=[*shapes.PAGING],
        responses={
            200: shapes.listed("PlacementPlan", PlacementPlanShape(many=True)),
            **shapes.problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: placement plans, with how far each is."""
        context = _context([])

        def with_progress(rows: list[PlacementPlan]) -> list[PlacementPlan]:
            context["moves"].update(queries.moves_of(rows))
            return rows

        return self.paged(queries.plans(), PlacementPlanShape, shown_as=with_progress, context=context)

    @extend_schema(
        operation_id="placement_plans_make",
        request=PlacementPlanInput,
        parameters=[shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: WholePlacementPlanShape, **shapes.problems(403, 404, 422, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: work out what would move to drain a broker, to even out what brokers carry, or to bring a tenant
        into a cell. Nothing moves until the plan is confirmed.
        """
        given = PlacementPlanInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = dict(given.validated_data)
        kind = PlanKind(wanted.pop("kind"))
        for name in sorted(_FIELDS[kind] ^ wanted.keys()):
            raise InvalidRequest(
                f"{name}: required for {kind}" if name in _FIELDS[kind] else f"{name}: {kind} takes none"
            )
        plan: PlacementPlan | None
        if kind is PlanKind.DRAIN:
            plan = planning.drain(self.actor, wanted["broker"])
        elif kind is PlanKind.MOVE_TENANT:
            plan = planning.move_tenant(self.actor, wanted["tenant"], wanted["cell"])
        else:
            plan = planning.rebalance(self.actor)
        if plan is None:
            raise InvalidRequest("kind: nothing has to move, the brokers carry about equally much")
        return _shown(plan, 201)


class PlanView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "DELETE": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="placement_plans_get",
        parameters=[shapes.ETAG],
        responses={200: WholePlacementPlanShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, plan: str) -> Response:
        """Operators: one placement plan with all of its moves."""
        return _shown(queries.plan(plan))

    @extend_schema(
        operation_id="placement_plans_cancel",
        responses={200: WholePlacementPlanShape, **shapes.problems(403, 404, 422)},
    )
    def delete(self, request: Request, plan: str) -> Response:
        """Operators: cancel a plan. Finished moves stay, unfinished ones are cancelled; a broker that was to be drained
        serves again, and a tenant is back in its cell of before."""
        return _shown(planning.cancel(self.actor, queries.plan(plan)))


class PlanConfirmView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.CLUSTER_WRITE}
    conditional = frozenset({"POST"})

    @extend_schema(
        operation_id="placement_plans_confirm",
        request=None,
        parameters=[shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: WholePlacementPlanShape, **shapes.problems(403, 404, 412, 422, 503)},
    )
    def post(self, request: Request, plan: str) -> Response:
        """Operators: begin the moves of a draft. Refused if a partition is not where the plan shows it, a broker takes
        no replicas any more, or another plan is running.
        """
        found = queries.plan(plan)
        etags.check(request, etags.of(found))
        return _shown(planning.confirm(self.actor, found))


class BalancerView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "PATCH": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="balancer_get",
        parameters=[shapes.ETAG],
        responses={200: BalancerShape, **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Operators: the balancer's switch and budget, and what it saw last."""
        found = queries.balancer()
        return tagged(found, BalancerShape(found))

    @extend_schema(
        operation_id="balancer_set",
        request=BalancerInput,
        parameters=[shapes.ETAG],
        responses={200: BalancerShape, **shapes.problems(403)},
    )
    def patch(self, request: Request) -> Response:
        """Operators: set the balancer's switch, or the budget of all moves."""
        given = BalancerInput(data=request.data)
        given.is_valid(raise_exception=True)
        changed = plan_actions.set_balancer(self.actor, dict(given.validated_data))
        return tagged(changed, BalancerShape(changed))


class LoadView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ}

    @extend_schema(operation_id="placement_load", responses={200: LoadShape, **shapes.problems(403)})
    def get(self, request: Request) -> Response:
        """Operators: what each broker carries, and how uneven that is."""
        reports = sorted(queries.load_sums().values(), key=lambda report: report.broker)
        return Response(LoadShape({"skew": reports_skew(reports), "brokers": reports}).data)


class HotView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ}

    @extend_schema(
        operation_id="placement_hot",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("HotPartition", HotShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Operators: partitions that take and give far more than others of their broker or tenant."""
        return self.paged(pages.in_memory(hot.hot_partitions, key=_by_rate), HotShape)


class OwnHotView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TOPICS_READ}

    @extend_schema(
        operation_id="hot_partitions",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={
            200: shapes.listed("OwnHotPartition", OwnHotShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> Response:
        """The tenant's partitions that take and give far more than its others. Send with more different keys, or with
        none, to spread the load.
        """
        mine, visible = self.tenant.public_id, self.access.visible

        def read() -> list[hot.HotPartition]:
            own = (one for one in hot.hot_partitions() if one.tenant == mine)
            return [one for one in own if visible is None or visible(one.topic)]

        return self.paged(pages.in_memory(read, key=_by_rate), OwnHotShape)


def _by_rate(one: hot.HotPartition) -> tuple[int, str, int]:
    return (-(one.bytes_in_per_s + one.bytes_out_per_s), one.topic_id, one.partition)


def _context(plans: list[PlacementPlan]) -> dict[str, Any]:
    return {"moves": queries.moves_of(plans), "bytes_per_s": queries.balancer().bytes_per_s}


def _shown(plan: PlacementPlan, status: int = 200) -> Response:
    return tagged(plan, WholePlacementPlanShape(plan, context=_context([plan])), status)
