"""Taking an invitation, to a tenant or to an organisation: what its token begins with says which."""

from django.db import transaction

from control_plane import config
from control_plane.audit.actor import Actor, ActorKind
from tenants.actions import add_person, checked_email, checked_password, open_session
from tenants.addresses.actions import note_proved
from tenants.models import Invitation, Membership, OrganisationInvitation, OrganisationMember, Person
from tenants.organisations import actions as organisations
from tenants.organisations import queries as organisation_queries
from tenants.password_line import hash_password
from tenants.people import actions as people
from tenants.people import queries as people_queries
from tenants.tokens import ORGANISATION_INVITATION_PREFIX


def invitation_of(token: str) -> Invitation | OrganisationInvitation:
    """The open invitation of that link. Raises `NotFound` when it was taken, withdrawn, has expired or never was."""
    if token.startswith(ORGANISATION_INVITATION_PREFIX):
        return organisation_queries.invitation_of(token)
    return people_queries.invitation_of(token)


def join(
    actor: Actor, person: Person, token: str, *, signs_up: bool = False
) -> Membership | OrganisationMember:
    """The person takes the invitation of that link. `signs_up`: with a new account.

    Raises `NotFound`, `Forbidden` (it is for another address, or a tenant does not let them in), `LimitExceeded` (they
    would be an owner, and own as many as they may).
    """
    if token.startswith(ORGANISATION_INVITATION_PREFIX):
        return organisations.join(actor, person, token, signs_up=signs_up)
    return people.join(actor, person, token)


def sign_up_invited(
    *, email: str, password: str, token: str, request_id: str, source: str, browser: str = ""
) -> tuple[Person, Membership | OrganisationMember, str]:
    """A new person who joins what the invitation is to, and the token of their first session.

    Raises `InvalidRequest`, `AlreadyExists` (the address has signed up: sign in and join), `NotFound`, `Forbidden`,
    `Throttled`.
    """
    address = checked_email(email)
    invitation_of(token)
    hashed = hash_password(checked_password(password, address), source=source)
    with transaction.atomic():
        person = add_person(address, hashed)
        actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
        if config.current().mail is not None:
            # The link was mailed, and shown to no other person.
            note_proved(actor, person)
        joined = join(actor, person, token, signs_up=True)
        return person, joined, open_session(person, source=source, browser=browser)
