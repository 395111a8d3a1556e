"""Reads the second factors of people."""

from allauth.mfa.models import Authenticator
from django.db.models import QuerySet

from penstock.contract.errors import NotFound
from tenants.models import Person

Type = Authenticator.Type
PROOFS = (Type.TOTP, Type.WEBAUTHN)
"""What stands for itself; recovery codes are there only beside one of these."""


def factors(person: Person) -> QuerySet[Authenticator]:
    """The person's codes and passkeys, without recovery codes."""
    rows: QuerySet[Authenticator] = Authenticator.objects.filter(user=person, type__in=PROOFS)
    return rows.order_by("pk")


def factor(person: Person, number: int) -> Authenticator:
    """One of the person's. Raises `NotFound`, for another's too."""
    row = factors(person).filter(pk=number).first()
    if row is None:
        raise NotFound(f"second factor {number} does not exist")
    return row


def are_asked_for(person: Person) -> bool:
    """Whether the person's sign-in needs a second factor."""
    return factors(person).exists()


def has(person: Person, kind: Authenticator.Type) -> bool:
    """Whether the person has a factor of that kind."""
    return bool(Authenticator.objects.filter(user=person, type=kind).exists())


def recovery_codes_left(person: Person) -> int:
    """How many recovery codes are not used."""
    row = Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).first()
    return 0 if row is None else len(row.wrap().get_unused_codes())


def name_of(row: Authenticator) -> str:
    """What people call the factor."""
    return str(row.wrap().name) if row.type == Type.WEBAUTHN else "codes of an app"
