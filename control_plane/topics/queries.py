"""Reads topics, always of one tenant; the service itself reads by public id."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from control_plane import config
from control_plane.brokers import client as brokers
from control_plane.brokers import queries as cluster
from control_plane.brokers.view import DurabilitySeen
from control_plane.topics.models import Topic
from penstock.contract import limits
from penstock.contract.errors import BrokerUnavailable, NotFound
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.survival import Survival, survival
from tenants.models import Tenant

BIN = 2
"""From this feature level on brokers have a recycle bin."""
ASK_S = 1.0
"""How long a tenant's request waits for brokers that do not answer; it may ask again."""


def topics(tenant: Tenant, visible: Callable[[str], bool] | None = None) -> QuerySet[Topic]:
    """The tenant's topics; of those, when given, only the ones whose name is `visible`."""
    return _visible(Topic.objects.filter(tenant=tenant, deleted_at=None, binned_at=None), visible)


def binned_topics(tenant: Tenant, visible: Callable[[str], bool] | None = None) -> QuerySet[Topic]:
    """The tenant's topics in the recycle bin; of those, when given, only the ones whose name is `visible`."""
    return _visible(Topic.objects.filter(tenant=tenant, deleted_at=None, binned_at__isnull=False), visible)


def binned_topic(tenant: Tenant, public_id: str, visible: Callable[[str], bool] | None = None) -> Topic:
    """One topic in the tenant's recycle bin. Raises `NotFound`, also for one that is not `visible`."""
    row = binned_topics(tenant).filter(public_id=public_id).first()
    if row is None or (visible is not None and not visible(row.name)):
        raise NotFound(f"topic {public_id[:64]!r} is not in the recycle bin")
    return row


def topics_to_purge() -> QuerySet[Topic]:
    """Topics of all tenants whose time in the recycle bin is over, oldest first: for the service itself."""
    return purge_due(timezone.now()).select_related("tenant").order_by("purge_at", "pk")


def purge_due(now: datetime) -> QuerySet[Topic]:
    """Topics of all tenants whose time in the recycle bin is over at that time."""
    return Topic.objects.filter(deleted_at=None, binned_at__isnull=False, purge_at__lte=now)


def bin_possible() -> bool:
    """Whether the brokers can keep a topic in the bin. Without an answer they are taken to: if they cannot, they say so
    when they get the change, and nothing is lost."""
    try:
        return brokers.describe(timeout_s=ASK_S).feature_level >= BIN
    except BrokerUnavailable:
        return True


def _visible(found: QuerySet[Topic], visible: Callable[[str], bool] | None) -> QuerySet[Topic]:
    if visible is not None:
        found = found.filter(pk__in=[pk for pk, name in found.values_list("pk", "name") if visible(name)])
    return found.select_related("tenant")


def partitions_by_tenant(tenants: Sequence[Tenant]) -> dict[str, int]:
    """Partitions of all topics, by the tenant's public id; a tenant without topics is not in it: for operators."""
    rows = Topic.objects.filter(tenant__in=tenants, deleted_at=None).values_list("tenant__public_id")
    return {tenant: int(whole) for tenant, whole in rows.annotate(whole=Sum("partitions"))}


class Visible(Protocol):
    """The topics that the caller sees."""

    def __call__(self, name: str) -> bool:
        """True if a topic of this name may be shown to the caller."""

    def hint(self, name: str) -> str:
        """Words behind "does not exist", for callers who may know that the access list hides names; else empty. They
        are the same for a name that exists and for one that does not.
        """


def topic(tenant: Tenant, name: str, visible: Visible | None = None) -> Topic:
    """One topic of the tenant. Raises `NotFound`, also for one that is not `visible`."""
    row = topics(tenant).filter(name=name).first()
    if row is None or (visible is not None and not visible(row.name)):
        hidden = "" if visible is None else visible.hint(name)
        raise NotFound(f"topic {name[:64]!r} does not exist{hidden}")
    return row


def survives(topic: Topic) -> Survival:
    """What the topic survives as it is set; of zones and hosts only while the brokers have it and one answers."""
    try:
        together = brokers.describe_topic(topic_id=topic.topic_id, timeout_s=ASK_S).together
    except (BrokerUnavailable, NotFound):
        together = None
    settings = TopicSettings.from_dict(topic.settings)
    return survival(
        replication=settings.replication,
        min_insync_replicas=settings.min_insync_replicas,
        durability=settings.durability,
        together=together,
    )


def durability(
    tenant: Tenant, name: str, visible: Visible | None = None
) -> tuple[Topic, list[DurabilitySeen]]:
    """One topic of the tenant, and what the brokers say of each of its partitions. Raises `NotFound`, also while the
    brokers do not have it yet, and `BrokerUnavailable`."""
    row = topic(tenant, name, visible)
    return row, brokers.topic_durability(row.topic_id, ASK_S)


def cluster_size() -> int:
    """How many brokers there are, as they were last seen, active or not."""
    return len(cluster.broker_addresses()) or len(config.current().brokers.internal)


def copies_possible() -> int:
    """How many copies a topic has where nothing else is said: three, or as many as there are brokers."""
    return min(limits.REPLICATION_DEFAULT, cluster_size())


def cluster_size_now() -> int:
    """The same, asked of the brokers; as they were last seen when none answers."""
    try:
        return len(brokers.describe(timeout_s=ASK_S).brokers)
    except BrokerUnavailable:
        return cluster_size()


def with_copies_due() -> QuerySet[Topic]:
    """Topics of all tenants whose number of copies changes: for the service itself."""
    return Topic.objects.filter(copies_due=True, deleted_at=None, on_brokers=True).select_related("tenant")


def gives_its_name_up(tenant: Tenant, topic_id: str) -> bool:
    """Whether this is a topic of the tenant that is to be deleted or binned, and that the brokers may still have under
    its name."""
    gone = Q(deleted_at__isnull=False) | Q(binned_at__isnull=False)
    return Topic.objects.filter(gone, tenant=tenant, topic_id=topic_id).exists()


def topic_for_delivery(public_id: str) -> Topic:
    """A topic by its id, deleted or not: for the service itself."""
    return Topic.objects.select_related("tenant").get(public_id=public_id)


def topics_for_delivery(public_ids: Sequence[str]) -> dict[str, Topic]:
    """Topics by their ids, deleted or not: for the service itself."""
    rows = Topic.objects.select_related("tenant").filter(public_id__in=public_ids)
    return {topic.public_id: topic for topic in rows}


def topics_of_all() -> QuerySet[Topic]:
    """Topics of every tenant, deleted ones included: for reconciliation."""
    return Topic.objects.select_related("tenant")
