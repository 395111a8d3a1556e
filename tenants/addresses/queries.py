"""Reads whether addresses are proved, and what the links in e-mails are for."""

from allauth.account.models import EmailAddress
from django.utils import timezone

from penstock.contract.errors import NotFound
from tenants import tokens
from tenants.models import AddressProof, PendingSignUp, Person


def is_proved(person: Person) -> bool:
    """Whether the person has shown that they read the e-mails of their address."""
    return bool(EmailAddress.objects.filter(user=person, email=person.email, verified=True).exists())


def sign_up_of(token: str) -> PendingSignUp:
    """Who wants to sign up by that link. Raises `NotFound` when it was used, has expired or never was."""
    row = PendingSignUp.objects.filter(
        token_hash=tokens.token_hash(token), ended_at=None, expires_at__gt=timezone.now()
    ).first()
    if row is None:
        raise NotFound("the link was used, has expired, or never was; sign up again")
    return row


def proof_of(token: str) -> AddressProof:
    """The proof that the link gives. Raises `NotFound` when it was used, has expired or never was."""
    row = (
        AddressProof.objects.filter(
            token_hash=tokens.token_hash(token),
            ended_at=None,
            expires_at__gt=timezone.now(),
            person__is_active=True,
        )
        .select_related("person")
        .first()
    )
    if row is None:
        raise NotFound(
            "the link was used, has expired, or never was; ask for a new one on your account's page"
        )
    return row
