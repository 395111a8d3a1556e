"""Broker processes of one machine: started in sessions of their own, found in the process table, signalled,
waited for.

No file says which process is a broker: the process table does, by the exact command line, so a crash
between start and note cannot leave an unknown process, and a recycled process id cannot be
taken for a broker.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import psutil

from local import compiled_tree, guardian

PRIVATE = 0o077
"""Umask of our processes: messages, rows and logs are their owner's alone."""
_CONFIGURING = ("PENSTOCK_", "DJANGO_", "CELERY_", "ETCD_")
"""How names of variables begin that brokers, control plane, worker, pipeline and etcd take settings from."""
_PASSED_ON = frozenset({"PENSTOCK_CLOCK_OFFSET_MS", "PENSTOCK_SPARK_MEMORY"})
"""What is meant for the processes of the service, and stands in no file."""
_POLL_S = 0.02
"""Between two looks at the process table: far below what a person or a test would notice."""
_ENDED = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
_STOPPED = frozenset({psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP})
_found: dict[Hashable, psutil.Process] = {}
"""What each question to the process table found last."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of this machine that had not ended when it was looked at."""

    process: psutil.Process
    """Knows when it started, so it is never taken for another process that got the same id."""
    session: int
    """Process id of the leader of its session."""
    paused: bool
    """Stopped by a signal (SIGSTOP): not serving but not gone either."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def runs(self) -> bool:
        """Whether it has not ended yet, even if its exit status is not collected yet."""
        try:
            return self.process.is_running() and self.process.status() not in _ENDED
        except psutil.NoSuchProcess:
            return False


def command_line(config: Path) -> list[str]:
    """The command that runs a broker with this configuration file."""
    return [sys.executable, "-m", "penstock.cli", "broker", "run", "--config", str(config)]


def find(config: Path) -> RunningProcess | None:
    """The process that runs with this configuration file, from wherever it was started."""
    return find_by(command_line(config)[1:])


def find_by(arguments: Sequence[str]) -> RunningProcess | None:
    """The process with exactly these arguments behind its program, from wherever it was started."""
    wanted = list(arguments)
    return find_where(tuple(arguments), lambda process: _arguments_of(process) == wanted)


def find_where(question: Hashable, is_it: Callable[[psutil.Process], bool]) -> RunningProcess | None:
    """The process that is so. It is asked first whether what the same question found last time still is: to look at
    every process of a machine takes a hundred times as long, and a supervisor looks twice a second.
    """
    known = _found.get(question)
    again = [known] if known is not None and known.is_running() else []
    for process in chain(again, psutil.process_iter()):
        if is_it(process) and (found := _look_at(process)) is not None:
            _found[question] = process
            return found
    _found.pop(question, None)
    return None


def all_running() -> Iterator[RunningProcess]:
    """Every process of this machine that has not ended."""
    return (found for process in psutil.process_iter() if (found := _look_at(process)) is not None)


def running(pid: int) -> RunningProcess | None:
    """The process of this id; None once it has ended, even if its exit status is not collected yet."""
    try:
        return _look_at(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return None


def _arguments_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()[1:]
    except psutil.Error:
        return []  # it is gone, or not ours to look at


def _look_at(process: psutil.Process) -> RunningProcess | None:
    try:
        status, session = process.status(), os.getsid(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None
    return None if status in _ENDED else RunningProcess(process, session, status in _STOPPED)


def own_environment() -> dict[str, str]:
    """The caller's environment without what would configure our processes: their files do, and so they are the same
    from wherever they are started. Compiled cores of other sources than those of now do not run.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or not name.startswith(_CONFIGURING)
    }
    return compiled_tree.checked(environment | guardian.mark())


def open_output(file: Path) -> BinaryIO:
    """The file for a process's output, to append to; readable by its owner only, even if it was there before."""
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


def kill(process: RunningProcess, timeout_s: float = 10.0) -> None:
    """SIGKILL the broker and all of its session, and wait until it is gone."""
    _signal(process.pid, signal.SIGKILL)
    if wait_gone([process], timeout_s):
        raise TimeoutError(f"process {process.pid} is still there {timeout_s:g} s after SIGKILL")


def ask_to_stop(process: RunningProcess) -> None:
    """SIGTERM: the broker drains and ends. Wakes a paused one so that it can."""
    _signal(process.pid, signal.SIGTERM)
    if process.paused:
        _signal(process.pid, signal.SIGCONT)


def wait_gone(asked: Sequence[RunningProcess], timeout_s: float) -> list[RunningProcess]:
    """Wait until none of the brokers runs; returns those that still do when the time is up.

    Gone means that the kernel has closed its files: its ports and its log directory can be taken again.
    (A process that is being torn down loses its command line, by which `find` knows it, some time before.)
    """
    deadline = time.monotonic() + timeout_s
    remaining = list(asked)
    while remaining := [process for process in remaining if process.runs()]:
        if time.monotonic() >= deadline:
            return remaining
        time.sleep(_POLL_S)
    return []


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself
