"""Works out placement plans from the cluster as it is now, confirms them if they still apply, and cancels them.

A plan is a row that does nothing. To confirm it makes its moves, in one transaction; what the driver then does with
them is the same for every plan.
"""

from collections.abc import Sequence
from dataclasses import asdict

from control_plane.audit.actor import Actor
from control_plane.brokers import client as brokers
from control_plane.brokers import view
from control_plane.placement import plan_actions, queries
from control_plane.placement.models import (
    BrokerUse,
    Cell,
    PlacementPlan,
    PlanKind,
    PlanState,
)
from control_plane.placement.weighing import Weighed, weighed
from data_plane.placement import balance, moves
from data_plane.placement.moves import PlannedMove
from penstock.contract.errors import InvalidRequest, NotFound, PreconditionFailed
from tenants import queries as tenants

ASK_S = 5.0
"""How long an operator's request waits for brokers that do not answer."""
PLAN_MOVES_MAX = 2_000
"""Moves of one plan: seconds of work at most. What is left is for the next one; a drain goes on by itself."""


def drain(actor: Actor, broker: int) -> PlacementPlan:
    """A plan that empties a broker. Raises `NotFound`, `PlacementRefused` (the others cannot take its replicas),
    `InvalidRequest` (it is being drained)."""
    seen = described()
    if all(known.id != broker for known in seen.brokers):
        raise NotFound(f"broker {broker} is not known")
    order = queries.order_of(broker)
    if order is not None and order.use == BrokerUse.DRAIN:
        raise InvalidRequest(f"broker: {broker} is being drained")
    cluster = weighed(seen)
    resting = {(p.topic_id, p.partition) for p in _resting(cluster)}
    planned = [
        move
        for move in moves.moves_off(broker, cluster.partitions, cluster.brokers)
        # What moves already is planned by the driver once it has ended.
        if (move.partition.topic_id, move.partition.partition) in resting
    ]
    return _made(actor, PlanKind.DRAIN, cluster, planned, broker=broker)


def rebalance(
    actor: Actor, *, automatic: bool = False, moves_max: int = PLAN_MOVES_MAX
) -> PlacementPlan | None:
    """A plan that evens out what brokers carry; None where nothing has to move."""
    cluster = weighed(described())
    found = balance.rebalance(_resting(cluster), cluster.brokers, moves_max)
    if not found.moves:
        return None
    return _made(actor, PlanKind.REBALANCE, cluster, found.moves, automatic=automatic)


def move_tenant(actor: Actor, tenant: str, cell: str) -> PlacementPlan:
    """A plan that brings a tenant's topics into a cell; an empty name: the tenant may be anywhere. Raises `NotFound`,
    `PlacementRefused` (the cell has too few brokers), `InvalidRequest` (the tenant is there)."""
    public_id = tenants.tenant_by_id(tenant).public_id
    seen = described()
    wanted = queries.cell(cell) if cell else None
    known = queries.cell_of(public_id)
    before = _cell_now(public_id)
    cluster = weighed(seen, instead={public_id: _members(wanted, seen)})
    topics = {p.topic_id for p in seen.partitions if p.tenant == public_id}
    mine = [p for p in _resting(cluster) if p.topic_id in topics]
    planned = moves.into_cell(mine, cluster.brokers, PLAN_MOVES_MAX) if wanted is not None else ()
    if before == cell and not planned and known is not None:
        raise InvalidRequest(f"tenant: {public_id} is in {f'cell {cell!r}' if cell else 'no cell'} already")
    return _made(
        actor, PlanKind.MOVE_TENANT, cluster, planned, tenant=public_id, cell=cell, cell_before=before
    )


def confirm(actor: Actor, plan: PlacementPlan) -> PlacementPlan:
    """Begin its moves. Raises `PreconditionFailed` with what has changed since it was made, `InvalidRequest` if it is
    no draft."""
    if plan.state != PlanState.DRAFT:
        raise InvalidRequest(
            f"placement plan {plan.public_id}: it is {plan.state}, only a draft is confirmed"
        )
    seen = described()
    changed = _what_changed(plan, seen)
    if changed:
        raise PreconditionFailed(f"placement plan {plan.public_id}: {changed}; make another plan")
    stored = next((broker.replicas for broker in seen.brokers if broker.id == plan.broker), 0)
    return plan_actions.confirm(actor, plan, replicas=stored)


def cancel(actor: Actor, plan: PlacementPlan) -> PlacementPlan:
    """What has moved stays, what is moving goes back; a drained broker serves again, a tenant is in its cell of before.
    Raises `InvalidRequest` once it has ended."""
    return plan_actions.cancel(actor, plan)


def described() -> view.ClusterView:
    return brokers.describe(partitions=True, timeout_s=ASK_S)


def _cell_now(tenant: str) -> str:
    """Its name; empty: none."""
    known = queries.cell_of(tenant)
    return known.cell.name if known is not None and known.cell is not None else ""


def _members(cell: Cell | None, seen: view.ClusterView) -> tuple[int, ...] | None:
    """None: on all brokers."""
    return None if cell is None else queries.brokers_of(cell, seen.brokers)


def _resting(cluster: Weighed) -> list[moves.PlacedPartition]:
    """Partitions that no move is about. They weigh where they go, so this is for what may move only."""
    moving = {(p.topic_id, p.partition) for p in cluster.seen.partitions if p.target}
    moving |= set(queries.open_moves().values_list("topic_id", "partition"))
    return [p for p in cluster.partitions if (p.topic_id, p.partition) not in moving]


def _made(
    actor: Actor,
    kind: PlanKind,
    cluster: Weighed,
    planned: Sequence[PlannedMove],
    *,
    broker: int | None = None,
    tenant: str = "",
    cell: str = "",
    cell_before: str = "",
    automatic: bool = False,
) -> PlacementPlan:
    owners = cluster.tenants()
    planned = planned[:PLAN_MOVES_MAX]
    after_brokers = [b for b in cluster.brokers if b.id != broker]
    return plan_actions.make(
        actor,
        PlacementPlan(
            kind=kind,
            broker=broker,
            tenant=tenant,
            cell=cell,
            cell_before=cell_before,
            automatic=automatic,
            copied_bytes=sum(moves.copied_bytes(move) for move in planned),
            skew_before=asdict(balance.skew_of(cluster.partitions, cluster.brokers)),
            skew_after=asdict(balance.skew_after(cluster.partitions, after_brokers, planned)),
            moves=[
                {
                    "topic_id": move.partition.topic_id,
                    "topic": move.partition.topic,
                    "tenant": owners[move.partition.topic_id],
                    "partition": move.partition.partition,
                    "replicas": list(move.partition.replicas),
                    "target": list(move.target),
                    "source": move.source,
                    "destination": move.destination,
                    "copied_bytes": moves.copied_bytes(move),
                }
                for move in planned
            ],
        ),
    )


def _what_changed(plan: PlacementPlan, seen: view.ClusterView) -> str:
    """Why the plan's moves cannot be made as they were shown; empty: they can."""
    known = {(p.topic_id, p.partition): p for p in seen.partitions}
    busy = set(queries.open_moves().values_list("topic_id", "partition"))
    usable = {b.id for b in seen.brokers if b.state == "active" and not b.cordoned}
    if plan.cell:
        cell = queries.cells().filter(name=plan.cell).first()
        if cell is None:
            return f"cell {plan.cell!r} is gone"
        usable &= set(queries.brokers_of(cell, seen.brokers)) if plan.kind == PlanKind.MOVE_TENANT else usable
    if plan.kind == PlanKind.MOVE_TENANT and _cell_now(plan.tenant) != plan.cell_before:
        return f"tenant {plan.tenant} is in another cell now"
    for move in plan.moves:
        name, where = f"{move['topic']}-{move['partition']}", (move["topic_id"], move["partition"])
        found = known.get(where)
        if found is None:
            return f"{name} is gone"
        if list(found.replicas) != move["replicas"] or found.target or where in busy:
            return f"{name} is on other brokers now, or moving"
        for broker in move["target"]:
            if broker not in move["replicas"] and broker not in usable:
                return f"broker {broker} takes no replicas now"
    return ""
