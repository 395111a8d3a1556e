"""A broker whose wall clock can be stepped from outside: a file tells how far it is from the machine's.

libfaketime moves a program's clock as well, but with the monotonic clock left alone it makes every `time.sleep` of
CPython fail with EINVAL. So the clock that a broker goes by is replaced, where the broker is put together.
"""

import os
import sys
import time
from pathlib import Path

from data_plane.broker import process
from data_plane.broker.clock import SystemClock

FILE_VARIABLE = "PENSTOCK_HOSTS_CLOCK"
_LOOK_MS = 100


class SteppingClock(SystemClock):
    """The machine's clock, and the milliseconds in the file of `FILE_VARIABLE`, looked at ten times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._file = Path(os.environ[FILE_VARIABLE])
        self._step_ms = 0
        self._looked_ms = 0.0

    def now_ms(self) -> int:
        now = time.monotonic() * 1000
        if now - self._looked_ms > _LOOK_MS:
            self._looked_ms, self._step_ms = now, int(self._file.read_text())
        return super().now_ms() + self._step_ms


def step(file: Path, milliseconds: int) -> None:
    """From soon on the clock is so far from the machine's."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(milliseconds))
    fresh.replace(file)


if __name__ == "__main__":
    vars(process)["SystemClock"] = SteppingClock
    sys.exit(process.main(sys.argv[1:]))
