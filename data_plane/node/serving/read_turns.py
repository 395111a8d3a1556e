"""When one consume stream may read more, at its tenant's consume rate.

    away --the pace is not clear, or others wait--> in the line --it is the first, and the pace is clear--> away

What a stream reads is let into the pace when it begins to read, as much as it may read, and corrected when it has read.
"""

from collections.abc import Callable

from data_plane.node.ports import Clock
from data_plane.node.stats import NodeStats
from data_plane.throttling.line import Line
from data_plane.throttling.pacing import Pace

READ_MS = 50
"""A stream reads as much at once as passes in this time, or one batch: others' turns come soon."""
_LOOK_MS = 250.0
"""After which the first one looks once more at the latest: its tenant's rate may have been lifted."""


class ReadTurns:
    """Of one stream. `wake` is called when it is to ask once more. Whatever happens, `leave` in the end."""

    def __init__(
        self, pace: Callable[[], Pace | None], wake: Callable[[], None], clock: Clock, stats: NodeStats
    ) -> None:
        """`pace`: the tenant's now, None = it has no consume rate."""
        self._pace, self._wake, self._clock, self._stats = pace, wake, clock, stats
        self._line: Line | None = None
        self._since_ms = 0.0
        self._reading: tuple[Pace, int] | None = None
        self._throttled_ms = 0.0

    def wait_ms(self) -> float | None:
        """0: read now. Else ask once more after so long, or when woken; None = only when woken."""
        pace, now_ms = self._pace(), self._clock.monotonic_ms()
        if pace is None:
            self.leave()
            return 0.0
        clears_in_ms = pace.clears_in_ms(now_ms)
        if self._line is not pace.line:
            self.leave()
            if clears_in_ms == 0 and not pace.line:
                return 0.0
            self._line, self._since_ms = pace.line, now_ms
            pace.line.join(self._wake, now_ms)
        if not pace.line.is_first(self._wake):
            return None
        return min(clears_in_ms, _LOOK_MS)

    def begin(self, bytes_max: int) -> int:
        """Its turn has come: how much to read, at most `bytes_max`, or one batch. `end` must follow."""
        pace, now_ms = self._pace(), self._clock.monotonic_ms()
        if pace is not None:
            bytes_max = max(1, min(bytes_max, int(pace.bytes_per_s * READ_MS / 1000)))
            pace.enter(bytes_max, now_ms, may_refuse=False)
            self._reading = (pace, bytes_max)
        if self._line is not None:
            self._throttled_ms += now_ms - self._since_ms
        self.leave()
        return bytes_max

    def end(self, size: int) -> int:
        """So much was read. How many ms the rate delayed it."""
        if self._reading is not None:
            pace, bytes_max = self._reading
            self._reading = None
            pace.correct(bytes_max, size)
            if size < bytes_max:
                pace.line.wake_first()
        elif size and (late := self._pace()) is not None:
            # There was nothing to read when it began.
            late.enter(size, self._clock.monotonic_ms(), may_refuse=False)
        throttled_ms, self._throttled_ms = int(self._throttled_ms), 0.0
        self._stats.consume_throttled_ms += throttled_ms
        return throttled_ms

    def leave(self) -> None:
        """It has nothing to read, or ends."""
        if self._line is not None:
            line, self._line = self._line, None
            line.leave(self._wake, self._clock.monotonic_ms())
