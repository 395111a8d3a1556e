"""Reads the topics with audit logs: of one tenant, and for couriers and metrics of all."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, F, OuterRef, Q, Subquery

from control_plane import looks
from control_plane.audit import queries as audit
from control_plane.audit.models import AuditHead
from control_plane.audit_topics.models import OFF, ON, AuditTopic
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from penstock.contract.topic_settings import UNLIMITED
from penstock.rules.names import AUDIT_TOPIC
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTopicState:
    """A tenant's topic with its audit log, as it is now."""

    tenant: str
    state: str
    retention_ms: int
    exists: bool
    """There is such a topic: it stays when it is switched off."""
    position: int
    newest: int
    """Sequence of the newest entry of the log."""
    delivered_at: datetime | None
    failures: int
    failing_since: datetime | None
    problem: str
    topic: str = AUDIT_TOPIC

    @property
    def lag(self) -> int:
        """Entries that the topic does not have yet."""
        return max(0, self.newest - self.position)


_is_any_on = looks.any_row(lambda: AuditTopic.objects.filter(state=ON))


def row_of(tenant: Tenant) -> AuditTopic | None:
    """None: it was never switched on."""
    return AuditTopic.objects.filter(tenant=tenant).select_related("tenant", "key").first()


def topic_of(tenant: Tenant) -> Topic | None:
    """The topic itself; None: there is none."""
    return topics.topics(tenant).filter(name=AUDIT_TOPIC).first()


def state_of(tenant: Tenant) -> AuditTopicState:
    """Also of a tenant that never switched it on."""
    row = row_of(tenant)
    newest, _ = audit.head(tenant.public_id)
    if row is None:
        row = AuditTopic(tenant=tenant, state=OFF, retention_ms=UNLIMITED)
    return AuditTopicState(
        tenant=tenant.public_id,
        state=row.state,
        retention_ms=row.retention_ms,
        exists=topic_of(tenant) is not None,
        position=row.position,
        newest=newest,
        delivered_at=row.delivered_at,
        failures=row.failures,
        failing_since=row.failing_since,
        problem=row.problem,
    )


_NEWEST = Subquery(AuditHead.objects.filter(tenant=OuterRef("tenant__public_id")).values("sequence"))


def due(now: datetime, *, most: int, without: Collection[int]) -> list[AuditTopic]:
    """Those that have something to get and may be written to now, the longest due first; of closed and suspended
    tenants none: their keys are refused.
    """
    if not _is_any_on():
        return []
    rows = (
        AuditTopic.objects.filter(state=ON, due_at__lte=now)
        .annotate(newest=_NEWEST)
        .filter(newest__gt=F("position"))
        .filter(tenant__suspended=False, tenant__closed_at=None)
        .exclude(lease_until__gt=now)
        .exclude(pk__in=without)
        .select_related("tenant")
        .order_by("due_at", "pk")
    )
    return list(rows[:most])


def unfit() -> list[AuditTopic]:
    """Those that are switched on without a topic, or that are further than their log: a part of the database is of
    another time.
    """
    live = Topic.objects.filter(tenant=OuterRef("tenant"), name=AUDIT_TOPIC, deleted_at=None, binned_at=None)
    rows = (
        AuditTopic.objects.filter(state=ON, tenant__closed_at=None)
        .annotate(newest=_NEWEST)
        .filter(~Exists(live) | Q(newest__lt=F("position")) | Q(newest=None, position__gt=0))
        .select_related("tenant")
        .order_by("pk")
    )
    return list(rows)


def lags() -> dict[str, int]:
    """Entries that wait, by the public id of each tenant that has it on."""
    rows = (
        AuditTopic.objects.filter(state=ON, tenant__purged_at=None)
        .annotate(newest=_NEWEST)
        .order_by("tenant__public_id")
        .values_list("tenant__public_id", "newest", "position")
    )
    return {tenant: max(0, (newest or 0) - position) for tenant, newest, position in rows}
