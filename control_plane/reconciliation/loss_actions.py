"""Writes declared losses into the audit logs of their tenants, and asks the brokers to declare one for an operator."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.db import transaction

from control_plane.audit import actions as audit
from control_plane.audit import queries as audit_log
from control_plane.audit.actor import Actor
from control_plane.brokers import client as brokers
from control_plane.brokers import view

DECLARED = "partition.loss_declared"
DEMANDED = "partition.declare_loss"


def demand(
    actor: Actor, *, topic_id: str, partition: int, broker: int | None, accept: bool
) -> tuple[view.LossSeen, bool]:
    """What would be declared, or was: the broker's replica leads whatever is lost by it, or (None) the only copy is cut
    where its damage begins. The demand stands in the audit log before the brokers hear of it.

    Raises `NotFound`, `InvalidRequest` when it is not needed, `BrokerUnavailable`, `OutcomeUnknown`.
    """
    loss, _ = brokers.declare_loss(topic_id, partition, broker, accept=False, asked_by=actor.id)
    if not accept:
        return loss, False
    with transaction.atomic():
        audit.record(
            actor,
            tenant=loss.tenant,
            action=DEMANDED,
            object_id=_named(loss),
            after={"broker": broker, **_shown(loss)},
        )
    told, declared = brokers.declare_loss(topic_id, partition, broker, accept=True, asked_by=actor.id)
    if declared:
        note(actor, [told])
    return told, declared


def note(actor: Actor, losses: Iterable[view.LossSeen]) -> list[view.LossSeen]:
    """Losses that their tenants' audit logs did not tell of yet, told now. Those of internal topics are the system
    tenant's.
    """
    fresh = []
    for loss in losses:
        with transaction.atomic():
            known = audit_log.entries(loss.tenant).filter(action=DECLARED, object_id=_named(loss))
            if known.exists():
                continue
            audit.record(
                actor, tenant=loss.tenant, action=DECLARED, object_id=_named(loss), after=_shown(loss)
            )
            fresh.append(loss)
    return fresh


def _named(loss: view.LossSeen) -> str:
    """One loss of one partition."""
    return f"{loss.topic_id}-{loss.partition}@{loss.log_generation}"


def _shown(loss: view.LossSeen) -> dict[str, Any]:
    return asdict(loss)
