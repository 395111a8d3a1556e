"""What tests of the control plane are set in: tenants with people of each role, keys, an operator, and REST calls."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import Client
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.audit.actor import Actor, ActorKind
from control_plane.outbox.models import Delivery
from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions, tokens
from tenants.models import Membership, Organisation, OrganisationMember, Person, Session, Tenant
from tenants.roles import OrganisationRole, Role, Standing

ACTOR = Actor(kind=ActorKind.SYSTEM, id="test", request_id="r1", source="127.0.0.1")
"""The service itself: what it makes has no maker whose rights could fall."""
PASSWORD = "a horse, a battery"


@dataclass(frozen=True, kw_only=True)
class House:
    """One tenant and a credential of each standing in it."""

    tenant: Tenant
    credentials: dict[Standing, str] = field(repr=False)


def make_person(email: str) -> tuple[Person, str]:
    """A person and the token of one of their sessions."""
    person = Person.objects.create(email=email)
    token = tokens.new_token(tokens.SESSION_PREFIX)
    Session.objects.create(
        person=person,
        token_hash=tokens.token_hash(token),
        source="127.0.0.1",
        browser="test",
        expires_at=timezone.now() + actions.SESSION_LENGTH,
    )
    return person, token


def make_tenant(name: str) -> Tenant:
    return actions.create_tenant(ACTOR, name=name)


def make_house(name: str) -> House:
    """A tenant with a person of each role, a key, a bound key, and an operator's token."""
    tenant = make_tenant(name)
    credentials: dict[Standing, str] = {}
    for role in Role:
        person, token = make_person(f"{role}@{name}.example")
        Membership.objects.create(tenant=tenant, person=person, role=role)
        credentials[Standing(role.value)] = token
    _, text = access.create_key(ACTOR, tenant, name="all")
    credentials[Standing.KEY] = text.reveal()
    _, text = access.create_key(ACTOR, tenant, name="bound", topic_prefix="orders", operations=["produce"])
    credentials[Standing.BOUND_KEY] = text.reveal()
    credentials[Standing.OPERATOR] = actions.create_operator(ACTOR, name="op", tenant=SYSTEM_TENANT)
    return House(tenant=tenant, credentials=credentials)


def make_organisation(house: House, name: str, *, owning: bool = False) -> Organisation:
    """An organisation in which the house's people have their roles, but for its developer, who is no member. `owning`:
    it owns the house's tenant.
    """
    made = Organisation.objects.create(name=name, display_name=name)
    for role in OrganisationRole:
        person = Membership.objects.get(tenant=house.tenant, role=role.value).person
        OrganisationMember.objects.create(organisation=made, person=person, role=role)
    if owning:
        house.tenant.organisation = made
        house.tenant.save(update_fields=["organisation"])
    return made


def everything_delivered() -> None:
    """As if the brokers had heard of everything: no request waits for them."""
    Delivery.objects.filter(delivered_at=None).update(delivered_at=timezone.now())


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    body: Any
    headers: Any


def call(
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    tenant: Tenant | str | None = None,
    **headers: str,
) -> Answer:
    """A REST call. `headers` with underscores for dashes."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    if tenant is not None:
        given["Penstock-Tenant"] = tenant if isinstance(tenant, str) else tenant.public_id
    data = b"" if body is None else json.dumps(body).encode()
    response = Client(raise_request_exception=True).generic(
        method, path, data, content_type="application/json", headers=given
    )
    content = response.getvalue()
    lines = response.headers.get("Content-Type") == "application/x-ndjson"
    shown = json.loads(content) if content[:1] in (b"{", b"[") and not lines else content
    return Answer(status=response.status_code, body=shown, headers=response.headers)
