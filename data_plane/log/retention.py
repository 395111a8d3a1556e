"""Retention: which closed segments may go, and how far a clock is believed (RL107)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from data_plane.log.segments import Segments
from penstock.contract.topic_settings import UNLIMITED, RetentionBasis, TopicSettings

GUARD_MS = 3_600_000
"""A clock that jumped is believed after it has stood by its jump for so long; a segment is at least that old by the
monotonic clock before time removes it."""
_DRIFT_MS = 5_000
"""Difference of wall and monotonic clock that is no jump."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed segment as retention sees it. Times in ms UTC; `monotonic_age_ms` since it was closed or first seen."""

    end_offset: int
    size: int
    last_accepted_ms: int
    max_timestamp: int
    monotonic_age_ms: float


class ClockGuard:
    """Wall time that no jump forward can hurry: it follows the monotonic clock until a jump is an hour old."""

    __slots__ = ("_ahead_ms", "_guard_ms", "_jumped_at", "_jumped_ms")

    def __init__(self, guard_ms: int = GUARD_MS) -> None:
        self._guard_ms = guard_ms
        self._ahead_ms: float | None = None
        """Wall minus monotonic time that is believed."""
        self._jumped_ms = 0.0
        self._jumped_at: float | None = None

    def believed_ms(self, now_ms: int, monotonic_ms: float) -> int:
        """The wall time to go by."""
        ahead = now_ms - monotonic_ms
        if self._ahead_ms is None or ahead <= self._ahead_ms + _DRIFT_MS:
            self._ahead_ms = ahead
            self._jumped_at = None
            return now_ms
        if self._jumped_at is None or abs(ahead - self._jumped_ms) > _DRIFT_MS:
            self._jumped_at = monotonic_ms
            self._jumped_ms = ahead
        elif monotonic_ms - self._jumped_at >= self._guard_ms:
            self._ahead_ms = ahead
            self._jumped_at = None
            return now_ms
        return int(monotonic_ms + self._ahead_ms)


def retention_end(
    closed: Sequence[Closed],
    total_bytes: int,
    settings: TopicSettings,
    believed_now_ms: int,
    *,
    guard_ms: int = GUARD_MS,
) -> int | None:
    """End offset of the last segment that may go, None when none may. `closed`: oldest first, all below the high
    watermark."""
    end: int | None = None
    left = total_bytes
    for segment in closed:
        too_much = settings.retention_bytes != UNLIMITED and left - segment.size >= settings.retention_bytes
        if not too_much and not _too_old(segment, settings, believed_now_ms, guard_ms):
            break
        left -= segment.size
        end = segment.end_offset
    return end


def _too_old(segment: Closed, settings: TopicSettings, now_ms: int, guard_ms: int) -> bool:
    if settings.retention_ms == UNLIMITED or segment.monotonic_age_ms < guard_ms:
        return False
    by_event = settings.retention_basis is RetentionBasis.EVENT and segment.max_timestamp >= 0
    newest = segment.max_timestamp if by_event else segment.last_accepted_ms
    return now_ms - newest > settings.retention_ms


class Retention:
    """Retention of one log: how old its closed segments are by the monotonic clock, and how far the wall clock is
    believed."""

    def __init__(self) -> None:
        self.guard_ms = GUARD_MS
        self._clock = ClockGuard()

    def end(
        self,
        segments: Segments,
        settings: TopicSettings,
        settled_offset: int,
        now_ms: int,
        monotonic_ms: float,
        *,
        by_time: bool = True,
    ) -> int | None:
        """End of the last segment that may go; only what ends at or below `settled_offset` is asked about. Without
        `by_time` nothing goes for its age: the clock is not to be trusted."""
        believed = self._clock.believed_ms(now_ms, monotonic_ms)
        closed: list[Closed] = []
        for segment in segments.all[:-1]:
            if segment.opened_ms is None:
                segment.opened_ms = monotonic_ms
            if segment.end_offset <= settled_offset:
                age = monotonic_ms - segment.opened_ms
                closed.append(
                    Closed(
                        segment.end_offset, segment.size, segment.last_accepted_ms, segment.max_timestamp, age
                    )
                )
        if not by_time:
            settings = replace(settings, retention_ms=UNLIMITED)
        return retention_end(closed, segments.size, settings, believed, guard_ms=self.guard_ms)
