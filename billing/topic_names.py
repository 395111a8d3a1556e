"""Names of topics that were restored under another name, so that their usage stands under several."""

from collections.abc import Iterable

from django.db.models import F, OuterRef, QuerySet, Subquery

from billing.models import UsageDay
from control_plane.audit import queries as audit
from control_plane.topics.models import Topic
from tenants.models import Tenant


def last_name(days: QuerySet[UsageDay]) -> Subquery:
    """The name that a topic had on the last of these days, for sums of them by `topic_id`."""
    of_topic = days.filter(topic_id=OuterRef("topic_id")).order_by("-day", "topic")
    return Subquery(of_topic.values("topic")[:1])


def renamed_topics(tenant: Tenant) -> list[str]:
    """The `topic_id` of each topic that had several names: the audit log has every restore with both."""
    restored = audit.entries(tenant.public_id).filter(action="topic.restore")
    renamed = restored.exclude(before__name=F("after__name")).values("object_id")
    topics = Topic.objects.filter(tenant=tenant, public_id__in=renamed)
    return list(topics.order_by("pk").values_list("topic_id", flat=True))


def name_as_shown(by_name: Iterable[dict[str, int]]) -> None:
    """Change `billed` beside `quantity` under each name of one topic: what is billed under a name that has less usage
    counts for those that have more. Names on invoices do not change, and those of usage may: a day of records whose
    names crossed is billed under the last one.
    """
    numbers = list(by_name)
    for under in numbers:
        for other in numbers:
            moved = min(under["billed"] - under["quantity"], other["quantity"] - other["billed"])
            if moved > 0:
                under["billed"] -= moved
                other["billed"] += moved
