"""A broker whose disk turns slow: from SIGUSR1 on every sync takes a long time, from SIGUSR2 on none does."""

import signal
import sys
import threading

from data_plane.broker import process
from data_plane.broker.real_file import RealFile

SLOW_S = 60.0
_fast = threading.Event()
_fast.set()
_sync = RealFile.sync


def slow_sync(self: RealFile) -> None:
    if not _fast.is_set():
        _fast.wait(SLOW_S)
    _sync(self)


if __name__ == "__main__":
    RealFile.sync = slow_sync  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, lambda *_: _fast.clear())
    signal.signal(signal.SIGUSR2, lambda *_: _fast.set())
    process.main(sys.argv[1:])
