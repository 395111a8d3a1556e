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
from typing import BinaryIO

from local import guardian

PRIVATE = 0o077
"""Umask of our processes: messages, rows and logs are their owner's alone."""
_CONFIGURING = ("PENSTOCK_", "DJANGO_", "CELERY_", "ETCD_")
"""How names of variables begin that brokers, control plane, worker, pipeline and etcd take settings from."""
_PASSED_ON = frozenset({"PENSTOCK_CLOCK_OFFSET_MS", "PENSTOCK_SPARK_MEMORY"})
"""What is meant for the processes of the service, and stands in no file."""
_PROC = Path("/proc")
_POLL_S = 0.02
"""Between two looks at the process table: far below what a person or a test would notice."""
_ENDED_STATES = "ZX"
_STOPPED_STATES = "Tt"
_SESSION = 3
_STARTED_AT = 19
"""Places in /proc/<pid>/stat, counted behind the name (proc(5): fields 6 and 22)."""


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """A running broker. `paused` means stopped by a signal (SIGSTOP), not serving but not gone either."""

    pid: int
    paused: bool
    started: int
    """Start time in clock ticks since boot: with the id it names one process for ever."""


def command_line(config: Path) -> list[str]:
    """The command that runs a broker with this configuration file."""
    return [sys.executable, "-m", "data_plane.broker", "--config", str(config)]


def find(config: Path) -> BrokerProcess | None:
    """The process that runs with this configuration file, whoever started it."""
    return find_by(command_line(config)[1:])


def find_by(arguments: Sequence[str]) -> BrokerProcess | None:
    """The process with exactly these arguments behind its program, whoever started it."""
    tail = [part.encode() for part in arguments]
    for name in os.listdir(_PROC):
        if name.isdigit() and (process := _look_at(int(name), tail)) is not None:
            return process
    return None


def _look_at(pid: int, tail: list[bytes]) -> BrokerProcess | None:
    """The process of this id, if it has these arguments."""
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return None
    state = state_of_process(pid)
    if arguments[1:] != tail or state is None:
        return None
    return BrokerProcess(pid, state.paused, state.started)


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What /proc/<pid>/stat says of a process that has not ended."""

    letter: str
    session: int
    """Process id of the leader of its session."""
    started: int
    """Clock ticks since boot."""

    @property
    def paused(self) -> bool:
        """Stopped by a signal."""
        return self.letter in _STOPPED_STATES


def state_of_process(pid: int) -> ProcessState | None:
    """State and start of a process; None once it has ended, even if nobody has collected its exit status."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        state = ProcessState(fields[0], int(fields[_SESSION]), int(fields[_STARTED_AT]))
    except (OSError, IndexError):
        return None
    return None if state.letter in _ENDED_STATES else state


def own_environment() -> dict[str, str]:
    """The caller's environment without what would configure our processes: their files do, and so they are the same
    whoever starts them.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or not name.startswith(_CONFIGURING)
    } | guardian.mark()


def open_output(file: Path) -> BinaryIO:
    """The file for a process's output, to append to; readable by its owner only, whoever made it before."""
    output = os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
    os.fchmod(output.fileno(), 0o600)
    return output


def start(config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a broker, see `start_command`."""
    return start_command(command_line(config), log)


def start_command(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process in a session and with an environment of its own, its output appended to `log`; it survives the
    caller's terminal.
    """
    with open_output(log) as output:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=own_environment(),
            umask=PRIVATE,
            start_new_session=True,
        )


def kill(process: BrokerProcess, timeout_s: float = 10.0) -> None:
    """SIGKILL the broker and all of its session, and wait until it is gone."""
    _signal(process.pid, signal.SIGKILL)
    if wait_gone([process], timeout_s):
        raise TimeoutError(f"process {process.pid} is still there {timeout_s:g} s after SIGKILL")


def ask_to_stop(process: BrokerProcess) -> None:
    """SIGTERM: the broker drains and ends. Wakes a paused one so that it can."""
    _signal(process.pid, signal.SIGTERM)
    if process.paused:
        _signal(process.pid, signal.SIGCONT)


def wait_gone(running: Sequence[BrokerProcess], timeout_s: float) -> list[BrokerProcess]:
    """Wait until none of the brokers runs; returns those that still do when the time is up.

    Gone means that the kernel has closed its files: its ports and its log directory can be taken again.
    (A process that is being torn down loses its command line, by which `find` knows it, some time before.)
    """
    deadline = time.monotonic() + timeout_s
    remaining = list(running)
    while remaining := [process for process in remaining if _runs(process)]:
        if time.monotonic() >= deadline:
            return remaining
        time.sleep(_POLL_S)
    return []


def _runs(process: BrokerProcess) -> bool:
    state = state_of_process(process.pid)
    return state is not None and state.started == process.started


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself
