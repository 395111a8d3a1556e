"""Reads changes of people's addresses: the one that a person has asked for, and what the links in e-mails are for."""

from django.utils import timezone

from penstock.contract.errors import NotFound
from tenants import tokens
from tenants.models import AddressChange, Person


def pending(person: Person) -> AddressChange | None:
    """The change that the person has asked for and whose link is not used; it may be for an address that is taken."""
    return AddressChange.objects.filter(
        person=person, confirmed_at=None, ended_at=None, expires_at__gt=timezone.now()
    ).first()


def change_of(person: Person, token: str) -> AddressChange:
    """The person's change of that link. Raises `NotFound`, for another's too, and when it was used or has expired."""
    row = AddressChange.objects.filter(
        person=person,
        token_hash=tokens.token_hash(token),
        confirmed_at=None,
        ended_at=None,
        expires_at__gt=timezone.now(),
    ).first()
    if row is None:
        raise NotFound(
            "the link was used, has expired, is another person's, or never was; ask for a new one on your "
            "account's page"
        )
    return row


def undo_of(token: str) -> AddressChange:
    """The change that the link takes back. Raises `NotFound` when it was used, has expired or never was."""
    row = (
        AddressChange.objects.filter(
            undo_hash=tokens.token_hash(token),
            ended_at=None,
            undo_until__gt=timezone.now(),
            person__is_active=True,
        )
        .select_related("person")
        .first()
    )
    if row is None:
        raise NotFound("the link was used, has expired, or never was; an operator of the service can help")
    return row
