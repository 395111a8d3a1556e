"""The runner's heartbeat: a file that says which process it is and its state, rewritten every other second."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from daemon.data_set_store import write_durably

NAME = "runner.json"
EVERY_S = 2.0


class Heartbeat:
    """States: `starting`, `waiting` (for the key or for `__usage`), `ready`, `failing` (the last round failed, with
    `error`), `stopping`. `at` is the wall clock in seconds; `busy` says that a round is under way.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / NAME
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {"pid": os.getpid(), "state": "starting", "busy": False}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._write()
        self._thread.start()

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
            self._write()

    def _write(self) -> None:
        with self._lock:
            try:
                write_durably(self._file, json.dumps(self._values | {"at": time.time()}, indent=1).encode())
            except OSError:
                pass  # a full disk must not end the pipeline; the old heartbeat becomes stale, which shows it
