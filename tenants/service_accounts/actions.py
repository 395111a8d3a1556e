"""Writes service accounts, and ends of their keys and others; each change with its audit entry and outbox row."""

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.ids import new_id
from penstock.contract.errors import InvalidRequest
from tenants.actions import deliver_key, revoke_key
from tenants.models import ApiKey, ServiceAccount, Tenant


def create_service_account(actor: Actor, tenant: Tenant, *, name: str) -> ServiceAccount:
    """The service account of that name, made if it is not there."""
    with transaction.atomic():
        account, made = ServiceAccount.objects.get_or_create(
            tenant=tenant, name=name, ended_at=None, defaults={"public_id": new_id("sa")}
        )
        if made:
            audit.record(
                actor,
                tenant=tenant.public_id,
                action="service_account.create",
                object_id=account.public_id,
                after={"name": name},
            )
    return account


def end_service_account(actor: Actor, account: ServiceAccount) -> int:
    """Delete the account: every key of it is revoked; how many were. Part of the caller's transaction."""
    Tenant.objects.select_for_update(no_key=True).get(pk=account.tenant_id)  # before its objects
    locked = (
        ServiceAccount.objects.select_for_update(no_key=True, of=("self",))
        .select_related("tenant")
        .get(pk=account.pk)
    )
    if locked.ended_at is not None:
        return 0
    locked.ended_at = timezone.now()
    locked.save(update_fields=["ended_at"])
    keys = list(ApiKey.objects.filter(service_account=locked, revoked_at=None).order_by("pk"))
    for key in keys:
        revoke_key(actor, key, reason="its service account was deleted")
    audit.record(
        actor,
        tenant=locked.tenant.public_id,
        action="service_account.delete",
        object_id=locked.public_id,
        before={"name": locked.name},
        after={"keys_revoked": len(keys)},
    )
    return len(keys)


def end_key_at(actor: Actor, key: ApiKey, at: datetime) -> ApiKey:
    """The key ends then, if it does not end before. Raises `InvalidRequest` (it is revoked)."""
    with transaction.atomic():
        locked = (
            ApiKey.objects.select_for_update(no_key=True, of=("self",))
            .select_related("tenant")
            .get(pk=key.pk)
        )
        if locked.revoked_at is not None:
            raise InvalidRequest(f"key {locked.public_id} is revoked; make another one instead")
        if locked.expires_at is not None and locked.expires_at <= at:
            return locked
        before, locked.expires_at = locked.expires_at, at
        locked.generation += 1
        locked.save(update_fields=["expires_at", "generation", "updated_at"])
        audit.record(
            actor,
            tenant=locked.tenant.public_id,
            action="key.end",
            object_id=locked.public_id,
            before={"expires_at": before.isoformat() if before else None},
            after={"expires_at": at.isoformat()},
        )
        deliver_key(locked)
    return locked
