"""What a month's service level was, and what it credits. Pure, in whole numbers.

A month is its five-minute windows. Each window of an operation is judged by the tenant's own requests, by probes from
outside where it had too few of its own, or by nothing. A share is of all windows that are not excluded: one that
nothing judged counts as one without a failure, so that one bad minute among few requests is a minute of the month, and
how many these are is stated. Where nothing at all was judged there is no share.

| formula | says | as |
|---|---|---|
| `mean` | the mean of the windows' parts of good requests; partial outages count | AWS |
| `minutes` | minutes without any success in which there was at least one attempt | Confluent, Azure |
| `runs` | the same time to the second, in runs of at least a minute | Google |

The lower `mean` of produce and fetch is binding. A share is in parts of `WHOLE`, rounded down, which is for the tenant.

A level may promise latencies beside that: in so many of the windows 99 % of the good produce requests took at most so
long. A window is judged by the tenant's own requests, from `LATENCY_MIN` good ones on; others count as in time. What
is below its share credits too, and of both credits the higher one counts: an outage is not credited twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.contract.invariant import invariant
from penstock.rules.latency_buckets import THRESHOLDS_MS

WHOLE = 10**9
"""Parts of 100 %."""
WINDOW_S = 300
DAY_S = 86_400
MINUTES_A_WINDOW = WINDOW_S // 60
VALID_MIN = 20
"""Valid requests below which a window says little of itself."""
PRODUCE, FETCH, METADATA = "produce", "fetch", "metadata"
OPERATIONS = (PRODUCE, FETCH, METADATA)
BINDING = (PRODUCE, FETCH)
LATENCY_MIN = 100
"""Good requests of a window below which one slow request would be more than 1 % of them."""
RUN_MIN_S = 60
WHOLE_POINTS = 10_000
ALL_SECONDS = (1 << 60) - 1
"""Of a minute, as a bit each."""
EXCLUDED_WINDOWS_MAX = 96
"""Eight hours: no more of a month is taken out of any tenant."""


class Source(StrEnum):
    """What a window was judged by."""

    OWN = "own"
    """The tenant's own requests, at least `VALID_MIN`."""
    PROBE = "probe"
    FEW = "few"
    """Fewer requests of its own, as no probe ran."""
    NOTHING = "nothing"
    EXCLUDED = "excluded"
    """An operator announced it before, with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Requests of one operation in a window that count: `bad` of `valid` failed by our fault or took too long."""

    valid: int = 0
    bad: int = 0

    def __post_init__(self) -> None:
        invariant(0 <= self.bad <= self.valid, "no more requests fail than there are")

    @property
    def parts(self) -> int:
        """The share of good ones; there is one at least."""
        return (self.valid - self.bad) * WHOLE // self.valid


NO_COUNTS = Counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMinute:
    """A minute (since 1970 UTC) with a failed request of one operation. Seconds are bits, the first one the lowest."""

    minute: int
    valid: int
    bad: int
    succeeded_seconds: int
    failed_seconds: int

    @property
    def down(self) -> bool:
        """Nothing succeeded in it."""
        return self.valid <= self.bad

    @property
    def seconds(self) -> tuple[int, int]:
        """(succeeded, failed). A broker of an older release tells no seconds: the minute then is one piece."""
        if self.succeeded_seconds or self.failed_seconds:
            return self.succeeded_seconds, self.failed_seconds
        return (0, ALL_SECONDS) if self.down else (ALL_SECONDS, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Below that share so much is credited."""

    below_parts: int
    basis_points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyObjective:
    """In `target_parts` of the windows that are judged, 99 % of the good produce requests take at most `within_ms`, one
    of `THRESHOLDS_MS`. Tiers from the highest share of windows to the lowest.
    """

    within_ms: int
    target_parts: int
    tiers: tuple[Tier, ...]

    def __post_init__(self) -> None:
        invariant(self.within_ms in THRESHOLDS_MS, f"a latency that is counted: one of {THRESHOLDS_MS} ms")
        _check_tiers(self.target_parts, self.tiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """What is promised, and credited when it is not kept. Tiers from the highest share to the lowest."""

    name: str
    version: int
    target_parts: int
    tiers: tuple[Tier, ...]
    latency_ms: int | None = None
    """A produce request that takes longer is a bad one; one of `THRESHOLDS_MS`. None: any latency is good."""

    latency: LatencyObjective | None = None
    """Promised beside the share of good requests."""

    def __post_init__(self) -> None:
        invariant(
            self.latency_ms is None or self.latency_ms in THRESHOLDS_MS,
            f"a latency that is counted: one of {THRESHOLDS_MS} ms",
        )
        _check_tiers(self.target_parts, self.tiers)

    def basis_points(self, parts: int | None, latency_parts: int | None = None) -> int:
        """What a month with that share of good requests credits, and with that share of windows in time: the higher
        credit of both. None: nothing was judged, and it credits nothing.
        """
        both = [_points(self.tiers, parts)]
        if self.latency is not None:
            both.append(_points(self.latency.tiers, latency_parts))
        return max(both)


def _check_tiers(target_parts: int, tiers: Sequence[Tier]) -> None:
    shares = [tier.below_parts for tier in tiers]
    invariant(shares == sorted(set(shares), reverse=True), "tiers go from the highest share down")
    points = [tier.basis_points for tier in tiers]
    invariant(points == sorted(set(points)), "less service, more credit")
    invariant(
        0 < target_parts <= WHOLE
        and all(0 < one <= WHOLE_POINTS for one in points)
        and all(0 < one <= target_parts for one in shares),
        "a tier credits a part of the charge, below the target",
    )


def _points(tiers: Sequence[Tier], parts: int | None) -> int:
    return max(
        (tier.basis_points for tier in tiers if parts is not None and parts < tier.below_parts), default=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationMonth:
    """One operation of a month. Shares are of all windows that are not excluded: one that nothing judged counts as one
    without a failure, and is stated. They are None when no window was judged.
    """

    operation: str
    sources: Mapping[Source, int]
    """Windows by what they were judged by; all of them together are the month."""
    valid: int
    """Of the tenant's own, in windows that are not excluded."""
    bad: int
    mean_parts: int | None
    minutes_parts: int | None
    runs_parts: int | None
    down_minutes: int
    runs: tuple[tuple[int, int], ...]
    """[first second, end) since 1970 of each run without a success, of at least `RUN_MIN_S`."""
    imperfect: Mapping[int, tuple[Source, Counts]]
    """Windows (their first second) in which something failed."""
    judged_by_day: Mapping[int, int]
    """Windows that were judged, by the first second of their UTC day; other days have none."""

    @property
    def run_seconds(self) -> int:
        return sum(end - first for first, end in self.runs)


def operation_month(
    operation: str,
    bounds_s: tuple[int, int],
    own: Mapping[int, Counts],
    probes: Mapping[int, Counts],
    failed: Iterable[FailedMinute],
    excluded: Sequence[tuple[int, int]],
) -> OperationMonth:
    """One operation in windows of [first, end) seconds. `own` and `probes` are by a window's first second, `failed`
    are the tenant's own failed minutes, `excluded` spans [first, end) in seconds: each window that one touches is.
    """
    first, end = bounds_s
    invariant(first % WINDOW_S == 0 and end % WINDOW_S == 0 and first <= end, "bounds are those of windows")
    sources = dict.fromkeys(Source, 0)
    out = windows_of(excluded, bounds_s)
    sources[Source.EXCLUDED] = len(out)
    counted = (end - first) // WINDOW_S - len(out)
    valid = bad = judged = lost = 0
    imperfect: dict[int, tuple[Source, Counts]] = {}
    by_day: dict[int, int] = {}
    for window in sorted({*own, *probes}):
        if not first <= window < end or window in out:
            continue
        mine = own.get(window, NO_COUNTS)
        valid, bad = valid + mine.valid, bad + mine.bad
        source, counts = judge(mine, probes.get(window, NO_COUNTS))
        sources[source] += 1
        if source is Source.NOTHING:
            continue
        judged, lost = judged + 1, lost + WHOLE - counts.parts
        day = window // DAY_S * DAY_S
        by_day[day] = by_day.get(day, 0) + 1
        if counts.bad:
            imperfect[window] = (source, counts)
    sources[Source.NOTHING] += (end - first) // WINDOW_S - sum(sources.values())
    failing = [
        one
        for one in sorted(failed, key=lambda one: one.minute)
        if first <= one.minute * 60 < end and one.minute * 60 // WINDOW_S * WINDOW_S not in out
    ]
    down = sum(1 for one in failing if one.down)
    runs = runs_without_success(failing)
    minutes = counted * MINUTES_A_WINDOW
    seconds = sum(end - first for first, end in runs)
    return OperationMonth(
        operation=operation,
        sources=sources,
        valid=valid,
        bad=bad,
        mean_parts=(counted * WHOLE - lost) // counted if judged else None,
        minutes_parts=max(0, minutes - down) * WHOLE // minutes if judged else None,
        runs_parts=max(0, minutes * 60 - seconds) * WHOLE // (minutes * 60) if judged else None,
        down_minutes=down,
        runs=runs,
        imperfect=imperfect,
        judged_by_day=by_day,
    )


def judge(own: Counts, probes: Counts) -> tuple[Source, Counts]:
    """What a window is judged by, and by which requests."""
    if own.valid >= VALID_MIN:
        return Source.OWN, own
    if probes.valid:
        return Source.PROBE, probes
    return (Source.FEW, own) if own.valid else (Source.NOTHING, NO_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyMonth:
    """Windows of a month by whether 99 % of their good produce requests were in time."""

    judged: int
    """Windows with at least `LATENCY_MIN` good requests."""
    missed: Mapping[int, tuple[int, int]]
    """(good requests, those that took too long) by the first second of each window that was not in time."""
    parts: int | None
    """The share of all windows that are not excluded and not too slow; None when none was judged."""


def too_slow_max(good: int) -> int:
    """So many of the good requests may take longer, and 99 % of them still do not."""
    return good // 100


def latency_month(
    bounds_s: tuple[int, int],
    own: Mapping[int, Counts],
    slow: Mapping[int, int],
    excluded: Sequence[tuple[int, int]],
) -> LatencyMonth:
    """Produce requests in windows of [first, end) seconds: `own` by a window's first second, `slow` those of the good
    ones that took too long, `excluded` as in `operation_month`.
    """
    out = windows_of(excluded, bounds_s)
    judged = 0
    missed: dict[int, tuple[int, int]] = {}
    for window, counts in sorted(own.items()):
        good = counts.valid - counts.bad
        if not bounds_s[0] <= window < bounds_s[1] or window in out or good < LATENCY_MIN:
            continue
        judged += 1
        too_slow = min(good, slow.get(window, 0))
        if too_slow > too_slow_max(good):
            missed[window] = (good, too_slow)
    counted = (bounds_s[1] - bounds_s[0]) // WINDOW_S - len(out)
    parts = share_of(counted - len(missed), counted) if judged else None
    return LatencyMonth(judged=judged, missed=missed, parts=parts)


def share_of(part: int, whole: int) -> int | None:
    """In parts of `WHOLE`, rounded down; None of nothing."""
    return part * WHOLE // whole if whole else None


def runs_without_success(failed: Sequence[FailedMinute]) -> tuple[tuple[int, int], ...]:
    """Runs [first second, end) of failures, by minute in order: no success in between, and no gap of a minute without
    an attempt. A minute that is not there had no failure. Only runs of at least `RUN_MIN_S`.
    """
    runs: list[tuple[int, int]] = []
    began = last = None
    for minute in failed:
        succeeded, fails = minute.seconds
        for second in range(60):
            at, bit = minute.minute * 60 + second, 1 << second
            if succeeded & bit:
                _close(runs, began, last)
                began = last = None
            elif fails & bit:
                # A minute that is left out lies between two of them: it had successes, or no one asked.
                if last is not None and at - last > RUN_MIN_S:
                    _close(runs, began, last)
                    began = None
                began = at if began is None else began
                last = at
    _close(runs, began, last)
    return tuple(runs)


def _close(runs: list[tuple[int, int]], began: int | None, last: int | None) -> None:
    if began is not None and last is not None and last + 1 - began >= RUN_MIN_S:
        runs.append((began, last + 1))


def windows_of(spans: Sequence[tuple[int, int]], bounds_s: tuple[int, int]) -> set[int]:
    """The windows within the bounds that a span [first, end) touches."""
    first, end = bounds_s
    found: set[int] = set()
    for since, until in spans:
        begin = max(first, since // WINDOW_S * WINDOW_S)
        found.update(range(begin, min(end, until), WINDOW_S))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A span [from, until) in seconds that an operator takes out, and when it was announced."""

    id: str
    from_s: int
    until_s: int
    announced_s: int
    reason: str


def excluded_of(announced: Iterable[Announced], bounds_s: tuple[int, int]) -> list[Announced]:
    """What is excluded of a month: of each span what was still to come when it was announced, and the first of them, as
    long as no more than `EXCLUDED_WINDOWS_MAX` windows are out.
    """
    spans: list[Announced] = []
    out: set[int] = set()
    for span in sorted(announced, key=lambda each: (each.announced_s, each.from_s, each.id)):
        from_s = max(span.from_s, -(-span.announced_s // WINDOW_S) * WINDOW_S)
        if from_s >= span.until_s:
            continue
        touched = windows_of([(from_s, span.until_s)], bounds_s)
        if len(out | touched) <= EXCLUDED_WINDOWS_MAX:
            out |= touched
            spans.append(replace(span, from_s=from_s))
    return sorted(spans, key=lambda each: (each.from_s, each.id))


def binding_parts(operations: Iterable[OperationMonth]) -> int | None:
    """The lower mean of produce and fetch; None when neither was judged."""
    shares = [one.mean_parts for one in operations if one.operation in BINDING and one.mean_parts is not None]
    return min(shares, default=None)


def credit_micro(charge_micro: int, basis_points: int, minor_digits: int) -> int:
    """That part of a month's charge, rounded up to minor units, and never more than the charge."""
    invariant(charge_micro >= 0 and 0 <= basis_points <= WHOLE_POINTS, "a part of what was charged")
    scale: int = 10 ** (6 - minor_digits)
    part = -(-charge_micro * basis_points // WHOLE_POINTS)
    return min(charge_micro, -(-part // scale) * scale)


def percent(parts: int | None) -> str:
    """A share for people, rounded down to a thousandth of a percent."""
    if parts is None:
        return "not measured"
    thousandths = parts * 100_000 // WHOLE
    return f"{thousandths // 1_000}.{thousandths % 1_000:03} %"


STANDARD_1 = ServiceLevel(
    name="standard",
    version=1,
    target_parts=999_500_000,
    tiers=(
        Tier(below_parts=999_500_000, basis_points=1_000),
        Tier(below_parts=990_000_000, basis_points=2_500),
        Tier(below_parts=950_000_000, basis_points=10_000),
    ),
)
"""99.95 %; below it 10 % of the month's charge, below 99 % 25 %, below 95 % all of it."""

PREMIUM_1 = ServiceLevel(
    name="premium",
    version=1,
    target_parts=999_900_000,
    tiers=(
        Tier(below_parts=999_900_000, basis_points=1_000),
        Tier(below_parts=999_000_000, basis_points=2_500),
        Tier(below_parts=990_000_000, basis_points=10_000),
    ),
    latency=LatencyObjective(
        within_ms=250,
        target_parts=990_000_000,
        tiers=(
            Tier(below_parts=990_000_000, basis_points=1_000),
            Tier(below_parts=950_000_000, basis_points=2_500),
        ),
    ),
)
"""99.99 %, and 99 % of produce requests within 250 ms in 99 % of the windows; for plans that name it."""
SHIPPED_LEVELS = (STANDARD_1, PREMIUM_1)
"""Known to each version of the package from theirs on; other levels are of plans that operators publish."""
