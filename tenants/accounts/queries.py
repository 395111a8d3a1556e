"""Reads accounts: a person's sign-ins, reset links by their token, and people for operators."""

from django.db.models import QuerySet
from django.utils import timezone

from penstock.contract.errors import NotFound
from tenants import tokens
from tenants.models import PasswordReset, Person, Session


def sign_ins(person: Person) -> QuerySet[Session]:
    """Those that have not ended."""
    return Session.objects.filter(person=person, expires_at__gt=timezone.now())


def sign_in(person: Person, public_id: str) -> Session:
    """One of the person's. Raises `NotFound`, for another's too."""
    row = sign_ins(person).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"sign-in {public_id[:64]!r} does not exist")
    return row


def sign_in_of(token: str) -> Session | None:
    """The sign-in of this token; None if it has ended."""
    return Session.objects.filter(token_hash=tokens.token_hash(token), expires_at__gt=timezone.now()).first()


def is_of_token(row: Session, token: str) -> bool:
    """Whether it is the sign-in of this token."""
    return row.token_hash == tokens.token_hash(token)


def reset_of(token: str) -> PasswordReset:
    """The link of that token, as long as it holds. Raises `NotFound` when it was used, has expired or never was."""
    row = (
        PasswordReset.objects.filter(
            token_hash=tokens.token_hash(token),
            ended_at=None,
            expires_at__gt=timezone.now(),
            person__is_active=True,
        )
        .select_related("person")
        .first()
    )
    if row is None:
        raise NotFound("the link was used, has expired, or never was; ask for a new one")
    return row


def people() -> QuerySet[Person]:
    """All people who have signed up: for operators."""
    return Person.objects.all()


def person(public_id: str) -> Person:
    """One of them. Raises `NotFound`."""
    row = people().filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"person {public_id[:64]!r} does not exist")
    return row


def person_of_email(email: str) -> Person:
    """The person of that address. Raises `NotFound`."""
    row = people().filter(email=email.strip().lower()).first()
    if row is None:
        raise NotFound(f"email: no person of the address {email[:100]!r} has signed up")
    return row
