"""Writes organisations, their members and invitations; each change with an entry in the organisation's own audit chain.

The actor is a person of the organisation. Their role is read again under the organisation's lock, so a person who has
just lost a role changes nothing. Owners and admins change members; only owners make or demote owners; every member may
leave, except the last owner. Where a tenant of it requires a second factor, who has none changes nothing. Keys of
tenants that a member made by a role that they lose are revoked with it.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.ids import new_id
from control_plane.mail import actions as mails
from penstock.contract.errors import (
    AlreadyExists,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
)
from penstock.contract.limits import DISPLAY_NAME_LENGTH_MAX, ORGANISATIONS_PER_PERSON_MAX
from penstock.rules.names import check_display_name
from tenants import letters, tokens
from tenants.actions import checked_email, checked_tenant_name, lock_person
from tenants.factors.actions import end_sign_ins_without
from tenants.models import ApiKey, Organisation, OrganisationInvitation, OrganisationMember, Person, Tenant
from tenants.organisations import queries
from tenants.people.actions import INVITATION_LENGTH, PEOPLE_MAX, inviter_lost_right, revoke_beyond
from tenants.people.queries import invitation_missing
from tenants.roles import OrganisationPermission, OrganisationRole, allowed_within

# -- organisations --------------------------------------------------------------------------------------


def create(actor: Actor, person: Person, *, name: str, display_name: str = "") -> Organisation:
    """An organisation without tenants, owned by the person. Without a display name it is called by its name.

    Raises `InvalidRequest`, `AlreadyExists` (the name), `LimitExceeded` (they own as many as they may).
    """
    _check_names(name, display_name or name)
    with transaction.atomic():
        _check_limit(person)
        row = _written(Organisation(name=name, display_name=display_name or name))
        OrganisationMember.objects.create(organisation=row, person=person, role=OrganisationRole.OWNER)
        record(actor, row, "organisation.create", row.public_id, after=_names(row))
    return row


def change(
    actor: Actor, organisation: Organisation, *, name: str | None = None, display_name: str | None = None
) -> Organisation:
    """Other names. Raises `InvalidRequest`, `AlreadyExists`, `Forbidden`."""
    with transaction.atomic():
        row = _let_in(actor, organisation, OrganisationPermission.WRITE)
        before = _names(row)
        row.name = row.name if name is None else name
        row.display_name = row.display_name if display_name is None else display_name
        if _names(row) == before:
            return row
        _check_names(row.name, row.display_name)
        _written(row)
        record(actor, row, "organisation.update", row.public_id, before=before, after=_names(row))
    return row


def delete(actor: Actor, organisation: Organisation) -> None:
    """The organisation, its members and invitations are gone; its audit chain stays, and its name is free.

    Raises `InvalidRequest` (it has tenants), `Forbidden`.
    """
    with transaction.atomic():
        row = _let_in(actor, organisation, OrganisationPermission.DELETE)
        left = queries.tenants(row).count()
        if left:
            raise InvalidRequest(
                f"organisation: {row.name} owns {left} tenants; move them out, or close them and wait for the purge"
            )
        before = _names(row) | {"members": queries.members(row).count()}
        record(actor, row, "organisation.delete", row.public_id, before=before)
        OrganisationInvitation.objects.filter(organisation=row).delete()
        OrganisationMember.objects.filter(organisation=row).delete()
        row.delete()


def _check_names(name: str, display_name: str) -> None:
    checked_tenant_name(name, "name")
    check_display_name("display_name", display_name, DISPLAY_NAME_LENGTH_MAX)


def _names(row: Organisation) -> dict[str, Any]:
    return {"name": row.name, "display_name": row.display_name}


def _written(row: Organisation) -> Organisation:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise AlreadyExists(f"name: another organisation is called {row.name!r}") from None
    return row


def _check_limit(person: Person) -> None:
    """Raise `LimitExceeded` if the person owns as many organisations as they may, as `check_tenant_limit`."""
    count = queries.owned(lock_person(person)).count()
    if count >= ORGANISATIONS_PER_PERSON_MAX:
        raise LimitExceeded(
            f"organisation: {person.email} owns {count} organisations, at most {ORGANISATIONS_PER_PERSON_MAX} allowed;"
            " leave or delete one",
            limit="ORGANISATIONS_PER_PERSON_MAX",
        )


# -- invitations ----------------------------------------------------------------------------------------


def invite(
    actor: Actor, organisation: Organisation, *, email: str, role: str
) -> tuple[OrganisationInvitation, str]:
    """An invitation and its link's token, which is nowhere afterwards; as to a tenant.

    Raises `InvalidRequest`, `AlreadyExists` (the person belongs to it), `Forbidden`.
    """
    address, wanted = checked_email(email), checked_role(role)
    token = tokens.new_token(tokens.ORGANISATION_INVITATION_PREFIX)
    with transaction.atomic():
        own = lock_organisation(actor, organisation)
        _require_members_role(own, wanted)
        if queries.members(organisation).filter(person__email=address).exists():
            raise AlreadyExists(f"email: {address} belongs to {organisation.name} already")
        OrganisationInvitation.objects.filter(organisation=organisation, email=address, ended_at=None).update(
            ended_at=timezone.now()
        )
        if queries.members(organisation).count() + queries.invitations(organisation).count() >= PEOPLE_MAX:
            raise InvalidRequest(
                f"email: {organisation.name} has {PEOPLE_MAX} people and invitations; no more"
            )
        inviter = Person.objects.get(public_id=actor.id)
        row = OrganisationInvitation.objects.create(
            public_id=new_id("ivt"),
            organisation=organisation,
            inviter=inviter,
            email=address,
            role=wanted,
            token_hash=tokens.token_hash(token),
            expires_at=timezone.now() + INVITATION_LENGTH,
        )
        letter = letters.organisation_invitation(
            organisation=organisation.display_name,
            name=organisation.name,
            role=wanted.value,
            inviter=inviter.email,
            token=token,
        )
        mails.put(address, "invitation", letter)
        after = {"name": address, "role": wanted.value}
        record(actor, organisation, "member.invite", row.public_id, after=after)
    return row, token


def withdraw(actor: Actor, organisation: Organisation, invitation: str) -> None:
    """End an invitation (a public id) before it is taken. Raises `NotFound`, `Forbidden`."""
    with transaction.atomic():
        own = lock_organisation(actor, organisation)
        row = queries.invitations(organisation).filter(public_id=invitation).first()
        if row is None:
            raise invitation_missing()
        _require_members_role(own, OrganisationRole(row.role))
        row.ended_at = timezone.now()
        row.save(update_fields=["ended_at"])
        before = {"name": row.email, "role": row.role}
        record(actor, organisation, "member.withdraw", row.public_id, before=before)


def join(actor: Actor, person: Person, token: str, *, signs_up: bool = False) -> OrganisationMember:
    """The person takes the invitation of that link. `signs_up`: with a new account, which has no factor yet.

    Raises `NotFound`, `Forbidden` (it is for another address, or a tenant does not let them in), `LimitExceeded` (they
    would be an owner, and own as many organisations as they may).
    """
    found = queries.invitation_of(token)
    with transaction.atomic():
        locked(found.organisation)
        # Again, now that no other request can take or withdraw it.
        row = queries.invitation_of(token)
        if row.email != person.email:
            raise Forbidden(f"the invitation is for {row.email}, and you are {person.email}")
        _check_inviter(row)
        if not signs_up:
            queries.check_let_in(row.organisation, person)
        if row.role == OrganisationRole.OWNER:
            _check_limit(person)
        row.ended_at = timezone.now()
        row.save(update_fields=["ended_at"])
        member, made = OrganisationMember.objects.get_or_create(
            organisation=row.organisation, person=person, defaults={"role": row.role}
        )
        if made:
            after = {"name": person.email, "role": row.role, "invitation": row.public_id}
            record(actor, row.organisation, "member.join", person.public_id, after=after)
            if queries.tenants(row.organisation).filter(factors_from__isnull=False).exists():
                end_sign_ins_without(Person.objects.filter(pk=person.pk))
    return member


def _check_inviter(row: OrganisationInvitation) -> None:
    """Raise `Forbidden` unless who made the invitation may make it now. One of the release before names no inviter."""
    if row.inviter is None:
        return
    try:
        member = queries.member(row.organisation, row.inviter.public_id)
        queries.check_let_in(row.organisation, row.inviter)
        _require_members_role(OrganisationRole(member.role), OrganisationRole(row.role))
    except (NotFound, Forbidden):
        raise inviter_lost_right() from None


# -- members --------------------------------------------------------------------------------------------


def change_role(actor: Actor, organisation: Organisation, person: str, *, role: str) -> OrganisationMember:
    """Give a member (a person's public id) another role.

    Raises `NotFound`, `InvalidRequest` (the last owner), `Forbidden`, `LimitExceeded` (a new owner owns as many
    organisations as they may), `PreconditionFailed` (the member made a key in another tenant at the same time, or such
    a tenant was moved in).
    """
    wanted = checked_role(role)
    check_may_touch(actor, organisation, person, wanted)
    with transaction.atomic():
        known = lock_tenants(organisation, person)
        own = lock_organisation(actor, organisation)
        row = _check_touch(own, actor, organisation, person, wanted)
        before = OrganisationRole(row.role)
        if before is wanted:
            return row
        if wanted is OrganisationRole.OWNER:
            _check_limit(row.person)
        check_no_other_tenant(organisation, person, known)
        row.role = wanted
        row.save(update_fields=["role"])
        record(
            actor,
            organisation,
            "member.role",
            person,
            before={"name": row.person.email, "role": before.value},
            after={"name": row.person.email, "role": wanted.value},
        )
        reason = f"{row.person.email} is {wanted.value} of {organisation.name} now"
        _revoke_beyond(actor, organisation, row.person, reason=reason)
    return row


def remove(
    actor: Actor, organisation: Organisation, person: str, naming: Callable[[], Collection[int]] = tuple
) -> tuple[Person, set[int]]:
    """A person (a public id) leaves the organisation, by their own wish or another's. `naming`: tenants (rows) in which
    the caller has to change something too. Returns who left, and the tenants that are locked.

    Raises `NotFound`, `InvalidRequest` (the last owner), `Forbidden`, `PreconditionFailed` (as `change_role`).
    """
    check_may_touch(actor, organisation, person)
    with transaction.atomic():
        known = lock_tenants(organisation, person, naming())
        own = lock_organisation(actor, organisation)
        check_no_other_tenant(organisation, person, known, naming())
        leaves = person == actor.id
        row = _check_touch(own, actor, organisation, person, None)
        before = {"name": row.person.email, "role": row.role}
        record(actor, organisation, "member.leave" if leaves else "member.remove", person, before=before)
        row.delete()
        _revoke_beyond(actor, organisation, row.person, reason=f"{row.person.email} left {organisation.name}")
    return row.person, known


def _revoke_beyond(actor: Actor, organisation: Organisation, person: Person, *, reason: str) -> None:
    for tenant in _with_keys_of(organisation, person.public_id):
        revoke_beyond(actor, tenant, person, reason=reason)


# -- parts ----------------------------------------------------------------------------------------------


def checked_role(role: str) -> OrganisationRole:
    """The role of that name. Raises `InvalidRequest`."""
    try:
        return OrganisationRole(role)
    except ValueError:
        known = ", ".join(one.value for one in OrganisationRole)
        raise InvalidRequest(f"role: {role[:40]!r} is none of {known}") from None


def locked(organisation: Organisation) -> Organisation:
    """The organisation as it is now; no other request changes it, its members or its tenants until the transaction
    ends. Who locks tenants too locks them before. Raises `NotFound` (it was deleted).
    """
    row = Organisation.objects.select_for_update(no_key=True).filter(pk=organisation.pk).first()
    if row is None:
        raise queries.organisation_missing(organisation.public_id)
    return row


def lock_tenants(organisation: Organisation, person: str, naming: Collection[int] = ()) -> set[int]:
    """Lock the organisation's tenants in which the person has keys, and those in `naming`, before the organisation, and
    after `check_may_touch`. The locked rows. The other tenants go on meanwhile.
    """
    rows = _touched(organisation, person, naming).select_for_update(no_key=True)
    return set(rows.values_list("pk", flat=True))


def check_no_other_tenant(
    organisation: Organisation, person: str, known: set[int], naming: Collection[int] = ()
) -> None:
    """Raise `PreconditionFailed` if there is such a tenant of the locked organisation beside the locked ones: after the
    organisation none must be locked.
    """
    other = _touched(organisation, person, naming).exclude(pk__in=known).first()
    if other is not None:
        raise PreconditionFailed(
            f"{other.name} has new keys of them, or names them, since a moment ago; do it again"
        )


def _touched(organisation: Organisation, person: str, naming: Collection[int]) -> QuerySet[Tenant]:
    keyed = _with_keys_of(organisation, person).values("pk")
    return queries.tenants(organisation).filter(Q(pk__in=naming) | Q(pk__in=keyed)).order_by("pk")


def _with_keys_of(organisation: Organisation, person: str) -> QuerySet[Tenant]:
    """Tenants in which the person (a public id) has valid keys. A new one is made under the organisation's lock."""
    made = ApiKey.objects.filter(maker__public_id=person, revoked_at=None)
    return queries.tenants(organisation).filter(pk__in=made.values("tenant")).order_by("pk")


def check_may_touch(
    actor: Actor, organisation: Organisation, person: str, wanted: OrganisationRole | None = None
) -> None:
    """Raise as `remove` does or, with `wanted`, as `change_role`, without any lock: who may not stops no other request.

    Under the locks both ask again.
    """
    _check_touch(_own_role(actor, organisation), actor, organisation, person, wanted)


def _check_touch(
    own: OrganisationRole,
    actor: Actor,
    organisation: Organisation,
    person: str,
    wanted: OrganisationRole | None,
) -> OrganisationMember:
    leaves = wanted is None and person == actor.id
    if not leaves:
        _require_members_role(own)
    row = queries.member(organisation, person)
    if not leaves:
        _require_members_role(own, wanted)
        _require_members_role(own, OrganisationRole(row.role))
    if wanted is None or row.role != wanted:
        _keep_an_owner(organisation, row)
    return row


def lock_organisation(actor: Actor, organisation: Organisation) -> OrganisationRole:
    """What the actor is in the organisation now, under its lock.

    Raises `NotFound` (they do not belong to it), `Forbidden` (a tenant of it does not let them in).
    """
    locked(organisation)
    return _own_role(actor, organisation)


def _own_role(actor: Actor, organisation: Organisation) -> OrganisationRole:
    try:
        row = queries.member(organisation, actor.id)
    except NotFound:
        raise queries.organisation_missing(organisation.public_id) from None
    queries.check_let_in(organisation, row.person)
    return OrganisationRole(row.role)


def require(role: OrganisationRole, permission: OrganisationPermission) -> None:
    """Raise `Forbidden` unless a member of this role may do it."""
    if not allowed_within(role, permission):
        raise Forbidden(f"{permission.value} is not for {role.value}")


def _let_in(actor: Actor, organisation: Organisation, permission: OrganisationPermission) -> Organisation:
    require(lock_organisation(actor, organisation), permission)
    return Organisation.objects.get(pk=organisation.pk)


def _require_members_role(own: OrganisationRole, touched: OrganisationRole | None = None) -> None:
    """Raise unless a member of role `own` may change members, and give or take the role `touched`."""
    require(own, OrganisationPermission.MEMBERS_WRITE)
    if touched is OrganisationRole.OWNER and own is not OrganisationRole.OWNER:
        raise Forbidden("only an owner makes or unmakes owners")


def _keep_an_owner(organisation: Organisation, leaving: OrganisationMember) -> None:
    """Raise if `leaving`, who is not to be an owner any more, is the last one."""
    owners = queries.members(organisation).filter(role=OrganisationRole.OWNER).exclude(pk=leaving.pk)
    if leaving.role == OrganisationRole.OWNER and not owners.exists():
        raise InvalidRequest(
            f"role: {leaving.person.email} is the last owner of {organisation.name}; name another first"
        )


def record(
    actor: Actor,
    organisation: Organisation,
    action: str,
    object_id: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """An entry in the organisation's own chain, which is named by its public id."""
    audit.record(
        actor, tenant=organisation.public_id, action=action, object_id=object_id, before=before, after=after
    )
