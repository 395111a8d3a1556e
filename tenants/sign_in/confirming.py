"""Confirms that it is the person themselves who acts, not the finder of an open browser or of a session's token.

A code is spent by it, so the caller checks first what it can of the act itself, and again under the person's lock.
"""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.audit.actor import Actor
from control_plane.ids import new_id
from penstock.contract.errors import InvalidRequest
from tenants import tokens
from tenants.actions import lock_person
from tenants.factors import actions as factors
from tenants.factors import queries as factor_queries
from tenants.models import PendingSignIn, Person, Session
from tenants.password_line import is_password
from tenants.sign_in.actions import check_wrong_codes, note_wrong_code

FRESH = timedelta(minutes=15)
"""So long after signing in a person need not show a second factor again."""


def has_just_signed_in(person: Person, token: str) -> bool:
    """Whether `token` is that of a sign-in of the person, and young."""
    since = timezone.now() - FRESH
    return Session.objects.filter(
        person=person, token_hash=tokens.token_hash(token), created_at__gt=since
    ).exists()


def asks_for_code(person: Person, token: str) -> bool:
    """Whether `confirm` wants a code beside the password."""
    return (
        person.has_usable_password()
        and factor_queries.are_asked_for(person)
        and not has_just_signed_in(person, token)
    )


def confirm(actor: Actor, person: Person, *, present: str, code: str, token: str) -> None:
    """Raise `InvalidRequest` unless the person shows their password and, some time after signing in, a second factor.

    `present` is their password, `code` one of their app or a recovery code, `token` that of their sign-in. A person
    without a password has to have signed in just now. A wrong code counts as one at sign-in: raises `Throttled`.
    """
    if not person.has_usable_password():
        if not has_just_signed_in(person, token):
            raise InvalidRequest("you signed in some time ago; sign out and in again, then repeat this")
        return
    if not is_password(present, person.password, source=actor.source):
        raise InvalidRequest("present: this is not your password")
    if not asks_for_code(person, token):
        return
    if not code:
        raise InvalidRequest(
            "present_code: a code of your app or a recovery code is required, or sign out and in again"
        )
    with transaction.atomic():
        locked = lock_person(person)
        check_wrong_codes(locked)
        if factors.is_right_code(actor, locked, code):
            return
        now = timezone.now()
        PendingSignIn.objects.create(
            public_id=new_id("psp"),
            person=locked,
            token_hash=tokens.token_hash(tokens.new_token(tokens.PENDING_PREFIX)),
            attempts=1,
            expires_at=now,
            ended_at=now,
        )
        note_wrong_code(actor, locked)
    raise InvalidRequest("present_code: it is wrong, or was used before")
