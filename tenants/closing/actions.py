"""Writes the end of tenants: protection against it, closing, reopening, and what purging leaves.

open -> closed (keys are refused, everything is kept) -> open again, or after the grace period purged (for good).
"""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.mail import actions as mails
from penstock.contract.errors import InvalidRequest
from tenants import letters
from tenants.actions import check_not_the_service, deliver_tenant, revoke_key
from tenants.closing import queries
from tenants.models import ApiKey, Closing, Invitation, Membership, Tenant
from tenants.organisations.tenant_actions import leave_organisation
from tenants.queries import people_with_roles
from tenants.roles import Role

GRACE = timedelta(days=30)
"""How long a closed tenant can be reopened."""


def set_protected(actor: Actor, tenant: Tenant, protected: bool) -> Tenant:
    """Protect the tenant against being closed, or do so no more. Again changes nothing."""
    check_not_the_service(tenant)
    with transaction.atomic():
        locked = _locked(tenant)
        if locked.protected == protected:
            return locked
        locked.protected = protected
        # The ETag must change; the brokers get the same again.
        locked.generation += 1
        locked.save(update_fields=["protected", "generation", "updated_at"])
        _record(actor, locked, "tenant.protect" if protected else "tenant.unprotect")
        deliver_tenant(locked)
    return locked


def close(actor: Actor, tenant: Tenant) -> Tenant:
    """Close the tenant: its keys are refused, and all is deleted after the grace period. Again changes nothing.

    Its owners get an e-mail. Raises `InvalidRequest` (protected, or the service's own tenant).
    """
    check_not_the_service(tenant)
    with transaction.atomic():
        locked = _locked(tenant)
        if locked.closed_at is not None:
            return locked
        if locked.protected:
            raise InvalidRequest(f"tenant: {locked.name} is protected against being closed; end that first")
        locked.closed_at = timezone.now()
        locked.purge_at = locked.closed_at + GRACE
        locked.generation += 1
        locked.save(update_fields=["closed_at", "purge_at", "generation", "updated_at"])
        Closing.objects.create(tenant=locked, closed_at=locked.closed_at)
        _record(actor, locked, "tenant.close", {"purge_at": locked.purge_at.isoformat()})
        letter = letters.tenant_closed(locked.name, locked.purge_at)
        for owner in people_with_roles(locked, among=(Role.OWNER,)):
            mails.put(owner.person.email, "tenant-closed", letter)
        deliver_tenant(locked)
    return locked


def reopen(actor: Actor, tenant: Tenant) -> Tenant:
    """Open a closed tenant again: its keys are accepted. Again changes nothing. Raises `InvalidRequest` (too late)."""
    with transaction.atomic():
        locked = _locked(tenant)
        if locked.closed_at is None:
            return locked
        if locked.purged_at is not None or queries.due(locked):
            raise InvalidRequest(f"tenant: the time to reopen {locked.name} ended at {locked.purge_at}")
        Closing.objects.filter(tenant=locked, reopened_at=None).update(reopened_at=timezone.now())
        locked.closed_at, locked.purge_at = None, None
        locked.generation += 1
        locked.save(update_fields=["closed_at", "purge_at", "generation", "updated_at"])
        _record(actor, locked, "tenant.reopen")
        deliver_tenant(locked)
    return locked


def purge(actor: Actor, tenant: Tenant) -> Tenant:
    """Nothing is left but invoices, usage and the audit log: keys are revoked, it has no people, its name is free.

    The caller has deleted its topics, and its last period is invoiced. Raises `InvalidRequest` (it is not due).
    """
    with transaction.atomic():
        locked = _locked(tenant)
        if locked.purged_at is not None:
            return locked
        if not queries.due(locked):
            raise InvalidRequest(f"tenant: {locked.name} can be reopened until {locked.purge_at}")
        name = locked.name
        for key in list(ApiKey.objects.filter(tenant=locked, revoked_at=None).order_by("pk")):
            revoke_key(actor, key, reason=f"{name} is closed")
        Invitation.objects.filter(tenant=locked, ended_at=None).update(ended_at=timezone.now())
        people = Membership.objects.filter(tenant=locked)
        left = people.count()
        people.delete()
        leave_organisation(actor, locked)
        locked.name, locked.purged_at = locked.public_id, timezone.now()
        locked.save(update_fields=["name", "purged_at", "organisation", "updated_at"])
        audit.record(
            actor,
            tenant=locked.public_id,
            action="tenant.purge",
            object_id=locked.public_id,
            before={"name": name, "people": left},
        )
    return locked


def _locked(tenant: Tenant) -> Tenant:
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)


def _record(actor: Actor, tenant: Tenant, action: str, after: dict[str, str] | None = None) -> None:
    audit.record(
        actor,
        tenant=tenant.public_id,
        action=action,
        object_id=tenant.public_id,
        after={"name": tenant.name, **(after or {})},
    )
