"""Names of topics that are summed up by id over a time in which they were restored under another name."""

from django.db.models import OuterRef, QuerySet, Subquery

from billing.models import UsageDay


def last_name(days: QuerySet[UsageDay]) -> Subquery:
    """The name that a topic had on the last of these days, for sums of them by `topic_id`."""
    of_topic = days.filter(topic_id=OuterRef("topic_id")).order_by("-day", "topic")
    return Subquery(of_topic.values("topic")[:1])
