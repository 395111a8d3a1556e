"""Webhooks that tests make, and one courier's turn at a time."""

from collections.abc import Sequence

from django.utils import timezone
from standardwebhooks import Webhook as Signer

from control_plane import config
from control_plane.audit import actions as audit
from control_plane.couriers import leases
from control_plane.webhooks import actions, queries
from control_plane.webhooks.delivering import Turn
from control_plane.webhooks.models import Webhook
from tenants.models import Tenant
from tests.control_plane.world import ACTOR
from tests.webhook_receiver import Got, Receiver


def make(
    tenant: Tenant, endpoint: Receiver, *, events: Sequence[str] = ("audit.*",), name: str = "siem"
) -> tuple[Webhook, str]:
    """A webhook that has not got the entry of its own making yet, and its secret."""
    return actions.create(ACTOR, tenant, name=name, url=endpoint.url, events=list(events))


def happen(tenant: Tenant, *actions_: str, name: str = "orders") -> None:
    """Something that the audit log tells."""
    for action in actions_:
        audit_in_transaction(tenant, action, name)


def audit_in_transaction(tenant: Tenant, action: str, name: str) -> None:
    from django.db import transaction

    with transaction.atomic():
        audit.record(ACTOR, tenant=tenant.public_id, action=action, object_id="top_1", after={"name": name})


def turn(row: Webhook, *, within_s: float = 10.0) -> int:
    """Whatever a courier does now if the webhook is due; how many attempts it made."""
    found = [one for one in queries.due(timezone.now(), most=10, without=()) if one.pk == row.pk]
    if not found:
        return 0
    claimed = leases.claim(found[0])
    assert claimed is not None
    configured = config.current()
    assert configured.webhooks is not None
    return Turn(
        claimed,
        allowed=configured.webhook_networks,
        ca_file=configured.webhooks.ca_file,
        stopping=lambda: False,
        within_s=within_s,
    ).take()


def due_now(row: Webhook) -> None:
    """As if its pause and its lease were over."""
    Webhook.objects.filter(pk=row.pk).update(due_at=timezone.now(), lease_until=None)


def read(got: Got, secret: str) -> dict[str, object]:
    """The event, if its signature is right. Raises `WebhookVerificationError`."""
    found = Signer(secret).verify(got.body, got.headers)
    assert isinstance(found, dict)
    return found


def types(endpoint: Receiver, secret: str) -> list[object]:
    return [read(got, secret)["type"] for got in endpoint.got]
