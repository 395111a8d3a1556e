"""A moment that a process shares with those that it forks: when something happened last in any of them."""

import mmap
import struct
import time

_NANOSECONDS = struct.Struct("=q")


class SharedMoment:
    """Make it before the fork. It takes no descriptor, since Celery closes all of them in the scheduler's process.

    Moments are of the machine's monotonic clock, which all processes read alike.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NANOSECONDS.size)
        self.note()

    def note(self) -> None:
        """It happened now."""
        _NANOSECONDS.pack_into(self._memory, 0, time.monotonic_ns())

    def age_s(self) -> float:
        """Seconds since it happened last, or since this was made."""
        noted_ns: int = _NANOSECONDS.unpack_from(self._memory, 0)[0]
        return max(0.0, (time.monotonic_ns() - noted_ns) / 1e9)
