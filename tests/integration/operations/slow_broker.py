"""A broker whose disk turns slow: from SIGUSR1 on every sync takes a long time, from SIGUSR2 on none does.

After SIGUSR1 the first ones on the event loop take a moment only, as those of most disks that fail do, and hand the
rest over to the thread. After SIGHUP the very first one takes as long as all others.
"""

import signal
import sys
import threading

from data_plane.broker import process
from data_plane.broker.quick_syncs import STALL_MS
from data_plane.broker.real_file import RealFile

SLOW_S = 60.0
_fast = threading.Event()
_fast.set()
_at_once = threading.Event()
_sync = RealFile.sync


def slow_sync(self: RealFile) -> None:
    if not _fast.is_set():
        on_the_loop = threading.current_thread() is threading.main_thread()
        _fast.wait(2 * STALL_MS / 1000 if on_the_loop and not _at_once.is_set() else SLOW_S)
    _sync(self)


def hang(*_: object) -> None:
    _at_once.set()
    _fast.clear()


if __name__ == "__main__":
    RealFile.sync = slow_sync  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, lambda *_: _fast.clear())
    signal.signal(signal.SIGUSR2, lambda *_: _fast.set())
    signal.signal(signal.SIGHUP, hang)
    process.main(sys.argv[1:])
