"""What a tenant's running period will hold and cost at the end of the month, and days that were unlike others.

Usage is forecast by meter from the tenant's whole days (`billing.forecasting`), and priced as an invoice is: by the
book and the terms of the running period, or by another book.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from statistics import median_low
from typing import Any

from django.db.models import F, Q, Sum
from django.db.models.functions import Abs, Coalesce

from billing import anomalies, forecasting, previews, price_actions, queries
from billing.forecasting import Basis, Forecast, Range
from billing.models import UsageDay
from billing.open_times import open_ms
from billing.running_costs import running_begins, running_credit
from billing.topic_names import last_name
from penstock.contract.errors import NotFound
from penstock.rules import charges, rating
from penstock.rules.meters import BY_ZONE, in_order
from penstock.rules.timestamps import DAY_MS, time_ms
from tenants.models import Tenant

ANOMALY_DAYS_MAX = 92
ANOMALIES_MAX = 100
TOPICS_NAMED = 3
FAR_DEVIATIONS = 100
PARTS_OF_DAY = 1024
_TOPIC_DAYS = 14
"""Whole days before a day whose mean a topic is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterForecast:
    """One meter in the running period. `so_far` is counted, `total` has the rest of the period, too.

    Of the day in which the last period was closed a meter without a price is on no invoice, so what of it came after
    that is not known: it is taken to be the same part as of the messages.
    """

    meter: str
    so_far: int
    total: Range
    coming: Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Quantities at the prices of a period."""

    rated: rating.Rated
    charged: charges.Charged

    @property
    def total_micro(self) -> int:
        return self.charged.total_micro


@dataclass(frozen=True, slots=True, kw_only=True)
class CostDay:
    """What the period would cost if it ended with this day. Of a day that is over all three are the same."""

    day: date
    is_over: bool
    low_micro: int
    expected_micro: int
    high_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostForecast:
    """All meters low, as expected, and high at once: rather too wide where they do not move together."""

    book: rating.PriceBook
    credit: charges.StandingCredit
    """The terms of the running period, and what is left of each grant before it."""
    opened_ms: tuple[int, int]
    """When the tenant was open within the period: fees are of that."""
    low: Priced
    expected: Priced
    high: Priced
    days: tuple[CostDay, ...]
    """Of the period, the last one as `low`, `expected` and `high` have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthForecast:
    """Of a period [begins, ends): from where the last one was closed, or the month began, to the month's end."""

    begins: datetime
    ends: datetime
    meters: tuple[MeterForecast, ...]
    cost: CostForecast | None
    """None while there are no prices."""

    @property
    def is_tested(self) -> bool:
        """Whether all of it stands on enough days."""
        return bool(self.meters) and all(one.coming.basis is not Basis.RUN_RATE for one in self.meters)

    @property
    def expected(self) -> Mapping[str, int]:
        return {one.meter: one.total.expected for one in self.meters}


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The running period to the month's end, by its own prices and by another book with the same terms."""

    forecast: MonthForecast
    own: rating.PriceBook
    book: rating.PriceBook
    own_cost: Priced
    cost: Priced

    @property
    def lines(self) -> list[previews.PreviewLine]:
        return previews.compared(
            previews.amounts_of(self.own_cost.rated, self.own_cost.charged),
            previews.amounts_of(self.cost.rated, self.cost.charged),
        )

    @property
    def difference_micro(self) -> int | None:
        """None where the currencies differ."""
        same = self.own.currency == self.book.currency
        return self.cost.total_micro - self.own_cost.total_micro if same else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPart:
    """A topic's part in an anomaly: its day, and its mean day of the two weeks before."""

    topic: str
    quantity: int
    mean: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAnomaly:
    meter: str
    found: anomalies.Anomaly
    topics: tuple[TopicPart, ...]
    reason: str


def month_forecast(tenant: Tenant, now: datetime) -> MonthForecast:
    """The tenant's running period to the end of the UTC month of `now`; of the next month where the period before was
    closed since then.
    """
    runs_from = running_begins(tenant)
    now = max(now, runs_from).astimezone(UTC)
    today = now.date()
    running, left = _running_day(now)
    month = datetime(today.year, today.month, 1, tzinfo=UTC)
    begins = max(runs_from, month)
    ends = (month + timedelta(days=32)).replace(day=1)
    first = today - timedelta(days=forecasting.HISTORY_DAYS_MAX)
    days = _days(tenant, min(first, begins.date()), today)
    history_from = _history_from(tenant, days, first)
    if begins.date() > running:  # of the day on which the period begins nothing was read yet
        running, left = begins.date(), _parts_left(begins)
    priced = _priced_meters(tenant)
    meters = []
    for meter in in_order({name for row in days.values() for name in row}):
        history = [
            days.get(history_from + timedelta(days=at), {}).get(meter, (0, 0))[0]
            for at in range((running - history_from).days)
        ]
        so_far = sum(row.get(meter, (0, 0))[1] for day, row in days.items() if day > begins.date())
        so_far += _of_first_day(days.get(begins.date(), {}), meter, whole=meter in priced)
        coming = forecasting.forecast(
            history,
            today=running,
            days=(ends.date() - running).days,
            today_left=left,
            today_so_far=days.get(running, {}).get(meter, (0, 0))[0],
        )
        rest = coming.rest
        total = Range(low=so_far + rest.low, expected=so_far + rest.expected, high=so_far + rest.high)
        meters.append(MeterForecast(meter=meter, so_far=so_far, total=total, coming=coming))
    return MonthForecast(
        begins=begins,
        ends=ends,
        meters=tuple(meters),
        cost=_cost(tenant, runs_from, (begins, ends), meters, days, running),
    )


def what_if(tenant: Tenant, book: rating.PriceBook, now: datetime) -> WhatIf:
    """What the running period would cost by another book, as far as usage is expected. Raises `NotFound` while there
    are no prices to compare with. Of a period that is over ask `previews.last_periods`.
    """
    forecast = month_forecast(tenant, now)
    own = forecast.cost
    if own is None:
        raise NotFound("there are no prices yet; the first round of billing publishes them")
    period = (forecast.begins, forecast.ends)
    return WhatIf(
        forecast=forecast,
        own=own.book,
        book=book,
        own_cost=own.expected,
        cost=_priced(book, own.credit, period, own.opened_ms, forecast.expected),
    )


def tenant_anomalies(
    tenant: Tenant, *, days: int, now: datetime, most: int = ANOMALIES_MAX
) -> list[TenantAnomaly]:
    """The newest anomalies among the last whole days, at most `ANOMALY_DAYS_MAX`, the oldest first. None of a tenant
    with less than `anomalies.HISTORY_DAYS_MIN` days before. Each asks the database for its topics.
    """
    today, _ = _running_day(now.astimezone(UTC))
    since = today - timedelta(days=days)
    first = since - timedelta(days=forecasting.HISTORY_DAYS_MAX)
    rows = _days(tenant, first, today)
    begin = _history_from(tenant, rows, first)
    whole = [begin + timedelta(days=at) for at in range((today - begin).days)]
    found = {
        (one.day, meter): one
        for meter in sorted({name for row in rows.values() for name in row} - BY_ZONE)
        for one in anomalies.find(
            [rows.get(day, {}).get(meter, (0, 0))[0] for day in whole], first=begin, since=since
        )
    }
    named = []
    for (day, meter), one in sorted(found.items())[-most:]:
        topics = _topics(tenant, day, meter, upwards=one.quantity > one.expected)
        usual = {name: _middle_day(rows, day, name) for name in ("messages_in", "bytes_in")}
        reason = _reason(one, meter, topics, _size_text(rows.get(day, {}), usual, meter))
        named.append(TenantAnomaly(meter=meter, found=one, topics=topics, reason=reason))
    return named


def _priced_meters(tenant: Tenant) -> set[str]:
    """Of the running period: invoices bill them."""
    row = price_actions.running_prices_of(tenant)
    return set() if row is None else {price.meter for price in rating.PriceBook.read(row.document).meters}


def _of_first_day(day: Mapping[str, tuple[int, int]], meter: str, *, whole: bool) -> int:
    """What of the running period's first day is of that period. `whole`: its invoices tell."""
    quantity, left = day.get(meter, (0, 0))
    messages, messages_left = day.get("messages_in", (0, 0))
    if whole or left < quantity or not messages:
        return left
    return quantity * messages_left // messages


_Days = dict[date, dict[str, tuple[int, int]]]
"""By day and meter: what was counted, and what of it is on no invoice yet."""


def _days(tenant: Tenant, first: date, last: date) -> _Days:
    rows = queries.usage(tenant, by=["day"], first=first, end=last + timedelta(days=1))
    return {
        row["day"]: {
            meter: (max(0, numbers["quantity"]), max(0, numbers["provisional"]))
            for meter, numbers in row["meters"].items()
        }
        for row in rows
    }


def _running_day(now: datetime) -> tuple[date, int]:
    """The first day that is not whole, and how many parts of it are left: today, or, when the pipeline is late, the day
    up to which it has read.
    """
    run = queries.newest_usage_run()
    read_until = "" if run is None else str(run.inputs.get("read_until") or "")
    if run is not None and read_until and date.fromisoformat(read_until) < now.date():
        day = date.fromisoformat(read_until)
        # Of its last day nothing is known beyond the round that read it.
        now = run.imported_at.astimezone(UTC)
        if now.date() != day:
            return day, 0
    else:
        day = now.date()
    return day, _parts_left(now)


def _parts_left(moment: datetime) -> int:
    return PARTS_OF_DAY - PARTS_OF_DAY * (time_ms(moment) % DAY_MS) // DAY_MS


def _history_from(tenant: Tenant, days: _Days, first: date) -> date:
    """The first whole day that says something: after the tenant's first day, and after the day of its first use, which
    began somewhere within it.
    """
    used = min((day for day, row in days.items() if any(count for count, _ in row.values())), default=None)
    begun = price_actions.tenant_begins(tenant)
    whole = (
        begun.date()
        if begun == datetime(begun.year, begun.month, begun.day, tzinfo=UTC)
        else begun.date() + timedelta(days=1)
    )
    if used is None or used <= first:
        return max(whole, first)
    return max(whole, used + timedelta(days=1))


def _cost(
    tenant: Tenant,
    runs_from: datetime,
    period: tuple[datetime, datetime],
    meters: Sequence[MeterForecast],
    days: _Days,
    today: date,
) -> CostForecast | None:
    row = price_actions.running_prices_of(tenant)
    if row is None:
        return None
    book = rating.PriceBook.read(row.document)
    credit = running_credit(tenant, runs_from)
    opened_ms = open_ms(tenant, *period)

    def priced(quantities: Mapping[str, int], end: datetime = period[1]) -> Priced:
        return _priced(book, credit, (period[0], end), opened_ms, quantities)

    return CostForecast(
        book=book,
        credit=credit,
        opened_ms=opened_ms,
        low=priced({one.meter: one.total.low for one in meters}),
        expected=priced({one.meter: one.total.expected for one in meters}),
        high=priced({one.meter: one.total.high for one in meters}),
        days=tuple(_cost_days(priced, period[0], meters, days, today)),
    )


def _cost_days(
    priced: Callable[[Mapping[str, int], datetime], Priced],
    begins: datetime,
    meters: Sequence[MeterForecast],
    days: _Days,
    today: date,
) -> Iterator[CostDay]:
    sums = dict.fromkeys((one.meter for one in meters), 0)
    day = begins.date()
    while day < today:
        for meter in sums:
            sums[meter] += days.get(day, {}).get(meter, (0, 0))[1]
        micro = priced(sums, _end_of(day)).total_micro
        yield CostDay(day=day, is_over=True, low_micro=micro, expected_micro=micro, high_micro=micro)
        day += timedelta(days=1)
    # Every meter has the same days to come.
    for at, coming in enumerate(meters[0].coming.days if meters else ()):
        up_to = {one.meter: (one.so_far, one.coming.days[at].up_to) for one in meters}
        low, expected, high = (
            priced(
                {meter: so_far + getattr(coming_of, name) for meter, (so_far, coming_of) in up_to.items()},
                _end_of(coming.day),
            ).total_micro
            for name in ("low", "expected", "high")
        )
        yield CostDay(day=coming.day, is_over=False, low_micro=low, expected_micro=expected, high_micro=high)


def _end_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


def _priced(
    book: rating.PriceBook,
    credit: charges.StandingCredit,
    period: tuple[datetime, datetime],
    opened_ms: tuple[int, int],
    quantities: Mapping[str, int],
) -> Priced:
    """The part of the open time that lies after the period does not count."""
    rated = rating.rate(book, quantities)
    amounts = {line.meter: line.amount_micro for line in rated.lines}
    period_ms = (time_ms(period[0]), time_ms(period[1]))
    opens, closes = (min(moment_ms, period_ms[1]) for moment_ms in opened_ms)
    charged = charges.charge(book, credit.terms, amounts, period_ms, credit.rests, open_ms=(opens, closes))
    return Priced(rated=rated, charged=charged)


def _topics(tenant: Tenant, day: date, meter: str, *, upwards: bool) -> tuple[TopicPart, ...]:
    """Those that made the most of the difference. A topic that was restored under another name has the last one."""
    before = day - timedelta(days=_TOPIC_DAYS)
    of_days = UsageDay.objects.filter(tenant=tenant, meter=meter, day__gte=before, day__lte=day)
    rows: Any = (
        of_days.values("topic_id")
        .annotate(
            then=Coalesce(Sum("quantity", filter=Q(day=day)), 0),
            earlier=Coalesce(Sum("quantity", filter=Q(day__lt=day)), 0),
            topic=last_name(of_days),
        )
        .annotate(apart=F("then") * _TOPIC_DAYS - F("earlier"))
    )
    rows = rows.filter(apart__gt=0) if upwards else rows.filter(apart__lt=0)
    return tuple(
        TopicPart(topic=row["topic"], quantity=row["then"], mean=row["earlier"] // _TOPIC_DAYS)
        for row in rows.order_by(Abs("apart").desc(), "topic")[:TOPICS_NAMED]
    )


def _middle_day(rows: _Days, day: date, meter: str) -> int:
    before = (day - timedelta(days=back) for back in range(1, _TOPIC_DAYS + 1))
    return median_low(rows.get(one, {}).get(meter, (0, 0))[0] for one in before)


def _size_text(row: Mapping[str, tuple[int, int]], usual: Mapping[str, int], meter: str) -> str:
    """Whether more messages or larger ones made a difference of bytes."""
    messages, size = row.get("messages_in", (0, 0))[0], row.get("bytes_in", (0, 0))[0]
    if meter != "bytes_in" or not messages or not usual.get("messages_in"):
        return ""
    now, then = size // messages, usual["bytes_in"] // usual["messages_in"]
    if now * 10 > then * 13 or now * 13 < then * 10:
        return f" A message had {now:,} bytes, on the middle day before {then:,}."
    return (
        f" Messages had their usual size; there were {messages:,}, on the middle day before"
        f" {usual['messages_in']:,}."
    )


def _apart_text(tenths: int) -> str:
    """Of days that were all alike, the next one lies any number of deviations away: then the number says nothing."""
    if tenths > FAR_DEVIATIONS * 10:
        return f"more than {FAR_DEVIATIONS} deviations"
    return f"{tenths // 10}.{tenths % 10} deviations"


def _reason(one: anomalies.Anomaly, meter: str, topics: Sequence[TopicPart], size: str) -> str:
    apart = abs(one.deviations_tenths)
    text = (
        f"{meter}: {one.quantity:,}, expected {one.expected:,}; usual is {one.low:,} to {one.high:,}."
        f" That is {_apart_text(apart)} {'above' if one.deviations_tenths > 0 else 'below'}."
    )
    if topics:
        parts = (f"{part.topic} {part.quantity:,} (mean day before {part.mean:,})" for part in topics)
        text += f" Topics: {', '.join(parts)}."
    return text + size
