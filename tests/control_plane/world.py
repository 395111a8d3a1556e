"""What tests of the control plane are set in: tenants with people of each role, keys, an operator, and REST calls."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from django.db import transaction
from django.test.client import Client, ClientHandler
from django.utils import timezone
from prometheus_client.openmetrics.exposition import generate_latest

from control_plane import config
from control_plane.access.actions import create_verifying_key
from control_plane.access.models import KeyBinding
from control_plane.api import metrics
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.config import Config
from control_plane.outbox import actions as outbox
from control_plane.outbox.models import Delivery
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.credentials import secret_hmac
from tenants import actions, credentials, tokens
from tenants.models import ApiKey, Membership, Organisation, OrganisationMember, Person, Session, Tenant
from tenants.roles import OrganisationRole, Role, Standing

ACTOR = Actor(kind=ActorKind.SYSTEM, id="test", request_id="r1", source="127.0.0.1")
"""The service itself: what it makes has no maker whose rights could fall."""
PASSWORD = "a horse, a battery"


@dataclass(frozen=True, kw_only=True)
class House:
    """One tenant and a credential of each standing in it."""

    tenant: Tenant
    credentials: dict[Standing, str] = field(repr=False)


def metrics_text() -> str:
    """What the web application's operators read as its metrics."""
    text: bytes = generate_latest(metrics.exported)
    return text.decode()


def make_person(email: str) -> tuple[Person, str]:
    """A person and the token of one of their sessions."""
    ((person, token),) = _make_people([email])
    return person, token


def _make_people(emails: Sequence[str]) -> list[tuple[Person, str]]:
    """In two statements."""
    people = Person.objects.bulk_create(Person(email=email) for email in emails)
    made = [(person, tokens.new_token(tokens.SESSION_PREFIX)) for person in people]
    Session.objects.bulk_create(
        Session(
            person=person,
            token_hash=tokens.token_hash(token),
            source="127.0.0.1",
            browser="test",
            expires_at=timezone.now() + actions.SESSION_LENGTH,
        )
        for person, token in made
    )
    return made


def make_tenant(name: str) -> Tenant:
    return actions.create_tenant(ACTOR, name=name)


def make_house(name: str) -> House:
    """A tenant with a person of each role, a key, a bound key, and an operator's token."""
    tenant = make_tenant(name)
    people = dict(zip(Role, _make_people([f"{role}@{name}.example" for role in Role]), strict=True))
    Membership.objects.bulk_create(
        Membership(tenant=tenant, person=person, role=role) for role, (person, _) in people.items()
    )
    given = {Standing(role.value): token for role, (_, token) in people.items()}
    given |= _make_keys(tenant)
    given[Standing.OPERATOR] = actions.create_operator(ACTOR, name="op", tenant=SYSTEM_TENANT)
    return House(tenant=tenant, credentials=given)


def with_verifying_key(house: House) -> House:
    """The same house with a key that proves invoices and does nothing else."""
    _, text = create_verifying_key(ACTOR, house.tenant, name="verifying")
    return replace(house, credentials={**house.credentials, Standing.VERIFYING_KEY: text.reveal()})


def _make_keys(tenant: Tenant) -> dict[Standing, str]:
    """A key and a bound one, with the rows that `access.create_key` writes for each (`test_world.py` compares them), in
    few statements.
    """
    all_of, bound = credentials.new_key(), credentials.new_key()
    with transaction.atomic():
        keys = ApiKey.objects.bulk_create([_key(tenant, "all", all_of), _key(tenant, "bound", bound)])
        scope = {"topic_prefix": "orders", "operations": ["produce"]}
        KeyBinding.objects.create(key=keys[1], **scope)
        audit.record_all(
            ACTOR,
            tenant=tenant.public_id,
            entries=[
                audit.Entry(
                    action="key.create",
                    object_id=key.public_id,
                    after={"name": key.name, "expires_at": None, **said},
                )
                for key, said in zip(keys, ({}, scope), strict=True)
            ],
        )
        outbox.enqueue_all(
            kind=actions.KIND_KEY,
            tenant=tenant.public_id,
            generations={key.public_id: key.generation for key in keys},
        )
    return {Standing.KEY: all_of.reveal(), Standing.BOUND_KEY: bound.reveal()}


def _key(tenant: Tenant, name: str, text: KeyText) -> ApiKey:
    version = credentials.current_version()
    return ApiKey(
        public_id=f"key_{text.key_id}",
        tenant=tenant,
        key_id=text.key_id,
        name=name,
        pepper_version=version,
        secret_hmac=secret_hmac(credentials.peppers_for(version)[version], text.secret).hex(),
        scram=_scram(),
    )


@cache
def _scram() -> dict[str, object]:
    """Of some key, for all of them: only brokers look at it, and to compute it takes as long as all rows of a key."""
    return credentials.credential_of(credentials.new_key()).scram


def make_organisation(house: House, name: str, *, owning: bool = False) -> Organisation:
    """An organisation in which the house's people have their roles, but for its developer, who is no member. `owning`:
    it owns the house's tenant.
    """
    made = Organisation.objects.create(name=name, display_name=name)
    roles = {role.value: role for role in OrganisationRole}
    belonging = Membership.objects.filter(tenant=house.tenant, role__in=roles).order_by("pk")
    OrganisationMember.objects.bulk_create(
        OrganisationMember(organisation=made, person_id=one.person_id, role=roles[one.role])
        for one in belonging
    )
    if owning:
        house.tenant.organisation = made
        house.tenant.save(update_fields=["organisation"])
    return made


def everything_delivered() -> None:
    """As if the brokers had heard of everything: no request waits for them."""
    Delivery.objects.filter(delivered_at=None).update(delivered_at=timezone.now())


_handlers: list[tuple[Config, ClientHandler]] = []
"""The last one. Each client would make one of its own."""


def _handler() -> ClientHandler:
    present = config.current()
    if not _handlers or _handlers[0][0] is not present:
        made = ClientHandler(enforce_csrf_checks=False)
        made.load_middleware()
        _handlers[:] = [(present, made)]
    return _handlers[0][1]


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
    client = Client(raise_request_exception=True)
    client.handler = _handler()
    response = client.generic(method, path, data, content_type="application/json", headers=given)
    content = response.getvalue()
    lines = response.headers.get("Content-Type") == "application/x-ndjson"
    shown = json.loads(content) if content[:1] in (b"{", b"[") and not lines else content
    return Answer(status=response.status_code, body=shown, headers=response.headers)
