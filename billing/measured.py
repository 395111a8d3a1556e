"""What an invoice bills by meters that count no offsets: by topic and whole day, each day once, late parts later.

A day belongs to the period in which it ends, in UTC. What comes in of a day after its invoice is billed with the next
one, and what was billed too much is taken off later days of the same topic and meter. A topic is known by its id: under
whichever name a day's rows come, together they are billed once. Days of periods in which a meter
had no price are never billed by it.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from billing.models import InvoiceLine, MeasuredDay, PartitionWaiver, UsageDay
from penstock.rules.meters import MEASURED
from penstock.rules.rating import PriceBook
from tenants.models import Tenant

LATE_DAYS = 62
"""Before a period: what comes even later is not billed."""
LINE_MAX = 2**63 - 1
"""Of a meter on one invoice. What exceeds it is due with the next one."""
_APART_MAX = 500
"""Topics that are looked at one by one."""
_PART = 2**32
_KEYS = ("meter", "topic", "topic_id", "day")
_Key = tuple[str, str, str, date]


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDay:
    """What is due of a topic's day. `topic` and `topic_id` are empty for what is of no topic."""

    topic: str
    topic_id: str
    day: date
    meter: str
    quantity: int


def measured_meters(book: PriceBook) -> list[str]:
    """Meters of the book that invoices divide by topic and day."""
    return sorted(MEASURED & {price.meter for price in book.meters})


def due_days(
    tenant: Tenant,
    meters: Collection[str],
    begins: datetime,
    end: date,
    *,
    topics: Collection[str] | None = None,
) -> list[DueDay]:
    """What is on no invoice yet of days before `end`: of a period that began at `begins`, and of earlier ones in which
    the meter was billed. By meter, topic, topic id and day. `topics`: of these topic ids alone.
    """
    if not meters:
        return []
    first = begins.date()
    priced: dict[str, list[tuple[date, date]]] = {meter: [(first, end)] for meter in meters}
    earlier = InvoiceLine.objects.filter(
        invoice__tenant=tenant, meter__in=meters, invoice__cut__period_end__lte=begins
    ).order_by("pk")
    since = first - timedelta(days=LATE_DAYS)
    for meter, start, until in earlier.values_list(
        "meter", "invoice__cut__period_start", "invoice__cut__period_end"
    ):
        priced[meter].append((start.date(), until.date()))
    days = UsageDay.objects.filter(tenant=tenant, meter__in=meters, day__lt=end)
    rows = MeasuredDay.objects.filter(tenant=tenant, meter__in=meters, day__lt=end)
    if topics is not None:
        days, rows = days.filter(topic_id__in=topics), rows.filter(topic_id__in=topics)
    billed, quantities = _known(
        days, rows, since, min(start for spans in priced.values() for start, _ in spans)
    )
    # Of a topic with a partition that was waived nothing more is billed: no cut has it any more.
    waived = set(PartitionWaiver.objects.filter(tenant=tenant).values_list("topic_id", flat=True))
    counted = {
        key: quantity
        for key, quantity in sorted(quantities.items())
        if key[2] not in waived and any(start <= key[3] < until for start, until in priced[key[0]])
    }
    left_of: dict[tuple[str, str, date], int] = defaultdict(int)
    for (meter, _, topic_id, day), quantity in counted.items():
        left_of[meter, topic_id, day] += quantity
    for (meter, _, topic_id, day), quantity in billed.items():
        left_of[meter, topic_id, day] -= quantity
    too_much: dict[tuple[str, str], int] = defaultdict(int)
    for (meter, topic_id, _), left in left_of.items():
        too_much[meter, topic_id] += max(0, -left)
    due = []
    space = dict.fromkeys(meters, LINE_MAX)
    for meter, topic_id, day in sorted(left_of):
        left = max(0, left_of[meter, topic_id, day])
        taken = min(left, too_much[meter, topic_id])
        too_much[meter, topic_id] -= taken
        left_of[meter, topic_id, day] = left - taken
    for key, quantity in counted.items():
        meter, topic, topic_id, day = key
        of_name = max(0, quantity - billed.get(key, 0))
        now = min(of_name, left_of[meter, topic_id, day], space[meter])
        if now > 0 and day >= since:
            left_of[meter, topic_id, day] -= now
            space[meter] -= now
            due.append(DueDay(topic=topic, topic_id=topic_id, day=day, meter=meter, quantity=now))
    return due


def due_sums(tenant: Tenant, meters: Collection[str], begins: datetime, end: date) -> dict[str, int]:
    """`sums` of `due_days`, for a page: the database sums up the days from `begins` on, and rows are read of those
    topics alone of which earlier days were billed otherwise than they were used.
    """
    if not meters:
        return {}
    first = begins.date()
    days = UsageDay.objects.filter(tenant=tenant, meter__in=meters)
    rows = MeasuredDay.objects.filter(tenant=tenant, meter__in=meters, day__lt=end)
    same = {name: OuterRef(name) for name in ("tenant", *_KEYS)}
    apart = set(
        _differing(rows.filter(day__lt=first))
        .values_list("topic_id")
        .union(
            rows.filter(day__gte=first).values_list("topic_id"),
            days.filter(day__lt=first, day__gte=first - timedelta(days=LATE_DAYS))
            .exclude(Exists(MeasuredDay.objects.filter(**same)))
            .values_list("topic_id"),
        )[: _APART_MAX + 1]
    )
    if len(apart) > _APART_MAX:
        return sums(due_days(tenant, meters, begins, end))
    topics = [topic for (topic,) in apart]
    found: dict[str, int] = defaultdict(int)
    if topics:
        found |= sums(due_days(tenant, meters, begins, end, topics=topics))
    waived = PartitionWaiver.objects.filter(tenant=tenant).values("topic_id")
    others = (
        days.filter(day__gte=first, day__lt=end).exclude(topic_id__in=topics).exclude(topic_id__in=waived)
    )
    # In two parts: SQLite refuses a sum that 64 bits do not hold.
    parts = {"high": Sum(F("quantity") / _PART), "low": Sum(F("quantity") % _PART)}
    for meter, high, low in others.values_list("meter").annotate(**parts).order_by("meter"):
        found[meter] = min(LINE_MAX, found[meter] + int(high) * _PART + int(low))
    return {meter: quantity for meter, quantity in found.items() if quantity}


def _differing(rows: QuerySet[MeasuredDay]) -> Any:
    """A query set: by key what was billed as `total` and what was used as `found`, where the two differ."""
    same = {name: OuterRef(name) for name in ("tenant", *_KEYS)}
    found_of = UsageDay.objects.filter(**same).values("quantity")[:1]
    return (
        rows.values(*_KEYS)
        .annotate(total=Sum("quantity"), found=Coalesce(Subquery(found_of), 0))
        .exclude(total=F("found"))
    )


def _known(
    days: QuerySet[UsageDay], rows: QuerySet[MeasuredDay], since: date, priced_from: date
) -> tuple[dict[_Key, int], dict[_Key, int]]:
    """What was billed and what was counted, by key: of days from `since` on all, of earlier ones where the two differ,
    however long ago that is.
    """
    same = {name: OuterRef(name) for name in ("tenant", *_KEYS)}
    differing = _differing(rows.filter(day__lt=since))
    billed: dict[_Key, int] = {}
    counted: dict[_Key, int] = {}
    for meter, topic, topic_id, day, total, found in differing.values_list(*_KEYS, "total", "found").order_by(
        *_KEYS
    ):
        billed[meter, topic, topic_id, day], counted[meter, topic, topic_id, day] = total, found
    new = rows.filter(day__gte=since).values(*_KEYS).annotate(total=Sum("quantity"))
    for meter, topic, topic_id, day, total in new.values_list(*_KEYS, "total").order_by(*_KEYS):
        billed[meter, topic, topic_id, day] = total
    never = ~Exists(MeasuredDay.objects.filter(**same))
    unbilled = days.filter(day__lt=since, day__gte=priced_from).filter(never)
    for some in (unbilled, days.filter(day__gte=since)):
        for meter, topic, topic_id, day, quantity in some.values_list(*_KEYS, "quantity").order_by(*_KEYS):
            counted[meter, topic, topic_id, day] = quantity
    return billed, counted


def sums(days: Collection[DueDay]) -> dict[str, int]:
    """By meter."""
    found: dict[str, int] = defaultdict(int)
    for one in days:
        found[one.meter] += one.quantity
    return dict(found)
