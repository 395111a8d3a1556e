"""Broker processes of one machine: started in sessions of their own, found in the process table, signalled,
waited for.

No file says which process is a broker: the process table does, by the exact command line, so a crash
between start and note cannot leave a process that nobody knows of, and a recycled process id cannot be
taken for a broker.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_POLL_S = 0.02
"""Between two looks at the process table: far below what a person or a test would notice."""
_ENDING_STATES = "ZX"
_STOPPED_STATES = "Tt"


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """A running broker. `paused` means stopped by a signal (SIGSTOP), not serving but not gone either."""

    pid: int
    paused: bool


def command_line(config: Path) -> list[str]:
    """The command that runs a broker with this configuration file."""
    return [sys.executable, "-m", "data_plane.broker", "--config", str(config)]


def find(config: Path) -> BrokerProcess | None:
    """The process that runs with this configuration file, whoever started it."""
    for name in os.listdir(_PROC):
        if name.isdigit() and (process := _look_at(int(name), config)) is not None:
            return process
    return None


def _look_at(pid: int, config: Path) -> BrokerProcess | None:
    """The process of this id, if it is the broker with this configuration file."""
    tail = [part.encode() for part in command_line(config)[1:]]
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        if arguments[1:] != tail:
            return None
        state = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None  # it ended while we looked
    return None if state in _ENDING_STATES else BrokerProcess(pid, state in _STOPPED_STATES)


def start(config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a broker in a session of its own, its output appended to `log`; it survives the caller's
    terminal.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command_line(config),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )


def kill(config: Path, timeout_s: float = 10.0) -> int | None:
    """SIGKILL the broker and all of its session; returns its process id once it is gone, None if none ran."""
    process = find(config)
    if process is None:
        return None
    _signal(process.pid, signal.SIGKILL)
    if wait_gone([config], timeout_s):
        raise TimeoutError(f"process {process.pid} is still there {timeout_s:g} s after SIGKILL")
    return process.pid


def ask_to_stop(config: Path) -> int | None:
    """SIGTERM: the broker drains and ends. Wakes a paused one so that it can. None if none ran."""
    process = find(config)
    if process is None:
        return None
    _signal(process.pid, signal.SIGTERM)
    if process.paused:
        _signal(process.pid, signal.SIGCONT)
    return process.pid


def wait_gone(configs: Sequence[Path], timeout_s: float) -> list[Path]:
    """Wait until none of the brokers runs; returns those that still do when the time is up."""
    deadline = time.monotonic() + timeout_s
    running = [(config, process.pid) for config in configs if (process := find(config)) is not None]
    while running := [(config, pid) for config, pid in running if _look_at(pid, config) is not None]:
        if time.monotonic() >= deadline:
            return [config for config, _ in running]
        time.sleep(_POLL_S)
    return []


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself
