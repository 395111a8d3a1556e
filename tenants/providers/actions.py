"""Writes sign-ins with providers, each with an entry in the service's own audit log.

A provider's word opens only the account that its person has linked, by issuer and subject. An address opens none: a
person with an account signs in as before and links the provider, so no issuer takes an account over, whatever it says.
A new person is made of an address that the provider has verified.
"""

import logging
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.config import ProviderConfig
from control_plane.ids import new_id, random_text
from control_plane.mail import actions as mails
from penstock.contract.errors import AlreadyExists, Forbidden, InvalidRequest, NotFound, Unauthenticated
from penstock.contract.ids import SYSTEM_TENANT
from tenants import letters, tokens
from tenants.actions import add_person, checked_email, lock_person
from tenants.addresses.actions import note_proved
from tenants.models import Person, ProviderAttempt, ProviderIdentity, Session
from tenants.password_line import no_password
from tenants.providers import oidc, queries
from tenants.sign_in import actions as sign_in

ATTEMPT_LENGTH = timedelta(minutes=10)
_SECRET_LENGTH = 43
_log = logging.getLogger(__name__)


def begin(provider: ProviderConfig, *, wanted: str = "", person: Person | None = None) -> tuple[str, str]:
    """A token for the browser, and the address of the provider that it is sent to. `person`: who links their account.

    Raises `Unauthenticated` (the provider does not answer, or not as it must).
    """
    token = tokens.new_token(tokens.ATTEMPT_PREFIX)
    nonce, verifier = random_text(_SECRET_LENGTH), random_text(_SECRET_LENGTH)
    try:
        url = oidc.start_url(provider, state=token, nonce=nonce, verifier=verifier)
    except oidc.ProviderRefused as error:
        raise _refused(provider, error) from None
    now = timezone.now()
    ProviderAttempt.objects.filter(expires_at__lte=now).delete()
    ProviderAttempt.objects.create(
        token_hash=tokens.token_hash(token),
        provider=provider.id,
        nonce=nonce,
        verifier=verifier,
        person=person,
        wanted=wanted[:500],
        expires_at=now + ATTEMPT_LENGTH,
    )
    return token, url


def take(provider: ProviderConfig, token: str) -> ProviderAttempt:
    """The attempt of the browser that came back, which is over with it. Raises `Unauthenticated`."""
    with transaction.atomic():
        row = (
            ProviderAttempt.objects.select_for_update(no_key=True)
            .filter(token_hash=tokens.token_hash(token), provider=provider.id, expires_at__gt=timezone.now())
            .first()
        )
        if row is None:
            raise Unauthenticated("this took too long, or another browser began it; sign in again")
        ProviderAttempt.objects.filter(pk=row.pk).delete()
    return row


def identify(provider: ProviderConfig, attempt: ProviderAttempt, *, code: str, actor: Actor) -> oidc.Identity:
    """Whom the provider says came back. Raises `Unauthenticated` when it is not to be believed."""
    try:
        return oidc.identify(provider, code=code, nonce=attempt.nonce, verifier=attempt.verifier)
    except oidc.ProviderRefused as error:
        with transaction.atomic():
            audit.record(
                actor,
                tenant=SYSTEM_TENANT,
                action="sign_in.provider_refused",
                object_id=provider.id,
                after={"name": provider.name, "why": str(error)[:200]},
            )
        raise _refused(provider, error) from None


def enter(
    provider: ProviderConfig, identity: oidc.Identity, *, source: str, browser: str, request_id: str
) -> sign_in.Begun:
    """A session for the person of that identity, or what waits for their second factor. Unknown to us, they are made.

    Raises `Forbidden` (the address has an account that is not linked, or no more; or the provider has verified none).
    """
    with transaction.atomic():
        row = (
            ProviderIdentity.objects.select_related("person")
            .filter(issuer=identity.issuer, subject=identity.subject)
            .first()
        )
        if row is not None:
            person = lock_person(row.person)
            if not person.is_active:
                raise Forbidden("this account is closed")
            # Under the lock: it may have been taken away meanwhile.
            if not ProviderIdentity.objects.filter(pk=row.pk).update(last_used_at=timezone.now()):
                raise Forbidden(f"this account of {provider.name} opens no account here any more")
            return sign_in.begun(person, source=source, browser=browser)
        if not identity.email:
            raise Forbidden(
                f"{provider.name} does not say that your e-mail address is verified; verify it there first"
            )
        address = checked_email(identity.email)
        try:
            person = add_person(address, no_password())
        except AlreadyExists:
            raise Forbidden(
                f"{address} has an account here; sign in as before, and link {provider.name} on your account's page"
            ) from None
        actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
        note_proved(actor, person)
        _link(actor, person, provider, identity)
        return sign_in.begun(person, source=source, browser=browser)


def link(
    actor: Actor, person: Person, provider: ProviderConfig, identity: oidc.Identity, *, token: str
) -> None:
    """The person may sign in with that identity. `token` is that of their sign-in.

    Raises `AlreadyExists` (it is linked, to them or another), `Unauthenticated` (the sign-in has ended).
    """
    with transaction.atomic():
        lock_person(person)
        # Again, now that no other request can end it: the provider may have taken long.
        if not Session.objects.filter(
            person=person, token_hash=tokens.token_hash(token), expires_at__gt=timezone.now()
        ).exists():
            raise Unauthenticated("your sign-in has ended meanwhile; sign in and link it again")
        _link(actor, person, provider, identity)
        mails.put(person.email, "provider-linked", letters.provider_linked(provider.name))


def unlink(actor: Actor, person: Person, public_id: str) -> None:
    """The identity opens the account no more. Raises `NotFound`, `InvalidRequest` (it is the only way in)."""
    with transaction.atomic():
        locked = lock_person(person)
        row = queries.identities(person).filter(public_id=public_id).first()
        if row is None:
            raise NotFound(f"identity {public_id[:64]!r} does not exist")
        others = queries.identities(person).exclude(pk=row.pk)
        # One whose provider is configured no more opens nothing.
        opening = others.filter(issuer__in=[one.issuer for one in queries.providers()])
        if not locked.has_usable_password() and not opening.exists():
            raise InvalidRequest(
                "it is your only way in; choose a password first, by the link for a forgotten one"
            )
        _record(actor, person, "person.provider_unlink", queries.name_of(row))
        row.delete()


def _link(actor: Actor, person: Person, provider: ProviderConfig, identity: oidc.Identity) -> None:
    try:
        with transaction.atomic():
            ProviderIdentity.objects.create(
                public_id=new_id("idn"),
                person=person,
                issuer=identity.issuer,
                subject=identity.subject,
                last_used_at=timezone.now(),
            )
    except IntegrityError:
        raise AlreadyExists(f"this account of {provider.name} is linked already") from None
    _record(actor, person, "person.provider_link", provider.name)


def _refused(provider: ProviderConfig, error: oidc.ProviderRefused) -> Unauthenticated:
    _log.warning("a sign-in provider is not believed", extra={"provider": provider.id, "error": str(error)})
    return Unauthenticated(f"the sign-in with {provider.name} failed; try again, or sign in another way")


def _record(actor: Actor, person: Person, action: str, provider: str) -> None:
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action=action,
        object_id=person.public_id,
        after={"name": person.email, "provider": provider},
    )
