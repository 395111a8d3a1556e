"""What the comparison starts and measures: three servers of one kind on loopback, and their clients."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from local import processes

SERVERS = 3
_END_S = 20.0


class PeerAbsent(Exception):
    """The peer cannot be had on this machine; the message says what to install or what refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProgram:
    """How a load is run: the command before the name of the load, and what its environment has beside ours."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class System(Protocol):
    """Three servers, up within the block. Its folder is its own and is deleted afterwards."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def bootstrap(self) -> str:
        """Addresses for its clients."""

    def client(self) -> ClientProgram: ...

    def make_topics(self, name: str, partitions: int, count: int = 1) -> float:
        """Make the topic, or `count` topics `name-0`, `name-1`, ...; returns the seconds until they can be used."""

    def leader_of(self, topic: str) -> psutil.Process:
        """The server that leads the topic's first partition."""

    def servers(self) -> list[psutil.Process]:
        """Those that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A system that takes part."""

    key: str
    title: str
    synced: str
    """When a copy is on the disk, for people."""
    codecs: tuple[str, ...]
    """What its client can send with."""
    windows: int = 3
    """How many windows of a load are run at least."""
    warm_up: int = 4
    """The same for the first load of a turn."""
    programs: Callable[[Path], Path | None]
    """The folder in the cache that holds what it needs, once its file `ready` is there; None if it needs nothing."""
    prepare: Callable[[Path], Callable[[Path], System]]
    """Fetches and builds what it needs into the cache folder, once, and returns what makes a system in an empty folder.
    Raises `PeerAbsent`."""


class Server:
    """One server process in a session of its own."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._child = processes.start_command(command, self.log)
        self.process = psutil.Process(self._child.pid)

    @property
    def runs(self) -> bool:
        return self._child.poll() is None

    def check(self) -> None:
        """Raises `RuntimeError` with its last lines when it has ended."""
        if not self.runs:
            said = self.log.read_text(errors="replace")[-1_500:]
            raise RuntimeError(f"{self.name}: ended with status {self._child.returncode}\n{said}")

    def kill(self) -> None:
        """SIGKILL: what it stored is deleted anyway."""
        if self.runs:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(_END_S)


def cpu_s(running: Sequence[psutil.Process]) -> float:
    """User and system time of all these processes, their threads together."""
    times = [process.cpu_times() for process in running]
    return sum(used.user + used.system for used in times)


def pss_bytes(running: Sequence[psutil.Process]) -> int:
    """Memory of all these processes; pages that several of them share count once."""
    return sum(int(process.memory_full_info().pss) for process in running)


def run_tool(
    command: Sequence[str], *, cwd: Path, timeout_s: float, env: Mapping[str, str] | None = None
) -> str:
    """Its standard output. Raises `RuntimeError` with its last lines when it fails, `TimeoutExpired`."""
    done = subprocess.run(
        list(command),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".strip()[-1_500:]
        raise RuntimeError(f"{Path(command[0]).name}: ended with status {done.returncode}\n{said}")
    return done.stdout


def wait_until(holds: Callable[[], bool], servers: Sequence[Server], what: str, timeout_s: float) -> None:
    """Raises `TimeoutError`, or `RuntimeError` when a server has ended."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        for server in servers:
            server.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {timeout_s:g} s")
        time.sleep(0.1)
