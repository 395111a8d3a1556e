"""Writes people's second factors, each act with an entry in the service's own audit log and an e-mail to the person."""

from datetime import timedelta
from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.webauthn.internal.auth import WebAuthn
from cryptography.fernet import InvalidToken
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.mail import actions as mails
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.names import check_printable_name
from tenants import letters, tokens
from tenants.accounts.actions import end_sign_ins
from tenants.actions import lock_person
from tenants.factors import passkeys, queries
from tenants.factors.queries import Type
from tenants.models import FactorSetup, Person, Session

SETUP_LENGTH = timedelta(minutes=15)
PASSKEYS_MAX = 10
NAME_LENGTH_MAX = 40
_KIND = "second-factor"


# -- codes of an app ------------------------------------------------------------------------------------


def begin_totp(person: Person, *, token: str) -> str:
    """The secret of new codes, in base32, as authenticator apps take it. It counts once a code shows it is kept.

    Within its time the sign-in of `token` gets the same one again: the page may be loaded twice. Another sign-in gets a
    new one, and the one before counts no more: none learns what another is about to use. Raises `AlreadyExists`.
    """
    with transaction.atomic():
        lock_person(person)
        if queries.has(person, Type.TOTP):
            raise AlreadyExists("codes of an app are set up already; remove them first")
        row = _setup(person, Type.TOTP)
        if row is not None and _is_of(row, token):
            return str(get_adapter().decrypt(row.state["secret"]))
        secret = str(totp.generate_totp_secret())
        _keep_setup(
            person, Type.TOTP, {"secret": get_adapter().encrypt(secret), "sign_in": tokens.token_hash(token)}
        )
    return secret


def check_totp(person: Person, *, code: str, token: str) -> tuple[FactorSetup, str, int]:
    """What `add_totp` adds, and the code's time step. Raises as it; spends nothing."""
    if queries.has(person, Type.TOTP):
        raise AlreadyExists("codes of an app are set up already; remove them first")
    row = _required_setup(person, Type.TOTP)
    if not _is_of(row, token):
        raise InvalidRequest("another of your sign-ins has begun to add codes meanwhile; begin again")
    secret = get_adapter().decrypt(row.state["secret"])
    counter = _counter_of(secret, code, after=-1)
    if counter is None:
        raise InvalidRequest("code: it is not the app's present code; check the clock of the device")
    return row, secret, counter


def add_totp(actor: Actor, person: Person, *, code: str, token: str) -> list[str]:
    """Signing in asks for codes of the app from now on. Returns new recovery codes, if the person had none.

    `token` is that of the sign-in that began it. With the first factor every other one ends: it was made without one.
    Raises `InvalidRequest` (the code, the page is too old, or another sign-in has begun meanwhile), `AlreadyExists`.
    """
    with transaction.atomic():
        lock_person(person)
        row, secret, counter = check_totp(person, code=code, token=token)
        made = totp.TOTP.activate(person, secret).instance
        _use(made, counter=counter)
        row.delete()
        return _added(actor, person, made, keep=token)


# -- passkeys -------------------------------------------------------------------------------------------


def begin_passkey(person: Person) -> dict[str, Any]:
    """What the browser asks the passkey. Raises `LimitExceeded`, `InvalidRequest` (browsers would take none)."""
    if not passkeys.are_possible():
        raise InvalidRequest("passkeys need a service with a host name, over TLS or on localhost")
    with transaction.atomic():
        lock_person(person)
        if queries.factors(person).filter(type=Type.WEBAUTHN).count() >= PASSKEYS_MAX:
            raise LimitExceeded(f"{person.email} has {PASSKEYS_MAX} passkeys; remove one first")
        options, state = passkeys.ask_to_register(person)
        _keep_setup(person, Type.WEBAUTHN, state)
    return options


def check_passkey(person: Person, *, name: str, answer: dict[str, Any]) -> FactorSetup:
    """What `add_passkey` ends. Raises as it; spends nothing."""
    check_printable_name("name", name, NAME_LENGTH_MAX)
    row = _required_setup(person, Type.WEBAUTHN)
    passkeys.check_registration(row.state, answer)
    return row


def add_passkey(actor: Actor, person: Person, *, name: str, answer: dict[str, Any], token: str) -> list[str]:
    """Signing in takes this passkey as a second factor from now on. Ends sign-ins and returns as `add_totp`.

    Raises `InvalidRequest` (name, or an answer to another challenge).
    """
    with transaction.atomic():
        lock_person(person)
        check_passkey(person, name=name, answer=answer).delete()
        made = WebAuthn.add(person, name, answer).instance
        return _added(actor, person, made, keep=token)


def end_sign_ins_without(people: QuerySet[Person]) -> int:
    """End sign-ins of these people that are older than the person's factors: they have shown none. How many.

    Part of the caller's transaction. Newer releases end them with the first factor; those of before are left.
    """
    oldest = queries.rows_of(OuterRef("person")).order_by("created_at").values("created_at")[:1]
    found = Session.objects.filter(person__in=people, created_at__lt=Subquery(oldest))
    pks = list(found.values_list("pk", flat=True))
    Session.objects.filter(pk__in=pks).delete()
    return len(pks)


# -- removing, and recovery codes -----------------------------------------------------------------------


def check_removal(person: Person, number: int) -> Authenticator:
    """The factor that `remove` removes. Raises as it."""
    row = queries.factor(person, number)
    if not queries.factors(person).exclude(pk=row.pk).exists():
        wanting = queries.tenants_that_require(person).first()
        if wanting is not None:
            raise InvalidRequest(
                f"{queries.name_of(row)} is your last second factor, and {wanting.name} requires one; "
                "add another first"
            )
    return row


def remove(actor: Actor, person: Person, number: int) -> None:
    """Remove one factor; with the last one the recovery codes go too.

    Raises `NotFound`, `InvalidRequest` (it is the last one, and a tenant of theirs requires one).
    """
    with transaction.atomic():
        lock_person(person)
        row = check_removal(person, number)
        name = queries.name_of(row)
        row.delete()
        if not queries.are_asked_for(person):
            Authenticator.objects.filter(user=person).delete()
        _record(actor, person, "person.second_factor_remove", {"factor": name})
        mails.put(person.email, _KIND, letters.factor_removed(f'The second factor "{name}"'))


def remove_all(actor: Actor, person: Person) -> int:
    """An operator removes every factor of a person who has lost theirs; how many."""
    with transaction.atomic():
        lock_person(person)
        removed = queries.factors(person).count()
        Authenticator.objects.filter(user=person).delete()
        if removed:
            _record(actor, person, "person.second_factors_remove", {"factors": removed})
            mails.put(
                person.email,
                _KIND,
                letters.factor_removed("Every second factor, by an operator of the service,"),
            )
    return removed


def renew_recovery_codes(actor: Actor, person: Person) -> list[str]:
    """New recovery codes; the earlier ones are refused. They are nowhere afterwards but encrypted.

    Raises `InvalidRequest` (there is no second factor for which they could stand).
    """
    with transaction.atomic():
        lock_person(person)
        if not queries.are_asked_for(person):
            raise InvalidRequest("recovery codes stand in for a second factor; add one first")
        Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).delete()
        _record(actor, person, "person.recovery_codes", {})
        return list(RecoveryCodes.activate(person).generate_codes())


# -- signing in -----------------------------------------------------------------------------------------


def is_right_code(actor: Actor, person: Person, code: str) -> bool:
    """Whether it is a code of the person's app that was not used before, or a recovery code, which is spent by it.

    Part of the caller's transaction, under the person's lock.
    """
    given = "".join(code.split()).replace("-", "")
    row = Authenticator.objects.filter(user=person, type=Type.TOTP).first()
    if row is not None:
        secret = _readable(row.data["secret"])
        counter = _counter_of(secret, given, after=int(row.data.get("counter", -1)))
        if counter is not None:
            _use(row, counter=counter)
            return True
    spare = Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).first()
    if spare is None:
        return False
    _readable(spare.data["seed"])
    if not spare.wrap().validate_code(given):
        return False
    left = queries.recovery_codes_left(person)
    _record(actor, person, "person.recovery_code_used", {"left": left})
    mails.put(person.email, _KIND, letters.recovery_code_used(left))
    return True


def note_passkey_used(row: Authenticator) -> None:
    """The passkey has signed. Part of the caller's transaction."""
    row.last_used_at = timezone.now()
    row.save(update_fields=["data", "last_used_at"])


def _readable(encrypted: str) -> str:
    try:
        return str(get_adapter().decrypt(encrypted))
    except InvalidToken:
        raise InvalidRequest(
            "the second factor cannot be read since `secret_key` was changed; an operator can remove it"
        ) from None


def _counter_of(secret: str, code: str, *, after: int) -> int | None:
    """The time step whose code this is, later than `after`: each code counts once (RFC 6238, section 5.2)."""
    for counter in totp.yield_hotp_counters_from_time():
        expected = totp.format_hotp_value(totp.hotp_value(secret, counter))
        if counter > after and totp.compare_user_code(actual=code, expected=expected):
            return int(counter)
    return None


def _use(row: Authenticator, *, counter: int) -> None:
    row.data["counter"] = counter
    row.last_used_at = timezone.now()
    row.save(update_fields=["data", "last_used_at"])


def _added(actor: Actor, person: Person, row: Authenticator, *, keep: str) -> list[str]:
    name = queries.name_of(row)
    first = queries.factors(person).count() == 1
    ended = {"sign_ins_ended": end_sign_ins(person, keep=keep)} if first else {}
    if first:
        # It has shown the factor just now, as a sign-in with it does: it is no older than the factor.
        Session.objects.filter(person=person).update(created_at=timezone.now())
    _record(actor, person, "person.second_factor_add", {"factor": name, **ended})
    mails.put(person.email, _KIND, letters.factor_added(f'The second factor "{name}"', first=first))
    if queries.has(person, Type.RECOVERY_CODES):
        return []
    return list(RecoveryCodes.activate(person).generate_codes())


def _setup(person: Person, kind: Authenticator.Type) -> FactorSetup | None:
    return FactorSetup.objects.filter(person=person, kind=kind, expires_at__gt=timezone.now()).first()


def _is_of(row: FactorSetup, token: str) -> bool:
    """Whether the sign-in of `token` began it. Rows of the release before name none."""
    return bool(row.state.get("sign_in") == tokens.token_hash(token))


def _required_setup(person: Person, kind: Authenticator.Type) -> FactorSetup:
    row = _setup(person, kind)
    if row is None:
        raise InvalidRequest("this page is too old; open it again")
    return row


def _keep_setup(person: Person, kind: Authenticator.Type, state: dict[str, Any]) -> None:
    FactorSetup.objects.update_or_create(
        person=person,
        kind=kind.value,
        defaults={"state": state, "expires_at": timezone.now() + SETUP_LENGTH},
    )


def _record(actor: Actor, person: Person, action: str, after: dict[str, Any]) -> None:
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action=action,
        object_id=person.public_id,
        after={"name": person.email, **after},
    )
