"""Writes changes of people's addresses, each with an entry in the service's own audit log.

The new address gets a link, and the person uses it signed in: an address that was mistyped gives a stranger nothing.
The address before gets a link that takes all of it back for some days. The caller has confirmed that it is the person
who asks (`tenants.sign_in.confirming`). Nothing shows whether an address has an account but the e-mails to it.
"""

from datetime import timedelta

from allauth.account.models import EmailAddress
from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.ids import new_id
from control_plane.mail import actions as mails
from control_plane.mail import queries as mail_queries
from penstock.contract.errors import AlreadyExists, InvalidRequest, NotFound, Throttled
from penstock.contract.ids import SYSTEM_TENANT
from tenants import letters, tokens
from tenants.accounts import address_queries as queries
from tenants.accounts.actions import MAILED_RESET_LENGTH, end_sign_ins_and_links
from tenants.actions import checked_email, lock_person
from tenants.addresses.actions import note_proved
from tenants.models import AddressChange, AddressProof, PasswordReset, Person, ProviderIdentity
from tenants.password_line import no_password
from tenants.queries import has_account, is_kept

CHANGE_LENGTH = timedelta(hours=24)
UNDO_LENGTH = timedelta(days=7)
"""So long the address before can take the change back, and belongs to no other person."""
_KIND = "address-change"


def check_change(person: Person, email: str) -> str:
    """The address, as it is stored. The same whether or not it has an account.

    Raises `InvalidRequest` (it is the person's address, or none), `Throttled` (it got all the links of this hour).
    """
    address = checked_email(email)
    if address == person.email:
        raise InvalidRequest(f"email: {address} is your address already")
    if mail_queries.has_enough(address, _KIND):
        raise Throttled(
            f"email: {address} got {mail_queries.PER_ADDRESS_MAX} such e-mails within an hour; wait an hour",
            limit="mail:address",
            retry_after_ms=int(mail_queries.PER_ADDRESS_SPAN.total_seconds() * 1000),
        )
    return address


def ask_to_change(actor: Actor, person: Person, *, email: str) -> AddressChange:
    """Mail the address a link by which it becomes the person's, or, if it has an account, say so there.

    The same for the caller. An earlier change that waits ends. Raises as `check_change`: what waits stays then.
    """
    token = tokens.new_token(tokens.CHANGE_PREFIX)
    with transaction.atomic():
        locked = lock_person(person)
        address = check_change(locked, email)
        _end_waiting(locked)
        row = AddressChange.objects.create(
            public_id=new_id("adc"),
            person=locked,
            before=locked.email,
            after=address,
            token_hash=tokens.token_hash(token),
            expires_at=timezone.now() + CHANGE_LENGTH,
        )
        taken = has_account(address) or is_kept(address, but=locked)
        mails.put(address, _KIND, letters.address_taken() if taken else letters.change_address(token))
        _record(actor, locked, "person.email_ask", before=locked.email, after=address)
    return row


def withdraw(actor: Actor, person: Person) -> None:
    """End the change that waits. Raises `NotFound`."""
    with transaction.atomic():
        locked = lock_person(person)
        row = queries.pending(locked)
        if row is None:
            raise NotFound("no change of your address waits")
        _end_waiting(locked)
        _record(actor, locked, "person.email_withdraw", before=row.after, after=locked.email)


def confirm_change(actor: Actor, person: Person, token: str, *, keep: str) -> int:
    """The person has the new address. Every sign-in but that of the token `keep` ends, and so does every link.

    The address before gets a link that takes it back. How many sign-ins ended. Raises `NotFound` (the link),
    `AlreadyExists` (another person took the address meanwhile, who is not named: the reader has the address).
    """
    undo = tokens.new_token(tokens.UNDO_PREFIX)
    with transaction.atomic():
        locked = lock_person(person)
        row = queries.change_of(locked, token)
        before = locked.email
        _set_address(locked, row.after)
        now = timezone.now()
        row.before, row.confirmed_at, row.undo_until = before, now, now + UNDO_LENGTH
        row.undo_hash = tokens.token_hash(undo)
        row.save(update_fields=["before", "confirmed_at", "undo_until", "undo_hash"])
        ended = end_sign_ins_and_links(locked, keep=keep)
        AddressProof.objects.filter(person=locked, ended_at=None).update(ended_at=now)
        _record(actor, locked, "person.email", before=before, after=locked.email)
        _note_proved(actor, locked)
        mails.put(before, "address-changed", letters.address_changed(locked.email, row.undo_until, undo))
    person.email = locked.email
    return ended


def take_back(token: str, *, request_id: str, source: str) -> tuple[Person, str]:
    """The person has the address before again, no sign-in and no password; and the token of a link to choose one.

    The reader of that address may do so, as with the link for a forgotten password. No provider opens the account any
    more, also one linked before the change: a thief may have linked theirs first. Second factors stay.
    Raises `NotFound` (the link).
    """
    found = queries.undo_of(token)
    fresh = tokens.new_token(tokens.RESET_PREFIX)
    with transaction.atomic():
        person = lock_person(found.person)
        # Again, now that no other request can use it.
        row = queries.undo_of(token)
        actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
        left = person.email
        _set_address(person, row.before)
        person.password = no_password()
        person.save(update_fields=["password"])
        now = timezone.now()
        end_sign_ins_and_links(person, keep="")
        # A later change is taken back with this one; an earlier one can still be.
        AddressChange.objects.filter(person=person, pk__gte=row.pk, ended_at=None).update(ended_at=now)
        AddressProof.objects.filter(person=person, ended_at=None).update(ended_at=now)
        unlinked, _ = ProviderIdentity.objects.filter(person=person).delete()
        PasswordReset.objects.create(
            public_id=new_id("rst"),
            person=person,
            token_hash=tokens.token_hash(fresh),
            expires_at=now + MAILED_RESET_LENGTH,
            mailed=True,
        )
        _record(actor, person, "person.email_undo", before=left, after=person.email, unlinked=unlinked)
        _note_proved(actor, person)
        mails.put(left, "address-changed", letters.address_taken_back())
    return person, fresh


def _set_address(person: Person, address: str) -> None:
    """Part of the caller's transaction, under the person's lock. Raises `AlreadyExists`."""
    person.email = address
    taken = AlreadyExists(f"email: {address} has an account already")
    try:
        with transaction.atomic():
            person.save(update_fields=["email"])
            # After the write: a person who leaves the address at this moment is waited for.
            if is_kept(address, but=person):
                raise taken
    except IntegrityError:
        raise taken from None
    EmailAddress.objects.filter(user=person).delete()


def _end_waiting(person: Person) -> None:
    AddressChange.objects.filter(person=person, confirmed_at=None, ended_at=None).update(
        ended_at=timezone.now()
    )


def _note_proved(actor: Actor, person: Person) -> None:
    if config.current().mail is not None:
        # Only the reader of the address's e-mails has the link.
        note_proved(actor, person)


def _record(actor: Actor, person: Person, action: str, *, before: str, after: str, unlinked: int = 0) -> None:
    added = {"providers_unlinked": unlinked} if unlinked else {}
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action=action,
        object_id=person.public_id,
        before={"name": before},
        after={"name": after, **added},
    )
