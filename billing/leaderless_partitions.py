"""Which partitions had no leader in a month of service: beside a report, for those who look for the cause."""

from collections import defaultdict
from dataclasses import replace

from billing import partition_usage, service_level_reports
from billing.data_set_rows import Opened
from billing.models import UsageDay
from billing.service_level_reports import LeaderlessPartition, MonthReport
from penstock.contract.errors import BrokerUnavailable, InvalidRequest
from penstock.rules.meters import LEADERLESS, SECOND_MS
from tenants.models import Tenant

PARTITIONS_MAX = 50


def with_partitions(tenant: Tenant, report: MonthReport, opened: Opened) -> MonthReport:
    """The report with the partitions of its topics that had no leader, the longest first, at most `PARTITIONS_MAX`.
    Without them where they cannot be read now: the report is there in any case.
    """
    if not report.leaderless:
        return report
    first, end = service_level_reports.month_bounds(report.document.month)
    days = UsageDay.objects.filter(
        tenant=tenant, meter=LEADERLESS, day__gte=first.date(), day__lt=end.date()
    ).order_by("day")
    try:
        rows = partition_usage.without_a_leader(
            opened, tenant.public_id, set(days.values_list("day", flat=True))
        )
    except (BrokerUnavailable, InvalidRequest):
        return replace(report, leaderless_partitions=None)
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for row in rows:
        sums[row.topic_id, row.partition] += row.quantity
    # A topic that was restored under another name is one, under its last one.
    names = {row.topic_id: row.topic for row in sorted(rows, key=lambda row: row.day)}
    longest = sorted(sums, key=lambda key: (-sums[key], names[key[0]], key))
    return replace(
        report,
        leaderless_partitions=tuple(
            LeaderlessPartition(
                topic=names[topic_id], topic_id=topic_id, partition=partition, seconds=sums[key] // SECOND_MS
            )
            for key in longest[:PARTITIONS_MAX]
            for topic_id, partition in [key]
        ),
        leaderless_partitions_more=max(0, len(longest) - PARTITIONS_MAX),
    )
