"""Reads a tenant's limits."""

from collections.abc import Sequence

from penstock.contract.ids import SYSTEM_TENANT
from quotas.models import Quota
from quotas.plans import STANDARD, SYSTEM, Limits
from tenants.models import Tenant


def limits_of(tenant: Tenant) -> Limits:
    """The tenant's own limits, and the plan's where it has none."""
    return limits_by_tenant([tenant])[tenant.public_id]


def quota_of(tenant: Tenant) -> Quota:
    """What was set for the tenant beside its plan."""
    return Quota.objects.filter(tenant=tenant).first() or Quota(tenant=tenant)


def limits_by_tenant(tenants: Sequence[Tenant]) -> dict[str, Limits]:
    """The limits of each tenant, by public id."""
    quotas = {quota.tenant_id: quota for quota in Quota.objects.filter(tenant__in=tenants)}
    return {tenant.public_id: _limits(tenant, quotas.get(tenant.pk)) for tenant in tenants}


def _limits(tenant: Tenant, quota: Quota | None) -> Limits:
    if tenant.public_id == SYSTEM_TENANT:
        return SYSTEM
    if quota is None:
        return STANDARD
    return Limits(
        produce_bytes_per_s=STANDARD.produce_bytes_per_s
        if quota.produce_bytes_per_s is None
        else quota.produce_bytes_per_s,
        partitions_max=STANDARD.partitions_max if quota.partitions_max is None else quota.partitions_max,
    )
