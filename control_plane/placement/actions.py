"""Writes orders and moves: drains begun and taken back, moves planned, begun and ended; with audit and outbox."""

from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.ids import new_id
from control_plane.outbox import actions as outbox
from control_plane.outbox import conditions
from control_plane.outbox.models import DesiredObject
from control_plane.outbox.registry import Delivered
from control_plane.placement.models import (
    OPEN,
    BrokerOrder,
    BrokerUse,
    Move,
    MoveState,
    PlacementPlan,
    PlanKind,
    PlanState,
)
from data_plane.placement.moves import PlannedMove, copied_bytes
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT

KIND_BROKER = "broker"
KIND_MOVE = "move"
ENDED = "ended"
"""Condition of a move that did not come to where it was planned: why."""


def drain(actor: Actor, broker: int, *, replicas: int) -> BrokerOrder:
    """The broker is to store nothing; `replicas` is the number that it stores now. A second call changes nothing."""
    with transaction.atomic():
        order = _locked_order(broker)
        if order.use == BrokerUse.DRAIN:
            return order
        order.use, order.replicas_at_start, order.drained_at = BrokerUse.DRAIN, replicas, None
        _changed(actor, order, "broker.drain", {"broker": broker, "replicas": replicas})
    return order


def undrain(actor: Actor, broker: int) -> BrokerOrder:
    """The broker serves as before: what has not moved yet stays, what is moving goes back."""
    with transaction.atomic():
        order = _locked_order(broker)
        if order.use == BrokerUse.SERVE:
            return order
        order.use, order.drained_at = BrokerUse.SERVE, None
        waiting = Move.objects.select_for_update(no_key=True).filter(
            source=broker, cause="drain", state__in=OPEN
        )
        cancelled = [_cancel(move) for move in waiting.order_by("pk")]
        PlacementPlan.objects.filter(
            kind=PlanKind.DRAIN, broker=broker, state__in=(PlanState.DRAFT, PlanState.RUNNING)
        ).update(state=PlanState.CANCELLED, finished_at=timezone.now())
        _changed(actor, order, "broker.undrain", {"broker": broker, "moves_cancelled": len(cancelled)})
    return order


def note_drained(actor: Actor, order: BrokerOrder) -> bool:
    """The brokers report that it stores and leads nothing. False if the order changed meanwhile."""
    with transaction.atomic():
        locked = BrokerOrder.objects.select_for_update(no_key=True).get(pk=order.pk)
        if locked.use != BrokerUse.DRAIN or locked.drained_at is not None:
            return False
        locked.drained_at = timezone.now()
        locked.save(update_fields=["drained_at", "updated_at"])
        _audit(actor, locked, "broker.drained", {"broker": locked.broker})
    return True


def note_forgotten(actor: Actor, broker: int) -> None:
    """The brokers have forgotten it: a broker that takes this number later is a new one."""
    with transaction.atomic():
        order = BrokerOrder.objects.select_for_update(no_key=True).filter(broker=broker).first()
        if order is not None:
            _audit(actor, order, "broker.forget", {"broker": broker})
            order.delete()


def note_leader_moved(actor: Actor, *, topic_id: str, partition: int, broker: int) -> None:
    """The brokers have moved it."""
    with transaction.atomic():
        audit.record(
            actor,
            tenant=SYSTEM_TENANT,
            action="leader.move",
            object_id=topic_id,
            after={"partition": partition, "broker": broker},
        )


def note_feature_level(actor: Actor, *, before: int, level: int) -> None:
    """The brokers have put it in force."""
    with transaction.atomic():
        audit.record(
            actor,
            tenant=SYSTEM_TENANT,
            action="features.set",
            object_id="cluster",
            before={"level": before},
            after={"level": level},
        )


def plan_moves(
    actor: Actor,
    cause: str,
    planned: Iterable[tuple[str, PlannedMove]],
    object_id: str,
    *,
    plan: str = "",
) -> list[Move]:
    """Note the moves, each with the tenant of its topic; a partition that moves already is left out."""
    with transaction.atomic():
        busy = {
            (move.topic_id, move.partition)
            for move in Move.objects.select_for_update(no_key=True).filter(state__in=OPEN)
        }
        made = [
            Move(
                public_id=new_id("mov"),
                cause=cause,
                topic_id=move.partition.topic_id,
                tenant=tenant,
                topic=move.partition.topic,
                partition=move.partition.partition,
                source=move.source,
                destination=move.destination,
                target=list(move.target),
                plan=plan,
                copied_bytes=copied_bytes(move),
            )
            for tenant, move in planned
            if (move.partition.topic_id, move.partition.partition) not in busy
        ]
        Move.objects.bulk_create(made)
        if made:
            audit.record(
                actor,
                tenant=SYSTEM_TENANT,
                action="placement.plan",
                object_id=object_id,
                after={"cause": cause, "moves": len(made)},
            )
    return made


def begin(move: Move) -> bool:
    """Start this move: deliver it to the brokers. False if it changed meanwhile."""
    with transaction.atomic():
        locked = Move.objects.select_for_update(no_key=True).get(pk=move.pk)
        if locked.state != MoveState.WAITING:
            return False
        locked.state = MoveState.MOVING
        locked.save(update_fields=["state", "updated_at"])
        _deliver(KIND_MOVE, locked)
    return True


def end(move: Move, state: MoveState, *, message: str = "") -> bool:
    """It has come to its end on the brokers, or the partition is gone."""
    with transaction.atomic():
        locked = Move.objects.select_for_update(no_key=True).get(pk=move.pk)
        if locked.state not in OPEN:
            return False
        locked.state, locked.finished_at = state, timezone.now()
        if message:
            locked.conditions = conditions.put(
                locked.conditions, ENDED, "seen_on_brokers", message, timezone.now()
            )
        locked.save(update_fields=["state", "finished_at", "conditions", "updated_at"])
    return True


def cancel(actor: Actor, move: Move) -> Move:
    """The partition stays on its brokers, or goes back to them. Raises `InvalidRequest` once the move has ended."""
    with transaction.atomic():
        locked = Move.objects.select_for_update(no_key=True).get(pk=move.pk)
        if locked.state not in OPEN:
            raise InvalidRequest(f"move {move.public_id}: it is {locked.state}")
        locked = _cancel(locked)
        _audit(actor, locked, "move.cancel", {"topic": locked.topic, "partition": locked.partition})
    return locked


def cancel_moves_of(plan: str) -> int:
    """Within the caller's transaction, which has the audit entry: all of the plan's moves that have not ended."""
    found = Move.objects.select_for_update(no_key=True).filter(plan=plan, state__in=OPEN).order_by("pk")
    return len([_cancel(move) for move in found])


def _cancel(move: Move) -> Move:
    """Under its lock. A waiting move was never delivered; the brokers undo a started one."""
    delivered = move.state == MoveState.MOVING
    move.state, move.finished_at = MoveState.CANCELLED, timezone.now()
    if delivered:
        move.generation += 1
    move.save(update_fields=["state", "finished_at", "generation", "updated_at"])
    if delivered:
        _deliver(KIND_MOVE, move)
    return move


# -- what became of a delivery --------------------------------------------------------------------------


def note_delivered(model: type[BrokerOrder] | type[Move], public_id: str, done: Delivered) -> None:
    """The brokers have this generation."""
    row = model.objects.select_for_update(no_key=True).filter(public_id=public_id).first()
    if row is None:
        return
    row.delivered_generation = max(row.delivered_generation, done.generation)
    row.delivered_revision = max(row.delivered_revision, done.revision)
    row.conditions = conditions.without(row.conditions, conditions.DELIVERY)
    row.save(update_fields=["delivered_generation", "delivered_revision", "conditions", "updated_at"])


def put_condition(
    model: type[BrokerOrder] | type[Move], public_id: str, kind: str, reason: str, message: str
) -> None:
    """Show a condition on the order or move."""
    with transaction.atomic():
        row = model.objects.select_for_update(no_key=True).filter(public_id=public_id).first()
        if row is not None and not conditions.has(row.conditions, kind, message):
            row.conditions = conditions.put(row.conditions, kind, reason, message, timezone.now())
            row.save(update_fields=["conditions", "updated_at"])


def clear_condition(model: type[BrokerOrder] | type[Move], public_id: str, kind: str) -> None:
    """Show it no more."""
    with transaction.atomic():
        row = model.objects.select_for_update(no_key=True).filter(public_id=public_id).first()
        if row is not None and any(c["type"] == kind for c in row.conditions):
            row.conditions = conditions.without(row.conditions, kind)
            row.save(update_fields=["conditions", "updated_at"])


# -- inside -----------------------------------------------------------------------------------------------


def _locked_order(broker: int) -> BrokerOrder:
    order, made = BrokerOrder.objects.get_or_create(
        broker=broker, defaults={"public_id": new_id("brk"), "generation": 0}
    )
    return order if made else BrokerOrder.objects.select_for_update(no_key=True).get(pk=order.pk)


def _changed(actor: Actor, order: BrokerOrder, action: str, after: dict[str, object]) -> None:
    order.generation += 1
    order.conditions = []
    order.save()
    _audit(actor, order, action, after)
    _deliver(KIND_BROKER, order)


def _audit(actor: Actor, row: DesiredObject, action: str, after: dict[str, object]) -> None:
    audit.record(actor, tenant=SYSTEM_TENANT, action=action, object_id=row.public_id, after=after)


def _deliver(kind: str, row: DesiredObject) -> None:
    outbox.enqueue(kind=kind, object_id=row.public_id, tenant=SYSTEM_TENANT, generation=row.generation)
