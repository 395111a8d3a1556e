"""A month of service for people: the texts that the console's page and the PDF have in common."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from msgspec import UNSET

from billing.service_level_reports import Day, Latencies, MonthReport
from penstock.contract.service_level_documents import LevelTier, ServiceLevelDocument
from penstock.rules.rating import grouped_amount
from penstock.rules.service_level_months import FORMAT
from penstock.rules.service_levels import BINDING, LATENCY_MIN, WHOLE, percent

WINDOWS_SHOWN = 50
"""Windows with failures that are listed: the worst ones. The document has all."""
_MINUTES_A_DAY = 1_440


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOperation:
    """One operation by each formula."""

    name: str
    valid: str
    bad: str
    mean: str
    minutes: str
    runs: str
    down_minutes: int
    longest_run: str
    windows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDay:
    day: date
    share: str
    lost_minutes: int | None
    """As if the day's failed share were time without service, rounded up; None: nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWindow:
    at: datetime
    operation: str
    judged_by: str
    valid: str
    bad: str
    share: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLatency:
    operation: str
    requests: str
    percentiles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSlowWindow:
    at: datetime
    good: str
    slow: str
    share: str
    """Of the good requests, those in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownObjective:
    """What was promised of latencies, and what became of it."""

    promised: str
    share: str
    kept: bool | None
    """None: no window was judged."""
    windows: str
    missed: tuple[ShownSlowWindow, ...]
    missed_more: int
    tiers: tuple[tuple[str, str], ...]
    """(below, credited)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownExclusion:
    from_at: datetime
    until_at: datetime
    reason: str
    id: str
    announced_at: datetime | None
    """None: the document is older than announcements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """`credit_line` says in one sentence what is credited, and why."""

    level: str
    binding: str
    target: str
    kept: bool | None
    """None: nothing was measured."""
    credit_line: str
    operations: tuple[ShownOperation, ...]
    days: tuple[ShownDay, ...]
    windows: tuple[ShownWindow, ...]
    windows_more: int
    latencies: tuple[ShownLatency, ...]
    excluded: tuple[ShownExclusion, ...]
    announced: tuple[ShownExclusion, ...]
    """What will be taken out."""
    coverage: str
    """How much of the month was judged, and what becomes of the rest."""
    tiers: tuple[tuple[str, str], ...]
    """(below, credited)."""
    objective: ShownObjective | None
    """None: the level promises no latencies."""


def shown(report: MonthReport) -> Shown:
    document = report.document
    windows = [
        (one.valid - one.bad, one.valid, one, operation.operation)
        for operation in document.operations
        for one in operation.imperfect
    ]
    windows.sort(key=lambda row: (row[0] * WHOLE // row[1], -row[1], row[2].window_s, row[3]))
    return Shown(
        level=f"{document.level.name} {document.level.version}",
        binding=percent(document.binding_parts),
        target=percent(document.level.target_parts),
        kept=None
        if document.binding_parts is None
        else document.binding_parts >= document.level.target_parts,
        credit_line=_credit_line(report),
        operations=tuple(
            ShownOperation(
                name=one.operation,
                valid=f"{one.valid:,}",
                bad=f"{one.bad:,}",
                mean=percent(one.mean_parts),
                minutes=percent(one.minutes_parts),
                runs=percent(one.runs_parts),
                down_minutes=one.down_minutes,
                longest_run=f"{max((run.until_s - run.from_s for run in one.runs), default=0):,} s",
                windows=_windows(
                    {
                        "judged by own requests": one.windows.own,
                        "judged by probes": one.windows.probe,
                        "judged by few requests": one.windows.few,
                        "not measured": one.windows.nothing,
                        "excluded": one.windows.excluded,
                    }
                ),
            )
            for one in document.operations
        ),
        days=tuple(_day(one) for one in report.days),
        windows=tuple(
            ShownWindow(
                at=_moment(one.window_s),
                operation=operation,
                judged_by={"own": "own requests", "probe": "probes", "few": "few requests"}[one.source],
                valid=f"{one.valid:,}",
                bad=f"{one.bad:,}",
                share=percent((one.valid - one.bad) * WHOLE // one.valid),
            )
            for _, _, one, operation in windows[:WINDOWS_SHOWN]
        ),
        windows_more=max(0, len(windows) - WINDOWS_SHOWN),
        latencies=tuple(_latency(one) for one in report.latencies),
        excluded=tuple(
            ShownExclusion(
                from_at=_moment(span.from_s),
                until_at=_moment(span.until_s),
                reason=span.reason,
                id=span.id,
                announced_at=None if span.announced_s is UNSET else _moment(span.announced_s),
            )
            for span in document.excluded
        ),
        announced=tuple(
            ShownExclusion(
                from_at=row.from_at,
                until_at=row.until_at,
                reason=row.reason,
                id=row.public_id,
                announced_at=row.created_at,
            )
            for row in report.announced
        ),
        coverage=_coverage(document),
        tiers=_tiers(document.level.tiers),
        objective=_objective(document),
    )


def _tiers(tiers: Iterable[LevelTier]) -> tuple[tuple[str, str], ...]:
    return tuple((percent(tier.below_parts), f"{tier.basis_points / 100:g} %") for tier in tiers)


def _coverage(document: ServiceLevelDocument) -> str:
    said = [
        f"{by.own + by.probe + by.few:,} of {by.own + by.probe + by.few + by.nothing:,} windows of {one.operation}"
        for one in document.operations
        if one.operation in BINDING
        for by in (one.windows,)
    ]
    rest = (
        "shares are of these alone"
        if document.format < FORMAT
        else "those that nothing judged count as windows without a failure"
    )
    return f"Judged were {' and '.join(said)}; {rest}."


def _objective(document: ServiceLevelDocument) -> ShownObjective | None:
    promised, found = document.level.latency, document.latency
    if promised is UNSET or found is UNSET:
        return None
    worst = sorted(found.missed, key=lambda one: (-one.slow * WHOLE // one.good, one.window_s))
    return ShownObjective(
        promised=f"99 % of produce requests within {promised.within_ms:,} ms,"
        f" in {percent(promised.target_parts)} of the windows",
        share=percent(found.parts),
        kept=None if found.parts is None else found.parts >= promised.target_parts,
        windows=f"{found.judged:,} with {LATENCY_MIN} good requests or more, {len(found.missed):,} of them too slow",
        missed=tuple(
            ShownSlowWindow(
                at=_moment(one.window_s),
                good=f"{one.good:,}",
                slow=f"{one.slow:,}",
                share=percent((one.good - one.slow) * WHOLE // one.good),
            )
            for one in worst[:WINDOWS_SHOWN]
        ),
        missed_more=max(0, len(worst) - WINDOWS_SHOWN),
        tiers=_tiers(promised.tiers),
    )


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _credit_line(report: MonthReport) -> str:
    void = sum(one.void is True for one in report.document.invoices)
    if not void:
        return _credited(report)
    taken = "An invoice of it was" if void == 1 else f"{void} invoices of it were"
    return f"{_credited(report)} {taken} taken back, and charges nothing."


def _credited(report: MonthReport) -> str:
    document = report.document
    latency = None if document.latency is UNSET else document.latency.parts
    if document.binding_parts is None and latency is None:
        return "Nothing was measured, so nothing is credited."
    if not document.basis_points:
        if document.latency is not UNSET:
            return "Neither share is below what was promised: no credit."
        return f"{percent(document.binding_parts)} is not below {percent(document.level.target_parts)}: no credit."
    of = f"{document.basis_points / 100:g} % of {_money(report, document.charge_micro)}"
    if report.provisional:
        return f"So far {of} would be credited: {_money(report, document.credit_micro)}."
    if not document.credit_micro:
        return f"{of} is nothing, so nothing is credited."
    return f"Credited: {of}, {_money(report, document.credit_micro)}, for the next periods."


def _money(report: MonthReport, micro: int) -> str:
    return f"{grouped_amount(micro, report.document.minor_digits)} {report.document.currency}"


def _windows(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none"


def _day(one: Day) -> ShownDay:
    lost = None if one.parts is None else -(-(WHOLE - one.parts) * _MINUTES_A_DAY // WHOLE)
    return ShownDay(day=one.day, share=percent(one.parts), lost_minutes=lost)


def _latency(one: Latencies) -> ShownLatency:
    return ShownLatency(
        operation=one.operation,
        requests=f"{one.requests:,}",
        percentiles=tuple(milliseconds(value) for _, value in one.percentiles),
    )


def milliseconds(micros: int) -> str:
    """As people read it: two digits behind the point below 10 ms, one below 100."""
    digits = 2 if micros < 10_000 else 1 if micros < 100_000 else 0
    return f"{micros / 1_000:,.{digits}f} ms"
