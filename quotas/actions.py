"""Sets a tenant's limits. Brokers get them with the tenant."""

from django.db import transaction

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import PRODUCE_BYTES_PER_S_MAX
from quotas.models import Quota
from quotas.queries import limits_of
from tenants import actions as tenants
from tenants.models import Tenant

PARTITIONS_MAX_MAX = 2**31 - 1


def set_limits(
    actor: Actor,
    tenant: Tenant,
    *,
    produce_bytes_per_s: int | None = None,
    partitions_max: int | None = None,
) -> Tenant:
    """Set the given limits; 0 = no limit. Raises `InvalidRequest`, also for the service's own tenant."""
    tenants.check_not_the_service(tenant)
    check_produce_rate(produce_bytes_per_s)
    check_partitions_max(partitions_max)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        before = limits_of(tenant)
        quota, _ = Quota.objects.get_or_create(tenant=tenant)
        if produce_bytes_per_s is not None:
            quota.produce_bytes_per_s = produce_bytes_per_s
        if partitions_max is not None:
            quota.partitions_max = partitions_max
        quota.save()
        after = limits_of(tenant)
        if after == before:
            return Tenant.objects.get(pk=tenant.pk)
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="quota.set",
            object_id=tenant.public_id,
            before={
                "produce_bytes_per_s": before.produce_bytes_per_s,
                "partitions_max": before.partitions_max,
            },
            after={"produce_bytes_per_s": after.produce_bytes_per_s, "partitions_max": after.partitions_max},
        )
        return tenants.touch_tenant(actor, tenant)


def take_back(actor: Actor, tenant: Tenant, before: Tenant, quota: Quota, why: str) -> bool:
    """The brokers refused the limits that made `tenant` of `before`: those of `quota` are set again. False if a process
    delivers the tenant or has changed it too.
    """
    with transaction.atomic():
        locked = tenants.take_back_tenant(tenant, before)
        if locked is None:
            return False
        refused = limits_of(locked)
        Quota.objects.filter(tenant=locked).update(
            produce_bytes_per_s=quota.produce_bytes_per_s, partitions_max=quota.partitions_max
        )
        after = limits_of(locked)
        audit.record(
            actor,
            tenant=locked.public_id,
            action="quota.refused",
            object_id=locked.public_id,
            before={
                "produce_bytes_per_s": refused.produce_bytes_per_s,
                "partitions_max": refused.partitions_max,
            },
            after={
                "produce_bytes_per_s": after.produce_bytes_per_s,
                "partitions_max": after.partitions_max,
                "why": why,
            },
        )
    return True


def check_produce_rate(bytes_per_s: int | None) -> None:
    """Raises `InvalidRequest` unless it can be a limit."""
    _bounded("produce_bytes_per_s", bytes_per_s, PRODUCE_BYTES_PER_S_MAX)


def check_partitions_max(partitions_max: int | None) -> None:
    """Raises `InvalidRequest` unless it can be a limit."""
    _bounded("partitions_max", partitions_max, PARTITIONS_MAX_MAX)


def _bounded(name: str, value: int | None, high: int) -> None:
    if value is not None and not 0 <= value <= high:
        raise InvalidRequest(f"{name}: {value} is not within 0 to {high}")
