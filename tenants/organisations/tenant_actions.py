"""Moves tenants into organisations and out of them. Each move has an entry in both audit chains.

Who moves a tenant in owns both: the organisation, and the tenant themselves, so that they lose nothing by it. Each
owner of the tenant itself may move it out, so that no other one takes it from them; all of them hear of each move. A
tenant that requires a second factor is moved by a person who has one.
"""

from django.db import transaction

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.mail import actions as mails
from penstock.contract.errors import AlreadyExists, Forbidden, InvalidRequest, LimitExceeded
from penstock.contract.limits import TENANTS_PER_ORGANISATION_MAX
from tenants import letters
from tenants.actions import check_not_the_service, deliver_tenant
from tenants.factors import queries as factors
from tenants.factors.actions import end_sign_ins_without
from tenants.models import Organisation, OrganisationMember, Person, Tenant
from tenants.organisations import queries
from tenants.organisations.actions import lock_organisation, locked, record, require
from tenants.people.actions import revoke_beyond
from tenants.queries import people, role_in, tenant_missing
from tenants.roles import OrganisationPermission, Role


def move_in(actor: Actor, organisation: Organisation, tenant: str) -> Tenant:
    """The organisation owns the tenant (a public id) from now on. Again changes nothing.

    Raises `NotFound` (no tenant of the actor), `Forbidden` (they do not own both), `AlreadyExists` (it belongs to
    another organisation), `LimitExceeded`, `InvalidRequest` (it is purged).
    """
    found = Tenant.objects.filter(public_id=tenant).first()
    person = Person.objects.get(public_id=actor.id)
    if found is None or role_in(found, person) is None:
        raise tenant_missing(tenant)
    check_not_the_service(found)
    with transaction.atomic():
        row = Tenant.objects.select_for_update(no_key=True).get(pk=found.pk)
        _require_both(actor, organisation, row, person)
        if row.organisation_id == organisation.pk:
            return row
        if row.organisation_id is not None:
            raise AlreadyExists(
                f"tenant: {row.name} belongs to another organisation; move it out of that first"
            )
        if row.purged_at is not None:
            raise InvalidRequest(f"tenant: {row.public_id} is purged")
        count = queries.tenants(organisation).count()
        if count >= TENANTS_PER_ORGANISATION_MAX:
            raise LimitExceeded(
                f"tenant: {organisation.name} owns {count} tenants, at most {TENANTS_PER_ORGANISATION_MAX} allowed;"
                " move one out",
                limit="TENANTS_PER_ORGANISATION_MAX",
            )
        row.organisation = organisation
        _keep(row)
        _record(actor, organisation, row, "move_in")
        if row.factors_from is not None:
            end_sign_ins_without(people(row))
        _write_to_owners(row, organisation, person, came=True)
    return row


def move_out(actor: Actor, organisation: Organisation, tenant: Tenant) -> tuple[Tenant, list[Person]]:
    """The tenant stands alone again: rights by the organisation end at once, and keys made by them are revoked.

    Also who belonged to the tenant by the organisation alone. The actor owns the tenant themselves; they need not
    belong to the organisation. Raises `NotFound`, `Forbidden`.
    """
    person = Person.objects.get(public_id=actor.id)
    with transaction.atomic():
        row = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if not queries.is_owner_of(person, row):
            # What they hear of the tenant is for members of the organisation.
            require(lock_organisation(actor, organisation), OrganisationPermission.TENANTS_MOVE)
        _require_own(row, person)
        if row.organisation_id != organisation.pk:
            raise tenant_missing(row.public_id)
        gone = leave_organisation(actor, row)
        _keep(row)
        _write_to_owners(row, organisation, person, came=False)
    return row, gone


def leave_organisation(actor: Actor, row: Tenant) -> list[Person]:
    """The locked tenant, which the caller saves, has no organisation any more. Who does not belong to it any more."""
    if row.organisation is None:
        return []
    organisation = locked(row.organisation)
    before = [
        member.person
        for member in OrganisationMember.objects.filter(organisation=organisation)
        .select_related("person")
        .order_by("pk")
    ]
    row.organisation = None
    row.save(update_fields=["organisation", "updated_at"])
    _record(actor, organisation, row, "move_out")
    for person in before:
        revoke_beyond(actor, row, person, reason=f"{row.name} left {organisation.name}")
    return [person for person in before if role_in(row, person) is None]


def _require_both(actor: Actor, organisation: Organisation, row: Tenant, person: Person) -> None:
    """Raise unless the person owns the organisation, which is locked now, and the locked tenant."""
    require(lock_organisation(actor, organisation), OrganisationPermission.TENANTS_MOVE)
    _require_own(row, person)


def _require_own(row: Tenant, person: Person) -> None:
    """Raise unless the person owns the locked tenant themselves, and is let in."""
    if not queries.is_owner_of(person, row):
        raise Forbidden(f"{row.name} is moved by a person whose own role in it is {Role.OWNER.value}")
    if not factors.is_let_in(row, person):
        raise factors.not_let_in(row)


def _write_to_owners(row: Tenant, organisation: Organisation, by: Person, *, came: bool) -> None:
    letter = letters.tenant_moved(
        row.name,
        name=organisation.name,
        organisation=organisation.display_name,
        by=by.email,
        came=came,
    )
    for owner in queries.owners_of(row):
        mails.put(owner.email, "tenant-moved", letter)


def _keep(row: Tenant) -> None:
    # The ETag must change; the brokers get the same again.
    row.generation += 1
    row.save(update_fields=["organisation", "generation", "updated_at"])
    deliver_tenant(row)


def _record(actor: Actor, organisation: Organisation, row: Tenant, what: str) -> None:
    of_both = {
        "name": row.name,
        "organisation": organisation.public_id,
        "organisation_name": organisation.name,
    }
    action = f"tenant.{what}"
    audit.record(actor, tenant=row.public_id, action=action, object_id=row.public_id, after=of_both)
    record(actor, organisation, action, row.public_id, after=of_both)
