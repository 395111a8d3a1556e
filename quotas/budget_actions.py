"""Makes, changes and removes budgets. Brokers get them with the tenant."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.contract.limits import KEY_NAME_LENGTH_MAX
from penstock.contract.resources import BUDGETS, budgets
from penstock.contract.resources.budgets import AMOUNT_MAX, THRESHOLDS_DEFAULT
from penstock.contract.resources.checks import check
from penstock.contract.resources.description import Given
from penstock.rules.budgets import COST, MONTH, PARTS, SLOW, STOP_GROWTH, period_at
from penstock.rules.names import check_display_name, check_topic_name
from penstock.rules.timestamps import moment_of, time_ms
from quotas import budget_queries as queries
from quotas import growth
from quotas.budget_queries import Rates, UnitRates, UsedSince
from quotas.models import Budget
from tenants import actions as tenants
from tenants import queries as tenant_queries
from tenants.models import Tenant

CHANGEABLE = tuple(field.name for field in BUDGETS.fields if field.given is Given.ALWAYS)


def create(
    actor: Actor,
    tenant: Tenant,
    rates: Rates,
    used_since: UsedSince,
    *,
    name: str,
    period: str,
    measure: str,
    amount: int,
    policy: str,
    thresholds: Sequence[int] = THRESHOLDS_DEFAULT,
    slow_bytes_per_s: int = 0,
    topic: str = "",
    service_account: str = "",
    counts_reads: bool = False,
) -> tuple[Tenant, Budget]:
    """Counting begins now, with what the period is known to have used: of what is produced, with `counts_reads` of what
    is delivered too. The tenant as it is delivered, and the budget.

    Raises `InvalidRequest`, `AlreadyExists` (the name), `LimitExceeded`, `NotFound` (the service account).
    """
    tenants.check_not_the_service(tenant)
    check(budgets.PERIOD, period)
    check(budgets.MEASURE, measure)
    if topic:
        check_topic_name(tenant.public_id, topic)
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        account = tenant_queries.service_account(locked, service_account) if service_account else None
        prices = rates(locked) if measure == COST else None
        if measure == COST and prices is None:
            raise InvalidRequest("measure: the tenant has no price book yet, so nothing has a cost")
        row = Budget(
            tenant=locked,
            name=name,
            period=period,
            measure=measure,
            amount=amount,
            thresholds=sorted(set(thresholds)),
            policy=policy,
            slow_bytes_per_s=slow_bytes_per_s,
            topic=topic,
            account=account,
            counts_reads=counts_reads,
        )
        _check(row)
        queries.check_count(locked, 1)
        row.save()
        # Of the period that it was made in, which may have begun a moment ago.
        first = moment_of(period_at(period, time_ms(row.created_at))[0]).date()
        row.used_before = _units(row, prices, used_since(locked, first, topic, account))
        row.save(update_fields=["used_before"])
        _record(actor, locked, "budget.create", row, None, described(row))
        return tenants.touch_tenant(actor, locked), row


def change(actor: Actor, tenant: Tenant, public_id: str, given: Mapping[str, Any]) -> tuple[Tenant, Budget]:
    """Change what is given, of CHANGEABLE. Raises `InvalidRequest`, `AlreadyExists`, `NotFound`."""
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = queries.budget(locked, public_id)
        before = described(row)
        for name in CHANGEABLE:
            if name in given:
                setattr(row, name, given[name])
        row.thresholds = sorted(set(row.thresholds))
        _check(row)
        after = described(row)
        if after == before:
            return locked, row
        growth.changed_by_people(row)
        written = [
            *(*CHANGEABLE, "growth_stopped_at", "kept_bytes_max"),
            *("forecast_micro", "forecast_at", "look_failed_at"),
        ]
        if (row.amount, row.thresholds) != (before["amount"], before["thresholds"]):
            # What was said was said of another amount.
            row.noted_percent = 0
            written.append("noted_percent")
        row.save(update_fields=written)
        _record(actor, locked, "budget.change", row, before, after)
        return tenants.touch_tenant(actor, locked), row


def remove(actor: Actor, tenant: Tenant, public_id: str) -> Tenant:
    """What it counted is gone with it. The tenant as it is delivered. Raises `NotFound`."""
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = queries.budget(locked, public_id)
        _record(actor, locked, "budget.remove", row, described(row), None)
        row.delete()
        return tenants.touch_tenant(actor, locked)


def remove_all(actor: Actor, tenant: Tenant) -> None:
    """For a tenant that is purged: those of service accounts that have ended too, which no one can restore any more."""
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        rows = list(Budget.objects.filter(tenant=locked).select_related("account").order_by("pk"))
        for row in rows:
            _record(actor, locked, "budget.remove", row, described(row), None)
            row.delete()
        if rows:
            tenants.touch_tenant(actor, locked)


def _units(row: Budget, prices: UnitRates | None, used: Mapping[str, int]) -> int:
    """Of the budget, as brokers count; rounded up, and no more than it may say."""
    if prices is not None:
        parts = used.get("bytes_in", 0) * prices.byte_in + used.get("messages_in", 0) * prices.message_in
        return min(AMOUNT_MAX, -(-parts // PARTS))
    counted = used.get(f"{row.measure}_in", 0)
    if row.counts_reads:
        counted += used.get(f"{row.measure}_out", 0)
    return min(AMOUNT_MAX, counted)


def described(row: Budget) -> dict[str, Any]:
    """For the audit log."""
    return {
        "name": row.name,
        "period": row.period,
        "measure": row.measure,
        "amount": row.amount,
        "thresholds": row.thresholds,
        "policy": row.policy,
        "slow_bytes_per_s": row.slow_bytes_per_s,
        "topic": row.topic,
        "service_account": None if row.account is None else row.account.public_id,
        "counts_reads": row.counts_reads,
    }


def _check(row: Budget) -> None:
    check_display_name("name", row.name, KEY_NAME_LENGTH_MAX)
    check(budgets.AMOUNT, row.amount)
    check(budgets.SLOW_BYTES_PER_S, row.slow_bytes_per_s)
    check(budgets.POLICY, row.policy)
    for percent in row.thresholds:
        check(budgets.THRESHOLDS, percent)
    if len(row.thresholds) > budgets.THRESHOLDS_MAX:
        raise InvalidRequest(f"thresholds: {len(row.thresholds)}, at most {budgets.THRESHOLDS_MAX} allowed")
    if row.policy == STOP_GROWTH and ((row.measure, row.period) != (COST, MONTH) or row.topic or row.account):
        raise InvalidRequest("policy: stop_growth is of a month's cost, and of the whole tenant")
    if (row.policy == SLOW) != bool(row.slow_bytes_per_s):
        raise InvalidRequest("slow_bytes_per_s: it goes with the policy slow, and the policy needs it")
    if row.counts_reads and row.measure == COST:
        raise InvalidRequest("counts_reads: no price book prices what is delivered, so reading costs nothing")
    same = (
        Budget.objects.filter(tenant=row.tenant, name=row.name)
        .exclude(pk=row.pk)
        .select_related("account")
        .first()
    )
    if same is not None and same.account is not None and same.account.ended_at is not None:
        raise AlreadyExists(
            f"budget {row.name!r} is of the service account {same.account.name!r}, which has ended and may be restored"
            " with it; choose another name"
        )
    if same is not None:
        raise AlreadyExists(f"budget {row.name!r} exists")


def _record(
    actor: Actor,
    tenant: Tenant,
    action: str,
    row: Budget,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    audit.record(
        actor, tenant=tenant.public_id, action=action, object_id=row.public_id, before=before, after=after
    )
