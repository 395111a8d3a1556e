"""Hot partitions, from what brokers report. No batch is opened for it."""

from dataclasses import dataclass

from control_plane.placement import queries
from control_plane.topics.models import Topic
from data_plane.placement.heat import Heat, heat_of, median_of

_SHOWN_MAX = 1_000
HOT_KEY_PERCENT = 25
"""From this part of its messages on, one key makes a hot partition hot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPartition:
    """One hot partition. Rates are means over about 20 s."""

    tenant: str
    topic: str
    topic_id: str
    partition: int
    broker: int
    bytes_in_per_s: int
    bytes_out_per_s: int
    of_broker_percent: int
    of_tenant_percent: int
    slow_downs_per_s: float
    hot_key_percent: int
    """The largest part of its messages that one key has, as producers report; 0 = none is known."""
    heat: tuple[Heat, ...]

    @property
    def reasons(self) -> list[str]:
        return [one.value for one in self.heat]


def hot_partitions() -> list[HotPartition]:
    """By the rule in `data_plane/placement/heat.py`, those with the highest rates first."""
    reports = queries.loads()
    named = [
        (report, p, p.bytes_in_per_s + p.bytes_out_per_s)
        for report in reports.values()
        for p in report.partitions
        if p.bytes_in_per_s or p.bytes_out_per_s or p.slow_downs_per_s
    ]
    rows = Topic.objects.filter(topic_id__in={p.topic_id for _, p, _ in named})
    topics = {
        topic_id: (tenant, name, partitions)
        for topic_id, tenant, name, partitions in rows.values_list(
            "topic_id", "tenant__public_id", "name", "partitions"
        )
    }
    of_tenants: dict[str, int] = {}
    of_topics: dict[str, dict[int, int]] = {}
    for _, p, rate in named:
        if p.topic_id in topics:
            tenant = topics[p.topic_id][0]
            of_tenants[tenant] = of_tenants.get(tenant, 0) + rate
            rates = of_topics.setdefault(p.topic_id, {})
            rates[p.partition] = rates.get(p.partition, 0) + rate
    medians = {
        topic_id: median_of(list(rates.values()), topics[topic_id][2])
        for topic_id, rates in of_topics.items()
    }
    found = []
    for report, p, rate in named:
        if p.topic_id not in topics:
            continue
        tenant, name, _ = topics[p.topic_id]
        of_broker = rate * 100 // max(1, rate, report.bytes_in_per_s + report.bytes_out_per_s)
        of_tenant = rate * 100 // max(1, of_tenants[tenant])
        heat = heat_of(
            rate,
            of_broker_percent=of_broker,
            of_tenant_percent=of_tenant,
            topic_median=medians[p.topic_id],
            slow_downs_per_s=p.slow_downs_per_s,
        )
        if heat:
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
                    slow_downs_per_s=p.slow_downs_per_s,
                    hot_key_percent=p.hot_key_percent,
                    heat=heat,
                )
            )
    found.sort(key=lambda hot: (-(hot.bytes_in_per_s + hot.bytes_out_per_s), hot.topic_id, hot.partition))
    return found[:_SHOWN_MAX]


def hot_partitions_of(topic_id: str) -> list[HotPartition]:
    """Of one topic."""
    return [one for one in hot_partitions() if one.topic_id == topic_id]
