"""Reads sign-ins that wait for a second factor."""

from django.utils import timezone

from penstock.contract.errors import Unauthenticated
from tenants import tokens
from tenants.models import PendingSignIn


def pending_of(token: str) -> PendingSignIn:
    """The sign-in that waits under this token. Raises `Unauthenticated`."""
    row = (
        PendingSignIn.objects.filter(
            token_hash=tokens.token_hash(token),
            ended_at=None,
            expires_at__gt=timezone.now(),
            person__is_active=True,
        )
        .select_related("person")
        .first()
    )
    if row is None:
        raise Unauthenticated("this took too long, or too many codes were wrong; sign in again")
    return row
