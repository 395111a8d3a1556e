"""What the comparison found: readings of each row and system, medians, who is ahead, the table, the JSON. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from rich.table import Table

from benchmarks.figures import median

STEADY_WITHIN = 0.1
"""Two windows in a row that differ by less than this share show that a system is warm."""

_CAPTION = (
    "medians (least to most); level: the rounds of both overlap; ~: the rate still changed, or the client was late; "
    "µs a message: processor time of the three servers + the client"
)

Verdict = Literal["ahead", "level", "behind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that is compared."""

    key: str
    title: str
    unit: str
    more_is_better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one round measured. Processor time is in microseconds a message, of the three servers and of the client."""

    value: float
    servers_us: float | None = None
    client_us: float | None = None
    steady: bool = True
    """False when the rate still changed from window to window when the time for warming was over, or when the client
    did not keep to the times at which it was to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Messages of a few seconds; processor time is what was used up to the end of it."""

    messages: int
    seconds: float
    servers_cpu_s: float
    client_cpu_s: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


def is_warm(windows: Sequence[Window]) -> bool:
    """Whether the last two windows have nearly the same rate."""
    if len(windows) < 2:
        return False
    one, other = windows[-2].rate, windows[-1].rate
    return max(one, other) > 0 and abs(one - other) < STEADY_WITHIN * max(one, other)


def reading_of(windows: Sequence[Window]) -> Reading:
    """The rate of the last two windows; at least three are required, as the first says when processor time began."""
    before, *last = windows[-3:]
    if len(last) != 2:
        raise ValueError(f"{len(windows)} windows, 3 required")
    messages = sum(window.messages for window in last)
    if messages == 0:
        raise ValueError("no message in the last two windows")
    return Reading(
        value=messages / sum(window.seconds for window in last),
        servers_us=(last[-1].servers_cpu_s - before.servers_cpu_s) / messages * 1e6,
        client_us=(last[-1].client_cpu_s - before.client_cpu_s) / messages * 1e6,
        steady=is_warm(windows),
    )


def longest_gap_s(times_ms: Sequence[float]) -> float:
    """Longest time between two acknowledgements."""
    if len(times_ms) < 2:
        raise ValueError(f"{len(times_ms)} acknowledgements, 2 required")
    return max(later - earlier for earlier, later in pairwise(times_ms)) / 1e3


@dataclass(slots=True)
class Comparison:
    """Readings of all rounds. The first of `systems` (key, title) is the one that the others are compared with."""

    rows: Sequence[Row]
    systems: Sequence[tuple[str, str]]
    readings: dict[tuple[str, str], list[Reading]] = field(default_factory=dict)
    """By row and system."""
    absent: dict[str, str] = field(default_factory=dict)
    """Why a system did not take part."""
    failures: list[str] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    """Load average of the machine at the start of each system's turn, without what the comparison itself had run."""

    def add(self, row: str, system: str, reading: Reading) -> None:
        self.readings.setdefault((row, system), []).append(reading)

    def values(self, row: str, system: str) -> list[float]:
        return [reading.value for reading in self.readings.get((row, system), ())]

    def ratio(self, row: Row, system: str) -> float | None:
        """How many times as good the first system's median is; None when one of them was not measured."""
        ours, theirs = self.values(row.key, self.systems[0][0]), self.values(row.key, system)
        if not ours or not theirs:
            return None
        better, worse = (ours, theirs) if row.more_is_better else (theirs, ours)
        return median(better) / max(median(worse), 1e-9)

    def verdict(self, row: Row, system: str) -> Verdict | None:
        """Level where the rounds of both overlap."""
        ratio = self.ratio(row, system)
        if ratio is None:
            return None
        ours, theirs = self.values(row.key, self.systems[0][0]), self.values(row.key, system)
        if min(ours) <= max(theirs) and min(theirs) <= max(ours):
            return "level"
        return "ahead" if ratio > 1 else "behind"

    def never_behind(self) -> tuple[int, int]:
        """(rows in which the first system is behind none, rows in which there is something to compare)."""
        others = [key for key, _ in self.systems[1:]]
        judged = [[self.verdict(row, other) for other in others] for row in self.rows]
        compared = [verdicts for verdicts in judged if any(verdicts)]
        return sum("behind" not in verdicts for verdicts in compared), len(compared)

    def table(self, title: str) -> Table:
        """Medians and spread; below them processor time a message of the servers and the client."""
        table = Table(title=title, caption=_CAPTION, show_lines=True)
        table.add_column("")
        for _, name in self.systems:
            table.add_column(name, justify="right")
        for row in self.rows:
            columns = [self._shown(row, key) for key, _ in self.systems]
            if any(columns):
                table.add_row(f"{row.title}\n{row.unit}", *(column or "-" for column in columns))
        return table

    def _shown(self, row: Row, system: str) -> str:
        readings = self.readings.get((row.key, system), [])
        if not readings:
            return ""
        values = [reading.value for reading in readings]
        shown = number(median(values))
        if len(values) > 1:
            shown += f" ({number(min(values))} to {number(max(values))})"
        if not all(reading.steady for reading in readings):
            shown += " ~"
        verdict, ratio = self.verdict(row, system), self.ratio(row, system)
        if system != self.systems[0][0] and ratio is not None:
            shown += f"\nPenstock {verdict}, {ratio:.2g}x"
        processor = _processor(readings)
        return f"{shown}\n{processor}" if processor else shown

    def details(self) -> dict[str, Any]:
        """Everything, for the JSON line."""
        return {
            "rows": {
                row.key: {
                    key: self._described(row, key) for key, _ in self.systems if self.values(row.key, key)
                }
                for row in self.rows
            },
            "absent": self.absent,
            "failures": self.failures,
            "load_averages": self.loads,
        }

    def _described(self, row: Row, system: str) -> dict[str, Any]:
        readings = self.readings[row.key, system]
        values = [reading.value for reading in readings]
        described: dict[str, Any] = {
            "median": round(median(values), 3),
            "min": round(min(values), 3),
            "max": round(max(values), 3),
            "rounds": len(values),
            "unit": row.unit,
            "unsteady_rounds": sum(not reading.steady for reading in readings),
        }
        for name, used in _used(readings).items():
            described[name] = round(used, 2)
        ratio = self.ratio(row, system)
        if system != self.systems[0][0] and ratio is not None:
            described["penstock_times_as_good"] = round(ratio, 3)
            described["penstock"] = self.verdict(row, system)
        return described


def _used(readings: Sequence[Reading]) -> dict[str, float]:
    """Medians of processor time, where it was measured."""
    servers = [reading.servers_us for reading in readings if reading.servers_us is not None]
    clients = [reading.client_us for reading in readings if reading.client_us is not None]
    return {
        name: median(values)
        for name, values in (("servers_us_a_message", servers), ("client_us_a_message", clients))
        if values
    }


def _processor(readings: Sequence[Reading]) -> str:
    used = _used(readings)
    return " + ".join(f"{number(value)}" for value in used.values()) + (" µs a message" if used else "")


def number(value: float) -> str:
    """Three digits that count, with thousands as k."""
    if value >= 9_995:
        return f"{value / 1e3:,.0f}k"
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
