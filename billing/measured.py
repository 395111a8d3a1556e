"""What an invoice bills by meters that count no offsets: by topic and whole day, each day once, late parts later.

A day belongs to the period in which it ends, in UTC. What comes in of a day after its invoice is billed with the next
one, and what was billed too much is taken off later days of the same topic and meter. Days of periods in which a meter
had no price are never billed by it.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db.models import Sum

from billing.models import InvoiceLine, MeasuredDay, PartitionWaiver, UsageDay
from penstock.rules.meters import MEASURED
from penstock.rules.rating import PriceBook
from tenants.models import Tenant

LATE_DAYS = 62
"""Before a period: what comes even later is not billed."""


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


def due_days(tenant: Tenant, meters: Collection[str], begins: datetime, end: date) -> list[DueDay]:
    """What is on no invoice yet of days before `end`: of a period that began at `begins`, and of earlier ones in which
    the meter was billed. By meter, topic, topic id and day.
    """
    if not meters:
        return []
    first = begins.date()
    priced: dict[str, list[tuple[date, date]]] = {meter: [(first, end)] for meter in meters}
    earlier = InvoiceLine.objects.filter(
        invoice__tenant=tenant, meter__in=meters, invoice__cut__period_end__lte=begins
    ).order_by("pk")
    since = first - timedelta(days=LATE_DAYS)
    # What was billed too much is known for longer than any day from which it was taken off.
    known_from = since - timedelta(days=2 * LATE_DAYS)
    for meter, start, until in earlier.values_list(
        "meter", "invoice__cut__period_start", "invoice__cut__period_end"
    ):
        priced[meter].append((start.date(), until.date()))
    keys = ("meter", "topic", "topic_id", "day")
    billed = dict[tuple[str, str, str, date], int]()
    rows = MeasuredDay.objects.filter(tenant=tenant, meter__in=meters, day__gte=known_from, day__lt=end)
    for *key, total in rows.values_list(*keys).annotate(total=Sum("quantity")).order_by(*keys):
        billed[key[0], key[1], key[2], key[3]] = total
    # Of a topic with a partition that was waived nothing more is billed: no cut has it any more.
    waived = PartitionWaiver.objects.filter(tenant=tenant).values("topic_id")
    days = UsageDay.objects.filter(tenant=tenant, meter__in=meters, day__gte=known_from, day__lt=end).exclude(
        topic_id__in=waived
    )
    counted = {
        (meter, topic, topic_id, day): quantity
        for meter, topic, topic_id, day, quantity in days.values_list(*keys, "quantity").order_by(*keys)
        if any(start <= day < until for start, until in priced[meter])
    }
    too_much: dict[tuple[str, str, str], int] = defaultdict(int)
    for key, total in billed.items():
        too_much[key[:3]] += max(0, total - counted.get(key, 0))
    due = []
    for (meter, topic, topic_id, day), quantity in counted.items():
        key = (meter, topic, topic_id, day)
        left = quantity - billed.get(key, 0)
        taken = min(max(0, left), too_much[key[:3]])
        too_much[key[:3]] -= taken
        if left > taken and day >= since:
            due.append(DueDay(topic=topic, topic_id=topic_id, day=day, meter=meter, quantity=left - taken))
    return sorted(due, key=lambda one: (one.meter, one.topic, one.topic_id, one.day))


def sums(days: Collection[DueDay]) -> dict[str, int]:
    """By meter."""
    found: dict[str, int] = defaultdict(int)
    for one in days:
        found[one.meter] += one.quantity
    return dict(found)
