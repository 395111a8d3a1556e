"""A tenant's month of service: measured from windows, probes and exclusions, or as it was posted. Reads only."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db.models import Q, QuerySet, Sum

from billing import price_actions
from billing.models import BillingEntry, CreditNote, Invoice, SlaWindow, UsageDay
from billing.service_level_models import (
    LatencyDay,
    ProbeMinute,
    ServiceExclusion,
    ServiceLevelReport,
    SlaMinute,
    SlaSlow,
)
from billing.topic_names import last_name
from billing.voids import voids_of
from penstock.contract import documents
from penstock.contract.errors import NotFound
from penstock.contract.service_level_documents import ChargedInvoice, Excluded, ServiceLevelDocument
from penstock.rules import latency_buckets, rating
from penstock.rules.allocation import month_after, month_of
from penstock.rules.meters import LEADERLESS, SECOND_MS
from penstock.rules.service_level_months import charged_invoice, day_parts, month_document, own_counts
from penstock.rules.service_levels import (
    DAY_S,
    OPERATIONS,
    PRODUCE,
    WINDOW_S,
    Announced,
    Counts,
    FailedMinute,
    LatencyMonth,
    OperationMonth,
    ServiceLevel,
    excluded_of,
    latency_month,
    operation_month,
)
from penstock.rules.timestamps import time_ms
from quotas.queries import service_level_at
from tenants.models import Tenant

LEADERLESS_MAX = 50
"""Topics that are named."""
ANNOUNCED_MAX = 50
PER_MILLES = (500, 950, 990, 999)
_NO_PRICES = ("USD", 6)
"""Currency and minor digits of a month that has no invoice and no prices: it credits nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Of an operation's good answers, in microseconds to 1 %: that many of 1,000 took no longer."""

    operation: str
    requests: int
    percentiles: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The lower mean share of produce and fetch of a day; None: nothing was measured."""

    day: date
    parts: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderless:
    """How long partitions of a topic had no leader, as the controller saw it: seconds of all of them together."""

    topic: str
    topic_id: str
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderlessPartition:
    """How long one partition had no leader."""

    topic: str
    topic_id: str
    partition: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthReport:
    """A month. `posted` is None while it may still change."""

    document: ServiceLevelDocument
    sha256: str
    posted: ServiceLevelReport | None
    latencies: tuple[Latencies, ...]
    days: tuple[Day, ...]
    leaderless: tuple[Leaderless, ...]
    """The longest first, at most `LEADERLESS_MAX`. Each second is a failed produce and a failed fetch request in the
    document as well."""
    leaderless_partitions: tuple[LeaderlessPartition, ...] | None = ()
    """By `leaderless_partitions.with_partitions`, the longest first; None: they cannot be read now."""
    leaderless_partitions_more: int = 0
    """Beside those that are named."""
    announced: tuple[ServiceExclusion, ...] = ()
    """What operators will take out, at most `ANNOUNCED_MAX`, the first one first."""

    @property
    def provisional(self) -> bool:
        return self.posted is None


def month_bounds(month: str) -> tuple[datetime, datetime]:
    """[first, end) of `2026-11`. Raises `NotFound`."""
    bounds = month_of(month)
    if bounds is None:
        raise _not_there(month)
    return bounds


def _not_there(month: str) -> NotFound:
    return NotFound(
        f"service level {month[:20]!r} does not exist: name a UTC month in which the tenant was there"
    )


def exclusions(first: datetime, end: datetime, tenant: Tenant | None = None) -> QuerySet[ServiceExclusion]:
    """Those that hold in a part of [first, end), of all tenants and of this one."""
    return (
        ServiceExclusion.objects.filter(Q(tenant=None) | Q(tenant=tenant), withdrawn_at=None)
        .filter(from_at__lt=end, until_at__gt=first)
        .order_by("from_at", "pk")
    )


def month_report(tenant: Tenant, month: str, now: datetime) -> MonthReport:
    """The month as it was posted, or as it is measured now. Raises `NotFound` for what is no month, has not begun, or
    ended before the tenant began.
    """
    first, end = month_bounds(month)
    posted = ServiceLevelReport.objects.filter(tenant=tenant, month=first.date()).first()
    if posted is not None:
        document = documents.read_document(posted.document, ServiceLevelDocument, posted.public_id)
        return _report(tenant, document, posted, now)
    if first > now or end <= price_actions.tenant_begins(tenant):
        raise _not_there(month)
    return _report(tenant, measure(tenant, first, min(end, now)), None, now)


def _report(
    tenant: Tenant, document: ServiceLevelDocument, posted: ServiceLevelReport | None, now: datetime
) -> MonthReport:
    first, end = month_bounds(document.month)
    return MonthReport(
        document=document,
        sha256=documents.document_sha256(document),
        posted=posted,
        latencies=_latencies(tenant, first.date(), end.date()),
        days=days_of(document),
        leaderless=_leaderless(tenant, first.date(), end.date()),
        announced=tuple(
            ServiceExclusion.objects.filter(
                Q(tenant=None) | Q(tenant=tenant), withdrawn_at=None, from_at__gt=now
            ).order_by("from_at", "pk")[:ANNOUNCED_MAX]
        ),
    )


def measure(tenant: Tenant, first: datetime, end: datetime) -> ServiceLevelDocument:
    """The windows of [first, end) that the tenant was there for, and what they credit. `first` begins a month. What is
    promised is the service level of the plan that the tenant was on at the beginning.
    """
    begins = max(first, price_actions.tenant_begins(tenant))
    bounds_s = (_second(begins) // WINDOW_S * WINDOW_S, _second(end) // WINDOW_S * WINDOW_S)
    bounds_s = (min(bounds_s), bounds_s[1])
    level = service_level_at(tenant, begins)
    spans = _excluded(tenant, first, end, bounds_s)
    out = [(one.from_s, one.until_s) for one in spans]
    own, slow = _windows(tenant, bounds_s), _slow(tenant, bounds_s)
    invoices, currency, minor_digits = _charges(tenant, first)
    return month_document(
        tenant=tenant.public_id,
        month=f"{first:%Y-%m}",
        bounds_s=bounds_s,
        level=level,
        excluded=spans,
        operations=_operations(tenant, bounds_s, level, own, slow, out),
        latency=_latency(bounds_s, level, own[PRODUCE], slow, out),
        invoices=invoices,
        currency=currency,
        minor_digits=minor_digits,
    )


def _excluded(tenant: Tenant, first: datetime, end: datetime, bounds_s: tuple[int, int]) -> list[Excluded]:
    announced = [
        Announced(
            id=row.public_id,
            from_s=_second(row.from_at),
            until_s=_second(row.until_at),
            announced_s=_second(row.created_at),
            reason=row.reason,
        )
        for row in exclusions(first, end, tenant)
    ]
    return [
        Excluded(
            id=span.id,
            from_s=span.from_s,
            until_s=span.until_s,
            reason=span.reason,
            announced_s=span.announced_s,
        )
        for span in excluded_of(announced, bounds_s)
    ]


_Windows = Sequence[tuple[int, int, int]]
"""(first second, valid, bad) of windows."""


def _windows(tenant: Tenant, bounds_s: tuple[int, int]) -> dict[str, list[tuple[int, int, int]]]:
    """The tenant's own requests by operation."""
    own: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    rows = SlaWindow.objects.filter(
        tenant=tenant, window__gte=_moment(bounds_s[0]), window__lt=_moment(bounds_s[1])
    ).order_by("window")
    for operation, window, valid, bad in rows.values_list("operation", "window", "valid", "bad"):
        own[operation].append((_second(window), valid, bad))
    return own


def _slow(tenant: Tenant, bounds_s: tuple[int, int]) -> dict[int, dict[int, int]]:
    """Good produce requests that took longer than a threshold, by threshold (ms) and window."""
    slow: dict[int, dict[int, int]] = defaultdict(dict)
    rows = SlaSlow.objects.filter(
        tenant=tenant, operation=PRODUCE, window__gte=_moment(bounds_s[0]), window__lt=_moment(bounds_s[1])
    ).order_by("window")
    for window, over_ms, count in rows.values_list("window", "over_ms", "slow"):
        slow[over_ms][_second(window)] = count
    return slow


def _latency(
    bounds_s: tuple[int, int],
    level: ServiceLevel,
    own: _Windows,
    slow: Mapping[int, Mapping[int, int]],
    out: Sequence[tuple[int, int]],
) -> LatencyMonth | None:
    """None where the level promises none."""
    if level.latency is None:
        return None
    return latency_month(bounds_s, own_counts(own, {}), slow.get(level.latency.within_ms, {}), out)


def _operations(
    tenant: Tenant,
    bounds_s: tuple[int, int],
    level: ServiceLevel,
    own: Mapping[str, _Windows],
    slow: Mapping[int, Mapping[int, int]],
    spans: Sequence[tuple[int, int]],
) -> list[OperationMonth]:
    failing = {} if level.latency_ms is None else slow.get(level.latency_ms, {})
    minutes: dict[str, list[FailedMinute]] = defaultdict(list)
    for row in SlaMinute.objects.filter(
        tenant=tenant, minute__gte=bounds_s[0] // 60, minute__lt=bounds_s[1] // 60
    ).order_by("minute"):
        minutes[row.operation].append(
            FailedMinute(
                minute=row.minute,
                valid=row.valid,
                bad=row.bad,
                succeeded_seconds=row.succeeded_seconds,
                failed_seconds=row.failed_seconds,
            )
        )
    probes = _probes(bounds_s)
    return [
        operation_month(
            operation,
            bounds_s,
            own_counts(own.get(operation, ()), failing if operation == PRODUCE else {}),
            probes.get(operation, {}),
            minutes[operation],
            spans,
        )
        for operation in OPERATIONS
    ]


def _probes(bounds_s: tuple[int, int]) -> dict[str, dict[int, Counts]]:
    """By operation and window, of all probers."""
    sums: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    rows = ProbeMinute.objects.filter(
        operation__in=OPERATIONS, minute__gte=bounds_s[0] // 60, minute__lt=bounds_s[1] // 60
    )
    totals = rows.order_by().values("operation", "minute").annotate(tried=Sum("valid"), failed=Sum("bad"))
    for row in totals:
        window = row["minute"] * 60 // WINDOW_S * WINDOW_S
        valid, bad = sums[row["operation"]].get(window, (0, 0))
        sums[row["operation"]][window] = (valid + row["tried"], bad + row["failed"])
    return {
        operation: {window: Counts(valid=valid, bad=bad) for window, (valid, bad) in windows.items()}
        for operation, windows in sums.items()
    }


def _charges(tenant: Tenant, first: datetime) -> tuple[list[ChargedInvoice], str, int]:
    """Issued invoices of periods with a part in the month, and the currency: without one that of the running prices.
    What an operator took back by now is there as void.
    """
    void = voids_of(tenant)
    invoices = Invoice.objects.filter(
        tenant=tenant,
        status=Invoice.Status.ISSUED,
        cut__period_start__lt=month_after(first),
        cut__period_end__gt=first,
    ).order_by("number")
    entries = {
        entry.object_id: entry
        for entry in BillingEntry.objects.filter(
            tenant=tenant,
            object_id__in=[
                *(one.public_id for one in invoices),
                *CreditNote.objects.filter(invoice__in=invoices).values_list("public_id", flat=True),
            ],
        ).order_by("sequence")
    }
    notes = [
        documents.read_document(entry.document, documents.CreditNoteDocument, entry.object_id)
        for entry in entries.values()
        if entry.kind == BillingEntry.Kind.CREDIT_NOTE
    ]
    issued = []
    month_ms = (time_ms(first), time_ms(month_after(first)))
    currency, minor_digits = _NO_PRICES
    book = price_actions.running_prices_of(tenant)
    if book is not None:
        read = rating.PriceBook.read(book.document)
        currency, minor_digits = read.currency, read.minor_digits
    for invoice in invoices:
        entry = entries.get(invoice.public_id)
        if entry is None:
            continue  # older than documents
        document = documents.read_document(entry.document, documents.InvoiceDocument, entry.object_id)
        currency, minor_digits = document.currency, document.minor_digits
        own = [note for note in notes if note.invoice.id == document.id]
        charged = charged_invoice(
            document, entry.document_sha256, own, month_ms, void=invoice.public_id in void
        )
        issued.append((document.currency, charged))
    # There is no exchange of currencies: what was charged in another one than the newest is not credited.
    return [one for of, one in issued if of == currency], currency, minor_digits


def _latencies(tenant: Tenant, first: date, end: date) -> tuple[Latencies, ...]:
    histograms: dict[str, dict[int, int]] = defaultdict(dict)
    rows = LatencyDay.objects.filter(tenant=tenant, day__gte=first, day__lt=end).order_by()
    for operation, bucket, count in (
        rows.values_list("operation", "bucket")
        .annotate(total=Sum("requests"))
        .order_by("operation", "bucket")
    ):
        histograms[operation][bucket] = count
    found = []
    for operation, histogram in histograms.items():
        percentiles = [(one, latency_buckets.percentile_us(histogram, one)) for one in PER_MILLES]
        found.append(
            Latencies(
                operation=operation,
                requests=sum(histogram.values()),
                percentiles=tuple((one, value) for one, value in percentiles if value is not None),
            )
        )
    return tuple(found)


def _leaderless(tenant: Tenant, first: date, end: date) -> tuple[Leaderless, ...]:
    rows = UsageDay.objects.filter(tenant=tenant, meter=LEADERLESS, day__gte=first, day__lt=end)
    totals = rows.values_list("topic_id").annotate(total=Sum("quantity"), name=last_name(rows))
    return tuple(
        Leaderless(topic=name, topic_id=topic_id, seconds=total // SECOND_MS)
        for topic_id, total, name in totals.order_by("-total", "name", "topic_id")[:LEADERLESS_MAX]
    )


def days_of(document: ServiceLevelDocument) -> tuple[Day, ...]:
    """Each day of the month that the document is about."""
    shares = day_parts(document)
    first = document.from_s // DAY_S * DAY_S
    return tuple(
        Day(day=_moment(day).date(), parts=shares.get(day)) for day in range(first, document.until_s, DAY_S)
    )


def _second(moment: datetime) -> int:
    return int(moment.timestamp())


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=second)
