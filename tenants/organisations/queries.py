"""Reads organisations: for a person only their own, for the service by public id."""

from dataclasses import dataclass

from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from penstock.contract.errors import NotFound
from tenants.factors import queries as factors
from tenants.models import (
    Membership,
    Organisation,
    OrganisationInvitation,
    OrganisationMember,
    Person,
    Tenant,
)
from tenants.people.queries import invitation_missing, person_missing
from tenants.roles import OrganisationRole, Role
from tenants.tokens import token_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """What the person is in an organisation."""

    organisation: Organisation
    role: OrganisationRole


def organisations_of(person: Person) -> QuerySet[Organisation]:
    """The organisations of a person, each with their `role` in it, and how many members and tenants it has."""
    own = OrganisationMember.objects.filter(organisation=OuterRef("pk"), person=person)
    return _counted(Organisation.objects.filter(members__person=person)).annotate(
        role=Subquery(own.values("role")[:1])
    )


def all_organisations(text: str = "") -> QuerySet[Organisation]:
    """For operators: every organisation, or those whose name or display name contains the text or whose id it is, each
    with how many members and tenants it has.
    """
    rows = Organisation.objects.all()
    if text:
        rows = rows.filter(Q(name__icontains=text) | Q(display_name__icontains=text) | Q(public_id=text))
    return _counted(rows)


def any_organisation(public_id: str) -> Organisation:
    """For operators: one of all, with how many members and tenants it has. Raises `NotFound`."""
    row = all_organisations().filter(public_id=public_id).first()
    if row is None:
        raise organisation_missing(public_id)
    return row


def _counted(rows: QuerySet[Organisation]) -> QuerySet[Organisation]:
    return rows.annotate(
        members_count=_count(OrganisationMember.objects.all()),
        tenants_count=_count(Tenant.objects.all()),
    )


def _count(rows: QuerySet[OrganisationMember] | QuerySet[Tenant]) -> Coalesce:
    counted = (
        rows.filter(organisation=OuterRef("pk")).order_by().values("organisation").annotate(n=Count("pk"))
    )
    return Coalesce(Subquery(counted.values("n")), 0, output_field=IntegerField())


def belonging(person: Person, organisation: str) -> Belonging:
    """One organisation of a person, by its public id. Raises `NotFound`, for another's too."""
    return _belonging(
        person, organisation, OrganisationMember.objects.filter(organisation__public_id=organisation)
    )


def belonging_by_name(person: Person, name: str) -> Belonging:
    """As `belonging`, by its name."""
    return _belonging(person, name, OrganisationMember.objects.filter(organisation__name=name))


def _belonging(person: Person, asked: str, rows: QuerySet[OrganisationMember]) -> Belonging:
    row = rows.filter(person=person, person__is_active=True).select_related("organisation").first()
    if row is None:
        raise organisation_missing(asked)
    return Belonging(organisation=row.organisation, role=OrganisationRole(row.role))


def owned(person: Person) -> QuerySet[Organisation]:
    """The organisations that a person owns, alone or with others."""
    return Organisation.objects.filter(members__person=person, members__role=OrganisationRole.OWNER)


def members(organisation: Organisation) -> QuerySet[OrganisationMember]:
    """All people of an organisation with their roles."""
    return OrganisationMember.objects.filter(organisation=organisation).select_related(
        "person", "organisation"
    )


def member(organisation: Organisation, person: str) -> OrganisationMember:
    """One of them (a public id). Raises `NotFound`."""
    row = members(organisation).filter(person__public_id=person).first()
    if row is None:
        raise person_missing(person)
    return row


def tenants(organisation: Organisation) -> QuerySet[Tenant]:
    """The tenants that the organisation owns."""
    return Tenant.objects.filter(organisation=organisation)


def tenant(organisation: Organisation, public_id: str) -> Tenant:
    """One of them. Raises `NotFound`."""
    row = tenants(organisation).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"tenant {public_id[:64]!r} does not exist")
    return row


def not_let_in_by(organisation: Organisation, person: Person) -> Tenant | None:
    """The first tenant of the organisation that does not let the person in, for want of a second factor; None: none.

    Who changes members of the organisation changes people of each of its tenants, so what those require holds here too.
    """
    if factors.are_asked_for(person):
        return None
    return tenants(organisation).filter(factors_from__lte=timezone.now()).order_by("pk").first()


def check_let_in(organisation: Organisation, person: Person) -> None:
    """Raise `Forbidden` unless each tenant of the organisation lets the person in."""
    wanting = not_let_in_by(organisation, person)
    if wanting is not None:
        raise factors.not_let_in(wanting)


def tenants_to_move_in(person: Person) -> QuerySet[Tenant]:
    """The tenants that the person owns themselves and that stand alone."""
    return Tenant.objects.filter(
        memberships__person=person, memberships__role=Role.OWNER, organisation=None, purged_at=None
    )


def is_owner_of(person: Person, tenant: Tenant) -> bool:
    """Whether the person owns the tenant themselves, not by an organisation."""
    return Membership.objects.filter(tenant=tenant, person=person, role=Role.OWNER).exists()


def owners_of(tenant: Tenant) -> QuerySet[Person]:
    """Who owns the tenant themselves and is active."""
    return Person.objects.filter(
        memberships__tenant=tenant, memberships__role=Role.OWNER, is_active=True
    ).order_by("pk")


def tenant_to_move_out(person: Person, organisation: str, tenant: str) -> Tenant | None:
    """The organisation's tenant (public ids), if the person owns it themselves, member or not."""
    return _owned_within(person).filter(public_id=tenant, organisation__public_id=organisation).first()


def tenant_to_move_out_by_name(person: Person, organisation: str, tenant: str) -> Tenant | None:
    """As `tenant_to_move_out`, by the organisation's name."""
    return _owned_within(person).filter(public_id=tenant, organisation__name=organisation).first()


def _owned_within(person: Person) -> QuerySet[Tenant]:
    return Tenant.objects.filter(
        memberships__person=person, memberships__role=Role.OWNER, organisation__isnull=False
    ).select_related("organisation")


def invitations(organisation: Organisation) -> QuerySet[OrganisationInvitation]:
    """Those that can still be taken."""
    return OrganisationInvitation.objects.filter(
        organisation=organisation, ended_at=None, expires_at__gt=timezone.now()
    ).select_related("organisation")


def invitation_of(token: str) -> OrganisationInvitation:
    """The open invitation of that link. Raises `NotFound`."""
    row = (
        OrganisationInvitation.objects.filter(
            token_hash=token_hash(token), ended_at=None, expires_at__gt=timezone.now()
        )
        .select_related("organisation")
        .first()
    )
    if row is None:
        raise invitation_missing()
    return row


def organisation_missing(organisation: str) -> NotFound:
    return NotFound(f"organisation {organisation[:64]!r} does not exist")
