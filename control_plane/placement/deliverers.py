"""Deliveries of cordons and moves: each sends the brokers the desired state and may be repeated."""

from control_plane.brokers import client as brokers
from control_plane.outbox import registry
from control_plane.outbox.conditions import DELIVERY
from control_plane.outbox.registry import Delivered
from control_plane.placement import actions, queries
from control_plane.placement.models import BrokerOrder, BrokerUse, Move, MoveState
from penstock.contract.errors import InvalidRequest, NotFound


def register_all() -> None:
    registry.register(actions.KIND_BROKER, OrderDeliverer())
    registry.register(actions.KIND_MOVE, MoveDeliverer())


class OrderDeliverer:
    """The cordon of a broker."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        order = queries.order_by_id(object_id)
        cordoned = order.use == BrokerUse.DRAIN
        outcome = brokers.client().cordon_broker(order.broker, cordoned, generation=order.generation)
        return Delivered(generation=order.generation, revision=outcome.revision)

    def delivered(self, object_id: str, done: Delivered) -> None:
        actions.note_delivered(BrokerOrder, object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        actions.put_condition(BrokerOrder, object_id, DELIVERY, reason, message)


class MoveDeliverer:
    """A move: the partition's replicas as they are to be, or that they stay as they were."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        move = queries.move_by_id(object_id)
        wanted = move.target if move.state == MoveState.MOVING else None
        try:
            outcome = brokers.client().alter_replicas(bytes.fromhex(move.topic_id), move.partition, wanted)
        except NotFound:
            actions.end(move, MoveState.CANCELLED, message="the partition is gone")
            return Delivered(generation=move.generation)
        except InvalidRequest as refused:
            # The brokers will never take it: another plan has to be made.
            actions.end(move, MoveState.CANCELLED, message=refused.message)
            return Delivered(generation=move.generation)
        return Delivered(generation=move.generation, revision=outcome.revision)

    def delivered(self, object_id: str, done: Delivered) -> None:
        actions.note_delivered(Move, object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        actions.put_condition(Move, object_id, DELIVERY, reason, message)
