"""Pages of usage cost what the page holds, however much the tenant used."""

import json
from collections.abc import Iterator
from datetime import date, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing import queries
from billing.models import Cut, CutUsage, Invoice, UsageDay
from tenants.models import Tenant
from tests.control_plane.billing.world import World

pytestmark = pytest.mark.django_db

BEGIN = date(2026, 1, 1)
TOPICS, DAYS = 300, 20
METERS = ("bytes_in", "messages_in")
SIZE = 25


def _fill(tenant: Tenant, cut: Cut) -> None:
    """The same groups as used and as billed: 6,000, of two meters each."""
    groups = [
        (f"{topic:032x}", f"topic-{topic:04}", BEGIN + timedelta(days=day), meter)
        for topic in range(TOPICS)
        for day in range(DAYS)
        for meter in METERS
    ]
    UsageDay.objects.bulk_create(
        UsageDay(tenant=tenant, topic_id=topic_id, topic=topic, day=day, meter=meter, quantity=2)
        for topic_id, topic, day, meter in groups
    )
    CutUsage.objects.bulk_create(
        CutUsage(
            cut=cut, tenant=tenant, topic_id=topic_id, topic=topic, partition=0, log_generation=1, day=day,
            meter=meter, quantity=1, first_offset=0, end_offset=1,
        )
        for topic_id, topic, day, meter in groups
    )  # fmt: skip


def _scanned(plan: dict[str, Any]) -> Iterator[float]:
    """How many rows each scan of a plan looked at."""
    if "Relation Name" in plan:
        left_out = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        yield (plan["Actual Rows"] + left_out) * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from _scanned(part)


def _rows_read(sqls: list[str]) -> float:
    total = 0.0
    with connection.cursor() as cursor:
        for sql in sqls:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
            (told,) = cursor.fetchone()
            (plan,) = json.loads(told) if isinstance(told, str) else told
            total += sum(_scanned(plan["Plan"]))
    return total


@pytest.mark.parametrize("by", [["topic", "day"], ["day", "topic"]])
@pytest.mark.parametrize("after", [None, "the middle"])
def test_a_page_of_usage_reads_the_rows_of_its_groups_alone(
    world: World, by: list[str], after: str | None
) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, [])
    issued = {"status": Invoice.Status.ISSUED, "total_micro": 0, "issued_at": cut.period_end}
    assert Invoice.objects.filter(cut=cut).update(**issued) == 1
    _fill(acme, cut)
    middle = {"topic": f"topic-{TOPICS // 2:04}", "day": (BEGIN + timedelta(days=DAYS // 2)).isoformat()}
    begin = None if after is None else [middle[name] for name in by]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with CaptureQueriesContext(connection) as captured:
        groups = queries.usage_groups(acme, by=by, first=None, end=None, after=begin, most=SIZE)
        items = queries.usage(acme, by=by, first=None, end=None, only=groups)
    assert [tuple(item[name] for name in by) for item in items] == groups
    assert len(items) == SIZE
    assert all(item["meters"]["bytes_in"] == {"quantity": 2, "billed": 1, "provisional": 1} for item in items)
    sqls = [query["sql"] for query in captured.captured_queries]
    # Two tables with two meters a group, read for the page's end, for its groups and for their sums; each billed row
    # is joined with its cut and its invoice. All there are: 24,000.
    read = _rows_read(sqls)
    assert read <= SIZE * len(METERS) * 2 * 3 * 3, "\n".join([f"{read} rows read by", *sqls])


def test_a_billed_row_from_before_gets_the_tenant_of_its_cut(world: World) -> None:
    acme, other = world.tenant("acme"), world.tenant("other")
    owners = {}
    for tenant in (acme, other):
        row = CutUsage.objects.create(
            cut=world.cut(tenant, []), tenant=acme, topic_id="0" * 32, topic="orders", partition=0,
            log_generation=1, day=BEGIN, meter="messages_in", quantity=1, first_offset=0, end_offset=1,
        )  # fmt: skip
        owners[row.pk] = tenant.pk
    import_module("billing.migrations.0007_usage_in_the_order_of_its_pages").name_tenants(apps, None)
    assert dict(CutUsage.objects.values_list("pk", "tenant_id")) == owners
