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
REQUESTED = "partition.declare_loss"


def declare(
    actor: Actor, *, topic_id: str, partition: int, broker: int | None, accept: bool
) -> tuple[view.LossSeen, bool]:
    """The loss that would be declared, or was. The broker's replica becomes the leader, whatever is lost by it.

    With `broker` None the only copy is truncated where its damage begins. The request is in the audit log before the
    brokers get it.

    Raises `NotFound`, `InvalidRequest` when it is not needed, `BrokerUnavailable`, `OutcomeUnknown`.
    """
    loss, _ = brokers.declare_loss(topic_id, partition, broker, accept=False, asked_by=actor.id)
    if not accept:
        return loss, False
    with transaction.atomic():
        audit.record(
            actor,
            tenant=loss.tenant,
            action=REQUESTED,
            object_id=_named(loss),
            after={"broker": broker, **_shown(loss)},
        )
    reported, declared = brokers.declare_loss(topic_id, partition, broker, accept=True, asked_by=actor.id)
    if declared:
        note(actor, [reported])
    return reported, declared


def note(actor: Actor, losses: Iterable[view.LossSeen]) -> list[view.LossSeen]:
    """Record losses that are not in their tenants' audit logs yet, and return them.

    Losses of internal topics belong to the system tenant.
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
