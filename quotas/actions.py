"""Publishes plans, and sets a tenant's plan and limits. Brokers get what they enforce with the tenant."""

from dataclasses import asdict
from typing import Any

from django.db import transaction

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.service_levels import STANDARD_1, ServiceLevel
from quotas.models import PlanChange, PlanVersion, Quota
from quotas.plans import (
    HIGHEST,
    LIMIT_NAMES,
    Limits,
    Plan,
    check_plan_name,
    level_of_version,
    level_plain,
)
from quotas.queries import limits_of, plan_of, plans
from tenants import actions as tenants
from tenants.models import Tenant

_STORED = ("plan", "plan_version", *LIMIT_NAMES)


def publish_plan(actor: Actor, name: str, limits: Limits, service_level: ServiceLevel = STANDARD_1) -> Plan:
    """The next version of a plan, or the first of a new one; the newest, if that has the same limits and service level.
    No tenant's limits change. Raises `InvalidRequest`.
    """
    check_plan_name(name)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).filter(public_id=SYSTEM_TENANT).first()
        there = [plan for plan in plans() if plan.name == name]
        if (
            there
            and there[-1].limits == limits
            and there[-1].service_level == level_of_version(service_level, there[-1].version)
        ):
            return there[-1]
        version = len(there) + 1
        level = level_of_version(service_level, version)
        plan = Plan(name=name, version=version, limits=limits, service_level=level)
        PlanVersion.objects.create(
            name=name, version=version, limits=asdict(limits), service_level=level_plain(level)
        )
        audit.record(
            actor,
            tenant=SYSTEM_TENANT,
            action="plan.publish",
            object_id=f"{plan.name}/{plan.version}",
            before=_published(there[-1]) if there else None,
            after=_published(plan),
        )
    return plan


def _published(plan: Plan) -> dict[str, Any]:
    return {**asdict(plan.limits), "service_level": level_plain(plan.service_level)}


def set_limits(actor: Actor, tenant: Tenant, *, plan: Plan | None = None, **limits: int | None) -> Tenant:
    """Set the plan and the limits that are given by their names; 0 = no limit, None = as it is. Another plan ends all
    limits of the tenant's own that are not given with it, and its service level holds for months that begin from now
    on. Raises `InvalidRequest`, also for the service's own tenant.
    """
    tenants.check_not_the_service(tenant)
    for name, value in limits.items():
        check_limit(name, value)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        before = _described(tenant)
        quota, _ = Quota.objects.get_or_create(tenant=tenant)
        if plan is not None:
            _note_plan(tenant, quota, (plan.name, plan.version))
            quota.plan, quota.plan_version = plan.name, plan.version
        for name in LIMIT_NAMES:
            if limits.get(name) is not None or plan is not None:
                setattr(quota, name, limits.get(name))
        quota.save()
        after = _described(tenant)
        if after == before:
            return Tenant.objects.get(pk=tenant.pk)
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="quota.set",
            object_id=tenant.public_id,
            before=before,
            after=after,
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
        refused = _described(locked)
        present = Quota.objects.get(tenant=locked)
        _note_plan(locked, present, (quota.plan, quota.plan_version))
        Quota.objects.filter(tenant=locked).update(**{name: getattr(quota, name) for name in _STORED})
        audit.record(
            actor,
            tenant=locked.public_id,
            action="quota.refused",
            object_id=locked.public_id,
            before=refused,
            after=_described(locked) | {"why": why},
        )
    return True


def _note_plan(tenant: Tenant, quota: Quota, wanted: tuple[str, int]) -> None:
    if wanted != (quota.plan, quota.plan_version):
        PlanChange.objects.create(tenant=tenant, plan=quota.plan, plan_version=quota.plan_version)


def _described(tenant: Tenant) -> dict[str, Any]:
    plan = plan_of(tenant)
    return {"plan": plan.name, "plan_version": plan.version, **asdict(limits_of(tenant))}


def check_limit(name: str, value: int | None) -> None:
    """Raises `InvalidRequest` unless there is a limit of that name that can have the value."""
    if name not in HIGHEST:
        raise InvalidRequest(f"{name[:64]}: no such limit; known: {', '.join(LIMIT_NAMES)}")
    if value is not None and not 0 <= value <= HIGHEST[name]:
        raise InvalidRequest(f"{name}: {value} is not within 0 to {HIGHEST[name]}")
