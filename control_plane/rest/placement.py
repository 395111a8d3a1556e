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
from control_plane.placement.models import OPEN, BrokerOrder, Move
from control_plane.rest.views import OperatorView, answer_change
from penstock.contract.errors import NotFound
from penstock.contract.ids import BROKER_ID_MAX
from tenants.roles import Permission

_LEVEL_MAX = 1_000_000
"""Far more than releases will ever bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInUse:
    """A broker as the cluster sees it, and what an operator ordered."""

    seen: view.BrokerSeen
    order: BrokerOrder
    warnings: tuple[str, ...]


class BrokerUseShape(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="seen.id")
    state = serializers.CharField(
        source="seen.state", help_text="active, draining (it is stopping) or fenced (it is away)."
    )
    use = serializers.CharField(source="order.use", help_text="serve or drain.")
    drained = serializers.SerializerMethodField(
        help_text="It has no replicas and leads nothing: it can be stopped for good."
    )
    client_address = serializers.CharField(source="seen.client_address")
    zone = serializers.CharField(source="seen.zone")
    version = serializers.CharField(
        source="seen.version",
        help_text="Of Penstock. Empty: the broker is away, or of a release that did not say it.",
    )
    host = serializers.CharField(source="seen.host", help_text="Empty: no other broker is on its host.")
    leaders = serializers.IntegerField(source="seen.leaders")
    replicas = serializers.IntegerField(source="seen.replicas")
    replicas_at_start = serializers.IntegerField(
        source="order.replicas_at_start", help_text="Replicas that it had when the drain began."
    )
    conditions = shapes.Condition(source="order.conditions", many=True)
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What to correct or know about its zone and host."
    )

    def get_drained(self, broker: BrokerInUse) -> bool:
        return broker.order.drained_at is not None


class ChangedBrokerUse(shapes.Delivery):
    broker = serializers.IntegerField()
    use = serializers.CharField()
    replicas_at_start = serializers.IntegerField()
    conditions = shapes.Condition(many=True)


class ProgressShape(serializers.Serializer[Any]):
    broker = serializers.IntegerField()
    in_sync = serializers.BooleanField()
    offsets_left = serializers.IntegerField(help_text="-1: it has not fetched anything yet.")
    bytes_left = serializers.IntegerField(help_text="An estimate; -1: it has not fetched anything yet.")


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
        source="source",
        allow_null=True,
        help_text="null: a replica is added; with `to_broker` null too, only the preferred leader changes.",
    )
    to_broker = serializers.IntegerField(
        source="destination", allow_null=True, help_text="null: a replica is removed."
    )
    target = serializers.ListField(child=serializers.IntegerField())
    plan = serializers.CharField(help_text="The placement plan that it belongs to; empty: none.")
    copied_bytes = serializers.IntegerField(help_text="To copy, as known when it was planned.")
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
    topic_id = shapes.TopicIdField()
    partition = shapes.PartitionField()
    broker = serializers.IntegerField(min_value=0, max_value=BROKER_ID_MAX)


class LeaderMoved(serializers.Serializer[Any]):
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    broker = serializers.IntegerField()


class BrokerLevels(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    state = serializers.CharField()
    version = serializers.CharField()
    level_min = serializers.IntegerField()
    level_max = serializers.IntegerField()


class LevelShape(serializers.Serializer[Any]):
    level = serializers.IntegerField()
    release = serializers.CharField(help_text="The first release whose brokers support it.")
    brings = serializers.CharField(help_text="What is used from this level on.")


class FeaturesShape(serializers.Serializer[Any]):
    level = serializers.IntegerField(source="feature_level", help_text="In force.")
    levels = LevelShape(many=True, help_text="All that the brokers' release knows.")
    brokers = BrokerLevels(many=True)


class FeaturesInput(shapes.StrictSerializer):
    level = serializers.IntegerField(min_value=1, max_value=_LEVEL_MAX)


class BrokersView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ}

    @extend_schema(
        operation_id="brokers_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Broker", BrokerUseShape(many=True)), **shapes.problems(403, 503)},
    )
    def get(self, request: Request) -> Response:
        """Operators: every broker, its leaders and replicas, and whether it is drained."""

        def read() -> list[BrokerInUse]:
            orders = queries.orders()
            seen = brokers.describe(timeout_s=driving.ASK_S)
            warnings = seen.warnings
            return [
                _in_use(broker, orders.get(broker.id), warnings.get(broker.id, ())) for broker in seen.brokers
            ]

        return self.paged(pages.in_memory(read, key=lambda broker: (broker.seen.id,)), BrokerUseShape)


class BrokerView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "DELETE": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="brokers_get", responses={200: BrokerUseShape, **shapes.problems(403, 404, 503)}
    )
    def get(self, request: Request, broker: int) -> Response:
        """Operators: one broker."""
        seen = brokers.describe(timeout_s=driving.ASK_S)
        for found in seen.brokers:
            if found.id == broker:
                in_use = _in_use(found, queries.order_of(broker), seen.warnings.get(broker, ()))
                return Response(BrokerUseShape(in_use).data)
        raise NotFound(f"broker {broker} is not known")

    @extend_schema(
        operation_id="brokers_forget", responses={204: None, **shapes.problems(403, 404, 422, 503)}
    )
    def delete(self, request: Request, broker: int) -> Response:
        """Operators: remove a broker from the cluster, once it is drained and stopped."""
        driving.forget(self.actor, _possible(broker))
        return Response(status=204)


class DrainView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.CLUSTER_WRITE, "DELETE": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="brokers_drain",
        request=None,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: ChangedBrokerUse, 202: ChangedBrokerUse, **shapes.problems(403, 404, 412, 422, 503)},
    )
    def post(self, request: Request, broker: int) -> Response:
        """Operators: move all leaders and replicas off a broker. Refused if the other brokers cannot take them.

        It makes a placement plan and confirms it at once. POST /v1/placement/plans shows the plan first.
        """
        order = driving.begin_drain(self.actor, _possible(broker))
        return answer_change(order, actions.KIND_BROKER, ChangedBrokerUse)

    @extend_schema(
        operation_id="brokers_undrain",
        responses={200: ChangedBrokerUse, 202: ChangedBrokerUse, **shapes.problems(403, 404, 503)},
    )
    def delete(self, request: Request, broker: int) -> Response:
        """Operators: end a drain. Finished moves stay, unfinished ones are cancelled."""
        order = driving.end_drain(self.actor, _possible(broker))
        return answer_change(order, actions.KIND_BROKER, ChangedBrokerUse)


class RebalanceView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="cluster_rebalance",
        request=None,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: PlannedShape, **shapes.problems(403, 412, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: spread replicas evenly over the brokers, for instance after one has joined.

        It makes a placement plan and confirms it at once. POST /v1/placement/plans shows the plan first.
        """
        return Response(PlannedShape({"planned": driving.rebalance(self.actor)}).data)


class MovesView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ}

    @extend_schema(
        operation_id="moves_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Move", MoveShape(many=True)), **shapes.problems(403, 503)},
    )
    def get(self, request: Request) -> Response:
        """Operators: waiting, running and finished moves of partitions, with what is left of each."""
        under_way: dict[tuple[str, int], view.MoveSeen] = {}

        def with_progress(rows: list[Move]) -> list[Move]:
            """The brokers are asked once the cursor is known to be good, and only about moves of the page."""
            if any(row.state in OPEN for row in rows):
                seen = brokers.describe_moves(driving.ASK_S)
                under_way.update({(move.topic_id, move.partition): move for move in seen})
            return rows

        return self.paged(
            queries.moves(), MoveShape, shown_as=with_progress, context={"under_way": under_way}
        )


class MoveView(OperatorView):
    permissions: ClassVar[Any] = {"DELETE": Permission.CLUSTER_WRITE}

    @extend_schema(operation_id="moves_cancel", responses={200: MoveShape, **shapes.problems(403, 404, 422)})
    def delete(self, request: Request, move: str) -> Response:
        """Operators: cancel a move that is not finished."""
        cancelled = actions.cancel(self.actor, queries.move(move))
        return Response(MoveShape(cancelled, context={"under_way": {}}).data)


class FeaturesView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "PATCH": Permission.CLUSTER_WRITE}

    @extend_schema(operation_id="features_get", responses={200: FeaturesShape, **shapes.problems(403, 503)})
    def get(self, request: Request) -> Response:
        """Operators: the feature level in force, what each broker supports, and what the next level brings."""
        return Response(FeaturesShape(brokers.describe(timeout_s=driving.ASK_S)).data)

    @extend_schema(
        operation_id="features_set",
        request=FeaturesInput,
        responses={200: FeaturesShape, **shapes.problems(403, 422, 503)},
    )
    def patch(self, request: Request) -> Response:
        """Operators: put a feature level in force. Refused while a registered broker does not support it. Brokers of a
        release that does not support it are refused from then on.
        """
        given = FeaturesInput(data=request.data)
        given.is_valid(raise_exception=True)
        driving.set_feature_level(self.actor, given.validated_data["level"])
        return Response(FeaturesShape(brokers.describe(timeout_s=driving.ASK_S)).data)


class LeadersView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="leaders_move",
        request=LeaderInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: LeaderMoved, **shapes.problems(403, 404, 422, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: transfer a partition's leadership to another replica in sync."""
        given = LeaderInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        driving.move_leader(self.actor, **wanted)
        return Response(LeaderMoved(wanted).data)


def _possible(broker: int) -> int:
    """`broker`, if a broker can have this number. Raises `NotFound`."""
    if broker > BROKER_ID_MAX:
        raise NotFound(f"broker {broker} is not known")
    return broker


def _in_use(seen: view.BrokerSeen, order: BrokerOrder | None, warnings: tuple[str, ...]) -> BrokerInUse:
    """A broker without an order has the defaults of an order: it serves."""
    known = BrokerOrder(broker=seen.id) if order is None else order
    return BrokerInUse(seen=seen, order=known, warnings=warnings)
