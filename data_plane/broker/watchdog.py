"""A thread that watches the event loop: one that stood still has to hear from its session before it is believed
(RL137)."""

import logging
import sys
import threading
import traceback
from collections.abc import Callable

_log = logging.getLogger("penstock.broker")
_LOOKS_PER_BOUND = 4


class Watchdog:
    """Runs from construction until `close`. Both callables are called on its thread: they must only look, or set a
    flag.

    `loop_age_s`: how long ago the loop turned last. `stalled` is called while that is `bound_s` and more.
    """

    def __init__(self, bound_s: float, loop_age_s: Callable[[], float], stalled: Callable[[], None]) -> None:
        self._bound_s = bound_s
        self._loop_age_s = loop_age_s
        self._stalled = stalled
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()
        self.stalls = 0
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        logged = False
        while not self._ended.wait(self._bound_s / _LOOKS_PER_BOUND):
            age_s = self._loop_age_s()
            if age_s < self._bound_s:
                logged = False
                continue
            self._stalled()
            if not logged:
                logged = True
                self.stalls += 1
                _log.warning(
                    "the event loop stands still", extra={"for_s": round(age_s, 3), "at": self._stack()}
                )

    def _stack(self) -> list[str]:
        frame = sys._current_frames().get(self._loop_thread)
        return [line.strip() for line in traceback.format_stack(frame)[-4:]] if frame is not None else []

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
