"""Waking the usage pipeline while something waits for it: at once, and again later each time."""

import time
from pathlib import Path

from daemon.data_set_store import FolderStore

_WAITS_S = (5.0, 10.0, 20.0)
"""Until the second wake-up, the third, and so on; the last holds for all that follow. Each is a round, which takes the
processor from those who work on the round before it.
"""


class WakeUps:
    """Of the pipeline of these data sets. What was counted comes after what ends a period, so one is not enough."""

    def __init__(self, datasets: Path) -> None:
        self._store = FolderStore(datasets)
        self._sent = 0
        self._due_s = 0.0

    def look(self) -> None:
        """Send one if it is due. Raises `StoreUnavailable`."""
        if time.monotonic() >= self._due_s:
            self._store.wake()
            self._due_s = time.monotonic() + _WAITS_S[min(self._sent, len(_WAITS_S) - 1)]
            self._sent += 1
