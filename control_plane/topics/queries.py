"""Reads topics, always of one tenant; the service itself reads by public id."""

from collections.abc import Callable, Sequence

from django.db.models import QuerySet, Sum

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

ASK_S = 1.0
"""How long a tenant's request waits for brokers that do not answer; it may ask again."""


def topics(tenant: Tenant, visible: Callable[[str], bool] | None = None) -> QuerySet[Topic]:
    """The tenant's topics; of those, when given, only the ones whose name is `visible`."""
    found = Topic.objects.filter(tenant=tenant, deleted_at=None).select_related("tenant")
    if visible is not None:
        found = found.filter(pk__in=[pk for pk, name in found.values_list("pk", "name") if visible(name)])
    return found


def partitions_by_tenant(tenants: Sequence[Tenant]) -> dict[str, int]:
    """Partitions of all topics, by the tenant's public id; a tenant without topics is not in it: for operators."""
    rows = Topic.objects.filter(tenant__in=tenants, deleted_at=None).values_list("tenant__public_id")
    return {tenant: int(whole) for tenant, whole in rows.annotate(whole=Sum("partitions"))}


def topic(tenant: Tenant, name: str, visible: Callable[[str], bool] | None = None) -> Topic:
    """One topic of the tenant. Raises `NotFound`, also for one that is not `visible`."""
    row = topics(tenant).filter(name=name).first()
    if row is None or (visible is not None and not visible(row.name)):
        raise NotFound(f"topic {name[:64]!r} does not exist")
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
    tenant: Tenant, name: str, visible: Callable[[str], bool] | None = None
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


def is_being_deleted(tenant: Tenant, topic_id: str) -> bool:
    """Whether this is a topic of the tenant that is to be deleted, and that the brokers may still have."""
    return Topic.objects.filter(tenant=tenant, topic_id=topic_id).exclude(deleted_at=None).exists()


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
