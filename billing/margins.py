"""What a month cost the service, whose cost it is by use, and what stays of what was billed: for operators."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, Sum

from billing import cost_reports, unit_cost_actions
from billing.cost_periods import periods_that_begin
from billing.models import CreditNote, Cut, Invoice, UsageDay
from billing.running_costs import running_cost
from billing.voids import without_void
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules import allocation
from penstock.rules.allocation import GIB, METERS, MILLION, Allocation, Driver, Idle, Share, rate_micro
from quotas.models import Quota
from quotas.plans import DEFAULT
from tenants.models import Tenant

RUNNING_MAX = 1_000
"""So many running periods are rated for one report, those of the greatest direct cost: each takes some queries."""
_METERS = sorted({meter for meters in METERS.values() for meter in meters})
INVOICED, PROVISIONAL, NOTHING, UNRATED, OTHER = (
    "invoiced",
    "provisional",
    "nothing",
    "unrated",
    "other_currency",
)
NO_CURRENCY = "USD"
"""Of a month without a cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """One tenant's month, or that of several together. Amounts are micro-units of the report's currency."""

    tenant: str
    """Public id; empty: of several."""
    name: str
    plan: str
    tenants: int
    messages_in: int
    bytes_in: int
    share: Share
    billed_micro: int
    """Of invoices less credit notes, before tax, and of what a running period cost so far."""
    billing: str
    """`INVOICED`, `PROVISIONAL` (some of it is no invoice yet), `NOTHING` (no period begins in the month), `UNRATED`
    (it is beyond `RUNNING_MAX`) or `OTHER` (it is billed in another currency).
    """
    unborne_micro: int = 0
    """Of all tenants together: what no tenant bears."""

    @property
    def cost_micro(self) -> int:
        """All of it."""
        return self.share.loaded_micro + self.unborne_micro

    @property
    def margin_micro(self) -> int | None:
        """None: what was billed is not known in this currency."""
        return None if self.billing in (UNRATED, OTHER) else self.billed_micro - self.cost_micro

    @property
    def cost_micro_per_million_messages(self) -> int | None:
        """Produced messages; None without any."""
        return rate_micro(self.cost_micro, self.messages_in, MILLION)

    @property
    def direct_micro_per_million_messages(self) -> int | None:
        """What more of the same would cost, while there is capacity."""
        return rate_micro(self.share.direct_micro, self.messages_in, MILLION)

    @property
    def cost_micro_per_gib_in(self) -> int | None:
        return rate_micro(self.cost_micro, self.bytes_in, GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A month's margins, tenants by their ids and plans by their names."""

    first: datetime
    end: datetime
    currency: str
    currencies: tuple[str, ...]
    """That the month has costs in."""
    found: Allocation
    total: Margin
    plans: tuple[Margin, ...]
    tenants: tuple[Margin, ...]

    @property
    def period(self) -> str:
        return f"{self.first:%Y-%m}"


def margins(period: str, now: datetime, *, currency: str = "", idle: Idle = Idle.SPREAD) -> Report:
    """The margins of a UTC month `2026-11`. Without a currency: the one that the month's costs are in.

    Raises `InvalidRequest`, also when they are in several and none is named: nothing is exchanged.
    """
    month = allocation.month_of(period)
    if month is None:
        raise InvalidRequest(f"period: {period[:20]!r} is no month; one like 2026-11 required")
    if currency and not unit_cost_actions.is_currency(currency):
        raise InvalidRequest(f"currency: {currency[:10]!r}; three letters of A to Z required")
    first, end = month
    rows = list(unit_cost_actions.costs_within(first, end).order_by("name", "pk"))
    currencies = tuple(sorted({row.currency for row in rows}))
    if not currency and len(currencies) > 1:
        raise InvalidRequest(f"currency: the month has costs in {', '.join(currencies)}; name one of them")
    wanted = currency or (currencies[0] if currencies else NO_CURRENCY)
    usage = _usage(first, end)
    tenants = _tenants(first, end, usage)
    found = allocation.allocate(
        [unit_cost_actions.asset_of(row) for row in rows if row.currency == wanted],
        {public_id: usage.get(pk, {}) for pk, (public_id, _, _) in tenants.items()},
        first,
        end,
        idle=idle,
    )
    billed = _billed(first, end, wanted, found, tenants, now)
    items = []
    for pk, (public_id, name, plan) in sorted(tenants.items(), key=lambda one: one[1]):
        amount, billing = billed[pk]
        used = usage.get(pk, {})
        items.append(
            Margin(
                tenant=public_id,
                name=name,
                plan=plan,
                tenants=1,
                messages_in=allocation.used_of(Driver.MESSAGES_IN, used),
                bytes_in=allocation.used_of(Driver.BYTES_IN, used),
                share=found.shares[public_id],
                billed_micro=amount,
                billing=billing,
            )
        )
    plans = sorted({one.plan for one in items})
    return Report(
        first=first,
        end=end,
        currency=wanted,
        currencies=currencies,
        found=found,
        total=_together(items, unborne_micro=found.idle_kept_micro + found.unspread_micro),
        plans=tuple(_together([one for one in items if one.plan == plan], plan=plan) for plan in plans),
        tenants=tuple(items),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMargin:
    """A topic's part of its tenant's month. Amounts are micro-units of the report's currency."""

    topic: str
    """Empty: what is of no topic, with what was billed beside use."""
    messages_in: int
    bytes_in: int
    share: Share
    billed_micro: int | None
    """None: the tenant is billed in another currency."""

    @property
    def cost_micro(self) -> int:
        return self.share.loaded_micro

    @property
    def margin_micro(self) -> int | None:
        return None if self.billed_micro is None else self.billed_micro - self.cost_micro

    @property
    def cost_micro_per_million_messages(self) -> int | None:
        """Produced messages; None without any."""
        return rate_micro(self.cost_micro, self.messages_in, MILLION)


def topic_margins(tenant: str, found: Report, now: datetime) -> list[TopicMargin]:
    """The topics of one tenant of the report, by name: together they are its margin, whatever its cost is of. Raises
    `NotFound`.
    """
    row = next((one for one in found.tenants if one.tenant == tenant), None)
    if row is None:
        raise NotFound(f"tenant {tenant[:64]!r}: not found in {found.period}")
    of = Tenant.objects.get(public_id=tenant)
    usage: dict[str, dict[str, int]] = {}
    rows = UsageDay.objects.filter(
        tenant=of, day__gte=found.first.date(), day__lt=found.end.date(), meter__in=_METERS
    )
    for topic, meter, quantity in (
        rows.values_list("topic", "meter").annotate(total=Sum("quantity")).order_by("topic", "meter")
    ):
        usage.setdefault(topic, {})[meter] = int(quantity)
    billed: dict[str, int] | None = None
    if row.billing not in (OTHER, UNRATED):
        periods = periods_that_begin(of, found.first, found.end, now)
        divided = cost_reports.report_of_periods(of, periods, ("topic",), found.currency)
        billed = {one.values["topic"]: one.cost_micro for one in divided.rows}
    shares = allocation.divide_share(found.found, tenant, usage)
    nothing = Share(direct_micro=0, idle_micro=0, overhead_micro=0)
    return [
        TopicMargin(
            topic=topic,
            messages_in=allocation.used_of(Driver.MESSAGES_IN, usage.get(topic, {})),
            bytes_in=allocation.used_of(Driver.BYTES_IN, usage.get(topic, {})),
            share=shares.get(topic, nothing),
            billed_micro=None if billed is None else billed.get(topic, 0),
        )
        for topic in sorted({*shares, *(billed or {})})
        if topic in usage or (billed or {}).get(topic) or shares.get(topic, nothing).loaded_micro
    ]


def _together(items: Iterable[Margin], *, plan: str = "", unborne_micro: int = 0) -> Margin:
    found = list(items)
    kinds = {one.billing for one in found}
    worst = next((kind for kind in (OTHER, UNRATED, PROVISIONAL, INVOICED) if kind in kinds), NOTHING)
    return Margin(
        tenant="",
        name="",
        plan=plan,
        tenants=len(found),
        messages_in=sum(one.messages_in for one in found),
        bytes_in=sum(one.bytes_in for one in found),
        share=Share(
            direct_micro=sum(one.share.direct_micro for one in found),
            idle_micro=sum(one.share.idle_micro for one in found),
            overhead_micro=sum(one.share.overhead_micro for one in found),
        ),
        billed_micro=sum(one.billed_micro for one in found),
        billing=worst,
        unborne_micro=unborne_micro,
    )


def _usage(first: datetime, end: datetime) -> dict[int, dict[str, int]]:
    """Tenant's primary key -> meter -> quantity, of the month's days."""
    found: dict[int, dict[str, int]] = {}
    rows = UsageDay.objects.filter(day__gte=first.date(), day__lt=end.date(), meter__in=_METERS)
    for tenant, meter, quantity in (
        rows.values_list("tenant_id", "meter").annotate(total=Sum("quantity")).order_by()
    ):
        found.setdefault(tenant, {})[meter] = int(quantity)
    return found


def _tenants(first: datetime, end: datetime, usage: Mapping[int, Any]) -> dict[int, tuple[str, str, str]]:
    """Primary key -> id, name and plan of each tenant that used something, was billed or was open in the month."""
    plans = {row.tenant_id: row.plan for row in Quota.objects.exclude(plan="")}
    rows = (
        Tenant.objects.filter(created_at__lt=end)
        .exclude(purged_at__lt=first)
        .exclude(public_id=SYSTEM_TENANT)
    )
    found = {
        pk: (public_id, name, plans.get(pk, DEFAULT.name))
        for pk, public_id, name in rows.values_list("pk", "public_id", "name")
    }
    more = usage.keys() - found.keys()
    for pk, public_id, name in Tenant.objects.filter(pk__in=more).values_list("pk", "public_id", "name"):
        found[pk] = (public_id, name, plans.get(pk, DEFAULT.name))
    return found


def _billed(
    first: datetime,
    end: datetime,
    currency: str,
    found: Allocation,
    tenants: Mapping[int, tuple[str, str, str]],
    now: datetime,
) -> dict[int, tuple[int, str]]:
    """Primary key -> what was billed of periods that begin in the month, and what it is."""
    amounts: dict[int, int] = {}
    kinds: dict[int, str] = {}
    invoices = without_void(
        Invoice.objects.filter(
            status=Invoice.Status.ISSUED, cut__period_start__gte=first, cut__period_start__lt=end
        )
    )
    notes = CreditNote.objects.filter(invoice__in=invoices)
    for tenant, of, total, charges in invoices.values_list(
        "tenant_id", "price_book__currency", "total_micro", "charges"
    ):
        kinds[tenant] = INVOICED if of == currency and kinds.get(tenant) != OTHER else OTHER
        amounts[tenant] = amounts.get(tenant, 0) + (total or 0) - _tax(charges)
    for tenant, total, charges in notes.values_list("tenant_id", "total_micro", "charges"):
        # Its charges are changes: a tax of less is negative.
        amounts[tenant] -= total + _tax(charges)
    running = [pk for pk in _running(first, end) if pk in tenants]
    running.sort(key=lambda pk: (-found.shares[tenants[pk][0]].direct_micro, pk))
    kinds |= dict.fromkeys(running[RUNNING_MAX:], UNRATED)
    known = Tenant.objects.in_bulk(running[:RUNNING_MAX])
    for pk in running[:RUNNING_MAX]:
        cost = running_cost(known[pk], now)
        if cost is None or not first <= cost.begins < end:
            continue
        if cost.book.currency != currency:
            kinds[pk] = OTHER
            continue
        if kinds.get(pk) != OTHER:
            kinds[pk] = PROVISIONAL
        tax = sum(one.amount_micro for one in cost.charged.charges if one.kind == "tax")
        amounts[pk] = amounts.get(pk, 0) + cost.total_micro - tax
    return {
        pk: (0 if kinds.get(pk) == OTHER else amounts.get(pk, 0), kinds.get(pk, NOTHING)) for pk in tenants
    }


def _running(first: datetime, end: datetime) -> list[int]:
    """Primary keys of the tenants whose running period begins in the month."""
    invoiced = Cut.objects.filter(invoice__status=Invoice.Status.ISSUED).values_list("tenant_id")
    last = dict(invoiced.annotate(until=Max("period_end")).order_by())
    found = [pk for pk, until in last.items() if first <= until < end]
    born = Tenant.objects.filter(created_at__gte=first, created_at__lt=end).exclude(pk__in=list(last))
    return [*found, *born.exclude(public_id=SYSTEM_TENANT).values_list("pk", flat=True)]


def _tax(charges: Iterable[Mapping[str, Any]]) -> int:
    return sum(int(one["amount_micro"]) for one in charges if one["kind"] == "tax")
