"""The runner's heartbeat: a file that says which process it is and its state, rewritten every other second."""

import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daemon.data_set_store import write_durably

NAME = "runner.json"
EVERY_S = 2.0


class Heartbeat:
    """States: `starting`, `standby` (another runner works), `waiting` (for the key, for `__usage` or for the lease),
    `ready`, `failing` (the last round failed, with `error`), `stopping`, `stopped`. `at` is the wall clock in seconds;
    `busy` says that a round is under way.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / NAME
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {"pid": os.getpid(), "state": "starting", "busy": False}
        self._ended = threading.Event()
        self._beaten = time.monotonic()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._write()
        self._thread.start()

    @property
    def values(self) -> Mapping[str, Any]:
        """What was reported last."""
        with self._lock:
            return dict(self._values)

    def age_s(self) -> float:
        """Seconds since the last beat: of the process, not of its rounds."""
        return time.monotonic() - self._beaten

    def report(self, **values: Any) -> None:
        """Change the reported values, and write them at once."""
        with self._lock:
            self._values |= values
        self._write()

    def end(self) -> None:
        """Write the last state, `stopped`."""
        self._ended.set()
        self._thread.join(EVERY_S * 2)
        self.report(state="stopped", busy=False)

    def _beat(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._beaten = time.monotonic()
            self._write()

    def _write(self) -> None:
        with self._lock:
            try:
                write_durably(self._file, json.dumps(self._values | {"at": time.time()}, indent=1).encode())
            except OSError:
                pass  # a full disk must not end the pipeline; the old heartbeat becomes stale, which shows it
