"""Drives drains, moves and numbers of copies: looks at the brokers, notes what has ended, plans what is left, begins
what is due.

Each round starts from the rows and from what the brokers say, and may end anywhere: the next one goes on.
"""

from collections import Counter
from collections.abc import Sequence

from control_plane.audit.actor import Actor, system
from control_plane.brokers import client as brokers
from control_plane.brokers import view
from control_plane.outbox import conditions
from control_plane.placement import actions, plan_actions, planning, queries
from control_plane.placement.models import (
    BrokerOrder,
    BrokerUse,
    MoveState,
    PlacementPlan,
    PlanKind,
)
from control_plane.placement.weighing import Weighed, weighed
from control_plane.topics import actions as topic_actions
from control_plane.topics import observed
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from data_plane.placement import moves
from data_plane.placement.planner import PlacementRefused
from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.invariant import InvariantBroken
from tenants import queries as tenants

ASK_S = 5.0
"""How long an operator's request waits for brokers that do not answer."""
PLANNED_MAX = 1_000
"""Moves planned at one look; the rest is planned when these are done."""
UNPLANNED = "unplanned"
"""Condition of a drain while the other brokers cannot take everything."""
ORDERED = (queries.drains, queries.open_moves, queries.running_plans, topics.with_copies_due)
"""What a round carries out; without any of it there is nothing to do."""


# -- what operators ask for -------------------------------------------------------------------------------


def begin_drain(actor: Actor, broker: int) -> BrokerOrder:
    """Plan the drain of a broker and confirm it at once; of one that is being drained nothing changes. Raises
    `NotFound`, `PlacementRefused` (the others cannot take its replicas)."""
    order = queries.order_of(broker)
    if order is not None and order.use == BrokerUse.DRAIN:
        return order
    planning.confirm(actor, planning.drain(actor, broker))
    begun = queries.order_of(broker)
    if begun is None:
        raise InvariantBroken(f"broker {broker}: a confirmed drain has an order")
    return begun


def end_drain(actor: Actor, broker: int) -> BrokerOrder:
    """Take a drain back. Raises `NotFound`."""
    if queries.order_of(broker) is None and all(b.id != broker for b in _described().brokers):
        raise NotFound(f"broker {broker} is not known")
    return actions.undrain(actor, broker)


def rebalance(actor: Actor) -> int:
    """Plan moves that even out what brokers carry and confirm them at once; how many. Partitions that already move are
    left alone."""
    plan = planning.rebalance(actor)
    return 0 if plan is None else len(planning.confirm(actor, plan).moves)


def move_leader(actor: Actor, *, topic_id: str, partition: int, broker: int) -> None:
    """Have the leader hand over. Raises `NotFound`, `BrokerUnavailable` with why it stays."""
    brokers.client().move_leader(bytes.fromhex(topic_id), partition, broker, timeout_s=ASK_S)
    actions.note_leader_moved(actor, topic_id=topic_id, partition=partition, broker=broker)


def set_feature_level(actor: Actor, level: int) -> None:
    """The brokers put it in force. Raises `InvalidRequest` with the brokers that do not support it, `NotSupported`."""
    before = brokers.describe(timeout_s=ASK_S).feature_level
    brokers.client().set_feature_level(level, timeout_s=ASK_S)
    if level != before:
        actions.note_feature_level(actor, before=before, level=level)


def forget(actor: Actor, broker: int) -> None:
    """The brokers forget one that was drained and stopped. Raises `InvalidRequest` with what is in the way."""
    order = queries.order_of(broker)
    if order is None or order.drained_at is None:
        known = any(b.id == broker for b in _described().brokers)
        raise (
            InvalidRequest(f"broker {broker}: it is not drained")
            if known
            else NotFound(f"broker {broker} is not known")
        )
    brokers.client().forget_broker(broker)
    actions.note_forgotten(actor, broker)


# -- one round ------------------------------------------------------------------------------------------


def drive() -> int:
    """One round; how many rows it changed. Raises `BrokerUnavailable` when no broker answers."""
    actor = system("placement")
    changed = _more_copies_of_the_services_own(actor)
    if not any(ordered().exists() for ordered in ORDERED):
        return changed
    drains, growing = list(queries.drains()), list(topics.with_copies_due())
    plans = list(queries.running_plans())
    seen = _described()
    changed += _note_ends(seen)
    cluster = weighed(seen)
    for order in drains:
        changed += _plan_drain(actor, order, cluster)
    for topic in growing:
        changed += _plan_copies(actor, topic, cluster)
    for plan in plans:
        changed += _end_plan(actor, plan)
    return changed + _begin_due()


def _end_plan(actor: Actor, plan: PlacementPlan) -> bool:
    """A drain ends when the broker is empty, any other plan with its last move."""
    if plan.kind == PlanKind.DRAIN and plan.broker is not None:
        order = queries.order_of(plan.broker)
        if order is not None and order.use == BrokerUse.DRAIN and order.drained_at is None:
            return False
    return not plan_actions.has_open_moves(plan) and plan_actions.end(actor, plan)


def _more_copies_of_the_services_own(actor: Actor) -> int:
    """A service that began with one broker and has three has all of its topics three times, once brokers are there."""
    tenant = tenants.system_tenant()
    if tenant is None:
        return 0
    copies = topics.copies_possible()
    changed = 0
    for topic in topics.topics(tenant).filter(copies_due=False, on_brokers=True):
        wanted: dict[str, int] = {}
        if topic.settings["replication"] < copies:
            wanted["replication"] = copies
        elif topic.settings["min_insync_replicas"] < min(limits.MIN_INSYNC_DEFAULT, copies):
            wanted["min_insync_replicas"] = limits.MIN_INSYNC_DEFAULT
        if wanted:
            topic_actions.update_topic(actor, tenant, topic.name, settings=wanted)
            changed += 1
    return changed


def _note_ends(seen: view.ClusterView) -> int:
    known = {(p.topic_id, p.partition): p for p in seen.partitions}
    changed = 0
    for move in queries.open_moves().filter(state=MoveState.MOVING):
        if move.delivered_generation < move.generation or move.delivered_revision > seen.revision:
            continue
        found = known.get((move.topic_id, move.partition))
        if found is None:
            changed += actions.end(move, MoveState.CANCELLED, message="the partition is gone")
        elif list(found.replicas) == move.target and not found.target:
            changed += actions.end(move, MoveState.DONE)
        elif list(found.target) != move.target:
            changed += actions.end(move, MoveState.CANCELLED, message="it was changed on the brokers")
    return changed


def _plan_drain(actor: Actor, order: BrokerOrder, cluster: Weighed) -> int:
    """Replicas of the broker that no move takes off it yet; and whether the broker is empty."""
    about = next((b for b in cluster.seen.brokers if b.id == order.broker), None)
    if about is None or order.delivered_generation < order.generation:
        return 0
    if about.replicas == 0 and about.leaders == 0:
        return order.drained_at is None and actions.note_drained(actor, order)
    try:
        planned = moves.moves_off(order.broker, cluster.partitions, cluster.brokers)
    except PlacementRefused as refused:
        actions.put_condition(BrokerOrder, order.public_id, UNPLANNED, "not_enough_brokers", refused.message)
        return 0
    actions.clear_condition(BrokerOrder, order.public_id, UNPLANNED)
    plan = queries.running_plans().filter(kind=PlanKind.DRAIN, broker=order.broker).first()
    return len(
        actions.plan_moves(
            actor,
            "drain",
            _with_tenants(cluster, planned[:PLANNED_MAX]),
            object_id=order.public_id,
            plan="" if plan is None else plan.public_id,
        )
    )


def _plan_copies(actor: Actor, topic: Topic, cluster: Weighed) -> int:
    """The next copy to add or remove of each partition; and whether all have the desired number."""
    if topic.delivered_generation < topic.generation or topic.delivered_revision > cluster.seen.revision:
        return 0
    found = [p for p in cluster.seen.partitions if p.topic_id == topic.topic_id]
    if len(found) < topic.partitions:
        return 0
    copies = topic.settings["replication"]
    if all(len(p.replicas) == copies and not p.target for p in found):
        return int(observed.note_copies(topic))
    try:
        planned = moves.towards(copies, cluster.only(topic.topic_id), cluster.brokers)
    except PlacementRefused as refused:
        if not conditions.has(topic.conditions, observed.COPIES, refused.message):
            observed.put_condition(topic.public_id, observed.COPIES, "not_enough_brokers", refused.message)
        return 0
    tenants_of = _with_tenants(cluster, planned[:PLANNED_MAX])
    return len(actions.plan_moves(actor, "replication", tenants_of, object_id=topic.public_id))


def _begin_due() -> int:
    """The next moves, as many as may go on at once and as the budget allows; of brokers that take part in few the
    first. What copies nothing costs nothing."""
    under_way = list(queries.open_moves().filter(state=MoveState.MOVING))
    capacity = queries.balancer().moves_at_once - len(under_way)
    if capacity <= 0:
        return 0
    busy: Counter[int | None] = Counter(
        number for move in under_way for number in (move.source, move.destination)
    )
    waiting = list(queries.open_moves().filter(state=MoveState.WAITING)[: 20 * capacity])
    waiting.sort(key=lambda move: (busy[move.source] + busy[move.destination], move.pk))
    begun = 0
    for move in waiting:
        if begun == capacity or (move.copied_bytes and not plan_actions.spend(move.copied_bytes)):
            break
        begun += actions.begin(move)
    return begun


def _described() -> view.ClusterView:
    return brokers.describe(partitions=True, timeout_s=ASK_S)


def _with_tenants(
    cluster: Weighed, planned: Sequence[moves.PlannedMove]
) -> list[tuple[str, moves.PlannedMove]]:
    tenants = cluster.tenants()
    return [(tenants[move.partition.topic_id], move) for move in planned]
