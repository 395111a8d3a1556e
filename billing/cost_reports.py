"""What a tenant used and what that costs, by day, month, topic, principal, group, meter or tag: for people and exports.

Amounts are those of invoices, less their credit notes, and of the running period so far (`billing.cost_periods`),
divided as `billing.cost_division` says: rows add up to what was billed, to the micro-unit. The database sums up; no row
of it is read that the answer does not have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, TruncMonth

from billing import cost_division
from billing.cost_models import CostTag, PrincipalDay
from billing.cost_periods import Period, periods_of_days
from billing.cost_tags import PRINCIPAL, TOPIC, is_tag_key, principal_of, principals_by_number
from billing.models import CutUsage, Invoice, MeasuredDay, UsageDay
from penstock.contract.errors import InvalidRequest
from penstock.rules.allocation import MILLION, rate_micro
from penstock.rules.meters import LEADERLESS
from tenants.models import Tenant

PARTITION = "partition"
DIMENSIONS = ("day", "month", "topic", PARTITION, "principal", "group", "meter")
TAG = "tag:"
BY_MAX = 2
RANGE_DAYS_MAX = 400
CELLS_MAX = 400_000
"""Sums that one answer may read: more are refused."""
NO_CURRENCY = "USD"

Values = tuple[str, ...]
_Topics = dict[tuple[Any, str], dict[Values, int]]
"""(bucket, meter) -> values of topics' dimensions -> quantity."""
_Principals = dict[tuple[Any, str, Values], dict[Values, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a report is of: days [first, end), `by` some dimensions, and what each filter names alone.

    Raises `InvalidRequest`.
    """

    first: date
    end: date
    by: tuple[str, ...] = ()
    """Of `DIMENSIONS`, or `tag:` and a key."""
    topic: str | None = None
    principal: str | None = None
    group: str | None = None
    meter: str | None = None
    tag: tuple[str, str] | None = None
    """Key and value; an empty value: what has none."""
    partition: str | None = None
    """Of `topic`; empty: what is of none that is known."""
    currency: str = ""
    """Empty: the one that all periods have."""

    def __post_init__(self) -> None:
        days = (self.end - self.first).days
        if not 1 <= days <= RANGE_DAYS_MAX:
            raise InvalidRequest(f"to: {days} days from {self.first}; 1 to {RANGE_DAYS_MAX} required")
        known = f"{', '.join(DIMENSIONS)} and tag:KEY are known"
        for name in self.by:
            if name not in DIMENSIONS and not (name.startswith(TAG) and is_tag_key(name.removeprefix(TAG))):
                raise InvalidRequest(f"by: {name[:80]!r}; {known}")
        if len(set(self.by)) != len(self.by) or len(self.by) > BY_MAX:
            raise InvalidRequest(f"by: {len(self.by)} are named; at most {BY_MAX} different ones allowed")
        named = (self.topic, self.principal, self.group, self.meter, *(self.tag or ()))
        if any("\0" in one for one in named if one is not None):
            raise InvalidRequest("topic, principal, group, meter and tag: no NUL allowed")
        if "day" in self.by and "month" in self.by:
            raise InvalidRequest("by: a day has its month; name one of them")
        if self.by_partition:
            self._check_partition()

    def _check_partition(self) -> None:
        if not self.topic:
            raise InvalidRequest("topic: name one: a partition is one of a topic")
        others = (self.principal, self.group, self.tag)
        if any(one is not None for one in others) or not {*self.by} <= {PARTITION, "day", "month", "meter"}:
            raise InvalidRequest(
                "by: partition goes with day, month or meter; principals, groups and tags are known by topic"
            )
        if self.partition and not (self.partition.isascii() and self.partition.isdigit()):
            raise InvalidRequest(f"partition: {self.partition[:20]!r} is no partition; a number required")

    @property
    def by_partition(self) -> bool:
        """Answered by `billing.partition_costs`."""
        return PARTITION in self.by or self.partition is not None

    @property
    def tags(self) -> tuple[str, ...]:
        """Keys that rows are separated by, those of `by` first."""
        wanted = [name.removeprefix(TAG) for name in self.by if name.startswith(TAG)]
        return tuple(dict.fromkeys([*wanted, *([self.tag[0]] if self.tag else [])]))

    @property
    def bucket(self) -> str:
        """`day`, `month` or nothing: what cost is separated by in time."""
        return next((name for name in ("day", "month") if name in self.by), "")

    @property
    def is_filtered(self) -> bool:
        return any(one is not None for one in (self.topic, self.principal, self.group, self.meter, self.tag))


@dataclass(slots=True, kw_only=True)
class CostRow:
    """One group. Amounts are micro-units of the report's currency."""

    values: Mapping[str, str]
    """By dimension; empty: of none."""
    meters: dict[str, int] = field(default_factory=dict)
    usage_micro: int = 0
    """By use, after discounts."""
    charges_micro: int = 0
    """Fees, the minimum, credits and tax: of no use."""
    provisional_micro: int = 0
    """The part of both that is on no issued invoice: it can still change."""
    before: "CostRow | None" = None
    """The same group in the time that is compared with; None: nothing is compared."""

    @property
    def cost_micro(self) -> int:
        return self.usage_micro + self.charges_micro

    @property
    def difference_micro(self) -> int | None:
        return None if self.before is None else self.cost_micro - self.before.cost_micro

    @property
    def cost_micro_per_million_messages(self) -> int | None:
        """Of what was used, by produced messages; None without any."""
        return rate_micro(self.usage_micro, self.meters.get("messages_in", 0), MILLION)

    def add(self, other: "CostRow") -> None:
        """Count another row with this one."""
        for meter, quantity in other.meters.items():
            self.meters[meter] = self.meters.get(meter, 0) + quantity
        self.usage_micro += other.usage_micro
        self.charges_micro += other.charges_micro
        self.provisional_micro += other.provisional_micro


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`rows` in the order of their values; `total` is their sum."""

    asked: Asked
    against: Asked | None
    currency: str
    minor_digits: int
    currencies: tuple[str, ...]
    """That periods of this time have."""
    total: CostRow
    rows: list[CostRow]
    names: Mapping[str, str]
    """Of the principals among the values, for people."""

    @property
    def is_provisional(self) -> bool:
        return bool(self.total.provisional_micro)


def report(tenant: Tenant, asked: Asked, now: datetime) -> Report:
    """Raises `InvalidRequest`: several currencies and none named, or more groups than one answer may have."""
    return _Reading(tenant, asked, periods_of_days(tenant, asked.first, asked.end, now)).report(with_tax=True)


def report_of_periods(
    tenant: Tenant, periods: Sequence[Period], by: tuple[str, ...], currency: str
) -> Report:
    """Of whole periods, before tax: what margins divide. No periods: nothing."""
    first = min((one.first_day for one in periods), default=date(1970, 1, 1))
    last = max((one.last_day for one in periods), default=first)
    end = min(last + timedelta(days=1), first + timedelta(days=RANGE_DAYS_MAX))
    return _Reading(tenant, Asked(first=first, end=end, by=by, currency=currency), periods).report(
        with_tax=False
    )


def order_of(row: CostRow) -> Values:
    """What rows are in the order of: their values, partitions as numbers."""
    return tuple(
        value.rjust(10) if name == PARTITION and value else value for name, value in row.values.items()
    )


class _Reading:
    """One report: what the database says of it, and its rows."""

    def __init__(self, tenant: Tenant, asked: Asked, periods: Sequence[Period]) -> None:
        self._tenant = tenant
        self._asked = asked
        self.currencies = tuple(sorted({one.currency for one in periods}))
        if asked.currency:
            self.currency = asked.currency
        elif len(self.currencies) > 1:
            raise InvalidRequest(
                f"currency: invoices of this time are in {', '.join(self.currencies)}; name one of them"
            )
        else:
            self.currency = self.currencies[0] if self.currencies else NO_CURRENCY
        self._periods = [one for one in periods if one.currency == self.currency]
        self._topics = "topic" in asked.by or asked.topic is not None or bool(asked.tags)
        self._tagged_principals = self._tags_of_principals()
        self._by_principal = (
            bool({"principal", "group"}.intersection(asked.by))
            or asked.principal is not None
            or asked.group is not None
            or bool(self._tagged_principals)
        )
        self._numbers = principals_by_number(tenant) if self._by_principal else {}
        self._rows: dict[Values, CostRow] = {}
        self._left = CELLS_MAX

    def report(self, *, with_tax: bool) -> Report:
        used = self._used()
        principals = self._of_principals() if self._by_principal else {}
        self._count(used, principals)
        weights = self._weights() if self._topics else {}
        for period, amounts, days in self._amounts():
            of_period = weights.get(period.cut, {})
            for (bucket, meter), amount in amounts.items():
                self._divide(period, bucket, meter, amount, days[bucket, meter], of_period, principals)
        if not self._asked.is_filtered:
            for period in self._periods:
                beside = period.beside_micro + (period.tax_micro if with_tax else 0)
                for day, part in cost_division.beside_by_day(period, beside).items():
                    if self._asked.first <= day < self._asked.end:
                        row = self._row(self._bucket_of(day), "", (), ())
                        row.charges_micro += part
                        row.provisional_micro += part if period.is_provisional else 0
        rows = [row for _, row in sorted(self._rows.items()) if any(row.meters.values()) or row.cost_micro]
        total = CostRow(values={})
        for row in rows:
            total.add(row)
        named = {one.principal: one.name for one in self._numbers.values()}
        return Report(
            asked=self._asked,
            against=None,
            currency=self.currency,
            minor_digits=next((one.minor_digits for one in self._periods), 2),
            currencies=self.currencies,
            total=total,
            rows=rows,
            names=named if "principal" in self._asked.by else {},
        )

    # -- rows --------------------------------------------------------------------------------------------

    def _row(self, bucket: Any, meter: str, topics: Values, principals: Values) -> CostRow:
        """The row that this belongs to; one that no filter names is not among the report's."""
        asked = self._asked
        topics = topics or ("",) * self._topic_columns
        principals = principals or ("",) * (2 + len(asked.tags))
        tags = {key: topics[at + 1] or principals[at + 2] for at, key in enumerate(asked.tags)}
        if (
            (asked.meter is not None and meter != asked.meter)
            or (asked.principal is not None and principals[0] != asked.principal)
            or (asked.group is not None and principals[1] != asked.group)
            or (asked.tag is not None and tags[asked.tag[0]] != asked.tag[1])
        ):
            return CostRow(values={})
        known = {
            "day": "" if bucket is None else bucket.isoformat(),
            "month": "" if bucket is None else f"{bucket:%Y-%m}",
            "topic": topics[0] if topics else "",
            "principal": principals[0],
            "group": principals[1],
            "meter": meter,
        }
        values = {
            name: tags[name.removeprefix(TAG)] if name.startswith(TAG) else known[name] for name in asked.by
        }
        return self._rows.setdefault(tuple(values.values()), CostRow(values=values))

    @property
    def _topic_columns(self) -> int:
        return 1 + len(self._asked.tags) if self._topics else 0

    def _count(self, used: _Topics, principals: _Principals) -> None:
        """What was used, whether it costs anything or not."""
        for (bucket, meter), by_topic in used.items():
            for topics, quantity in by_topic.items():
                left = quantity
                for who, part in principals.get((bucket, meter, topics), {}).items():
                    self._add(self._row(bucket, meter, topics, who), meter, part)
                    left -= part
                self._add(self._row(bucket, meter, topics, ()), meter, max(0, left))

    @staticmethod
    def _add(row: CostRow, meter: str, quantity: int) -> None:
        if quantity:
            row.meters[meter] = row.meters.get(meter, 0) + quantity

    def _divide(
        self,
        period: Period,
        bucket: Any,
        meter: str,
        amount: int,
        whole: int,
        weights: Mapping[tuple[Any, str], Mapping[Values, int]],
        principals: _Principals,
    ) -> None:
        """An amount over topics and then over principals. `whole` is the quantity that it is for."""
        nowhere: Values = ("",) * self._topic_columns
        others: Values = (
            *nowhere,
            "",
        )  # of topics that the filter leaves out: longer than any topic's values
        if self._topics:
            known = dict(weights.get((bucket, meter), {}))
            if self._asked.topic is not None:
                known[others] = max(0, whole - sum(known.values()))
            parts = cost_division.divided(amount, known, others if self._asked.topic is not None else nowhere)
            parts.pop(others, 0)
        else:
            parts = {(): amount}
        for topics, part in parts.items():
            who = principals.get((bucket, meter, topics), {})
            nobody: Values = ("",) * (2 + len(self._asked.tags))
            theirs = dict(who)
            if who:
                unknown = max(0, self._seen.get((bucket, meter, topics), 0) - sum(who.values()))
                theirs[nobody] = theirs.get(nobody, 0) + unknown
            for one, micro in cost_division.divided(part, theirs, nobody).items():
                row = self._row(bucket, meter, topics, one)
                row.usage_micro += micro
                row.provisional_micro += micro if period.is_provisional else 0

    # -- amounts by bucket ----------------------------------------------------------------------------------

    def _amounts(self) -> Iterable[tuple[Period, dict[tuple[Any, str], int], dict[tuple[Any, str], int]]]:
        """Of each period: (bucket, meter) -> amount, and the quantity that it is for."""
        billed = self._billed_by_day()
        for period in self._periods:
            amounts: dict[tuple[Any, str], int] = {}
            quantities: dict[tuple[Any, str], int] = {}
            for meter in period.lines:
                days = billed.get(period.cut, {}).get(meter, {})
                for day, part in cost_division.by_day(period, meter, days).items():
                    if self._asked.first <= day < self._asked.end:
                        key = self._bucket_of(day), meter
                        amounts[key] = amounts.get(key, 0) + part
                for day, quantity in days.items():
                    within = cost_division.within_days(period, day)
                    if self._asked.first <= within < self._asked.end:
                        key = self._bucket_of(within), meter
                        quantities[key] = quantities.get(key, 0) + max(0, quantity)
            yield period, amounts, {key: quantities.get(key, 0) for key in amounts}

    def _bucket_of(self, day: date) -> date | None:
        return {"day": day, "month": day.replace(day=1)}.get(self._asked.bucket)

    def _billed_by_day(self) -> dict[int | None, dict[str, dict[date, int]]]:
        """Cut (None: the running period) -> meter -> day -> quantity."""
        found: dict[int | None, dict[str, dict[date, int]]] = {}

        def add(cut: int | None, meter: str, day: date, quantity: int) -> None:
            days = found.setdefault(cut, {}).setdefault(meter, {})
            days[day] = days.get(day, 0) + quantity

        cuts = [one.cut for one in self._periods if one.cut is not None]
        for cut, meter, day, total in _sums(self._cut_rows(cuts), "cut_id", "meter", "day"):
            add(cut, meter, day, total)
        for cut, meter, day, total in _sums(self._measured(cuts), "invoice__cut_id", "meter", "day"):
            add(cut, meter, day, total)
        for period in self._periods:
            if period.is_provisional:
                days = Q(day__gte=period.first_day)
                for meter, day, total in _sums(self._usage().filter(days), "meter", "day"):
                    add(None, meter, day, total)
                for rows in (self._cut_rows(), self._measured()):
                    for meter, day, total in _sums(rows.filter(days), "meter", "day"):
                        add(None, meter, day, -total)
        return found

    # -- what the database says ---------------------------------------------------------------------------

    def _usage(self) -> QuerySet[UsageDay]:
        return UsageDay.objects.filter(tenant=self._tenant).exclude(meter=LEADERLESS)

    def _cut_rows(self, cuts: Sequence[int] | None = None) -> QuerySet[CutUsage]:
        """What invoices bill by offsets. What a loss took back is on credit notes."""
        rows = CutUsage.objects.filter(
            tenant=self._tenant, quantity__gt=0, cut__invoice__status=Invoice.Status.ISSUED
        )
        return rows if cuts is None else rows.filter(cut__in=cuts)

    def _measured(self, cuts: Sequence[int] | None = None) -> QuerySet[MeasuredDay]:
        rows = MeasuredDay.objects.filter(tenant=self._tenant)
        return rows if cuts is None else rows.filter(invoice__cut__in=cuts)

    def _of_days(self, rows: "QuerySet[Any]") -> "QuerySet[Any]":
        return self._of_topic(rows.filter(day__gte=self._asked.first, day__lt=self._asked.end))

    def _of_topic(self, rows: "QuerySet[Any]") -> "QuerySet[Any]":
        return rows if self._asked.topic is None else rows.filter(topic=self._asked.topic)

    def _columns(self) -> tuple[dict[str, Any], list[str]]:
        """Annotations and names of a bucket, the meter, and what topics are separated by."""
        annotations: dict[str, Any] = {}
        names = []
        if self._asked.bucket == "month":
            annotations["bucket"] = TruncMonth("day")
        elif self._asked.bucket:
            annotations["bucket"] = F("day")
        names += list(annotations)
        names.append("meter")
        if self._topics:
            if "topic" in self._asked.by or self._asked.topic is not None:
                names.append("topic")
            else:
                annotations["any_topic"] = Value("")
                names.append("any_topic")
        for at, key in enumerate(self._asked.tags):
            of = CostTag.objects.filter(tenant=self._tenant, kind=TOPIC, key=key, name=OuterRef("topic"))
            annotations[f"tag_{at}"] = Coalesce(Subquery(of.values("value")[:1]), Value(""))
            names.append(f"tag_{at}")
        return annotations, names

    def _read(self, rows: "QuerySet[Any]", *before: str, after: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Sums by `before`, bucket (None without one), meter, what topics are separated by, and `after`."""
        annotations, names = self._columns()
        summed = (
            rows.annotate(**annotations)
            .values_list(*before, *names, *after)
            .annotate(total=Sum("quantity"))
            .order_by(*before, *names, *after)
        )
        found = list(summed[: self._left + 1])
        self._left -= len(found)
        if self._left < 0:
            raise InvalidRequest(
                f"by: more than {CELLS_MAX} sums; name fewer days, one dimension less, or one topic"
            )
        if self._asked.bucket:
            return found
        return [(*row[: len(before)], None, *row[len(before) :]) for row in found]

    def _used(self) -> _Topics:
        found: _Topics = {}
        for bucket, meter, *topics, total in self._read(self._of_days(self._usage())):
            found.setdefault((bucket, meter), {})[tuple(topics)] = max(0, total)
        self._seen = {
            (bucket, meter, topics): n for (bucket, meter), by in found.items() for topics, n in by.items()
        }
        return found

    def _of_principals(self) -> _Principals:
        found: _Principals = {}
        rows = self._of_days(PrincipalDay.objects.filter(tenant=self._tenant))
        for bucket, meter, *rest in self._read(rows, after=("principal", "group")):
            *topics, number, group, total = rest
            principal = principal_of(number, self._numbers)
            tags = [self._tagged_principals.get((principal, key), "") for key in self._asked.tags]
            who = (
                principal if "principal" in self._asked.by or self._asked.principal is not None else "",
                group if "group" in self._asked.by or self._asked.group is not None else "",
                *tags,
            )
            sums = found.setdefault((bucket, meter, tuple(topics)), {})
            sums[who] = sums.get(who, 0) + max(0, total)
        return found

    def _tags_of_principals(self) -> dict[tuple[str, str], str]:
        """(principal, key) -> value."""
        if not self._asked.tags:
            return {}
        rows = CostTag.objects.filter(tenant=self._tenant, kind=PRINCIPAL, key__in=self._asked.tags)
        return {(name, key): value for name, key, value in rows.values_list("name", "key", "value")}

    def _weights(self) -> dict[int | None, dict[tuple[Any, str], dict[Values, int]]]:
        """Cut (None: the running period) -> (bucket, meter) -> values of topics -> quantity that is billed."""
        periods = {one.cut: one for one in self._periods}
        found: dict[int | None, dict[tuple[Any, str], dict[Values, int]]] = {}

        def add(cut: int | None, bucket: Any, meter: str, topics: Sequence[str], quantity: int) -> None:
            if self._asked.bucket == "day":
                bucket = cost_division.within_days(periods[cut], bucket)
            elif self._asked.bucket:
                bucket = cost_division.month_within(periods[cut], bucket)
            sums = found.setdefault(cut, {}).setdefault((bucket, meter), {})
            sums[tuple(topics)] = sums.get(tuple(topics), 0) + quantity

        for rows, name in ((self._cut_rows(), "cut"), (self._measured(), "invoice__cut")):
            billed = self._of_topic(rows.filter(self._days_of_issued(name)))
            for cut, bucket, meter, *topics, total in self._read(billed, f"{name}_id"):
                add(cut, bucket, meter, topics, total)
        running = periods.get(None)
        if running is not None:
            days = Q(day__gte=max(self._asked.first, running.first_day), day__lt=self._asked.end)
            parts: Sequence[tuple[QuerySet[Any], int]] = (
                (self._usage(), 1),
                (self._cut_rows(), -1),
                (self._measured(), -1),
            )
            for used, sign in parts:
                for bucket, meter, *topics, total in self._read(self._of_topic(used.filter(days))):
                    add(None, bucket, meter, topics, sign * total)
        return found

    def _days_of_issued(self, cut: str) -> Q:
        """The rows of issued periods, on the days asked for. What a period bills of days before or after it is counted
        on its nearest day.
        """
        kinds: dict[tuple[bool, bool], list[int]] = {}
        for one in self._periods:
            if one.cut is not None:
                bounded = self._asked.first > one.first_day, self._asked.end <= one.last_day
                kinds.setdefault(bounded, []).append(one.cut)
        found = Q(pk__in=())
        for (low, high), cuts in kinds.items():
            part = Q(**{f"{cut}__in": cuts})
            if low:
                part &= Q(day__gte=self._asked.first)
            if high:
                part &= Q(day__lt=self._asked.end)
            found |= part
        return found


def _sums(rows: "QuerySet[Any]", *by: str) -> Iterable[tuple[Any, ...]]:
    found: Iterable[tuple[Any, ...]] = rows.values_list(*by).annotate(total=Sum("quantity")).order_by(*by)
    return found
