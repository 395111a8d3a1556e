"""Chains what web processes counted, each minute once it is over: some rows a tenant, however often it was."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.audit.actions import Entry, record_of
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditTally
from control_plane.audit.tallies import Counted, Tally, merged

SETTLED = timedelta(seconds=90)
"""From a minute's beginning on: its last counts are written by then. What comes later is chained later."""
_MINUTES_AT_ONCE = 1_000
"""Of all tenants, in one call: what waited for a worker for long is chained over several."""


def chain_tallies(now: datetime | None = None) -> int:
    """Chain the minutes that are over. Returns how many entries it wrote."""
    settled = (timezone.now() if now is None else now) - SETTLED
    waiting = (
        AuditTally.objects.filter(minute__lte=settled)
        .order_by("minute", "tenant")
        .values_list("minute", "tenant")
        .distinct()[:_MINUTES_AT_ONCE]
    )
    return sum(_chain(tenant, minute) for minute, tenant in list(waiting))


def _chain(tenant: str, minute: datetime) -> int:
    with transaction.atomic():
        # Another worker that has the same minute waits here, and then finds no rows.
        rows = list(
            AuditTally.objects.select_for_update(no_key=True)
            .filter(tenant=tenant, minute=minute)
            .order_by("pk")
        )
        if not rows:
            return 0
        acts = [_act(counted, tally) for counted, tally in merged(map(_read, rows))]
        record_of(tenant, acts)
        AuditTally.objects.filter(pk__in=[row.pk for row in rows]).delete()
        return len(acts)


def _read(row: AuditTally) -> tuple[Counted, Tally]:
    counted = Counted(
        tenant=row.tenant,
        minute=row.minute,
        outcome=row.outcome,
        actor_kind=row.actor_kind,
        actor_id=row.actor_id,
        action=row.action,
    )
    return counted, Tally(times=row.times, request_id=row.request_id, source=row.source)


def _act(counted: Counted, tally: Tally) -> tuple[Actor, Entry]:
    actor = Actor(
        kind=ActorKind(counted.actor_kind),
        id=counted.actor_id,
        request_id=tally.request_id,
        source=tally.source,
    )
    entry = Entry(
        action=counted.action,
        object_id="",
        outcome=counted.outcome,
        summary={"times": tally.times, "minute": counted.minute.isoformat()},
    )
    return actor, entry
