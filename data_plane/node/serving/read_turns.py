"""When one consume stream may read more and push it, at its tenant's consume rate and its limit of processor time.

    away --the pace is not clear, or others wait--> in the line --it is the first, and the pace is clear--> away

It keeps its place in the lines of the rate while it waits for processor time: who is behind it there waits for that
too. What a stream reads is let into the rate's pace when it begins to read, as much as it may read, and corrected when
it has read.
"""

from collections.abc import Callable

from data_plane.node.admission.pace_lines import LineTurn
from data_plane.node.ports import Clock
from data_plane.node.serving.allowance import Allowance
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import Pace

READ_MS = 50
"""A stream reads as much at once as passes in this time, or one batch: others' turns come soon."""
_WAITS_NOT = float("-inf")
"""Instead of the time since when it waits."""


class ReadTurns:
    """Of one stream. `wake` is called when it is to ask once more. Whatever happens, `leave` in the end."""

    def __init__(
        self,
        allowance: Allowance,
        wake: Callable[[], None],
        clock: Clock,
        stats: NodeStats,
    ) -> None:
        self._clock = clock
        self._stats = stats
        self._rates = (LineTurn(allowance.own_pace, wake), LineTurn(allowance.pace, wake))
        """In the principal's line first: who waits there takes no place of others in the tenant's."""
        self._processor = LineTurn(allowance.turns.processor_pace, wake)
        self._since_ms = self._processor_since_ms = _WAITS_NOT
        self._reading: list[tuple[Pace, int]] = []
        self._throttled_ms = 0.0
        self._processor_ms = 0

    def wait_ms(self, *, batches: bool) -> float | None:
        """0: push now, and ask again before the next frame. Else ask once more after so long, or when woken; None =
        only when woken. `batches`: there are some to read, rather than marks alone, which no rate bounds."""
        now_ms = self._clock.monotonic_ms()
        if batches:
            wait_ms = self._rates_wait_ms(now_ms)
            if wait_ms != 0.0:
                self._leave_processor(now_ms)
                return wait_ms
        else:
            self._leave_rates(now_ms)
        wait_ms = self._processor.wait_ms(now_ms)
        if wait_ms == 0.0:
            self._leave_processor(now_ms)
        elif self._processor_since_ms == _WAITS_NOT:
            self._processor_since_ms = now_ms
        return wait_ms

    def _rates_wait_ms(self, now_ms: float) -> float | None:
        own, tenants = self._rates
        wait_ms = own.wait_ms(now_ms)
        if wait_ms == 0.0:
            wait_ms = tenants.wait_ms(now_ms)
        else:
            tenants.leave(now_ms)
        if wait_ms != 0.0 and self._since_ms == _WAITS_NOT:
            self._since_ms = now_ms
        elif wait_ms == 0.0 and self._since_ms != _WAITS_NOT:
            self._throttled_ms += now_ms - self._since_ms
            self._since_ms = _WAITS_NOT
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

    def take_processor_ms(self) -> int:
        """How many ms the limit of processor time made the stream wait since this was asked last."""
        processor_ms, self._processor_ms = self._processor_ms, 0
        return processor_ms

    def leave(self) -> None:
        """It has nothing to push, or ends."""
        now_ms = self._clock.monotonic_ms()
        self._leave_rates(now_ms)
        self._leave_processor(now_ms)

    def _leave_rates(self, now_ms: float) -> None:
        self._since_ms = _WAITS_NOT
        for turn in self._rates:
            turn.leave(now_ms)

    def _leave_processor(self, now_ms: float) -> None:
        self._processor.leave(now_ms)
        if self._processor_since_ms != _WAITS_NOT:
            waited_ms = int(now_ms - self._processor_since_ms)
            self._processor_since_ms = _WAITS_NOT
            self._processor_ms += waited_ms
            self._stats.processor_throttled += 1
            self._stats.processor_throttled_ms += waited_ms

    def _paces(self) -> list[Pace]:
        return [pace for turn in self._rates if (pace := turn.pace()) is not None]
