"""Writes sign-ups by e-mail and proofs of addresses, each with an entry in the service's own audit log.

Where the service has a mail server, signing up does not show whether an address is known: the answer is the same,
and the address gets an e-mail either way. A person is made by the link in it, and with the password that is chosen
there, so no person holds another's address ready with a password of their own.
"""

from datetime import timedelta

from allauth.account.models import EmailAddress
from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.ids import new_id
from control_plane.mail import actions as mails
from control_plane.mail import queries as mail_queries
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from tenants import letters, tokens
from tenants.actions import (
    add_person,
    check_name_is_free,
    checked_email,
    checked_password,
    checked_tenant_name,
    create_tenant,
    lock_person,
    open_session,
)
from tenants.addresses import queries
from tenants.models import AddressProof, PendingSignUp, Person, Tenant
from tenants.password_line import hash_password
from tenants.queries import has_account, is_kept

SIGN_UP_LENGTH = timedelta(hours=24)
PROOF_LENGTH = timedelta(hours=24)
_KIND_SIGN_UP = "sign-up"
_KIND_PROOF = "address-proof"


def ask_to_sign_up(*, email: str, tenant_name: str, request_id: str, source: str) -> None:
    """Mail the address a link to sign up by, or, if it has an account, say so there. The same for the caller.

    Raises `InvalidRequest`, `AlreadyExists` (the tenant's name is taken, which is about no person).
    """
    address, name = checked_email(email), checked_tenant_name(tenant_name)
    check_name_is_free(name)
    actor = Actor(kind=ActorKind.SYSTEM, id="sign-up", request_id=request_id, source=source)
    with transaction.atomic():
        if mail_queries.has_enough(address, _KIND_SIGN_UP):
            return
        if has_account(address) or is_kept(address):
            mails.put(address, _KIND_SIGN_UP, letters.signed_up_before())
            return
        token = tokens.new_token(tokens.SIGN_UP_PREFIX)
        row = PendingSignUp.objects.create(
            public_id=new_id("psu"),
            email=address,
            tenant_name=name,
            token_hash=tokens.token_hash(token),
            expires_at=timezone.now() + SIGN_UP_LENGTH,
        )
        mails.put(address, _KIND_SIGN_UP, letters.sign_up(name, token))
        audit.record(
            actor,
            tenant=SYSTEM_TENANT,
            action="person.sign_up_link",
            object_id=row.public_id,
            after={"name": address, "tenant": name},
        )


def sign_up_by_link(
    token: str, *, password: str, tenant_name: str = "", request_id: str, source: str, browser: str = ""
) -> tuple[Person, Tenant, str]:
    """The person of that link, the tenant that they own, and the token of their first session. Their address is proved.

    `tenant_name`: another name than the one asked for before. Raises `NotFound` (the link), `InvalidRequest`,
    `AlreadyExists` (the tenant's name was taken meanwhile: the link still holds).
    """
    found = queries.sign_up_of(token)
    hashed = hash_password(checked_password(password, found.email), source=source)
    with transaction.atomic():
        PendingSignUp.objects.select_for_update(no_key=True).get(pk=found.pk)
        # Again, now that no other request can use it.
        row = queries.sign_up_of(token)
        person = add_person(row.email, hashed)
        actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
        note_proved(actor, person)
        tenant = create_tenant(actor, name=tenant_name or row.tenant_name, owner=person)
        PendingSignUp.objects.filter(email=row.email, ended_at=None).update(ended_at=timezone.now())
        return person, tenant, open_session(person, source=source, browser=browser)


def ask_for_proof(actor: Actor, person: Person) -> None:
    """Mail the person a link by which they show that they read the e-mails of their address.

    Raises `InvalidRequest` (the address is proved already).
    """
    token = tokens.new_token(tokens.PROOF_PREFIX)
    with transaction.atomic():
        locked = lock_person(person)
        if queries.is_proved(locked):
            raise InvalidRequest(f"email: {locked.email} is verified already")
        if mail_queries.has_enough(locked.email, _KIND_PROOF):
            return
        AddressProof.objects.create(
            public_id=new_id("psv"),
            person=locked,
            email=locked.email,
            token_hash=tokens.token_hash(token),
            expires_at=timezone.now() + PROOF_LENGTH,
        )
        mails.put(locked.email, _KIND_PROOF, letters.prove_address(token))
        _record(actor, locked, "person.verify_link")


def prove(token: str, *, request_id: str, source: str) -> Person:
    """The person of that link has shown that they read the e-mails of their address. Raises `NotFound` (the link)."""
    found = queries.proof_of(token)
    with transaction.atomic():
        person = lock_person(found.person)
        # Again, now that no other request can use it.
        row = queries.proof_of(token)
        actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
        AddressProof.objects.filter(person=person, ended_at=None).update(ended_at=timezone.now())
        if row.email == person.email:
            note_proved(actor, person)
    return person


def note_proved(actor: Actor, person: Person) -> None:
    """The person reads the e-mails of their address. Part of the caller's transaction; again changes nothing."""
    if queries.is_proved(person):
        return
    EmailAddress.objects.update_or_create(
        user=person, email=person.email, defaults={"verified": True, "primary": True}
    )
    _record(actor, person, "person.verify")


def _record(actor: Actor, person: Person, action: str) -> None:
    audit.record(
        actor, tenant=SYSTEM_TENANT, action=action, object_id=person.public_id, after={"name": person.email}
    )
