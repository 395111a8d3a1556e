"""Every source of events. A new one stands here, with a query for its waiting webhooks; the rest goes by itself."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from django.db.models import F, OuterRef, QuerySet, Subquery

from control_plane.audit import queries as audit
from control_plane.audit.models import AuditHead
from control_plane.webhooks.events import Event, Source
from control_plane.webhooks.models import ON, WebhookPosition


class AuditEntries:
    """The tenant's audit log: `audit.` and the entry's action. The position is the entry's sequence in the chain."""

    name = "audit"

    def newest(self, tenant: str) -> int:
        return audit.head(tenant)[0]

    def after(self, tenant: str, position: int, most: int) -> Sequence[Event]:
        return [
            Event(
                id=f"audit_{tenant}_{entry['sequence']}",
                type=f"{self.name}.{entry['action']}",
                at=entry["at"],
                position=entry["sequence"],
                data=entry,
            )
            for entry in audit.chain_after(tenant, position, most)
        ]


SOURCES: Mapping[str, Source] = MappingProxyType({source.name: source for source in (AuditEntries(),)})


def lags() -> Iterator[tuple[str, int]]:
    """Tenant, by public id, and events behind the position, for each webhook that is on and is behind one."""
    head = AuditHead.objects.filter(tenant=OuterRef("webhook__tenant__public_id")).values("sequence")
    rows = (
        WebhookPosition.objects.filter(source=AuditEntries.name, webhook__state=ON)
        .filter(webhook__tenant__purged_at=None)
        .annotate(newest=Subquery(head))
        .filter(newest__gt=F("position"))
        .values_list("webhook__tenant__public_id", "newest", "position")
    )
    for tenant, newest, position in rows:
        yield tenant, newest - position


def behind() -> QuerySet[WebhookPosition]:
    """Positions after which their source has an event."""
    head = AuditHead.objects.filter(tenant=OuterRef("webhook__tenant__public_id")).values("sequence")
    return (
        WebhookPosition.objects.filter(source=AuditEntries.name)
        .annotate(newest=Subquery(head))
        .filter(newest__gt=F("position"))
    )
