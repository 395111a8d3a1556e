"""What tests of histories and restores ask and do."""

from datetime import timedelta
from typing import Any

from control_plane.access import queries
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.topics import actions, history
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from penstock.rules.access import Acl
from tenants.models import Membership, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.world import ACTOR, Answer, House, call

HOUR = 3_600_000


def ask(
    house: House,
    method: str,
    path: str,
    body: Any = None,
    standing: Standing = Standing.OWNER,
    **headers: str,
) -> Answer:
    if method == "POST" and body is None:
        body = {}
    return call(method, path, body, token=house.credentials[standing], **headers)


def orders(tenant: Tenant) -> Topic:
    return topics.topic(tenant, "orders")


def retention(tenant: Tenant) -> int:
    return int(orders(tenant).settings["retention_ms"])


def alter(tenant: Tenant, **settings: Any) -> Topic:
    return actions.update_topic(ACTOR, tenant, "orders", settings=settings)


def versions(tenant: Tenant) -> list[int]:
    """The numbers of the topic's versions, the oldest first."""
    return [one.number for one in reversed(history.changes(orders(tenant)).page(None, 1_000))]


def backdate(tenant: Tenant, number: int, days: float) -> None:
    """As if the change had been made so many days earlier. The tests of the chain need the moment back."""
    row = AuditEntry.objects.get(tenant=tenant.public_id, sequence=number)
    AuditEntry.objects.filter(pk=row.pk).update(at=row.at - timedelta(days=days))


def owner(tenant: Tenant) -> Actor:
    person = Membership.objects.get(tenant=tenant, role=Role.OWNER).person
    return Actor(kind=ActorKind.PERSON, id=person.public_id)


def says(tenant: Tenant) -> set[str]:
    """The names that entries of the list name, with their effects."""
    return {f"{row.effect} {row.name}" for row in queries.acls(tenant)}


def acl(name: str, principal: str = "everyone", effect: str = "allow") -> Acl:
    return Acl(effect=effect, principal=principal, resource="topic", name=name, literal=True)


def last_number(tenant: Tenant) -> int:
    return AuditEntry.objects.filter(tenant=tenant.public_id).order_by("-sequence")[0].sequence
