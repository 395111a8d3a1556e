"""Writes sign-ins: a session for a person whose password is right, and whose second factor is, if they have one."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.tallies import tallies
from control_plane.ids import new_id
from penstock.contract.audit_entries import REFUSED
from penstock.contract.errors import InvalidRequest, Throttled, Unauthenticated
from penstock.contract.ids import SYSTEM_TENANT
from tenants import audited, tokens
from tenants.actions import lock_person, open_session
from tenants.factors import actions as factors
from tenants.factors import passkeys
from tenants.factors import queries as factor_queries
from tenants.models import PendingSignIn, Person, Session
from tenants.password_line import check_nothing, is_password
from tenants.sign_in import queries

PENDING_LENGTH = timedelta(minutes=10)
WRONG_MAX = 10
WRONG_SPAN = timedelta(hours=1)
"""So many wrong codes of a person within that time, over all of their sign-ins: then none is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The password is right. Exactly one of the two tokens is set."""

    person: Person
    session: str = ""
    """The token of the new session: there is no second factor."""
    pending: str = ""
    """What the second factor is given with."""


def begin(*, email: str, password: str, source: str = "", browser: str = "") -> Begun:
    """Sign in as far as the password goes. `browser` is what it calls itself.

    Raises `Unauthenticated`, the same for address and password, and `Throttled`.
    """
    found = person_by_password(email=email, password=password, source=source)
    with transaction.atomic():
        person = lock_person(found)
        if person.password != found.password:
            # It was changed while this one was being checked.
            raise _wrong_sign_in(_actor(person, source, ""))
        return begun(person, source=source, browser=browser)


def person_by_password(*, email: str, password: str, source: str = "") -> Person:
    """The person of this address and password, whom nothing is opened for yet.

    The caller looks again under the person's lock whether the password is still this one. Raises `Unauthenticated`, the
    same for address and password.
    """
    person = Person.objects.filter(email=email.strip().lower(), is_active=True).first()
    if person is None or not person.has_usable_password():
        check_nothing(password, source=source)  # the same work as for a known address
        raise _wrong_sign_in(Actor(kind=ActorKind.ANONYMOUS, id=source, source=source))
    if not is_password(password, person.password, source=source):
        raise _wrong_sign_in(_actor(person, source, ""))
    return person


def _wrong_sign_in(actor: Actor) -> Unauthenticated:
    tallies().count(actor, tenant=SYSTEM_TENANT, action=audited.SIGN_IN, outcome=REFUSED)
    return Unauthenticated("the e-mail address or the password is wrong")


def begun(person: Person, *, source: str, browser: str) -> Begun:
    """A session, or what waits for the second factor. Part of the caller's transaction, under the person's lock."""
    if not factor_queries.are_asked_for(person):
        return Begun(person=person, session=_open(person, source=source, browser=browser))
    token = tokens.new_token(tokens.PENDING_PREFIX)
    now = timezone.now()
    # Those of the last hour stay: their wrong codes are counted.
    PendingSignIn.objects.filter(person=person, created_at__lte=now - WRONG_SPAN).delete()
    PendingSignIn.objects.create(
        public_id=new_id("psp"),
        person=person,
        token_hash=tokens.token_hash(token),
        expires_at=now + PENDING_LENGTH,
    )
    return Begun(person=person, pending=token)


def sign_in(
    *, email: str, password: str, code: str = "", source: str = "", browser: str = "", request_id: str = ""
) -> tuple[Person, str]:
    """Password and second factor at once: the person and the token of a new session.

    Raises `Unauthenticated` (password; or the code is missing or wrong), `Throttled` (too many wrong codes).
    """
    first = begin(email=email, password=password, source=source, browser=browser)
    if first.session:
        return first.person, first.session
    if not code:
        raise Unauthenticated("code: a code of your app or a recovery code is required too")
    try:
        token = finish_with_code(
            first.pending, code=code, source=source, browser=browser, request_id=request_id
        )
    except InvalidRequest as error:
        raise Unauthenticated(error.message) from None
    return first.person, token


def finish_with_code(pending: str, *, code: str, source: str, browser: str, request_id: str = "") -> str:
    """The token of a new session, for a code of the person's app or a recovery code.

    Raises `InvalidRequest` (the code is wrong), `Unauthenticated` (the sign-in has ended), `Throttled`.
    """
    with transaction.atomic():
        row = _locked(pending)
        actor = _actor(row.person, source, request_id)
        if factors.is_right_code(actor, row.person, code):
            return _finish(row, source=source, browser=browser)
        row.attempts += 1
        row.save(update_fields=["attempts"])
        note_wrong_code(actor, row.person)
    raise InvalidRequest("code: it is wrong, or was used before")


def ask_passkey(pending: str) -> dict[str, Any]:
    """What the browser asks the person's passkeys; an earlier question is void. Raises as `finish_with_code`."""
    with transaction.atomic():
        row = _locked(pending)
        options, row.challenge = passkeys.ask_to_sign(row.person)
        row.save(update_fields=["challenge"])
        return options


def finish_with_passkey(
    pending: str, *, answer: dict[str, Any], source: str, browser: str, request_id: str = ""
) -> str:
    """The token of a new session, for what a passkey signed. Raises as `finish_with_code`."""
    refused: InvalidRequest
    with transaction.atomic():
        row = _locked(pending)
        challenge, row.challenge = row.challenge, None
        # Whatever comes of it: a challenge is answered once.
        row.save(update_fields=["challenge"])
        try:
            if challenge is None:
                raise InvalidRequest("passkey: it was asked for nothing; try again")
            used = passkeys.check_signature(row.person, challenge, answer)
        except InvalidRequest as error:
            row.attempts += 1
            row.save(update_fields=["attempts"])
            refused = error
        else:
            factors.note_passkey_used(used)
            return _finish(row, source=source, browser=browser)
    raise refused


def _locked(pending: str) -> PendingSignIn:
    """The sign-in that waits, under its person's lock. Raises `Unauthenticated`, `Throttled`."""
    lock_person(queries.pending_of(pending).person)
    # Again, now that no other request can finish it.
    row = queries.pending_of(pending)
    check_wrong_codes(row.person)
    return row


def check_wrong_codes(person: Person) -> None:
    """Raise `Throttled` if so many codes of the person were wrong that none is looked at. Under the person's lock."""
    since = timezone.now() - WRONG_SPAN
    wrong = PendingSignIn.objects.filter(person=person, created_at__gt=since).aggregate(all=Sum("attempts"))[
        "all"
    ]
    if (wrong or 0) >= WRONG_MAX:
        raise Throttled(
            "too many wrong codes; wait an hour and sign in again",
            limit="rest:codes",
            retry_after_ms=int(WRONG_SPAN.total_seconds() * 1000),
        )


def note_wrong_code(actor: Actor, person: Person) -> None:
    """The entry about a wrong code. Part of the caller's transaction, which counts it too."""
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action="sign_in.wrong_code",
        object_id=person.public_id,
        after={"name": person.email},
        outcome=REFUSED,
    )


def _finish(row: PendingSignIn, *, source: str, browser: str) -> str:
    row.ended_at = timezone.now()
    row.save(update_fields=["ended_at"])
    return _open(row.person, source=source, browser=browser)


def _open(person: Person, *, source: str, browser: str) -> str:
    Session.objects.filter(person=person, expires_at__lte=timezone.now()).delete()
    return open_session(person, source=source, browser=browser)


def _actor(person: Person, source: str, request_id: str) -> Actor:
    return Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
