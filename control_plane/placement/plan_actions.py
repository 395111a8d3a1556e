"""Writes placement plans from draft to end, the balancer's switch and budget, and what brokers reported."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.brokers.view import BrokerLoadSeen
from control_plane.ids import new_id
from control_plane.placement import actions, cell_actions, queries
from control_plane.placement.models import (
    OPEN,
    Balancer,
    Cell,
    LoadReport,
    Move,
    PlacementPlan,
    PlanKind,
    PlanState,
)
from penstock.contract.errors import InvalidRequest, PreconditionFailed
from penstock.contract.ids import SYSTEM_TENANT

_DRAFTS_KEPT = 100
"""Older drafts are deleted: each may be long, and the cluster has changed since."""


def make(actor: Actor, plan: PlacementPlan) -> PlacementPlan:
    """Keep a draft."""
    with transaction.atomic():
        plan.public_id = new_id("plc")
        plan.save()
        drafts = PlacementPlan.objects.filter(state=PlanState.DRAFT).order_by("-pk")
        for old in list(drafts[_DRAFTS_KEPT:]):
            old.delete()
        _audit(actor, plan, "placement.plan", _summary(plan))
    return plan


def confirm(actor: Actor, plan: PlacementPlan, *, replicas: int) -> PlacementPlan:
    """Its moves wait for their turn from now on. `replicas` is what a broker to be drained holds now. Raises
    `PreconditionFailed` while another plan than a drain runs, `InvalidRequest` if it is no draft any more."""
    with transaction.atomic():
        locked = PlacementPlan.objects.select_for_update(no_key=True).get(pk=plan.pk)
        if locked.state != PlanState.DRAFT:
            raise InvalidRequest(
                f"placement plan {locked.public_id}: it is {locked.state}, only a draft is confirmed"
            )
        if locked.kind != PlanKind.DRAIN:
            other = queries.running_plans().first()
            if other is not None:
                raise PreconditionFailed(
                    f"placement plan {locked.public_id}: plan {other.public_id} is running; wait for it or cancel it"
                )
        wanted = {(move["topic_id"], move["partition"]) for move in locked.moves}
        for move in Move.objects.select_for_update(no_key=True).filter(state__in=OPEN):
            if (move.topic_id, move.partition) in wanted:
                raise PreconditionFailed(
                    f"placement plan {locked.public_id}: {move.topic}-{move.partition} is moving; make another plan"
                )
        locked.state, locked.confirmed_at = PlanState.RUNNING, timezone.now()
        locked.generation += 1
        if locked.kind == PlanKind.DRAIN and locked.broker is not None:
            actions.drain(actor, locked.broker, replicas=replicas)
        if locked.kind == PlanKind.MOVE_TENANT:
            _assign(locked.tenant, locked.cell)
        Move.objects.bulk_create(
            Move(
                public_id=new_id("mov"),
                plan=locked.public_id,
                cause=locked.kind,
                **{name: value for name, value in move.items() if name != "replicas"},
            )
            for move in locked.moves
        )
        if not locked.moves and locked.kind != PlanKind.DRAIN:
            locked.state, locked.finished_at = PlanState.DONE, timezone.now()
        locked.save()
        _audit(actor, locked, "placement.confirm", _summary(locked))
    return locked


def cancel(actor: Actor, plan: PlacementPlan) -> PlacementPlan:
    """As it is now, whatever it was when it was read: a broker that it drains serves again, a tenant that it moves is
    in its cell of before. Raises `InvalidRequest` once it has ended, and then changes nothing."""
    with transaction.atomic():
        locked = PlacementPlan.objects.select_for_update(no_key=True).get(pk=plan.pk)
        if locked.state not in (PlanState.DRAFT, PlanState.RUNNING):
            raise InvalidRequest(f"placement plan {locked.public_id}: it is {locked.state}")
        cancelled = actions.cancel_moves_of(locked.public_id)
        if locked.state == PlanState.RUNNING:
            if locked.kind == PlanKind.DRAIN and locked.broker is not None:
                actions.undrain(actor, locked.broker)
            if locked.kind == PlanKind.MOVE_TENANT:
                _assign(locked.tenant, locked.cell_before)
        locked.state, locked.finished_at = PlanState.CANCELLED, timezone.now()
        locked.generation += 1
        locked.save()
        _audit(actor, locked, "placement.cancel", {"kind": locked.kind, "moves_cancelled": cancelled})
    return locked


def end(actor: Actor, plan: PlacementPlan) -> bool:
    """Every move of it has ended. False if it was cancelled meanwhile."""
    with transaction.atomic():
        locked = PlacementPlan.objects.select_for_update(no_key=True).get(pk=plan.pk)
        if locked.state != PlanState.RUNNING:
            return False
        locked.state, locked.finished_at = PlanState.DONE, timezone.now()
        locked.generation += 1
        locked.save(update_fields=["state", "finished_at", "generation", "updated_at"])
        _audit(actor, locked, "placement.done", {"kind": locked.kind})
    return True


def has_open_moves(plan: PlacementPlan) -> bool:
    return Move.objects.filter(plan=plan.public_id, state__in=OPEN).exists()


def _assign(tenant: str, cell: str) -> None:
    found = Cell.objects.select_for_update(no_key=True).filter(name=cell).first() if cell else None
    if cell and found is None:
        raise PreconditionFailed(f"cell {cell!r} is gone; make another plan")
    cell_actions.assign(tenant, found)


# -- the balancer -----------------------------------------------------------------------------------------


def set_balancer(actor: Actor, changes: dict[str, Any]) -> Balancer:
    """Its switch and budget: `mode`, `bytes_per_s`, `moves_at_once`; what is not named stays."""
    with transaction.atomic():
        row = _locked_balancer()
        before = {name: getattr(row, name) for name in changes}
        if before == changes:
            return row
        for name, value in changes.items():
            setattr(row, name, value)
        row.generation += 1
        row.save()
        audit.record(
            actor,
            tenant=SYSTEM_TENANT,
            action="balancer.change",
            object_id=row.public_id,
            before=before,
            after=changes,
        )
    return row


def note_look(skew: dict[str, float], *, uneven: bool, waits: str) -> Balancer:
    """What the balancer saw. It is no change by a user, so it has no audit entry."""
    with transaction.atomic():
        row = _locked_balancer()
        row.skew, row.looked_at, row.waits = skew, timezone.now(), waits[:200]
        row.uneven_since = (row.uneven_since or row.looked_at) if uneven else None
        row.save(update_fields=["skew", "looked_at", "waits", "uneven_since", "updated_at"])
    return row


def spend(copied_bytes: int) -> bool:
    """Whether the budget allows a move that copies so much to begin now; if so it is spent."""
    now = timezone.now()
    with transaction.atomic():
        row = _locked_balancer()
        if row.free_at is not None and row.free_at > now:
            return False
        row.free_at = now + timedelta(seconds=copied_bytes / row.bytes_per_s)
        row.save(update_fields=["free_at", "updated_at"])
    return True


def keep_loads(reports: Sequence[BrokerLoadSeen]) -> None:
    """Keep what brokers said now. It is no change by a user, so it has no audit entry."""
    now = timezone.now()
    with transaction.atomic():
        for report in reports:
            sums = asdict(report)
            broker, partitions = sums.pop("broker"), [list(one.values()) for one in sums.pop("partitions")]
            row = LoadReport.objects.select_for_update(no_key=True).filter(broker=broker).first()
            if row is None:
                LoadReport.objects.create(broker=broker, seen_at=now, sums=sums, partitions=partitions)
                continue
            changed = row.partitions != partitions  # they are long, and stay the same while nothing is sent
            row.seen_at, row.sums, row.partitions = now, sums, partitions
            row.save(update_fields=["seen_at", "sums", *(["partitions"] if changed else [])])


def _locked_balancer() -> Balancer:
    row, made = Balancer.objects.get_or_create(public_id="balancer", defaults={"generation": 0})
    return row if made else Balancer.objects.select_for_update(no_key=True).get(pk=row.pk)


def _summary(plan: PlacementPlan) -> dict[str, object]:
    return {
        "kind": plan.kind,
        "moves": len(plan.moves),
        "copied_bytes": plan.copied_bytes,
        "automatic": plan.automatic,
        **({} if plan.broker is None else {"broker": plan.broker}),
        **({"tenant": plan.tenant, "cell": plan.cell} if plan.tenant else {}),
    }


def _audit(actor: Actor, plan: PlacementPlan, action: str, after: dict[str, object]) -> None:
    audit.record(actor, tenant=SYSTEM_TENANT, action=action, object_id=plan.public_id, after=after)
