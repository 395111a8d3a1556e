"""Reads webhooks, always of one tenant but for what is due."""

from collections.abc import Collection
from datetime import datetime

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from control_plane import looks
from control_plane.webhooks import sources
from control_plane.webhooks.models import ASKED, FAILING, GONE, OFF, ON, Webhook, WebhookAttempt
from penstock.contract.errors import NotFound
from tenants.models import Tenant

_is_any = looks.any_row(Webhook.objects.all)


def webhooks(tenant: Tenant) -> QuerySet[Webhook]:
    """The tenant's webhooks."""
    return Webhook.objects.filter(tenant=tenant)


def webhook(tenant: Tenant, public_id: str) -> Webhook:
    """Raises `NotFound`."""
    row = webhooks(tenant).filter(public_id=public_id).select_related("tenant").first()
    if row is None:
        raise NotFound(f"webhook {public_id[:50]!r} does not exist")
    return row


def attempts(row: Webhook) -> QuerySet[WebhookAttempt]:
    """The last ones, in the order in which they were made."""
    return WebhookAttempt.objects.filter(webhook=row)


def attempts_before(row: Webhook, pk: int | None, most: int) -> list[WebhookAttempt]:
    """Newest first; those before the one of that key."""
    rows = attempts(row) if pk is None else attempts(row).filter(pk__lt=pk)
    return list(rows.order_by("-pk")[:most])


def waiting(row: Webhook) -> int:
    """How many events of its sources lie after its positions, wanted or not."""
    return sum(
        max(0, sources.SOURCES[one.source].newest(row.tenant.public_id) - one.position)
        for one in row.positions.all()
        if one.source in sources.SOURCES
    )


def lags() -> dict[str, int]:
    """Events behind the position of each tenant's webhook that is furthest behind, by the tenant's public id; of those
    that are on.
    """
    found: dict[str, int] = {}
    for tenant, lag in sources.lags():
        found[tenant] = max(found.get(tenant, 0), lag)
    return dict(sorted(found.items()))


def switched_off() -> dict[str, int]:
    """How many webhooks are off, of all tenants, by reason."""
    rows = Webhook.objects.filter(state=OFF).values_list("reason").annotate(count=Count("pk"))
    return dict.fromkeys((ASKED, FAILING, GONE), 0) | dict(rows)


def due(now: datetime, *, most: int, without: Collection[int]) -> list[Webhook]:
    """Webhooks that may be delivered to now and have something to get, the longest due first; of closed and suspended
    tenants none. `without`: those that the caller delivers to already.
    """
    if not _is_any():
        return []
    has_events = Exists(sources.behind().filter(webhook=OuterRef("pk")))
    rows = (
        Webhook.objects.filter(
            Q(lease_until=None) | Q(lease_until__lte=now),
            Q(pings__gt=F("pings_sent")) | (Q(state=ON, due_at__lte=now) & has_events),
            tenant__suspended=False,
            tenant__closed_at=None,
        )
        .exclude(pk__in=without)
        .order_by("due_at", "pk")
    )
    return list(rows[:most])
