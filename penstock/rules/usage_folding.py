"""Usage of a partition from its stamps: what stood counted at chosen offsets, and what each UTC day added.

A verifier feeds the stamps of an offset range in order. Usage counts on the day of acceptance; a transaction counts at
its marker. Brokers count by the same odometer; Spark folds readings by rules of its own, and both must agree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from penstock.contract.invariant import invariant
from penstock.records.seal import Seal
from penstock.records.stamp import Stamp
from penstock.records.usage import MINUTE_MS, Totals
from penstock.rules.odometer import Odometer
from penstock.rules.timestamps import day_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What stood counted at a batch boundary."""

    offset: int
    totals: Totals
    accepted_ms: int
    """Acceptance of the last batch below `offset`, -1 = none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUsage:
    """What one day's part of the log, [first_offset, end_offset), added to the committed totals."""

    day: date
    first_offset: int
    end_offset: int
    messages: int
    bytes: int


class UsageFold:
    """Applies stamps to an odometer and keeps the totals at `wanted` offsets.

    Until `end_offset` it also divides usage by day; stamps beyond it move the odometer only (for the seal of the
    segment that holds the end). Raises `InvariantBroken` for a stamp out of order, as the odometer does.
    """

    def __init__(
        self, odometer: Odometer, *, start_offset: int, end_offset: int, wanted: Iterable[int] = ()
    ) -> None:
        invariant(odometer.end_offset <= start_offset <= end_offset, "a fold begins at or before its range")
        self.odometer = odometer
        self._start = start_offset
        self._end = end_offset
        self._wanted = frozenset((start_offset, end_offset, *wanted))
        self._marks: dict[int, Mark] = {}
        self._day: date | None = None
        self._day_begins: Mark | None = None
        self._days: list[DayUsage] = []
        self._keep()

    def apply(self, stamp: Stamp) -> None:
        """Count the next batch."""
        if self._start <= self.odometer.end_offset < self._end:
            day = day_of(stamp.accepted_ms)
            if day != self._day:
                self._close_day()
                self._day, self._day_begins = day, self._mark()
        self.odometer.apply(stamp)
        self._keep()
        if self.odometer.end_offset >= self._end:
            self._close_day()

    def resume(self, odometer: Odometer, seals: Iterable[Seal]) -> None:
        """Before the first stamp: begin at a later place, where `odometer` stands, as the segments of `seals` are gone.

        The seals' ends are marks then; `learn` adds what their rows tell.
        """
        invariant(odometer.end_offset >= self.odometer.end_offset, "a fold does not go back")
        self.odometer = odometer
        for seal in seals:
            self.learn(seal.base_offset, seal.before, -1)
            self._marks.pop(seal.end_offset, None)
            self.learn(seal.end_offset, seal.totals, seal.last_accepted_ms)
        if self.odometer.end_offset not in self._marks:
            self._keep()

    def restart(self, odometer: Odometer) -> None:
        """Before the first stamp: begin where `odometer` stands instead; what was known from there on is forgotten."""
        self.odometer = odometer
        self._marks = {at: mark for at, mark in self._marks.items() if at < odometer.end_offset}
        self._keep()

    def learn(self, offset: int, totals: Totals, accepted_ms: int) -> None:
        """Totals at an offset where no stamp was seen to end."""
        if offset in self._wanted:
            self._marks.setdefault(offset, Mark(offset=offset, totals=totals, accepted_ms=accepted_ms))

    def mark(self, offset: int) -> Mark | None:
        """What stood counted at a wanted offset; None if no batch seen so far ends there."""
        return self._marks.get(offset)

    def days(self) -> tuple[DayUsage, ...]:
        """Usage by day of the stamps applied within the range, oldest day first."""
        self._close_day()
        return tuple(self._days)

    def _mark(self) -> Mark:
        meter = self.odometer
        return Mark(offset=meter.end_offset, totals=meter.totals, accepted_ms=meter.last_accepted_ms)

    def _keep(self) -> None:
        if self.odometer.end_offset in self._wanted:
            self._marks[self.odometer.end_offset] = self._mark()

    def _close_day(self) -> None:
        if self._day is None or self._day_begins is None:
            return
        end = self._mark()
        added = end.totals.since(self._day_begins.totals)
        self._days.append(
            DayUsage(
                day=self._day,
                first_offset=self._day_begins.offset,
                end_offset=end.offset,
                messages=added.committed_messages,
                bytes=added.committed_bytes,
            )
        )
        self._day = self._day_begins = None


def sealed_totals(seal: Seal, before_ms: int) -> tuple[int, int] | None:
    """(messages, bytes) committed before a time, in all of the log up to there, by a seal's rows.

    None when the time is no whole minute and the segment has a row in that minute: a row cannot be divided.
    """
    minute, rest = divmod(before_ms, MINUTE_MS)
    if rest and any(row.minute == minute for row in seal.rows):
        return None
    last = minute + (1 if rest else 0)
    rows = [row for row in seal.rows if row.minute < last]
    return (
        seal.before.committed_messages + sum(row.messages for row in rows),
        seal.before.committed_bytes + sum(row.bytes for row in rows),
    )
