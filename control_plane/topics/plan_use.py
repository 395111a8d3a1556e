"""What a tenant uses of its limits, and what other limits would refuse."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction
from django.db.models import Sum

from control_plane.audit.actor import Actor
from control_plane.brokers.view import TenantUseSeen
from control_plane.rate_counters import counters
from control_plane.topics.models import Topic
from penstock.contract.errors import LimitExceeded
from penstock.contract.topic_settings import UNLIMITED
from penstock.rules.names import AUDIT_TOPIC
from quotas import actions
from quotas.partition_changes import made_in_this_hour
from quotas.plans import LIMIT_NAMES, Limits, Plan
from quotas.queries import calls_name, limits_of
from tenants.models import Tenant
from tenants.queries import counted_keys, service_accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """One limit as it is, as it would be, and what is used of it now."""

    name: str
    present: int
    """0 = no limit."""
    wanted: int
    used: int | None
    """None: it is not counted, or brokers do not say it. UNLIMITED: a topic without an end of retention."""
    refused: str = ""
    """What would have to be done first; empty if `wanted` is not below what is used."""


PASSING = ("partition_changes_per_hour", "connections_max", "rest_calls_per_s")
"""What is used of them clears by itself, and the tenant could keep a plan away with it: a limit below it refuses
nothing that is there."""
SEEN_BY_BROKERS = ("connections_max", "groups_max", "storage_bytes_max")
"""Limits of which brokers alone know what is used."""


def uses(tenant: Tenant, seen: TenantUseSeen) -> dict[str, int | None]:
    """By limit: what the tenant uses of it; None = the brokers do not say it. `seen`: as brokers say."""
    topics = Topic.objects.filter(tenant=tenant, deleted_at=None)
    named = list(topics.values_list("name", "settings"))
    settings = [one for _, one in named]
    retentions = [one["retention_ms"] for one in settings]
    return {
        "partitions_max": topics.aggregate(n=Sum("partitions"))["n"] or 0,
        "topics_max": len(settings),
        "retention_ms_max": UNLIMITED if UNLIMITED in retentions else max(retentions, default=0),
        "message_bytes_max": max(
            (one["max_message_bytes"] for name, one in named if name != AUDIT_TOPIC), default=0
        ),
        "service_accounts_max": service_accounts(tenant).count(),
        "keys_max": counted_keys(tenant).count(),
        "connections_max": seen.connections,
        "groups_max": seen.groups,
        "storage_bytes_max": seen.storage_bytes,
        "partition_changes_per_hour": made_in_this_hour(tenant),
        "rest_calls_per_s": counters().counted(calls_name(tenant)),
    }


def compared(
    tenant: Tenant, wanted: Limits, seen: TenantUseSeen, visible: Callable[[str], bool] | None = None
) -> list[LimitUse]:
    """Each limit beside what the tenant has and uses. A topic is named if it is `visible`, or if that is None."""
    present, found, used = asdict(limits_of(tenant)), asdict(wanted), uses(tenant, seen)
    greatest = {
        limit: topic for limit, topic in _greatest(tenant).items() if visible is None or visible(topic)
    }
    if present["rest_calls_per_s"] == 0:
        used["rest_calls_per_s"] = None  # calls without a limit are not counted
    return [
        LimitUse(
            name=name,
            present=present[name],
            wanted=found[name],
            used=used.get(name),
            refused=refusal(name, found[name], used.get(name), greatest.get(name, "")),
        )
        for name in LIMIT_NAMES
    ]


def _greatest(tenant: Tenant) -> dict[str, str]:
    """The topic that uses most of a limit that each topic has for itself, by limit."""
    rows = Topic.objects.filter(tenant=tenant, deleted_at=None).order_by("name")
    longest = largest = 0
    found: dict[str, str] = {}
    for name, settings in rows.values_list("name", "settings"):
        kept = settings["retention_ms"]
        if longest != UNLIMITED and (kept == UNLIMITED or kept > longest):
            found["retention_ms_max"], longest = name, kept
        if name != AUDIT_TOPIC and settings["max_message_bytes"] > largest:
            found["message_bytes_max"], largest = name, settings["max_message_bytes"]
    return found


def refusal(name: str, limit: int, used: int | None, topic: str = "") -> str:
    """Why so much may not be used of a limit; empty if it may. `topic`: the one that uses most, of a limit of each."""
    if used is None or limit == 0 or name in PASSING or UNLIMITED != used <= limit:
        return ""
    if used == UNLIMITED and not topic:
        return f"{name}: a topic keeps its messages without an end, at most {limit} allowed"
    if used == UNLIMITED:
        return f"{name}: topic {topic} keeps its messages without an end, at most {limit} allowed{_service_s(topic)}"
    if topic:
        return f"{name}: {used} used by topic {topic}, at most {limit} allowed{_service_s(topic)}"
    return f"{name}: {used} used, at most {limit} allowed"


def _service_s(topic: str) -> str:
    """Advice for the topic of the audit log, which the service writes and no person made; else empty."""
    return (
        "; it has the audit log: set its retention with penstock audit topic" if topic == AUDIT_TOPIC else ""
    )


def set_limits(
    actor: Actor, tenant: Tenant, *, plan: Plan | None, seen: TenantUseSeen, **limits: Any
) -> Tenant:
    """As `quotas.actions.set_limits`. A plan with a limit below what is used is refused, and so is a limit of the
    tenant's own that becomes lower than it was and is below that: `LimitExceeded`, which names each such limit. `seen`:
    what is used as brokers say; what they do not say refuses nothing.
    """
    given = {name: value for name, value in limits.items() if value is not None}
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        # A limit that is given with the plan stands in the plan's stead.
        base = limits_of(tenant) if plan is None else plan.limits
        wanted = Limits(**(asdict(base) | given))
        below = [use for use in compared(tenant, wanted, seen) if use.refused]
        if plan is not None and below:
            raise LimitExceeded(f"plan {plan.label} is below what is used: {_listed(below)}")
        lowered = [
            use for use in below if use.name in given and (use.present == 0 or use.wanted < use.present)
        ]
        if lowered:
            raise LimitExceeded(f"a limit is below what tenant {tenant.public_id} uses: {_listed(lowered)}")
        return actions.set_limits(actor, tenant, plan=plan, **limits)


def _listed(below: list[LimitUse]) -> str:
    return "; ".join(use.refused for use in below)
