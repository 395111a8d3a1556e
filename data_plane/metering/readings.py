"""Which readings of one partition's odometer are due, as its leader sees it.

A meter lives for one leader epoch on one broker. A reading is taken at the log's end and waits until that offset is
committed; nothing is counted a second time, and nothing is looked at between readings.

    settled --due: the log's end is marked--> waiting --high watermark reaches the mark--> handed out, settled

A mark of a minute's end goes out as soon as the batch after it is committed, always before a later reading. So no
interval between two readings in a row crosses a minute.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from data_plane.metering.retained import RetainedOdometer
from penstock.records.usage import OdometerMark


class ReadingKind(IntEnum):
    """Why a reading was made. Numbers are stored (data_plane/contract/usage.proto)."""

    PERIODIC = 0
    MINUTE_END = 1
    LEADER_CHANGE = 2
    HOURLY = 3
    CUT = 4
    FINAL = 5
    GENERATION_START = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterPeriods:
    """In ms of a monotonic clock."""

    changed_ms: int = 10_000
    """Between readings of a partition that goes on changing."""
    idle_ms: int = 3_600_000
    """Between readings of one that does not."""


@dataclass(frozen=True, slots=True)
class DueReading:
    kind: ReadingKind
    mark: OdometerMark


class PartitionMeter:
    """Readings of one partition while this broker leads it in one leader epoch.

    `metered_offset`: end of the last reading known to be in `__usage` when leadership began; readings of minutes that
    ended above it are made again. `retained`: what this leadership keeps.
    """

    __slots__ = ("_begun", "_minute_end", "_read_end", "_read_ms", "_waiting", "leader_epoch", "retained")

    def __init__(self, leader_epoch: int, metered_offset: int, retained: RetainedOdometer) -> None:
        self.leader_epoch = leader_epoch
        self.retained = retained
        self._begun = False
        self._read_end = metered_offset
        """End of the last reading handed out."""
        self._minute_end = metered_offset
        """End of the last MINUTE_END reading handed out."""
        self._read_ms = 0.0
        self._waiting: DueReading | None = None

    def quiet(self, log_end: int, now_ms: float, periods: MeterPeriods) -> bool:
        """Nothing can be due: a cheap look at a partition that rests."""
        return (
            self._begun
            and self._waiting is None
            and log_end == self._read_end
            and now_ms - self._read_ms < periods.idle_ms
        )

    def early(self, log_end: int, now_ms: float, periods: MeterPeriods) -> bool:
        """Something was appended since the last reading, and the time of the next one has not come: only the end of a
        minute can be due, or what is wanted at once."""
        since_ms = now_ms - self._read_ms
        return (
            self._waiting is None
            and self._begun
            and log_end != self._read_end
            and since_ms < periods.changed_ms
            and since_ms < periods.idle_ms
        )

    def early_until_ms(self, periods: MeterPeriods) -> float:
        """When the next reading is due of a partition that is early."""
        return self._read_ms + min(periods.changed_ms, periods.idle_ms)

    def look(
        self,
        *,
        log_end: int,
        high_watermark: int,
        now_ms: float,
        periods: MeterPeriods,
        mark_end: Callable[[], OdometerMark | None],
        minute_marks: Callable[[int, int], Iterable[OdometerMark]],
        at_once: bool = False,
    ) -> list[DueReading]:
        """The readings to be made now, by end offset.

        `mark_end` tells the totals at the log's end (None: not known, nothing is read), `minute_marks(above,
        high watermark)` those at the ends of minutes that are due. `at_once`: read what changed whatever the time.
        """
        if self._waiting is None:
            kind = self._wanted(log_end, now_ms, periods, at_once)
            if kind is not None:
                mark = mark_end()
                if mark is None:
                    return []
                self._waiting = DueReading(kind, mark)
                self._begun = True
                self._read_ms = now_ms
        due = [
            DueReading(ReadingKind.MINUTE_END, mark)
            for mark in minute_marks(self._minute_end, high_watermark)
        ]
        if due:
            self._minute_end = due[-1].mark.end_offset
        waiting = self._waiting
        if waiting is not None and waiting.mark.end_offset <= high_watermark:
            self._waiting = None
            due.append(waiting)
            due.sort(key=_end_offset)
        if due:
            self._read_end = max(self._read_end, due[-1].mark.end_offset)
        return due

    def _wanted(
        self, log_end: int, now_ms: float, periods: MeterPeriods, at_once: bool
    ) -> ReadingKind | None:
        if not self._begun:
            return ReadingKind.LEADER_CHANGE
        since_ms = now_ms - self._read_ms
        if log_end != self._read_end and (at_once or since_ms >= periods.changed_ms):
            return ReadingKind.PERIODIC
        return ReadingKind.HOURLY if since_ms >= periods.idle_ms else None


def _end_offset(due: DueReading) -> int:
    return due.mark.end_offset
