"""What the refusal of a topic by a limit of its tenant's plan says."""

from collections.abc import Mapping
from typing import Any

from control_plane.topics.models import Topic
from penstock.contract.errors import LimitExceeded
from penstock.contract.limits import KIB
from penstock.contract.topic_settings import UNLIMITED
from penstock.rules.names import AUDIT_TOPIC
from quotas.plans import Limits
from tenants.models import Tenant

AUDIT_MESSAGE_BYTES_MIN = 64 * KIB
"""Of the topic with a tenant's audit log, whatever the tenant's limit: the service writes it, and an entry must fit."""


def above_limits(plan: Limits, name: str, settings: Mapping[str, Any]) -> LimitExceeded | None:
    """Why a topic may not have these settings. What it has already may stay."""
    for limit, setting, most in (
        ("retention_ms_max", "retention_ms", plan.retention_ms_max),
        ("message_bytes_max", "max_message_bytes", plan.message_bytes_max),
    ):
        if most and name == AUDIT_TOPIC and limit == "message_bytes_max":
            most = max(most, AUDIT_MESSAGE_BYTES_MIN)
        value = settings.get(setting)
        if most and value is not None and (value == UNLIMITED or value > most):
            asked = "no end" if value == UNLIMITED else value
            return LimitExceeded(
                f"{limit}: {setting} of {name} would be {asked}, at most {most} allowed to the tenant; name a smaller"
                f" {setting}, or ask for a higher limit",
                limit=limit,
            )
    return None


_DELETE_SOME = "delete a topic, or ask for a higher limit"


def partitions_reached(tenant: Tenant, name: str, more: int, used: int, allowed: int) -> LimitExceeded:
    """More partitions than the tenant may have."""
    return LimitExceeded(
        f"partitions_max: {name} needs {more}, {used} of {allowed} are used by the tenant;"
        f" {_DELETE_SOME}{_in_the_bin(tenant)}",
        limit="partitions_max",
    )


def _in_the_bin(tenant: Tenant) -> str:
    """What of a limit that is used up can be had at once."""
    binned = Topic.objects.filter(tenant=tenant, deleted_at=None).exclude(binned_at=None).count()
    return f"; topics in the recycle bin count, and {binned} can be deleted from it" if binned else ""


def topics_reached(tenant: Tenant, name: str, used: int, allowed: int) -> LimitExceeded:
    """One topic more than the tenant may have."""
    return LimitExceeded(
        f"topics_max: {name} needs 1, {used} of {allowed} are used by the tenant; {_DELETE_SOME}{_in_the_bin(tenant)}",
        limit="topics_max",
    )
