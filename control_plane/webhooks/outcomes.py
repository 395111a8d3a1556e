"""Writes down what became of each attempt of a webhook, in one transaction with its position."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.audit.actor import system
from control_plane.couriers import leases
from control_plane.couriers.leases import LEASE
from control_plane.mail import actions as mails
from control_plane.webhooks import actions, letters, pauses
from control_plane.webhooks.events import PING, Event
from control_plane.webhooks.models import (
    ERROR_LENGTH_MAX,
    EVENT_LENGTH_MAX,
    FAILING,
    GONE,
    OFF,
    Webhook,
    WebhookAttempt,
    WebhookPosition,
)
from control_plane.webhooks.sources import SOURCES
from penstock.contract.limits import WEBHOOK_ATTEMPTS_KEPT
from tenants.models import Tenant
from tenants.queries import people_with_roles
from tenants.roles import Permission, Role, Standing, allowed

ACTOR = system("webhooks")
STATUS_GONE = 410
WHY = {
    GONE: "its endpoint answered 410 (gone)",
    FAILING: "its endpoint took no event for days",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an attempt."""

    at: datetime
    duration_ms: int
    status: int | None = None
    error: str = ""
    retry_after: timedelta | None = None

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def begin_sources() -> None:
    """Webhooks that were made before a source was there get what it has from now on."""
    for source in SOURCES.values():
        without = Webhook.objects.exclude(positions__source=source.name).select_related("tenant")
        WebhookPosition.objects.bulk_create(
            (
                WebhookPosition(webhook=row, source=source.name, position=source.newest(row.tenant.public_id))
                for row in without.iterator()
            ),
            ignore_conflicts=True,
        )


def go_past(row: Webhook, source: str, position: int) -> bool:
    """The webhook leaves out what lies up to there. False: it is another courier's by now."""
    with transaction.atomic():
        if leases.locked(row) is None:
            return False
        WebhookPosition.objects.filter(webhook=row, source=source, position__lt=position).update(
            position=position
        )
    return True


def note(row: Webhook, source: str, event: Event, outcome: Outcome) -> bool:
    """Write down one attempt. False: the webhook was changed or is another courier's, so nothing is; the event comes
    again.
    """
    with transaction.atomic():
        # Its tenant first, as changes of it do.
        if not outcome.delivered:
            Tenant.objects.select_for_update(no_key=True).get(pk=row.tenant_id)
        locked = leases.locked(row)
        if locked is None:
            return False
        now, given_up = timezone.now(), False
        WebhookAttempt.objects.create(
            webhook=locked,
            event_id=event.id[:EVENT_LENGTH_MAX],
            event_type=event.type[:EVENT_LENGTH_MAX],
            number=1 if event.type == PING else locked.failures + 1,
            at=outcome.at,
            duration_ms=outcome.duration_ms,
            status=outcome.status,
            delivered=outcome.delivered,
            error=outcome.error[:ERROR_LENGTH_MAX],
        )
        _forget_old(locked)
        locked.lease_until = now + LEASE
        if outcome.delivered:
            locked.delivered_at = now
        if event.type == PING:
            locked.pings_sent = locked.pings
        elif outcome.delivered:
            locked.failures, locked.failing_since, locked.due_at = 0, None, now
            WebhookPosition.objects.filter(webhook=locked, source=source).update(position=event.position)
        else:
            given_up = _is_given_up(locked, outcome, now)
        locked.save()
        if outcome.status == STATUS_GONE:
            _switch_off(locked, GONE)
        elif given_up:
            _switch_off(locked, FAILING)
    return True


def _is_given_up(locked: Webhook, outcome: Outcome, now: datetime) -> bool:
    """Count the failure, and say when the next attempt is due; True: there is none."""
    locked.failures += 1
    locked.failing_since = locked.failing_since or now
    again = pauses.next_attempt(
        locked.failures,
        locked.failing_since,
        now,
        retry_after=outcome.retry_after,
        chance=random.random(),
    )
    if again is None:
        return True
    locked.due_at = again
    return False


def _switch_off(locked: Webhook, reason: str) -> None:
    if locked.state == OFF:
        return  # a test event to one that is off already
    tenant = locked.tenant
    actions.turn_off(ACTOR, locked, reason)
    letter = letters.switched_off(tenant.name, locked.name, locked.public_id, WHY[reason])
    readers = [role for role in Role if allowed(Standing(role.value), Permission.WEBHOOKS_WRITE)]
    for member in people_with_roles(tenant, among=readers):
        mails.put(member.person.email, "webhook-off", letter)


def _forget_old(row: Webhook) -> None:
    kept = WebhookAttempt.objects.filter(webhook=row).order_by("-pk")
    oldest = kept.values_list("pk", flat=True)[WEBHOOK_ATTEMPTS_KEPT - 1 : WEBHOOK_ATTEMPTS_KEPT].first()
    if oldest is not None:
        WebhookAttempt.objects.filter(webhook=row, pk__lt=oldest).delete()
