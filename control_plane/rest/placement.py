"""REST: brokers taken out of use, moves of partitions and of leaders; for operators."""

from dataclasses import dataclass
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import pages, shapes
from control_plane.brokers import client as brokers
from control_plane.brokers import view
from control_plane.placement import actions, driving, queries
from control_plane.placement.models import BrokerOrder, Move
from control_plane.rest.views import OperatorView, told
from penstock.contract.errors import NotFound
from tenants.roles import Permission

BROKER_ID_MAX = 999_999


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInUse:
    """A broker as the brokers see it, and as an operator wants it."""

    seen: view.BrokerSeen
    order: BrokerOrder


class BrokerUseShape(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="seen.id")
    state = serializers.CharField(
        source="seen.state", help_text="active, draining (it stops) or fenced (it is away)."
    )
    use = serializers.CharField(source="order.use", help_text="serve or drain.")
    drained = serializers.SerializerMethodField(
        help_text="It holds and leads nothing: it may be stopped for good."
    )
    client_address = serializers.CharField(source="seen.client_address")
    zone = serializers.CharField(source="seen.zone")
    leaders = serializers.IntegerField(source="seen.leaders")
    replicas = serializers.IntegerField(source="seen.replicas")
    replicas_at_start = serializers.IntegerField(
        source="order.replicas_at_start", help_text="Of a drain: what it held when that began."
    )
    conditions = shapes.Condition(source="order.conditions", many=True)

    def get_drained(self, broker: BrokerInUse) -> bool:
        return broker.order.drained_at is not None


class OrderTold(shapes.Told):
    broker = serializers.IntegerField()
    use = serializers.CharField()
    replicas_at_start = serializers.IntegerField()
    conditions = shapes.Condition(many=True)


class ProgressShape(serializers.Serializer[Any]):
    broker = serializers.IntegerField()
    in_sync = serializers.BooleanField()
    offsets_left = serializers.IntegerField(help_text="-1 = it has not asked for anything yet.")
    bytes_left = serializers.IntegerField(help_text="Estimated; -1 likewise.")


# The context has the moves that are `under_way` as the brokers see them, by topic id and partition.
class MoveShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    cause = serializers.CharField()
    state = serializers.CharField(help_text="waiting, moving, done or cancelled.")
    tenant = serializers.CharField()
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    from_broker = serializers.IntegerField(
        source="source", allow_null=True, help_text="null: a replica is added."
    )
    to_broker = serializers.IntegerField(
        source="destination", allow_null=True, help_text="null: a replica is taken away."
    )
    target = serializers.ListField(child=serializers.IntegerField())
    progress = serializers.SerializerMethodField(help_text="While it moves.")
    conditions = shapes.Condition(many=True)
    created_at = shapes.Moment()
    finished_at = shapes.Moment(allow_null=True)

    @extend_schema_field(ProgressShape(many=True))
    def get_progress(self, move: Move) -> Any:
        seen: view.MoveSeen | None = self.context["under_way"].get((move.topic_id, move.partition))
        return ProgressShape(() if seen is None else seen.progress, many=True).data


class PlannedShape(serializers.Serializer[Any]):
    planned = serializers.IntegerField(help_text="How many partitions will move.")


class LeaderInput(shapes.StrictSerializer):
    topic_id = serializers.RegexField(r"^[0-9a-f]{32}$")
    partition = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    broker = serializers.IntegerField(min_value=0, max_value=BROKER_ID_MAX)


class LeaderMoved(serializers.Serializer[Any]):
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    broker = serializers.IntegerField()


class BrokersView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ}

    @extend_schema(
        operation_id="brokers_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Broker", BrokerUseShape(many=True)), **shapes.problems(403, 503)},
    )
    def get(self, request: Request) -> Response:
        """Operators: every broker, what it holds, and whether it is being drained."""

        def read() -> list[BrokerInUse]:
            orders = queries.orders()
            seen = brokers.describe(timeout_s=driving.ASK_S).brokers
            return [_in_use(broker, orders.get(broker.id)) for broker in seen]

        return self.paged(pages.in_memory(read, key=lambda broker: (broker.seen.id,)), BrokerUseShape)


class BrokerView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "DELETE": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="brokers_get", responses={200: BrokerUseShape, **shapes.problems(403, 404, 503)}
    )
    def get(self, request: Request, broker: int) -> Response:
        """Operators: one broker."""
        for found in brokers.describe(timeout_s=driving.ASK_S).brokers:
            if found.id == broker:
                return Response(BrokerUseShape(_in_use(found, queries.order_of(broker))).data)
        raise NotFound(f"broker {broker} is not known")

    @extend_schema(
        operation_id="brokers_forget", responses={204: None, **shapes.problems(403, 404, 422, 503)}
    )
    def delete(self, request: Request, broker: int) -> Response:
        """Operators: forget a broker that was drained and has been stopped."""
        driving.forget(self.actor, _possible(broker))
        return Response(status=204)


class DrainView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.CLUSTER_WRITE, "DELETE": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="brokers_drain",
        request=None,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: OrderTold, 202: OrderTold, **shapes.problems(403, 404, 422, 503)},
    )
    def post(self, request: Request, broker: int) -> Response:
        """Operators: move leaders and replicas off a broker. Refused when the others cannot hold them."""
        order = driving.begin_drain(self.actor, _possible(broker))
        return told(order, actions.KIND_BROKER, OrderTold)

    @extend_schema(
        operation_id="brokers_undrain",
        responses={200: OrderTold, 202: OrderTold, **shapes.problems(403, 404, 503)},
    )
    def delete(self, request: Request, broker: int) -> Response:
        """Operators: let it serve again. What has moved stays where it is, what is moving goes back."""
        order = driving.end_drain(self.actor, _possible(broker))
        return told(order, actions.KIND_BROKER, OrderTold)


class RebalanceView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="cluster_rebalance",
        request=None,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: PlannedShape, **shapes.problems(403, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: even out how many replicas brokers hold, for instance after one has joined."""
        return Response(PlannedShape({"planned": len(driving.rebalance(self.actor))}).data)


class MovesView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ}

    @extend_schema(
        operation_id="moves_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Move", MoveShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Operators: partitions that move, shall move or have moved, with what is left of each."""
        under_way: dict[tuple[str, int], view.MoveSeen] = {}
        if queries.open_moves().exists():
            seen = brokers.describe_moves(driving.ASK_S)
            under_way = {(move.topic_id, move.partition): move for move in seen}
        return self.paged(queries.moves(), MoveShape, context={"under_way": under_way})


class MoveView(OperatorView):
    permissions: ClassVar[Any] = {"DELETE": Permission.CLUSTER_WRITE}

    @extend_schema(operation_id="moves_cancel", responses={200: MoveShape, **shapes.problems(403, 404, 422)})
    def delete(self, request: Request, move: str) -> Response:
        """Operators: cancel a move that has not ended."""
        found = queries.moves().filter(public_id=move).first()
        if found is None:
            raise NotFound(f"move {move[:64]!r} does not exist")
        cancelled = actions.cancel(self.actor, found)
        return Response(MoveShape(cancelled, context={"under_way": {}}).data)


class LeadersView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="leaders_move",
        request=LeaderInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: LeaderMoved, **shapes.problems(403, 404, 422, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: have a partition's leader hand over to another replica that is in sync."""
        given = LeaderInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        driving.move_leader(self.actor, **wanted)
        return Response(LeaderMoved(wanted).data)


def _possible(broker: int) -> int:
    """`broker`, if a broker could have this number. Raises `NotFound`."""
    if broker > BROKER_ID_MAX:
        raise NotFound(f"broker {broker} is not known")
    return broker


def _in_use(seen: view.BrokerSeen, order: BrokerOrder | None) -> BrokerInUse:
    """A broker without an order serves, as an order's defaults say."""
    return BrokerInUse(seen=seen, order=BrokerOrder(broker=seen.id) if order is None else order)
