"""Writes webhooks: makes, changes, rotates, pings, resumes and deletes them. What a delivery leaves is `outcomes`'."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.ids import new_id
from control_plane.webhooks import events as rules
from control_plane.webhooks import queries, signing
from control_plane.webhooks.destinations import check_url
from control_plane.webhooks.models import ASKED, OFF, ON, Webhook, WebhookPosition
from control_plane.webhooks.shown import shown_url
from control_plane.webhooks.sources import SOURCES
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded
from penstock.contract.limits import KEY_NAME_LENGTH_MAX, WEBHOOKS_PER_TENANT_MAX
from penstock.rules.names import check_printable_name
from tenants.models import Tenant

OVERLAP_MAX = timedelta(days=7)
"""The most that a rotated secret goes on signing beside the new one."""


def create(
    actor: Actor, tenant: Tenant, *, name: str, url: str, events: Sequence[str]
) -> tuple[Webhook, str]:
    """A webhook and its secret. It gets what happens from now on; the first event is its own making.

    Raises `InvalidRequest`, `AlreadyExists`, `LimitExceeded`.
    """
    check_printable_name("name", name, KEY_NAME_LENGTH_MAX)
    check_url(url, config.current().webhook_networks)
    patterns = rules.checked_patterns(events, tuple(SOURCES))
    secret = signing.new_secret()
    with transaction.atomic():
        _lock(tenant)
        used = queries.webhooks(tenant).count()
        if used >= WEBHOOKS_PER_TENANT_MAX:
            raise LimitExceeded(
                f"webhooks: {used} of {WEBHOOKS_PER_TENANT_MAX} are used; delete one, or let one take more events"
            )
        row = Webhook(
            public_id=new_id("whk"),
            tenant=tenant,
            name=name,
            url=url,
            events=patterns,
            secret=signing.encrypted(secret),
            due_at=timezone.now(),
        )
        _save_named(row)
        WebhookPosition.objects.bulk_create(
            WebhookPosition(webhook=row, source=source.name, position=source.newest(tenant.public_id))
            for source in SOURCES.values()
        )
        _record(actor, row, "webhook.create", after=_content(row))
    return row, secret


def change(
    actor: Actor,
    tenant: Tenant,
    public_id: str,
    *,
    name: str | None = None,
    url: str | None = None,
    events: Sequence[str] | None = None,
    state: str | None = None,
) -> Webhook:
    """Change what is given; `state` as `turn_off` and `resume` do.

    Another address and other events are tried at once. Events that the patterns left out before do not come.

    Raises `NotFound`, `InvalidRequest`, `AlreadyExists`.
    """
    if name is not None:
        check_printable_name("name", name, KEY_NAME_LENGTH_MAX)
    if url is not None:
        check_url(url, config.current().webhook_networks)
    patterns = None if events is None else rules.checked_patterns(events, tuple(SOURCES))
    with transaction.atomic():
        row = _locked(tenant, public_id)
        before = _content(row)
        if name is not None:
            row.name = name
        if patterns is not None and patterns != row.events:
            # A courier at work has the patterns before, and would pass over what these want.
            row.events = patterns
            row.begin_again()
        if url is not None and url != row.url:
            row.url = url
            row.begin_again()
        after = _content(row)
        if after != before:
            _save_named(row)
            _record(actor, row, "webhook.change", before=before, after=after)
        if state is not None and state != row.state:
            row = turn_off(actor, row, ASKED) if state == OFF else resume(actor, tenant, public_id)
    return row


def delete(actor: Actor, tenant: Tenant, public_id: str) -> Webhook:
    """It gets nothing more, and its secret and its log are gone. Raises `NotFound`."""
    with transaction.atomic():
        row = _locked(tenant, public_id)
        _record(actor, row, "webhook.delete", before=_content(row))
        Webhook.objects.filter(pk=row.pk).delete()
    return row


def delete_all(actor: Actor, tenant: Tenant) -> None:
    """For a tenant that is purged."""
    for row in list(queries.webhooks(tenant)):
        delete(actor, tenant, row.public_id)


def rotate(actor: Actor, tenant: Tenant, public_id: str, *, overlap: timedelta) -> tuple[Webhook, str]:
    """A new secret. Until the overlap is over, events are signed with the old one too. One that signs from an earlier
    rotation ends now. Raises `NotFound`, `InvalidRequest`.
    """
    if not timedelta(0) <= overlap <= OVERLAP_MAX:
        raise InvalidRequest(f"overlap_s: 0 to {OVERLAP_MAX.total_seconds():.0f} required")
    secret = signing.new_secret()
    with transaction.atomic():
        row = _locked(tenant, public_id)
        until = timezone.now() + overlap if overlap else None
        row.previous_secret, row.previous_until = (row.secret if overlap else ""), until
        row.secret = signing.encrypted(secret)
        # A courier at work has the secrets before.
        row.end_attempt()
        row.save(update_fields=["secret", "previous_secret", "previous_until", "lease_number", "lease_until"])
        _record(
            actor,
            row,
            "webhook.rotate",
            after={"name": row.name, "overlap_s": int(overlap.total_seconds())},
        )
    return row, secret


def ping(actor: Actor, tenant: Tenant, public_id: str) -> tuple[Webhook, str]:
    """A test event, tried once, also while the webhook is off. Returns the event's id. While one waits, that one.

    Raises `NotFound`, `InvalidRequest` (the tenant is closed or suspended).
    """
    with transaction.atomic():
        row = _locked(tenant, public_id)
        if row.tenant.stopped:
            raise InvalidRequest("tenant: it is closed or suspended, so nothing is sent")
        if row.pings == row.pings_sent:
            row.pings += 1
            row.save(update_fields=["pings"])
            _record(
                actor,
                row,
                "webhook.ping",
                before={"name": row.name, "pings": row.pings - 1},
                after={"name": row.name, "pings": row.pings},
            )
    return row, ping_id(row, row.pings)


def ping_id(row: Webhook, number: int) -> str:
    """The id of a test event."""
    return f"ping_{row.public_id}_{number}"


def turn_off(actor: Actor, row: Webhook, reason: str) -> Webhook:
    """It gets nothing until it is resumed, and keeps its place. The row is locked, as its tenant is."""
    row.state, row.reason, row.off_at = OFF, reason, timezone.now()
    row.end_attempt()
    row.save(update_fields=["state", "reason", "off_at", "lease_number", "lease_until"])
    _record(
        actor,
        row,
        "webhook.switch_off",
        before={"name": row.name, "state": ON},
        after={"name": row.name, "state": OFF, "reason": reason},
    )
    return row


def resume(actor: Actor, tenant: Tenant, public_id: str, *, skip_waiting: bool = False) -> Webhook:
    """Go on where it stopped, at once; also one that is on and waits after failures. `skip_waiting`: leave out what
    happened until now. Raises `NotFound`.
    """
    with transaction.atomic():
        row = _locked(tenant, public_id)
        before = {"name": row.name, "state": row.state, "position": _positions(row)}
        if skip_waiting:
            for position in row.positions.all():
                newest = SOURCES[position.source].newest(row.tenant.public_id)
                row.positions.filter(pk=position.pk, position__lt=newest).update(position=newest)
        row.state, row.reason, row.off_at = ON, "", None
        row.begin_again()
        row.save()
        _record(
            actor,
            row,
            "webhook.resume",
            before=before,
            after={"name": row.name, "state": ON, "position": _positions(row)},
        )
    return row


def _lock(tenant: Tenant) -> Tenant:
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)


def _locked(tenant: Tenant, public_id: str) -> Webhook:
    """The webhook, under its tenant's lock, which all of its changes take first, and its own. Raises `NotFound`."""
    _lock(tenant)
    return (
        Webhook.objects.select_for_update(no_key=True, of=("self",))
        .select_related("tenant")
        .get(pk=queries.webhook(tenant, public_id).pk)
    )


def _save_named(row: Webhook) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise AlreadyExists(f"name: the tenant has a webhook called {row.name!r}") from None


def _content(row: Webhook) -> dict[str, Any]:
    return {"name": row.name, "url": shown_url(row.url), "events": list(row.events)}


def _positions(row: Webhook) -> dict[str, int]:
    return dict(row.positions.order_by("source").values_list("source", "position"))


def _record(
    actor: Actor,
    row: Webhook,
    action: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    audit.record(
        actor,
        tenant=row.tenant.public_id,
        action=action,
        object_id=row.public_id,
        before=before,
        after=after,
    )
