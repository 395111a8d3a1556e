"""A broker whose clock jumps: on SIGUSR1 two hours pass, on SIGUSR2 the wall clock is set a year ahead."""

import signal
import sys

from data_plane.broker import process
from data_plane.broker.clock import SystemClock

HOUR_MS = 3_600_000
PASSING_MS = 2 * HOUR_MS
YEAR_MS = 365 * 24 * HOUR_MS


class HurriedClock(SystemClock):
    """The real clock and what was added to it."""

    wall_ms = 0
    passed_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.wall_ms

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.passed_ms

    @classmethod
    def pass_hours(cls, *_: object) -> None:
        cls.wall_ms += PASSING_MS
        cls.passed_ms += PASSING_MS

    @classmethod
    def set_ahead(cls, *_: object) -> None:
        cls.wall_ms += YEAR_MS


if __name__ == "__main__":
    process.SystemClock = HurriedClock  # type: ignore[attr-defined]  # what the broker is made with
    signal.signal(signal.SIGUSR1, HurriedClock.pass_hours)
    signal.signal(signal.SIGUSR2, HurriedClock.set_ahead)
    sys.exit(process.main(sys.argv[1:]))
