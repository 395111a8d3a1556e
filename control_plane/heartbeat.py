"""The worker's heartbeat: a file with its process id, its state and the time of its last sweep."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from control_plane import config

NAME = "worker.json"
FRESH_S = 20.0
"""An older heartbeat means that no worker runs: it has missed several sweeps."""

_main_process = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """`at` is the wall clock in seconds."""

    pid: int
    state: str
    at: float


def began() -> None:
    """Remember the worker's main process: the processes that it forks write this id."""
    global _main_process
    _main_process = os.getpid()


def beat(state: str) -> None:
    """Write the heartbeat, by rename."""
    file = _file()
    fresh = file.with_name(f"{NAME}.{os.getpid()}.new")
    fresh.write_text(
        json.dumps({"pid": _main_process or os.getpid(), "state": state, "at": time.time()}) + "\n"
    )
    fresh.replace(file)


def read() -> Heartbeat | None:
    """The last heartbeat; None when there was none yet."""
    try:
        values = json.loads(_file().read_text())
        return Heartbeat(pid=values["pid"], state=values["state"], at=values["at"])
    except (OSError, ValueError, KeyError):
        return None


def _file() -> Path:
    return config.current().state_directory / NAME
