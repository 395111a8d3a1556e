"""Reads budgets, as people set them and as brokers get them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from django.db.models import Q, QuerySet

from control_plane.brokers.view import BudgetUseSeen
from penstock.contract.errors import LimitExceeded, NotFound
from penstock.contract.limits import BUDGETS_PER_TENANT_MAX
from penstock.rules.access import ACCOUNT_KIND
from penstock.rules.budgets import BYTES, COST, MESSAGES, NOTIFY, PARTS, STOP_GROWTH, period_at
from penstock.rules.budgets import Budget as BrokersBudget
from penstock.rules.timestamps import time_ms
from quotas.models import Budget
from tenants.models import ServiceAccount, Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRates:
    """What a produced byte and message cost by the tenant's price book, in parts of a micro-unit, and the currency."""

    currency: str
    byte_in: int
    message_in: int


Rates = Callable[[Tenant], UnitRates | None]
"""None: the tenant has no price book."""
UsedSince = Callable[[Tenant, date, str, ServiceAccount | None], Mapping[str, int]]
"""What is known to be used since a day began, by meter: of a topic (empty: all) and a service account (None: all)."""


def budgets(tenant: Tenant) -> QuerySet[Budget]:
    """Oldest first."""
    return _present().filter(tenant=tenant).order_by("pk")


def check_count(tenant: Tenant, more: int = 0) -> None:
    """Whether the tenant may have its budgets and so many more: each message counts against all of them. A service
    account that is restored brings its own back. Raises `LimitExceeded`.
    """
    there = budgets(tenant).count()
    if there + more > BUDGETS_PER_TENANT_MAX:
        had = f"{there} with those of the service account" if not more else f"{there}"
        raise LimitExceeded(
            f"{BUDGETS_PER_TENANT_MAX} budgets of the tenant, and no more may be: each message counts against all"
            f" of them; it has {had}, remove one first",
            limit="BUDGETS_PER_TENANT_MAX",
        )


def budget(tenant: Tenant, public_id: str) -> Budget:
    """Raises `NotFound`."""
    found = budgets(tenant).filter(public_id=public_id).first()
    if found is None:
        raise NotFound(f"budget {public_id[:63]!r} does not exist")
    return found


def all_budgets() -> QuerySet[Budget]:
    """Of every tenant, by tenant."""
    return _present().order_by("tenant_id", "pk")


def any_budget() -> QuerySet[Budget]:
    return Budget.objects.all()


def on_brokers(tenant: Tenant, rates: Rates) -> list[BrokersBudget]:
    """As brokers get them. One by cost is left out while there are no prices."""
    return as_sent(tenant, budgets(tenant), rates)


def as_sent(tenant: Tenant, rows: Iterable[Budget], rates: Rates) -> list[BrokersBudget]:
    prices: UnitRates | None = None
    asked = False
    found = []
    for row in rows:
        unit, byte_in, message_in = (
            row.measure,
            PARTS * (row.measure == BYTES),
            PARTS * (row.measure == MESSAGES),
        )
        if row.measure == COST:
            if not asked:
                prices, asked = rates(tenant), True
            if prices is None:
                continue
            unit, byte_in, message_in = unit_of(prices.currency), prices.byte_in, prices.message_in
        found.append(
            BrokersBudget(
                budget_id=row.public_id,
                name=row.name,
                period=row.period,
                amount=row.amount,
                unit=unit,
                policy=NOTIFY if row.policy == STOP_GROWTH else row.policy,
                slow_bytes_per_s=row.slow_bytes_per_s,
                topic=row.topic,
                principal="" if row.account is None else f"{ACCOUNT_KIND}{row.account.public_id}",
                byte_in=byte_in,
                message_in=message_in,
                byte_out=PARTS * (row.counts_reads and row.measure == BYTES),
                message_out=PARTS * (row.counts_reads and row.measure == MESSAGES),
                used_before=row.used_before,
                first_began_ms=_first_began_ms(row) if row.used_before else 0,
            )
        )
    return found


def unit_of(currency: str) -> str:
    """As people read it in an error."""
    return f"micro-{currency}"


def by_tenant(rates: Rates) -> dict[str, list[BrokersBudget]]:
    """Of every tenant that has some, as brokers get them, by public id."""
    rows: dict[str, tuple[Tenant, list[Budget]]] = {}
    for row in all_budgets():
        rows.setdefault(row.tenant.public_id, (row.tenant, []))[1].append(row)
    return {public_id: as_sent(tenant, found, rates) for public_id, (tenant, found) in rows.items()}


def used_of(row: Budget, uses: Mapping[tuple[str, str], BudgetUseSeen] | None, now_ms: int) -> int | None:
    """In the present period, as brokers say it; None: they do not say it."""
    if uses is None:
        return None
    found = uses.get((row.tenant.public_id, row.public_id))
    return used_before(row, now_ms) if found is None or found.ends_ms <= now_ms else found.used


def with_use_before(
    rows: Iterable[Budget], uses: Mapping[tuple[str, str], BudgetUseSeen], now_ms: int
) -> dict[tuple[str, str], BudgetUseSeen]:
    """As brokers say it, and of budgets of which they have not counted anything what was used before them."""
    found = dict(uses)
    for row in rows:
        key, used = (row.tenant.public_id, row.public_id), used_before(row, now_ms)
        if used and key not in found:
            began_ms, ends_ms = period_at(row.period, now_ms)
            found[key] = BudgetUseSeen(began_ms=began_ms, ends_ms=ends_ms, used=used)
    return found


def used_before(row: Budget, now_ms: int) -> int:
    """In the present period."""
    return row.used_before if _first_began_ms(row) == period_at(row.period, now_ms)[0] else 0


def _first_began_ms(row: Budget) -> int:
    """When the period began in which it was made."""
    return period_at(row.period, time_ms(row.created_at))[0]


def _present() -> QuerySet[Budget]:
    """A service account that has ended sends nothing, and what it had no one raises."""
    return Budget.objects.filter(Q(account=None) | Q(account__ended_at=None)).select_related(
        "tenant", "account"
    )
