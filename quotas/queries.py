"""Reads plans, and the plan and limits of tenants."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from penstock.contract.errors import NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.service_levels import STANDARD_1, ServiceLevel
from quotas.models import PlanChange, PlanVersion, Quota
from quotas.plans import DEFAULT, LIMIT_NAMES, SHIPPED, SYSTEM, Limits, Plan, limits_from, stored_level
from tenants.models import Tenant

_SHIPPED = {(plan.name, plan.version): plan for plan in SHIPPED}


def plans() -> list[Plan]:
    """Every version of every plan, by name and version."""
    published = [_plan(row) for row in PlanVersion.objects.all()]
    return sorted((*SHIPPED, *published), key=lambda plan: (plan.name, plan.version))


def plan(name: str, version: int = 0) -> Plan:
    """That version of the plan, 0 = its newest. Raises `NotFound`, naming the plans that there are."""
    known = plans()
    found = [one for one in known if one.name == name and version in (0, one.version)]
    if not found:
        names = ", ".join(dict.fromkeys(one.name for one in known))
        which = f"plan {name[:64]!r}" + (f" version {version}" if version else "")
        raise NotFound(f"{which} does not exist; there are: {names}")
    return found[-1]


def plan_of(tenant: Tenant) -> Plan:
    """The plan that the tenant is on."""
    return _plan_of(quota_of(tenant))


def service_level_at(tenant: Tenant, moment: datetime) -> ServiceLevel:
    """Of the plan that the tenant was on at that moment; a change at the moment itself holds."""
    next_change = (
        PlanChange.objects.filter(tenant=tenant, changed_at__gt=moment).order_by("changed_at", "pk").first()
    )
    if next_change is None:
        return plan_of(tenant).service_level
    return _named(next_change.plan, next_change.plan_version).service_level


def limits_of(tenant: Tenant) -> Limits:
    """The tenant's own limits, and the plan's where it has none."""
    return limits_by_tenant([tenant])[tenant.public_id]


def calls_name(tenant: Tenant) -> str:
    """Under which the tenant's calls of REST are counted, in windows of a second."""
    return f"throttle:tenant:{tenant.pk}"


def call_time_name(tenant: Tenant) -> str:
    """Under which the processor time of the tenant's calls of REST is counted."""
    return f"processor:tenant:{tenant.pk}"


def quota_of(tenant: Tenant) -> Quota:
    """What was set for the tenant: its plan, and its limits beside it."""
    return Quota.objects.filter(tenant=tenant).first() or Quota(tenant=tenant)


def limits_by_tenant(tenants: Sequence[Tenant]) -> dict[str, Limits]:
    """The limits of each tenant, by public id."""
    quotas = {quota.tenant_id: quota for quota in Quota.objects.filter(tenant__in=tenants)}
    later = {(quota.plan, quota.plan_version) for quota in quotas.values() if quota.plan} - set(_SHIPPED)
    known = dict(_SHIPPED)
    if later:
        rows = PlanVersion.objects.filter(name__in={name for name, _ in later})
        known |= {(row.name, row.version): _plan(row) for row in rows}
    return {tenant.public_id: _limits(tenant, quotas.get(tenant.pk), known) for tenant in tenants}


def _limits(tenant: Tenant, quota: Quota | None, known: dict[tuple[str, int], Plan]) -> Limits:
    if tenant.public_id == SYSTEM_TENANT:
        return SYSTEM
    if quota is None:
        return DEFAULT.limits
    base = known[quota.plan, quota.plan_version] if quota.plan else DEFAULT
    own = {name: getattr(quota, name) for name in LIMIT_NAMES}
    return Limits(**(asdict(base.limits) | {name: value for name, value in own.items() if value is not None}))


def _plan_of(quota: Quota) -> Plan:
    return _named(quota.plan, quota.plan_version)


def _named(name: str, version: int) -> Plan:
    return plan(name, version) if name else DEFAULT


def _plan(row: PlanVersion) -> Plan:
    return Plan(
        name=row.name,
        version=row.version,
        limits=limits_from(row.limits),
        service_level=STANDARD_1 if row.service_level is None else stored_level(row.service_level),
    )
