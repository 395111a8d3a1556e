"""A month of service as a document, and the document's numbers computed again from its evidence. Pure.

The same functions make a report and check it, from windows, runs and invoices up to the credit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import UNSET

from penstock.contract.documents import CreditNoteDocument, InvoiceDocument
from penstock.contract.invariant import InvariantBroken, invariant
from penstock.contract.service_level_documents import (
    ChargedInvoice,
    Excluded,
    ImperfectWindow,
    Level,
    LevelLatency,
    LevelTier,
    MeasuredDay,
    MeasuredLatency,
    MeasuredOperation,
    Run,
    ServiceLevelDocument,
    SlowWindow,
    WindowsBySource,
)
from penstock.rules.service_levels import (
    BINDING,
    DAY_S,
    EXCLUDED_WINDOWS_MAX,
    LATENCY_MIN,
    MINUTES_A_WINDOW,
    OPERATIONS,
    PRODUCE,
    RUN_MIN_S,
    SHIPPED_LEVELS,
    VALID_MIN,
    WHOLE,
    WINDOW_S,
    Counts,
    LatencyMonth,
    LatencyObjective,
    OperationMonth,
    ServiceLevel,
    Source,
    Tier,
    binding_parts,
    credit_micro,
    share_of,
    too_slow_max,
    windows_of,
)

BEFORE_CREDIT = ("fee", "discount", "minimum")
"""Charges of an invoice that a service level credits a part of: what is paid for, whether by credit or by money."""
FORMAT: Final = 4
"""Of the documents that are written."""
GRANT_PREFIX = "sla-"
"""Of the ids of these grants, which only service levels give."""
KNOWN_LEVELS = {(one.name, one.version): one for one in SHIPPED_LEVELS}
"""Those that are shipped: a document cannot have others under their names."""


def level_document(level: ServiceLevel) -> Level:
    latency = level.latency
    return Level(
        name=level.name,
        version=level.version,
        target_parts=level.target_parts,
        latency_ms=level.latency_ms,
        tiers=_tier_documents(level.tiers),
        latency=UNSET
        if latency is None
        else LevelLatency(
            within_ms=latency.within_ms,
            target_parts=latency.target_parts,
            tiers=_tier_documents(latency.tiers),
        ),
    )


def level_of(level: Level) -> ServiceLevel:
    """Raises `InvariantBroken` for what is none."""
    latency = level.latency
    return ServiceLevel(
        name=level.name,
        version=level.version,
        target_parts=level.target_parts,
        latency_ms=level.latency_ms,
        tiers=_tiers(level.tiers),
        latency=None
        if latency is UNSET
        else LatencyObjective(
            within_ms=latency.within_ms, target_parts=latency.target_parts, tiers=_tiers(latency.tiers)
        ),
    )


def _tier_documents(tiers: Iterable[Tier]) -> tuple[LevelTier, ...]:
    return tuple(LevelTier(below_parts=one.below_parts, basis_points=one.basis_points) for one in tiers)


def _tiers(tiers: Iterable[LevelTier]) -> tuple[Tier, ...]:
    return tuple(Tier(below_parts=one.below_parts, basis_points=one.basis_points) for one in tiers)


def measured_latency(month: LatencyMonth) -> MeasuredLatency:
    return MeasuredLatency(
        judged=month.judged,
        missed=tuple(
            SlowWindow(window_s=window, good=good, slow=slow)
            for window, (good, slow) in sorted(month.missed.items())
        ),
        parts=month.parts,
    )


def measured(month: OperationMonth) -> MeasuredOperation:
    return MeasuredOperation(
        operation=month.operation,
        windows=WindowsBySource(**{source.value: count for source, count in month.sources.items()}),
        valid=month.valid,
        bad=month.bad,
        imperfect=tuple(
            ImperfectWindow(window_s=window, source=source.value, valid=counts.valid, bad=counts.bad)
            for window, (source, counts) in sorted(month.imperfect.items())
        ),
        days=tuple(
            MeasuredDay(day_s=day, judged=count) for day, count in sorted(month.judged_by_day.items())
        ),
        down_minutes=month.down_minutes,
        runs=tuple(Run(from_s=first, until_s=end) for first, end in month.runs),
        mean_parts=month.mean_parts,
        minutes_parts=month.minutes_parts,
        runs_parts=month.runs_parts,
    )


def charged_invoice(
    invoice: InvoiceDocument,
    document_sha256: str,
    notes: Iterable[CreditNoteDocument],
    month_ms: tuple[int, int],
    *,
    void: bool = False,
) -> ChargedInvoice:
    """What the invoice charges before credit and tax, and what these credit notes took off that. A period that is not
    in one month alone counts in each by the part of its time; these parts add up to the whole.
    """

    def part(amount_micro: int) -> int:
        begin_ms = invoice.period_start_ms
        length_ms = max(1, invoice.period_end_ms - begin_ms)
        first, last = (min(max(0, bound - begin_ms), length_ms) for bound in month_ms)
        return amount_micro * last // length_ms - amount_micro * first // length_ms

    charges = () if invoice.charges is UNSET else invoice.charges
    credited = 0
    for note in notes:
        changes = () if note.charges is UNSET else note.charges
        credited += sum(line.amount_micro for line in note.lines)
        credited += 0 if note.granted is UNSET else note.granted.amount_micro
        credited -= sum(one.amount_micro for one in changes if one.kind in BEFORE_CREDIT)
    return ChargedInvoice(
        id=invoice.id,
        document_sha256=document_sha256,
        charge_micro=part(
            sum(line.amount_micro for line in invoice.lines)
            + sum(one.amount_micro for one in charges if one.kind in BEFORE_CREDIT)
        ),
        credited_micro=part(credited),
        void=True if void else UNSET,
    )


def latency_shown(document: ServiceLevelDocument) -> dict[str, int | None] | None:
    """What stands beside the document of its latencies; None where none were promised."""
    promised, found = document.level.latency, document.latency
    if promised is UNSET or found is UNSET:
        return None
    return {
        "within_ms": promised.within_ms,
        "target_parts": promised.target_parts,
        "judged": found.judged,
        "missed": len(found.missed),
        "parts": found.parts,
    }


def month_document(
    *,
    tenant: str,
    month: str,
    bounds_s: tuple[int, int],
    level: ServiceLevel,
    excluded: Sequence[Excluded],
    operations: Sequence[OperationMonth],
    latency: LatencyMonth | None,
    invoices: Sequence[ChargedInvoice],
    currency: str,
    minor_digits: int,
) -> ServiceLevelDocument:
    """The month with what it credits. `latency` where the level promises one, else None."""
    invariant((latency is None) == (level.latency is None), "what is promised is measured")
    binding = binding_parts(operations)
    points = level.basis_points(binding, None if latency is None else latency.parts)
    charge = max(0, sum(one.counted_micro for one in invoices))
    credit = credit_micro(charge, points, minor_digits)
    return ServiceLevelDocument(
        format=FORMAT,
        kind="service_level",
        tenant=tenant,
        month=month,
        from_s=bounds_s[0],
        until_s=bounds_s[1],
        level=level_document(level),
        excluded=tuple(excluded),
        operations=tuple(measured(one) for one in operations),
        binding_parts=binding,
        basis_points=points,
        invoices=tuple(invoices),
        currency=currency,
        minor_digits=minor_digits,
        charge_micro=charge,
        credit_micro=credit,
        grant=grant_id(month) if credit else "",
        latency=UNSET if latency is None else measured_latency(latency),
    )


def counted_windows(document: ServiceLevelDocument, windows: WindowsBySource) -> int:
    """The windows of which shares are parts: all that are not excluded; in formats below 4 those that were judged."""
    judged = windows.own + windows.probe + windows.few
    return judged if document.format < FORMAT else judged + windows.nothing


def excluded_lines(document: ServiceLevelDocument) -> list[str]:
    """What was taken out of the month, in words."""
    return [
        f"{_minute(span.from_s)} to {_minute(span.until_s)} is excluded"
        + (
            ", and the document does not say since when that was known"
            if span.announced_s is UNSET
            else f", announced {_minute(span.announced_s)}"
        )
        + f": {span.reason}"
        for span in document.excluded
    ]


def _minute(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M}Z"


def _older_format(invoices: Iterable[ChargedInvoice], *, latency: bool) -> Literal[1, 2, 3]:
    """Of a document below `FORMAT`: the lowest that can say it."""
    if any(one.void is True for one in invoices):
        return 3
    return 2 if latency else 1


def grant_id(month: str) -> str:
    """Of the credit in the tenant's terms: one a month, so it cannot be granted twice."""
    return f"{GRANT_PREFIX}{month}"


def grant_reason(document: ServiceLevelDocument, sha256: str) -> str:
    """What the grant says; it holds the document's hash, and with the terms it enters the billing chain."""
    return f"Service level of {document.month}: {document.basis_points / 100:g} % of the charge. Evidence {sha256}"


def differences(document: ServiceLevelDocument) -> Iterator[str]:
    """Each number that does not follow from the others, named with what it should be."""
    if [one.operation for one in document.operations] != list(OPERATIONS):
        yield f"operations: {', '.join(OPERATIONS)} required, in this order"
        return
    count, rest = divmod(document.until_s - document.from_s, WINDOW_S)
    if rest or count < 0 or document.from_s % WINDOW_S:
        yield "from_s, until_s: bounds of five-minute windows required"
        return
    spans = [(one.from_s, one.until_s) for one in document.excluded]
    out = windows_of(spans, (document.from_s, document.until_s))
    yield from _exclusion_differences(document, out)
    for one in document.operations:
        for text in _differences(one, document, count, out):
            yield f"{one.operation}: {text}"
    shares = [
        one.mean_parts
        for one in document.operations
        if one.operation in BINDING and one.mean_parts is not None
    ]
    yield from _compared("binding_parts", document.binding_parts, min(shares, default=None))
    yield from _latency_differences(document, out)
    yield from _level_differences(document)
    charge = sum(one.counted_micro for one in document.invoices)
    yield from _compared("charge_micro", document.charge_micro, charge)
    if charge >= 0:
        due = credit_micro(charge, document.basis_points, document.minor_digits)
        yield from _compared("credit_micro", document.credit_micro, due)
    wanted = grant_id(document.month) if document.credit_micro else ""
    yield from _compared("grant", document.grant, wanted)


def _exclusion_differences(document: ServiceLevelDocument, out: set[int]) -> Iterator[str]:
    for span in document.excluded:
        name = f"excluded {span.id}"
        if (span.announced_s is UNSET) != (document.format < FORMAT):
            yield f"{name}: format {FORMAT} says when it was announced, and no other does"
        elif span.announced_s is not UNSET and span.announced_s > span.from_s:
            yield f"{name}: begins at {span.from_s}, and was announced afterwards, at {span.announced_s}"
    if document.format >= FORMAT and len(out) > EXCLUDED_WINDOWS_MAX:
        yield f"excluded: {len(out)} windows, at most {EXCLUDED_WINDOWS_MAX} of a month may be"


def day_parts(document: ServiceLevelDocument) -> dict[int, int]:
    """The lower mean of produce and fetch by the first second of each day; days that nothing judged have none."""
    found: dict[int, int] = {}
    spans = [(span.from_s, span.until_s) for span in document.excluded]
    for one in document.operations:
        if one.operation not in BINDING:
            continue
        lost: dict[int, int] = {}
        for window in one.imperfect:
            day = window.window_s // DAY_S * DAY_S
            lost[day] = lost.get(day, 0) + WHOLE - Counts(valid=window.valid, bad=window.bad).parts
        for measured_day in one.days:
            counted = measured_day.judged
            if document.format >= FORMAT:
                first = max(document.from_s, measured_day.day_s)
                end = min(document.until_s, measured_day.day_s + DAY_S)
                counted = (end - first) // WINDOW_S - len(windows_of(spans, (first, end)))
            if counted < measured_day.judged:
                continue  # a day that is none of the document's: `differences` names it
            parts = (counted * WHOLE - lost.get(measured_day.day_s, 0)) // counted
            found[measured_day.day_s] = min(parts, found.get(measured_day.day_s, WHOLE))
    return dict(sorted(found.items()))


def _level_differences(document: ServiceLevelDocument) -> Iterator[str]:
    level = document.level
    known = KNOWN_LEVELS.get((level.name, level.version))
    if known is not None and level_document(known) != level:
        yield f"level: {level.name} {level.version} is known, and has other tiers"
    try:
        promised = level_of(level)
    except InvariantBroken as error:
        yield f"level: {error}"
        return
    latency_parts = None if document.latency is UNSET else document.latency.parts
    due = promised.basis_points(document.binding_parts, latency_parts)
    yield from _compared("basis_points", document.basis_points, due)


def _misplaced(
    what: str, windows: Sequence[int], document: ServiceLevelDocument, out: set[int]
) -> Iterator[str]:
    """Windows must be of the month, not excluded, each once and in order."""
    before = -1
    for window_s in windows:
        if window_s % WINDOW_S or not document.from_s <= window_s < document.until_s or window_s in out:
            yield f"{what} {window_s} is not one of the month, or excluded"
        if window_s <= before:
            yield f"{what} {window_s} stands twice, or not in order"
        before = window_s


def _latency_differences(document: ServiceLevelDocument, out: set[int]) -> Iterator[str]:
    latency, promised = document.latency, document.level.latency
    older = _older_format(document.invoices, latency=promised is not UNSET)
    wanted = FORMAT if document.format == FORMAT else older
    if document.format != wanted or (latency is UNSET) != (promised is UNSET):
        yield f"latency: format {wanted} required, with latencies if the level promises them, else without"
    if latency is UNSET:
        return
    produce = next(one for one in document.operations if one.operation == PRODUCE)
    failed = {one.window_s: one for one in produce.imperfect}
    yield from _misplaced("latency: window", [one.window_s for one in latency.missed], document, out)
    good = 0
    for window in latency.missed:
        name = f"latency: window {window.window_s}"
        if not (window.good >= LATENCY_MIN and too_slow_max(window.good) < window.slow <= window.good):
            yield f"{name}: {window.slow} of {window.good} slow requests do not miss the objective"
        there = failed.get(window.window_s)
        # With `latency_ms` slow requests are failed ones too.
        if there is not None and document.level.latency_ms is None and there.valid - there.bad != window.good:
            yield f"{name}: {window.good} good requests, its window of produce has {there.valid - there.bad}"
        good += window.good
    if latency.judged > produce.windows.own or len(latency.missed) > latency.judged:
        yield (
            f"latency: judged is {latency.judged}, with {len(latency.missed)} windows too slow and"
            f" {produce.windows.own} judged by own requests"
        )
    least = good + (latency.judged - len(latency.missed)) * LATENCY_MIN
    if document.level.latency_ms is None and least > produce.valid - produce.bad:
        yield f"latency: judged windows have {least} good requests at least, the month {produce.valid - produce.bad}"
    counted = latency.judged if document.format < FORMAT else counted_windows(document, produce.windows)
    due = share_of(counted - len(latency.missed), counted) if latency.judged else None
    yield from _compared("latency parts", latency.parts, due)


def _differences(
    one: MeasuredOperation, document: ServiceLevelDocument, count: int, out: set[int]
) -> Iterator[str]:
    by = one.windows
    judged = by.own + by.probe + by.few
    yield from _compared("windows", judged + by.nothing + by.excluded, count)
    yield from _compared("windows excluded", by.excluded, len(out))
    yield from _compared("windows of days", sum(day.judged for day in one.days), judged)
    days = [day.day_s for day in one.days]
    if days != sorted(set(days)) or any(day % DAY_S for day in days):
        yield "a day stands twice, not in order, or is none"
    seen = dict.fromkeys(Source, 0)
    lost = own_bad = own_valid = 0
    yield from _misplaced("window", [window.window_s for window in one.imperfect], document, out)
    for window in one.imperfect:
        name = f"window {window.window_s}"
        if not 0 < window.bad <= window.valid:
            yield f"{name}: {window.bad} of {window.valid} requests failed"
            continue
        if window.source != Source.PROBE:
            own_bad, own_valid = own_bad + window.bad, own_valid + window.valid
            if (window.valid >= VALID_MIN) != (window.source == Source.OWN):
                yield f"{name}: {window.valid} requests are no reason to be judged by {window.source}"
        seen[Source(window.source)] += 1
        lost += WHOLE - Counts(valid=window.valid, bad=window.bad).parts
    for source, most in ((Source.OWN, by.own), (Source.PROBE, by.probe), (Source.FEW, by.few)):
        if seen[source] > most:
            yield f"windows {source.value} is {most}, and {seen[source]} of them had failures"
    # Own requests of windows that probes judged are in the sums too.
    exact = by.probe == 0
    if own_bad > one.bad or (exact and own_bad != one.bad):
        yield f"bad is {one.bad}, the windows have {own_bad}"
    if own_valid > one.valid or one.bad > one.valid:
        yield f"valid is {one.valid}, and windows with failures alone have {own_valid}"
    if own_valid == one.valid and not seen[Source.PROBE] and one.valid and by.own > seen[Source.OWN]:
        yield f"valid is {one.valid}, and leaves nothing for windows without a failure"
    counted = counted_windows(document, by)
    minutes = counted * MINUTES_A_WINDOW
    yield from _compared(
        "mean_parts", one.mean_parts, (counted * WHOLE - lost) // counted if judged else None
    )
    yield from _compared(
        "minutes_parts",
        one.minutes_parts,
        max(0, minutes - one.down_minutes) * WHOLE // minutes if judged else None,
    )
    seconds = 0
    last = document.from_s
    for run in one.runs:
        if run.from_s < last or run.until_s - run.from_s < RUN_MIN_S or run.until_s > document.until_s:
            yield f"run {run.from_s} to {run.until_s} is none of the month, or too short"
        last = run.until_s
        seconds += run.until_s - run.from_s
    yield from _compared(
        "runs_parts",
        one.runs_parts,
        max(0, minutes * 60 - seconds) * WHOLE // (minutes * 60) if judged else None,
    )


def _compared(name: str, found: object, due: object) -> Iterator[str]:
    if found != due:
        yield f"{name} is {_shown(found)}, its evidence gives {_shown(due)}"


def _shown(value: object) -> str:
    return "none" if value is None or value == "" else str(value)


def own_counts(windows: Iterable[tuple[int, int, int]], slow: Mapping[int, int]) -> dict[int, Counts]:
    """Counts by a window's first second, of (window, valid, bad) and the slow good answers of windows."""
    return {
        window: Counts(valid=valid, bad=min(valid, bad + slow.get(window, 0)))
        for window, valid, bad in windows
    }
