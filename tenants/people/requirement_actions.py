"""Writes whether a tenant lets in only people with a second factor; each change with its audit entry and e-mails.

An owner who has one sets it. People without one have some days to add one; then they are led to their account's page
and refused over REST, until they have one. Keys, and what they do, are not affected.
"""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.mail import actions as mails
from penstock.contract.errors import Forbidden, InvalidRequest
from tenants import letters, queries
from tenants.actions import check_not_the_service, deliver_tenant
from tenants.factors import actions as factor_actions
from tenants.factors import queries as factors
from tenants.models import Person, Tenant
from tenants.people import queries as people_queries
from tenants.people.actions import locked_role
from tenants.roles import Permission, Role, Standing, allowed

GRACE_DAYS = 7
GRACE_DAYS_MAX = 90
NAMED_MAX = 20
"""So many people without a second factor a refusal and an audit entry name."""


def require(actor: Actor, tenant: Tenant, *, grace_days: int = GRACE_DAYS) -> Tenant:
    """From `grace_days` on only people with a second factor are let in. Where it is required already nothing changes.

    People without one get an e-mail; sign-ins of people who have one end where they have not shown it. Raises
    `Forbidden` (the actor is no owner), `InvalidRequest` (they have no second factor themselves; the days; no day is
    left to people without one, who are named).
    """
    check_not_the_service(tenant)
    if not 0 <= grace_days <= GRACE_DAYS_MAX:
        raise InvalidRequest(f"second_factor_grace_days: {grace_days} is not within 0 to {GRACE_DAYS_MAX}")
    with transaction.atomic():
        setter = _owner(actor, tenant)
        locked = Tenant.objects.get(pk=tenant.pk)
        if locked.factors_from is not None:
            return locked
        without = [row.email for row in people_queries.people_without_factor(locked).order_by("pk")]
        named = ", ".join(without[:NAMED_MAX]) + (" and more" if len(without) > NAMED_MAX else "")
        if not factors.are_asked_for(setter):
            raise InvalidRequest(
                f"second_factor_required: you have no second factor yourself; add one first. Without one: {named}"
            )
        if without and grace_days == 0:
            raise InvalidRequest(
                f"second_factor_grace_days: people without a second factor need a day or more: {named}"
            )
        since = timezone.now() + timedelta(days=grace_days)
        ended = factor_actions.end_sign_ins_without(queries.people(locked))
        _set(actor, locked, since_iso=since.isoformat(), without=without, ended=ended)
        locked.factors_from = since
        _keep(locked)
        for email in without:
            mails.put(email, "factors-required", letters.factors_required(locked.name, since))
    return locked


def require_no_more(actor: Actor, tenant: Tenant) -> Tenant:
    """People without a second factor are let in again. Again changes nothing. Raises `Forbidden`.

    The owners get an e-mail.
    """
    check_not_the_service(tenant)
    with transaction.atomic():
        setter = _owner(actor, tenant)
        locked = Tenant.objects.get(pk=tenant.pk)
        if locked.factors_from is None:
            return locked
        _set(actor, locked, since_iso=None, without=[], ended=0)
        locked.factors_from = None
        _keep(locked)
        letter = letters.factors_not_required(locked.name, setter.email)
        for row in queries.people_with_roles(locked, among=(Role.OWNER,)):
            mails.put(row.person.email, "factors-required", letter)
    return locked


def _owner(actor: Actor, tenant: Tenant) -> Person:
    """The owner who acts, under the tenant's lock. Raises `Forbidden`."""
    own = locked_role(actor, tenant)
    if not allowed(Standing(own.value), Permission.FACTORS_REQUIRE):
        raise Forbidden(f"{Permission.FACTORS_REQUIRE.value} is not for {own.value}")
    return Person.objects.get(public_id=actor.id)


def _keep(locked: Tenant) -> None:
    # The ETag must change; the brokers get the same again.
    locked.generation += 1
    locked.save(update_fields=["factors_from", "generation", "updated_at"])
    deliver_tenant(locked)


def _set(actor: Actor, locked: Tenant, *, since_iso: str | None, without: list[str], ended: int) -> None:
    before = None if locked.factors_from is None else locked.factors_from.isoformat()
    after: dict[str, object] = {"name": locked.name, "second_factor_from": since_iso}
    if without:
        after |= {"people_without": without[:NAMED_MAX], "people_without_count": len(without)}
    if ended:
        after["sign_ins_ended"] = ended
    audit.record(
        actor,
        tenant=locked.public_id,
        action="tenant.require_factors" if since_iso else "tenant.require_factors_end",
        object_id=locked.public_id,
        before={"name": locked.name, "second_factor_from": before},
        after=after,
    )
