"""Authentication of REST calls: `Authorization: Bearer` with an API key, a session token or an operator's token."""

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.request import Request

from control_plane.audit.actor import Actor, ActorKind
from control_plane.rest.callers import Caller
from control_plane.rest.counting import count_refused_key, count_refused_operator
from penstock.contract.api_keys import MalformedApiKey, parse_api_key
from penstock.contract.errors import Unauthenticated
from tenants import queries, tokens
from tenants.key_use.actions import note_key_used
from tenants.key_use.peppers import rehash_shown
from tenants.models import ApiKey
from tenants.roles import Role, may_hold


class BearerAuthentication(BaseAuthentication):
    """Returns (caller, token), or None without the header: views decide whether they require a caller."""

    def authenticate(self, request: Request) -> tuple[Caller, str] | None:
        header = get_authorization_header(request).decode("latin-1")
        if not header:
            return None
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("Authorization: Bearer <API key or token> required")
        if token.startswith(tokens.SESSION_PREFIX):
            return self._person(request, token), token
        if token.startswith(tokens.OPERATOR_PREFIX):
            return self._operator(request, token), token
        return self._key(request, token), token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def _person(self, request: Request, token: str) -> Caller:
        person = queries.person_of_session(token)
        if person is None:
            raise Unauthenticated("the sign-in has ended; sign in again (`penstock login`)")
        return Caller(actor=actor_of(request, ActorKind.PERSON, person.public_id), person=person)

    def _operator(self, request: Request, token: str) -> Caller:
        operator = queries.operator_of(token)
        if operator is None:
            actor = actor_of(request, ActorKind.ANONYMOUS, "")
            count_refused_operator(actor.source, actor.request_id)
            raise Unauthenticated("the operator's token is not valid")
        return Caller(actor=actor_of(request, ActorKind.OPERATOR, operator.public_id), operator=operator)

    def _key(self, request: Request, token: str) -> Caller:
        try:
            text = parse_api_key(token)
        except MalformedApiKey as error:
            raise Unauthenticated(f"the API key is malformed: {error}") from None
        key, is_right = queries.key_shown(text)
        if key is None:
            raise Unauthenticated("the API key is not valid")
        # Without a further look at the database: a wrong secret takes as long as a key that there is not.
        role = None if key.maker is None or not is_right else queries.role_in(key.tenant, key.maker)
        why = _why_not(key, role) if is_right else "the API key is not valid"
        if why:
            count_refused_key(key, actor_of(request, ActorKind.KEY, key.public_id))
            raise Unauthenticated(why)
        note_key_used(key)
        rehash_shown(key, text)
        return Caller(actor=actor_of(request, ActorKind.KEY, key.public_id), key=key, maker_role=role)


def _why_not(key: ApiKey, role: Role | None) -> str:
    """Why a key whose secret is right may not be used; empty: it may. `role`: its maker's."""
    if key.revoked_at is not None:
        return f"the API key {key.public_id} was revoked"
    if key.expires_at is not None and key.expires_at <= timezone.now():
        return f"the API key {key.public_id} has expired"
    if key.tenant.closed_at is not None:
        return f"tenant {key.tenant.public_id} is closed"
    if key.tenant.suspended:
        return f"tenant {key.tenant.public_id} is suspended"
    if key.maker is not None and not may_hold(role, verifies=key.verifies):
        return f"the API key {key.public_id} is not valid: its maker may no longer have keys"
    return ""


def actor_of(request: Request, kind: ActorKind, public_id: str) -> Actor:
    """The actor that audit entries name."""
    return Actor(
        kind=kind,
        id=public_id,
        request_id=getattr(request, "request_id", ""),
        source=str(request.META.get("REMOTE_ADDR", ""))[:64],
    )
