"""The Clock port over virtual time: a wall clock that is wrong and jumps, a monotonic one that runs a little off."""

from data_plane.testkit.loop import SimLoop

EPOCH_MS = 1_800_000_000_000
"""Wall-clock time at virtual time 0."""


class SimClock:
    """Clock of one host. `jump` moves its wall clock; the monotonic clock starts anywhere and never goes back."""

    def __init__(
        self, loop: SimLoop, *, skew_ms: int = 0, rate: float = 1.0, monotonic_start_ms: float = 0.0
    ) -> None:
        self._loop = loop
        self._skew_ms = skew_ms
        self._rate = rate
        self._start_ms = monotonic_start_ms

    def now_ms(self) -> int:
        """Wall clock, ms since 1970 UTC."""
        return EPOCH_MS + self._skew_ms + int(self._loop.time() * 1000 * self._rate)

    def monotonic_ms(self) -> float:
        """Differences mean ms, up to the clock's rate."""
        return self._start_ms + self._loop.time() * 1000 * self._rate

    def processor_ms(self) -> float:
        """Steps of the virtual loop take no time, so each takes as much here as the monotonic clock says."""
        return self.monotonic_ms()

    def jump(self, by_ms: int) -> None:
        """Move the wall clock."""
        self._skew_ms += by_ms

    def correct(self) -> None:
        """Set the wall clock right."""
        self._skew_ms = 0
