"""Writes the audit log: an entry in the same transaction as the change that it describes."""

from collections.abc import Mapping
from typing import Any

from django.db import connection
from django.utils import timezone

from control_plane.audit.actor import Actor
from control_plane.audit.chain import entry_hash
from control_plane.audit.models import AuditEntry, AuditHead
from penstock.contract.invariant import invariant


def record(
    actor: Actor,
    *,
    tenant: str,
    action: str,
    object_id: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Append to the tenant's chain. `tenant` and `object_id` are public ids, `action` is like `topic.create`.

    `before` and `after` are plain JSON without secrets. Must run inside the change's transaction.
    """
    invariant(connection.in_atomic_block, "an audit entry is written in the transaction of its change")
    head, _ = AuditHead.objects.select_for_update(no_key=True).get_or_create(tenant=tenant)
    at = timezone.now()
    fields: dict[str, Any] = {
        "tenant": tenant,
        "sequence": head.sequence + 1,
        "actor_kind": actor.kind.value,
        "actor_id": actor.id,
        "action": action,
        "object_id": object_id,
        "before": dict(before or {}),
        "after": dict(after or {}),
        "request_id": actor.request_id,
        "source": actor.source,
    }
    digest = entry_hash(head.hash, fields | {"at": at.isoformat()})
    entry = AuditEntry.objects.create(**fields, at=at, previous_hash=head.hash, hash=digest)
    head.sequence, head.hash = entry.sequence, digest
    head.save(update_fields=["sequence", "hash"])
    return entry
