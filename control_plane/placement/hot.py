"""Hot partitions, from the rates that brokers report. No batch is opened for it."""

from dataclasses import dataclass

from control_plane.placement import queries
from control_plane.topics.models import Topic

HOT_BYTES_PER_S = 2**20
"""Below it a partition is not hot, whatever its share: a calm service has none."""
HOT_OF_BROKER_PERCENT = 40
HOT_OF_TENANT_PERCENT = 50
_SHOWN_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPartition:
    """One partition that takes and gives far more than others. Rates in bytes a second, over about 20 s."""

    tenant: str
    topic: str
    topic_id: str
    partition: int
    broker: int
    bytes_in_per_s: int
    bytes_out_per_s: int
    of_broker_percent: int
    of_tenant_percent: int


def hot_partitions() -> list[HotPartition]:
    """The hottest first: at least HOT_BYTES_PER_S, and HOT_OF_BROKER_PERCENT of what its broker takes and gives, or
    HOT_OF_TENANT_PERCENT of what its tenant does."""
    reports = queries.loads()
    named = [
        (report, p, p.bytes_in_per_s + p.bytes_out_per_s)
        for report in reports.values()
        for p in report.partitions
        if p.bytes_in_per_s or p.bytes_out_per_s
    ]
    rows = Topic.objects.filter(topic_id__in={p.topic_id for _, p, _ in named})
    topics = {
        topic_id: (tenant, name)
        for topic_id, tenant, name in rows.values_list("topic_id", "tenant__public_id", "name")
    }
    of_tenants: dict[str, int] = {}
    for _, p, rate in named:
        if p.topic_id in topics:
            tenant = topics[p.topic_id][0]
            of_tenants[tenant] = of_tenants.get(tenant, 0) + rate
    found = []
    for report, p, rate in named:
        if p.topic_id not in topics or rate < HOT_BYTES_PER_S:
            continue
        tenant, name = topics[p.topic_id]
        of_broker = rate * 100 // max(rate, report.bytes_in_per_s + report.bytes_out_per_s)
        of_tenant = rate * 100 // of_tenants[tenant]
        if of_broker >= HOT_OF_BROKER_PERCENT or of_tenant >= HOT_OF_TENANT_PERCENT:
            found.append(
                HotPartition(
                    tenant=tenant,
                    topic=name,
                    topic_id=p.topic_id,
                    partition=p.partition,
                    broker=report.broker,
                    bytes_in_per_s=p.bytes_in_per_s,
                    bytes_out_per_s=p.bytes_out_per_s,
                    of_broker_percent=of_broker,
                    of_tenant_percent=of_tenant,
                )
            )
    found.sort(key=lambda hot: (-(hot.bytes_in_per_s + hot.bytes_out_per_s), hot.topic_id, hot.partition))
    return found[:_SHOWN_MAX]
