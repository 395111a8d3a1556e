"""Reads a tenant's limits."""

from penstock.contract.ids import SYSTEM_TENANT
from quotas.models import Quota
from quotas.plans import STANDARD, SYSTEM, Limits
from tenants.models import Tenant


def limits_of(tenant: Tenant) -> Limits:
    """The plan's limits with what was set for this tenant."""
    if tenant.public_id == SYSTEM_TENANT:
        return SYSTEM
    quota = Quota.objects.filter(tenant=tenant).first()
    if quota is None:
        return STANDARD
    return Limits(
        produce_bytes_per_s=STANDARD.produce_bytes_per_s
        if quota.produce_bytes_per_s is None
        else quota.produce_bytes_per_s,
        partitions_max=STANDARD.partitions_max if quota.partitions_max is None else quota.partitions_max,
    )
