"""The overview: rates, lag, cost so far, and health."""

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from control_plane.audit import queries as audit
from control_plane.brokers import client as internal
from control_plane.topics import plan_use
from control_plane.topics import queries as topics
from penstock.contract.errors import PenstockError
from penstock.contract.resources import LIMITS
from penstock.contract.resources.description import Unit
from penstock.rules.nearness import is_near
from quotas.queries import limits_of
from tenants import queries as tenants
from tenants.models import Tenant
from tenants.roles import Permission
from web import charts, described, live
from web.broker_access import KEY_NAME, brokers, own_keys
from web.costs import cost_so_far
from web.flows import flows
from web.groups_now import groups_now
from web.tenant_access import TenantAccess, in_tenant
from web.unscripted import first_answer
from web.views.budgets import reached_now

BUSIEST = 6
RECENT = 6
USED_UP = (
    "storage_bytes_max",
    "partitions_max",
    "topics_max",
    "connections_max",
    "groups_max",
    "keys_max",
    "service_accounts_max",
    "partition_changes_per_hour",
)
"""Limits whose use the overview shows."""


@in_tenant()
@require_safe
def overview(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The page without the brokers' part, which is loaded afterwards."""
    context: dict[str, Any] = {
        "here": "overview",
        "topic_count": topics.topics(access.tenant).count(),
        "limits": described.rows(LIMITS, asdict(limits_of(access.tenant))),
    }
    if access.may(Permission.BUDGETS_READ):
        context["spent_budgets"] = reached_now(access.tenant)
    if access.may(Permission.KEYS_READ):
        context["has_key"] = (
            tenants.keys(access.tenant).exclude(public_id__in=own_keys(access.tenant)).exists()
        )
    if access.may(Permission.USAGE_READ):
        context["cost"] = cost_so_far(access.tenant)
    if access.may(Permission.AUDIT_READ):
        entries = audit.entries(access.tenant.public_id).order_by("-sequence")[: 5 * RECENT]
        # The console's own keys are made and revoked all the time.
        context["recent"] = [
            one for one in entries if KEY_NAME not in (one.after.get("name"), one.before.get("name"))
        ][:RECENT]
    first = topics.topics(access.tenant).order_by("name").first()
    context["first_topic"] = first.name if first is not None else ""
    if context["topic_count"]:
        context |= first_answer(request, overview_live, tenant=access.tenant.name)
    return render(request, "web/overview.html", context)


@in_tenant()
@require_safe
def overview_live(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Rates, lag and health from the brokers."""
    context: dict[str, Any] = {}
    if not access.may(Permission.GROUPS_READ):
        context["refused"] = True
        return render(request, "web/parts/overview_live.html", context)
    try:
        with brokers(access) as client:
            described = client.topics(live.TIMEOUT_S)
            sampled, partitions = [], 0
            for topic in described:
                partitions += len(topic.partitions)
                if partitions <= live.PARTITIONS_MAX:
                    sampled.append(topic)
            now = live.topics_now(client, sampled)
            groups = groups_now(
                client,
                {topic.name: topic for topic in now},
                [group.group for group in client.groups(live.TIMEOUT_S)],
            )
    except PenstockError as error:
        return render(request, "web/parts/overview_live.html", {"trouble": error})
    rates = live.watch.sample(f"tenant {access.tenant.public_id}", sum(topic.written for topic in now))
    by_topic = [(topic, live.watch.sample(f"topic {topic.topic_id}", topic.written)) for topic in now]
    busiest = sorted(by_topic, key=lambda one: (-(one[1].now or 0), -one[0].stored, one[0].name))[:BUSIEST]
    longest = max((topic.stored for topic, _ in busiest), default=0)
    context |= {
        "topics": now,
        "left_out": len(described) - len(sampled),
        "stored": sum(topic.stored for topic in now),
        "written": sum(topic.written for topic in now),
        "leaderless": sum(topic.leaderless for topic in now),
        "behind": sum(topic.under_replicated for topic in now),
        "rates": rates,
        "flows": flows(access.tenant.public_id),
        "busiest": [
            (
                topic,
                rate,
                charts.pipe(topic.stored, topic.stored, longest, f"{topic.stored:,} messages", gate=False),
            )
            for topic, rate in busiest
        ],
        "groups": sorted(groups, key=lambda group: (-group.lag, group.name))[:BUSIEST],
        "group_count": len(groups),
        "lag": sum(group.lag for group in groups),
        "uses": _uses(access.tenant),
    }
    return render(request, "web/parts/overview_live.html", context)


def _uses(tenant: Tenant) -> list[dict[str, Any]]:
    """What is used of the limits that are used up by what is there."""
    described_as = {limit.name: limit for limit in LIMITS}
    compared = plan_use.compared(tenant, limits_of(tenant), internal.tenant_use(tenant.public_id))
    return [
        {
            "label": described_as[use.name].label,
            "bytes": described_as[use.name].unit is Unit.BYTE,
            "used": use.used,
            "limit": use.present,
            "near": use.used is not None and is_near(use.used, use.present),
            "percent": None if use.used is None or not use.present else use.used * 100 // use.present,
        }
        for use in compared
        if use.name in USED_UP
    ]
