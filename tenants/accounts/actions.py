"""Writes passwords and limits of people and ends sign-ins; each act with an entry in the service's own audit log.

An account belongs to no tenant: its entries stand under the system's tenant, which operators read.
"""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.ids import new_id
from control_plane.mail import actions as mails
from control_plane.mail import queries as mail_queries
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from tenants import letters, tokens
from tenants.accounts import queries
from tenants.actions import checked_password, lock_person
from tenants.addresses.actions import note_proved
from tenants.models import AddressChange, PasswordReset, PendingSignIn, Person, Session
from tenants.password_line import hash_password, is_password
from tenants.queries import tenants_max_of

RESET_LENGTH = timedelta(hours=24)
MAILED_RESET_LENGTH = timedelta(hours=1)
KIND_RESET = "password-reset"
TENANTS_MAX_LIMIT = 10_000
"""What an operator may allow one person: their pages list all of their tenants."""


def change_password(actor: Actor, person: Person, *, present: str, new: str, keep: str) -> int:
    """Another password. Every sign-in but that of the token `keep` ends, and so do reset links; how many sign-ins did.

    Raises `InvalidRequest` (`present` is wrong, or `new` is easily guessed), `Throttled`.
    """
    if not is_password(present, person.password, source=actor.source):
        raise InvalidRequest("present: this is not your password")
    hashed = hash_password(checked_new_password(new, person), source=actor.source)
    with transaction.atomic():
        if lock_person(person).password != person.password:
            # Another request changed it meanwhile.
            raise InvalidRequest("present: this is not your password")
        ended = _set_password(person, hashed, keep=keep)
        _record(actor, person, "person.password", {"sign_ins_ended": ended})
    return ended


def make_reset(actor: Actor, person: Person) -> tuple[PasswordReset, str]:
    """A link by which the person chooses a new password, once, and its token, which is nowhere afterwards.

    An older link of the person ends.
    """
    token = tokens.new_token(tokens.RESET_PREFIX)
    with transaction.atomic():
        lock_person(person)
        _end_resets(person)
        row = PasswordReset.objects.create(
            public_id=new_id("rst"),
            person=person,
            token_hash=tokens.token_hash(token),
            expires_at=timezone.now() + RESET_LENGTH,
        )
        _record(actor, person, "person.reset_link", {"expires_at": row.expires_at.isoformat()})
    return row, token


def ask_for_reset(*, email: str, request_id: str, source: str) -> None:
    """Mail the person of that address, if there is one, a link by which they choose a new password.

    Older links hold until one is used: a stranger who asks ends nothing.
    """
    person = Person.objects.filter(email=email.strip().lower(), is_active=True).first()
    token = tokens.new_token(tokens.RESET_PREFIX)
    if person is None:
        return
    actor = Actor(kind=ActorKind.SYSTEM, id="forgotten-password", request_id=request_id, source=source)
    with transaction.atomic():
        if mail_queries.has_enough(person.email, KIND_RESET):
            return
        row = PasswordReset.objects.create(
            public_id=new_id("rst"),
            person=person,
            token_hash=tokens.token_hash(token),
            expires_at=timezone.now() + MAILED_RESET_LENGTH,
            mailed=True,
        )
        mails.put(person.email, KIND_RESET, letters.reset(token))
        _record(actor, person, "person.reset_mail", {"expires_at": row.expires_at.isoformat()})


def reset_password(token: str, *, new: str, request_id: str, source: str) -> Person:
    """The person of that link has another password; the link and every sign-in end.

    Raises `NotFound` (the link), `InvalidRequest` (the password is easily guessed: the link still holds), `Throttled`.
    """
    person = queries.reset_of(token).person
    hashed = hash_password(checked_new_password(new, person), source=source)
    actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
    with transaction.atomic():
        lock_person(person)
        # Again, now that no other request can use it.
        row = queries.reset_of(token)
        if row.mailed and config.current().mail is not None:
            # Only who reads the person's e-mails has the link.
            note_proved(actor, person)
        ended = _set_password(person, hashed, keep="")
        _record(actor, person, "person.password", {"sign_ins_ended": ended, "reset_link": row.public_id})
    return person


def checked_new_password(new: str, person: Person) -> str:
    """As `checked_password`, with the name of the field that people fill in."""
    try:
        return checked_password(new, person.email)
    except InvalidRequest as error:
        raise InvalidRequest(error.message.replace("password: ", "new: ", 1)) from None


def set_tenants_max(actor: Actor, person: Person, *, tenants_max: int) -> None:
    """How many tenants the person may own. Below what they own it takes nothing away. Raises `InvalidRequest`."""
    if not 0 <= tenants_max <= TENANTS_MAX_LIMIT:
        raise InvalidRequest(f"tenants_max: {tenants_max} is not within 0 to {TENANTS_MAX_LIMIT}")
    with transaction.atomic():
        locked = lock_person(person)
        before = tenants_max_of(locked)
        if before == tenants_max:
            return
        locked.tenants_max = tenants_max
        locked.save(update_fields=["tenants_max"])
        _record(actor, person, "person.limit", {"tenants_max": tenants_max}, {"tenants_max": before})


def end_sign_in(actor: Actor, person: Person, sign_in: str) -> None:
    """End one sign-in (a public id) of the person. Raises `NotFound`."""
    with transaction.atomic():
        lock_person(person)
        row = queries.sign_in(person, sign_in)
        _record(actor, person, "sign_in.end", {"sign_in": row.public_id})
        row.delete()


def end_other_sign_ins(actor: Actor, person: Person, *, keep: str) -> int:
    """End every sign-in of the person but that of the token `keep`; how many."""
    with transaction.atomic():
        lock_person(person)
        ended = end_sign_ins(person, keep=keep)
        if ended:
            _record(actor, person, "sign_in.end_others", {"sign_ins_ended": ended})
    return ended


def end_sign_ins(person: Person, *, keep: str) -> int:
    """As `end_other_sign_ins`, as part of the caller's transaction, under the person's lock and with its entry."""
    others = Session.objects.filter(person=person).exclude(token_hash=tokens.token_hash(keep))
    ended = others.filter(expires_at__gt=timezone.now()).count()
    others.delete()
    return ended


def end_sign_ins_and_links(person: Person, *, keep: str) -> int:
    """End every sign-in but that of the token `keep`, those that wait for a second factor, reset links, and a change of
    the address that waits; how many sign-ins. Part of the caller's transaction, under the person's lock.
    """
    now = timezone.now()
    _end_resets(person)
    PendingSignIn.objects.filter(person=person, ended_at=None).update(ended_at=now)
    AddressChange.objects.filter(person=person, confirmed_at=None, ended_at=None).update(ended_at=now)
    return end_sign_ins(person, keep=keep)


def _set_password(person: Person, hashed: str, *, keep: str) -> int:
    person.password = hashed
    person.save(update_fields=["password"])
    mails.put(person.email, "password-changed", letters.password_changed())
    return end_sign_ins_and_links(person, keep=keep)


def _end_resets(person: Person) -> None:
    PasswordReset.objects.filter(person=person, ended_at=None).update(ended_at=timezone.now())


def _record(
    actor: Actor, person: Person, action: str, after: dict[str, Any], before: dict[str, Any] | None = None
) -> None:
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action=action,
        object_id=person.public_id,
        before=before,
        after={"name": person.email, **after},
    )
