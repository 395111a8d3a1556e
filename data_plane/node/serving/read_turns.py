"""When one consume stream may read more, at its tenant's consume rate.

    away --the pace is not clear, or others wait--> in the line --it is the first, and the pace is clear--> away

What a stream reads is let into the pace when it begins to read, as much as it may read, and corrected when it has read.
"""

from collections.abc import Callable

from data_plane.node.ports import Clock
from data_plane.node.serving.allowance import Allowance
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
        self,
        allowance: Allowance,
        wake: Callable[[], None],
        clock: Clock,
        stats: NodeStats,
    ) -> None:
        self._clock, self._stats = clock, stats
        self._waits = (_Wait(allowance.own_pace, wake), _Wait(allowance.pace, wake))
        """In the principal's line first: who waits there takes no place of others in the tenant's."""
        self._since_ms = -1.0
        """Since when it waits; below 0 = it does not."""
        self._reading: list[tuple[Pace, int]] = []
        self._throttled_ms = 0.0

    def wait_ms(self) -> float | None:
        """0: read now. Else ask once more after so long, or when woken; None = only when woken."""
        now_ms = self._clock.monotonic_ms()
        own, tenants = self._waits
        wait_ms = own.wait_ms(now_ms)
        if wait_ms == 0.0:
            wait_ms = tenants.wait_ms(now_ms)
        else:
            tenants.leave(now_ms)
        if wait_ms != 0.0 and self._since_ms < 0:
            self._since_ms = now_ms
        return wait_ms

    def begin(self, bytes_max: int) -> int:
        """Its turn has come: how much to read, at most `bytes_max`, or one batch. `end` must follow."""
        now_ms = self._clock.monotonic_ms()
        paces = self._paces()
        for pace in paces:
            bytes_max = max(1, min(bytes_max, int(pace.bytes_per_s * READ_MS / 1000)))
        for pace in paces:
            pace.enter(bytes_max, now_ms, may_refuse=False)
            self._reading.append((pace, bytes_max))
        if self._since_ms >= 0:
            self._throttled_ms += now_ms - self._since_ms
        self.leave()
        return bytes_max

    def end(self, size: int) -> int:
        """So much was read. How many ms the rate delayed it."""
        if self._reading:
            for pace, bytes_max in self._reading:
                pace.correct(bytes_max, size)
                if size < bytes_max:
                    pace.line.wake_first()
            self._reading.clear()
        elif size:
            # There was nothing to read when it began.
            for late in self._paces():
                late.enter(size, self._clock.monotonic_ms(), may_refuse=False)
        throttled_ms, self._throttled_ms = int(self._throttled_ms), 0.0
        self._stats.consume_throttled_ms += throttled_ms
        return throttled_ms

    def leave(self) -> None:
        """It has nothing to read, or ends."""
        self._since_ms = -1.0
        for one in self._waits:
            if one.is_taken:
                one.leave(self._clock.monotonic_ms())

    def _paces(self) -> list[Pace]:
        return [pace for one in self._waits if (pace := one.pace()) is not None]


class _Wait:
    """Of one stream in the line of one pace, or not in it."""

    def __init__(self, pace: Callable[[], Pace | None], wake: Callable[[], None]) -> None:
        self.pace, self._wake = pace, wake
        self._line: Line | None = None

    @property
    def is_taken(self) -> bool:
        return self._line is not None

    def wait_ms(self, now_ms: float) -> float | None:
        """0: its turn is now; as `ReadTurns.wait_ms`."""
        pace = self.pace()
        if pace is None:
            self.leave(now_ms)
            return 0.0
        clears_in_ms = pace.clears_in_ms(now_ms)
        if self._line is not pace.line:
            self.leave(now_ms)
            if clears_in_ms == 0 and not pace.line:
                return 0.0
            self._line = pace.line
            pace.line.join(self._wake, now_ms)
        if not pace.line.is_first(self._wake):
            return None
        return min(clears_in_ms, _LOOK_MS)

    def leave(self, now_ms: float) -> None:
        if self._line is not None:
            line, self._line = self._line, None
            line.leave(self._wake, now_ms)
