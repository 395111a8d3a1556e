"""Writes the memberships of a tenant: invitations, joins, changes of roles and removals, each with its audit entry.

The actor is a person of the tenant. Their role is read again under the tenant's lock, so a person who has just lost a
role changes nothing. Owners and admins change people; only owners make or demote owners; every person may leave, except
the last owner.
"""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.ids import new_id
from control_plane.mail import actions as mails
from penstock.contract.errors import AlreadyExists, Forbidden, InvalidRequest
from tenants import letters, tokens
from tenants.actions import (
    check_open,
    check_tenant_limit,
    checked_email,
    lock_roles,
    revoke_keys_of,
)
from tenants.factors.queries import is_let_in
from tenants.models import Invitation, Membership, Person, Tenant
from tenants.people import queries
from tenants.queries import role_in
from tenants.roles import Permission, Role, Standing, allowed, may_hold

INVITATION_LENGTH = timedelta(days=7)
PEOPLE_MAX = 500
"""People and open invitations of one tenant together: they are shown and looked through as a whole."""


def invite(actor: Actor, tenant: Tenant, *, email: str, role: str) -> tuple[Invitation, str]:
    """An invitation and its link's token, which is nowhere afterwards. An older one of the address ends.

    The address gets the link by e-mail. With a mail server no other person may see it: it proves the address.

    Raises `InvalidRequest`, `AlreadyExists` (the person belongs to the tenant), `Forbidden`.
    """
    address, wanted = checked_email(email), checked_role(role)
    token = tokens.new_token(tokens.INVITATION_PREFIX)
    with transaction.atomic():
        own = locked_role(actor, tenant)
        _require_people_role(own, wanted)
        check_open(Tenant.objects.get(pk=tenant.pk))
        if Membership.objects.filter(tenant=tenant, person__email=address).exists():
            raise AlreadyExists(f"email: {address} belongs to {tenant.name} already")
        Invitation.objects.filter(tenant=tenant, email=address, ended_at=None).update(ended_at=timezone.now())
        if queries.members(tenant).count() + queries.invitations(tenant).count() >= PEOPLE_MAX:
            raise InvalidRequest(f"email: {tenant.name} has {PEOPLE_MAX} people and invitations; no more")
        inviter = Person.objects.get(public_id=actor.id)
        row = Invitation.objects.create(
            public_id=new_id("ivt"),
            tenant=tenant,
            inviter=inviter,
            email=address,
            role=wanted,
            token_hash=tokens.token_hash(token),
            expires_at=timezone.now() + INVITATION_LENGTH,
        )
        letter = letters.invitation(tenant=tenant.name, role=wanted.value, inviter=inviter.email, token=token)
        mails.put(address, "invitation", letter)
        _record(actor, tenant, "person.invite", row.public_id, after={"name": address, "role": wanted.value})
    return row, token


def withdraw(actor: Actor, tenant: Tenant, invitation: str) -> None:
    """End an invitation (a public id) before it is taken. Raises `NotFound`, `Forbidden`."""
    with transaction.atomic():
        own = locked_role(actor, tenant)
        row = queries.invitations(tenant).filter(public_id=invitation).first()
        if row is None:
            raise queries.invitation_missing()
        _require_people_role(own, Role(row.role))
        row.ended_at = timezone.now()
        row.save(update_fields=["ended_at"])
        _record(actor, tenant, "person.withdraw", row.public_id, before={"name": row.email, "role": row.role})


def join(actor: Actor, person: Person, token: str) -> Membership:
    """The person takes the invitation of that link. Raises `NotFound`, `Forbidden` (it is for another address),
    `LimitExceeded` (they would be an owner, and own as many tenants as they may).
    """
    found = queries.invitation_of(token)
    with transaction.atomic():
        lock_people(found.tenant)
        # Again, now that no other request can take or withdraw it.
        row = queries.invitation_of(token)
        if row.email != person.email:
            raise Forbidden(f"the invitation is for {row.email}, and you are {person.email}")
        _check_inviter(row)
        if row.role == Role.OWNER:
            check_tenant_limit(person)
        row.ended_at = timezone.now()
        row.save(update_fields=["ended_at"])
        member, made = Membership.objects.get_or_create(
            tenant=row.tenant, person=person, defaults={"role": row.role}
        )
        if made:
            after = {"name": person.email, "role": row.role, "invitation": row.public_id}
            _record(actor, row.tenant, "person.join", person.public_id, after=after)
    return member


def _check_inviter(row: Invitation) -> None:
    """Raise `Forbidden` unless who made the invitation may make it now. One of the release before names no inviter."""
    if row.inviter is None:
        return
    own = role_in(row.tenant, row.inviter)
    try:
        if own is None or not is_let_in(row.tenant, row.inviter):
            raise inviter_lost_right()
        _require_people_role(own, Role(row.role))
    except Forbidden:
        raise inviter_lost_right() from None


def inviter_lost_right() -> Forbidden:
    return Forbidden("who made the invitation may not make it any more; ask for another one")


def change_role(actor: Actor, tenant: Tenant, person: str, *, role: str) -> Membership:
    """Give a person (a public id) of the tenant another role. If it may hold no keys, those that they made are revoked.

    Raises `NotFound`, `InvalidRequest`, `Forbidden`, `LimitExceeded` (a new owner owns as many tenants as they may).
    """
    wanted = checked_role(role)
    with transaction.atomic():
        own = locked_role(actor, tenant)
        row = queries.member(tenant, person)
        before = Role(row.role)
        _require_people_role(own, wanted)
        _require_people_role(own, before)
        if before is wanted:
            return row
        _keep_an_owner(tenant, row)
        if wanted is Role.OWNER:
            check_tenant_limit(row.person)
        row.role = wanted
        row.save(update_fields=["role"])
        _record(
            actor,
            tenant,
            "person.role",
            person,
            before={"name": row.person.email, "role": before.value},
            after={"name": row.person.email, "role": wanted.value},
        )
        revoke_beyond(actor, tenant, row.person, reason=f"{row.person.email} is {wanted.value} now")
    return row


def remove(actor: Actor, tenant: Tenant, person: str) -> None:
    """A person (a public id) leaves the tenant, by their own wish or another's. Keys that they made are revoked.

    Raises `NotFound`, `InvalidRequest` (the last owner), `Forbidden`.
    """
    with transaction.atomic():
        own = locked_role(actor, tenant)
        leaves = person == actor.id
        if not leaves:
            _require_people_role(own)
        row = queries.member(tenant, person)
        if not leaves:
            _require_people_role(own, Role(row.role))
        _keep_an_owner(tenant, row)
        _record(
            actor,
            tenant,
            "person.leave" if leaves else "person.remove",
            person,
            before={"name": row.person.email, "role": row.role},
        )
        row.delete()
        revoke_beyond(actor, tenant, row.person, reason=f"{row.person.email} left {tenant.name}")


def revoke_beyond(actor: Actor, tenant: Tenant, person: Person, *, reason: str) -> None:
    """Revoke the keys that the person made if they may hold none there any more, also not by the organisation.

    Part of the transaction that took a role from them.
    """
    role = role_in(tenant, person)
    if not may_hold(role, verifies=False):
        verifying = not may_hold(role, verifies=True)
        revoke_keys_of(actor, tenant, person, reason=reason, verifying=verifying)


def lock_people(tenant: Tenant) -> None:
    """No other request changes who belongs to the tenant, and as what, until the transaction ends."""
    lock_roles(tenant)


def checked_role(role: str) -> Role:
    """The role of that name. Raises `InvalidRequest`."""
    try:
        return Role(role)
    except ValueError:
        known = ", ".join(one.value for one in Role)
        raise InvalidRequest(f"role: {role[:40]!r} is none of {known}") from None


def locked_role(actor: Actor, tenant: Tenant) -> Role:
    """What the actor is in the tenant now; no other request changes its people until the transaction ends."""
    lock_people(tenant)
    person = Person.objects.filter(public_id=actor.id).first()
    role = None if person is None else role_in(tenant, person)
    if role is None:
        raise Forbidden(f"people of {tenant.name} are changed by its owners and admins")
    return role


def _require_people_role(own: Role, touched: Role | None = None) -> None:
    """Raise unless a person of role `own` may change people, and give or take the role `touched`."""
    if not allowed(Standing(own.value), Permission.PEOPLE_WRITE):
        raise Forbidden(f"{Permission.PEOPLE_WRITE.value} is not for {own.value}")
    if touched is Role.OWNER and own is not Role.OWNER:
        raise Forbidden("only an owner makes or unmakes owners")


def _keep_an_owner(tenant: Tenant, leaving: Membership) -> None:
    """Raise if `leaving`, who is not to be an owner any more, is the last one."""
    owners = Membership.objects.filter(tenant=tenant, role=Role.OWNER).exclude(pk=leaving.pk)
    if leaving.role == Role.OWNER and not owners.exists():
        raise InvalidRequest(
            f"role: {leaving.person.email} is the last owner of {tenant.name}; name another first"
        )


def _record(
    actor: Actor,
    tenant: Tenant,
    action: str,
    object_id: str,
    *,
    before: dict[str, str] | None = None,
    after: dict[str, str] | None = None,
) -> None:
    audit.record(
        actor, tenant=tenant.public_id, action=action, object_id=object_id, before=before, after=after
    )
