"""Reads the people of a tenant and its invitations. Any person with its link can read an invitation by its token."""

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from penstock.contract.errors import NotFound
from tenants import queries as tenants
from tenants import tokens
from tenants.factors import queries as factors
from tenants.models import Invitation, Membership, Person, Tenant


def members(tenant: Tenant) -> QuerySet[Membership]:
    """All people of a tenant with their roles."""
    return Membership.objects.filter(tenant=tenant).select_related("person", "tenant")


def members_with_factors(tenant: Tenant) -> QuerySet[Membership]:
    """As `members`, each with `has_factor`: whether their sign-in asks for a second factor."""
    return members(tenant).annotate(has_factor=Exists(factors.rows_of(OuterRef("person"))))


def people_without_factor(tenant: Tenant) -> QuerySet[Person]:
    """People of a tenant and of its organisation whose sign-in asks for no second factor."""
    return tenants.people(tenant).filter(~Exists(factors.rows_of(OuterRef("pk"))))


def member(tenant: Tenant, person: str) -> Membership:
    """One person (a public id) of a tenant. Raises `NotFound`."""
    row = members(tenant).filter(person__public_id=person).first()
    if row is None:
        raise person_missing(person)
    return row


def invitations(tenant: Tenant) -> QuerySet[Invitation]:
    """Those that can still be taken."""
    return Invitation.objects.filter(
        tenant=tenant, ended_at=None, expires_at__gt=timezone.now()
    ).select_related("tenant")


def invitation_of(token: str) -> Invitation:
    """The open invitation of that link. Raises `NotFound` when it was taken, withdrawn, has expired or never was."""
    row = (
        Invitation.objects.filter(
            token_hash=tokens.token_hash(token), ended_at=None, expires_at__gt=timezone.now()
        )
        .select_related("tenant")
        .first()
    )
    if row is None:
        raise invitation_missing()
    return row


def has_signed_up(email: str) -> bool:
    """Whether a person of that address (lower case) is there: shown only to a holder of an invitation for it."""
    return Person.objects.filter(email=email).exists()


def person_missing(person: str) -> NotFound:
    return NotFound(f"person {person[:64]!r} does not exist")


def invitation_missing() -> NotFound:
    return NotFound("the invitation was taken or withdrawn, has expired, or never was; ask for a new one")
