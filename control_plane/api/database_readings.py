"""Readings of the database for /metrics, on a thread of their own: a lost database holds up no scrape."""

import logging
import math
import threading
import time
from collections.abc import Callable

from django.db import Error, connections

_log = logging.getLogger(__name__)


class DatabaseReadings:
    """What `read` found last, and how old that is. Safe between threads; one reading runs at a time."""

    def __init__(
        self,
        read: Callable[[], None],
        *,
        fresh_s: float,
        wait_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A reading counts as new for `fresh_s`; `look` waits for another one up to `wait_s`."""
        self._read = read
        self._fresh_s = fresh_s
        self._wait_s = wait_s
        self._clock = clock
        self._lock = threading.Lock()
        self._at = -math.inf
        self._ended: threading.Event | None = None
        """Of the reading that was begun last."""

    @property
    def age_s(self) -> float:
        """Seconds since the newest reading began; infinite before the first."""
        return self._clock() - self._at

    def look(self) -> None:
        """Read again unless that was done a moment ago. What takes too long goes on, and is not begun a second time."""
        with self._lock:
            if self.age_s < self._fresh_s:
                return
            if self._ended is None or self._ended.is_set():
                self._ended = threading.Event()
                thread = threading.Thread(
                    target=self._run, args=(self._ended,), name="metrics-readings", daemon=True
                )
                thread.start()
            ended = self._ended
        ended.wait(self._wait_s)

    def _run(self, ended: threading.Event) -> None:
        began = self._clock()
        try:
            self._read()
            self._at = began
        except Error as error:
            _log.warning("the metrics are old: the database was not read", extra={"error": str(error)})
        finally:
            connections.close_all()
            ended.set()
