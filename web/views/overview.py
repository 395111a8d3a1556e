"""The overview: rates, lag, cost so far, and health."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from control_plane.brokers import client as internal
from control_plane.topics import plan_use
from control_plane.topics import queries as topics
from penstock.contract.errors import PenstockError
from penstock.contract.resources import LIMITS
from penstock.contract.resources.description import Field, Unit
from penstock.rules.nearness import is_near
from quotas.plans import Limits
from quotas.queries import limits_of
from tenants import queries as tenants
from tenants.models import Tenant
from tenants.roles import Permission
from web import changes, charts, described, formats, live
from web.broker_access import brokers, own_keys
from web.costs import cost_so_far
from web.flows import flows
from web.groups_now import groups_now
from web.tenant_access import TenantAccess, in_tenant
from web.unscripted import first_answer
from web.views.budgets import reached_now

BUSIEST = 6
RECENT = 6
HALF = 50
"""Percent from which on a limit stands before the others."""
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
        "limits": limits_shown(limits_of(access.tenant), []),
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
        emails = {person.public_id: person.email for person in tenants.people(access.tenant)}
        context["changes"] = changes.newest(access.tenant.public_id, emails, RECENT)
    first = topics.topics(access.tenant).order_by("name").first()
    context["first_topic"] = first.name if first is not None else ""
    if context["topic_count"]:
        context |= first_answer(request, overview_live, tenant=access.tenant.name)
        if context["first_answer"]:
            context["limits"] = _limits_with_use(access.tenant)
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
    }
    if request.headers.get("HX-Request"):
        # The limits stand further below on the page, which has them already, without what is used of them.
        context |= {"is_apart": True, "limits": _limits_with_use(access.tenant)}
    return render(request, "web/parts/overview_live.html", context)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitShown:
    """A limit as a row; `used` and `percent` are None where the use is not known, or nothing uses it up."""

    label: str
    value: str
    about: str
    used: str | None
    percent: int | None
    is_near: bool


def _limits_with_use(tenant: Tenant) -> list[LimitShown]:
    present = limits_of(tenant)
    return limits_shown(present, plan_use.compared(tenant, present, internal.tenant_use(tenant.public_id)))


def limits_shown(limits: Limits, uses: Iterable[plan_use.LimitUse]) -> list[LimitShown]:
    """Every limit once: those that are used to a half and more first, the fullest of them at the top."""
    use_by_name = {use.name: use for use in uses if use.name in USED_UP and use.used is not None}
    shown = [
        _limit_shown(field, row, use_by_name.get(field.name))
        for field, row in zip(LIMITS, described.rows(LIMITS, asdict(limits)), strict=True)
    ]
    return sorted(shown, key=lambda limit: -(limit.percent or 0) if (limit.percent or 0) >= HALF else 0)


def _limit_shown(field: Field, row: described.Row, use: plan_use.LimitUse | None) -> LimitShown:
    used = None if use is None else use.used
    limit = 0 if use is None else use.present
    form = formats.binary_size if field.unit is Unit.BYTE else formats.count
    return LimitShown(
        label=row.label,
        value=row.value,
        about=row.about,
        used=None if used is None else form(used),
        percent=None if used is None or not limit else used * 100 // limit,
        is_near=used is not None and is_near(used, limit),
    )
