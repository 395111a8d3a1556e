"""Supervising a dev service: what has ended is started again, later each time; what says that it is not healthy, or
answers nothing any more, is ended first; what it printed is kept short.

A foreground `dev up` does so itself. `dev up --detach` leaves a process behind that does nothing else
(`local.supervisor`), known by its exact command line.
"""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from local import processes
from local.keeper import AGAIN_S
from local.layout import Busy, DataDirectory
from penstock.contract.errors import PenstockError

OUTPUT_BYTES_MAX = 16 * 1024 * 1024
"""Of one process; as much again is kept beside it of what came before."""
WATCH_S = 0.5
BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Until the first start again, the second, and so on; the last holds for all that follow."""
CALM_S = 60.0
"""What has run for so long begins again with the shortest wait."""
UNHEALTHY_S = 30.0
"""What has said so for so long, each time it was asked, is ended."""
UNANSWERED_S = 120.0
"""What was not healthy for so long is ended though it answered nothing: a machine that is busy with much else is slow,
not wrong, and the first that a process says after that is how long it had no turn."""
STARTING_S = 180.0
"""What was not healthy yet since its start has so much time."""
_STOP_S = 10.0
_KEEPER_S = 2 * AGAIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a process answers when it is asked whether it is healthy. `reason` is why not, empty if it is."""

    reason: str = ""
    answered: bool = True


class Supervised(Protocol):
    """A service as its supervisor sees it."""

    @property
    def directory(self) -> DataDirectory: ...

    def running(self) -> set[str]:
        """Names of what is there."""

    def restart(self, name: str) -> None:
        """Start it unless it runs; returns at once. Raises `PenstockError`."""

    def health(self, name: str) -> Health | None:
        """Asked of what runs, within a second or two; None where it cannot be asked, or is paused."""

    def end(self, name: str) -> None:
        """Kill it with what it started."""

    def reap(self) -> None: ...

    def outputs(self) -> list[Path]: ...


@dataclass(slots=True)
class _Watched:
    """One broker or process. Times are monotonic seconds."""

    since_s: float
    """When it was seen first, or was started here."""
    tries: int = 0
    due_s: float | None = None
    """When it is to be started again; None: it runs, or was not missed yet."""
    away: bool = False
    was_healthy: bool = False
    """Since its start, as far as it was asked."""
    ill_since_s: float | None = None
    """Since then it was healthy at no look."""
    said_since_s: float | None = None
    """Since then it has said so at each look."""

    def unhealthy(self, health: Health, now_s: float) -> bool:
        """Note it, and return whether that has been so for too long."""
        if self.ill_since_s is None:
            self.ill_since_s = now_s
        if not health.answered:
            self.said_since_s = None
        elif self.said_since_s is None:
            self.said_since_s = now_s
        said = self.said_since_s is not None and now_s - self.said_since_s >= UNHEALTHY_S
        return said or now_s - self.ill_since_s >= UNANSWERED_S

    def begins_again(self) -> None:
        """What was known of its health is of another process, or is over."""
        self.was_healthy = False
        self.ill_since_s = None
        self.said_since_s = None


class Supervisor:
    """Looks after what is wanted of one service."""

    def __init__(self, service: Supervised, tell: Callable[[str], None]) -> None:
        self._service = service
        self._tell = tell
        self._watched: dict[str, _Watched] = {}
        self._asked_last = ""

    def look(self, now_s: float) -> bool:
        """Start what is due, announce what has ended, shorten outputs; False when nothing is to run any more."""
        self._service.reap()
        wanted, running = self._service.directory.wanted(), self._service.running()
        for name in sorted(self._watched.keys() - wanted):
            del self._watched[name]
        for name in sorted(wanted):
            watched = self._watched.setdefault(name, _Watched(now_s))
            if name in running:
                self._runs(name, watched, now_s)
            elif watched.due_s is None:
                wait_s = BACKOFF_S[min(watched.tries, len(BACKOFF_S) - 1)]
                watched.tries, watched.due_s, watched.away = watched.tries + 1, now_s + wait_s, True
                self._tell(f"{name} has ended; it is started again in {wait_s:g} s.")
            elif now_s >= watched.due_s:
                self._start(name, watched, now_s)
        self._ask_next(sorted(wanted & running), now_s)
        for file in self._service.outputs():
            shorten(file, OUTPUT_BYTES_MAX)
        return bool(wanted)

    def _runs(self, name: str, watched: _Watched, now_s: float) -> None:
        if watched.away:
            self._tell(f"{name} runs again.")
            watched.away, watched.due_s = False, None
        if now_s - watched.since_s >= CALM_S:
            watched.tries = 0

    def _start(self, name: str, watched: _Watched, now_s: float) -> None:
        try:
            self._service.restart(name)
        except Busy:
            return  # a command is at work: looked at again in a moment
        except (PenstockError, OSError) as error:
            self._tell(f"{name} cannot be started: {error}")
        watched.due_s, watched.since_s = None, now_s
        watched.begins_again()

    def _ask_next(self, running: Sequence[str], now_s: float) -> None:
        """One process at each look, in turn: a look is quick, and each is asked every few seconds."""
        if not running:
            return
        name = next((name for name in running if name > self._asked_last), running[0])
        self._asked_last, watched, health = name, self._watched[name], self._service.health(name)
        if health is None or not health.reason:
            watched.was_healthy |= health is not None
            watched.ill_since_s = watched.said_since_s = None
            return
        if not watched.was_healthy and now_s - watched.since_s < STARTING_S:
            return
        if not watched.unhealthy(health, now_s):
            return
        ill_s = now_s - (watched.ill_since_s or now_s)
        self._tell(f"{name} is not healthy for {ill_s:.0f} s and is ended: {health.reason}")
        watched.begins_again()
        try:
            self._service.end(name)
        except (PenstockError, OSError) as error:
            self._tell(f"{name} cannot be ended: {error}")


def shorten(file: Path, bytes_max: int) -> None:
    """Empty a file that has grown beyond `bytes_max`, and keep its content beside it as `<name>.1`.

    For files that processes append to and never close: they go on in the same file. What is written between copying and
    cutting is lost.
    """
    try:
        if file.stat().st_size <= bytes_max:
            return
        kept = file.with_name(f"{file.name}.1")
        fresh = file.with_name(f"{file.name}.new")
        shutil.copyfile(file, fresh)
        fresh.replace(kept)
        with file.open("r+b") as opened:
            opened.truncate(0)
    except FileNotFoundError:
        pass  # nothing was printed yet


def _arguments(directory: DataDirectory) -> list[str]:
    return ["-m", "local.supervisor", "--data", str(directory.path)]


def command(directory: DataDirectory) -> list[str]:
    """What starts a process that supervises this directory."""
    return [sys.executable, *_arguments(directory)]


def find(directory: DataDirectory) -> processes.RunningProcess | None:
    """The process that supervises this directory, from wherever it was started; a foreground `dev up` is none."""
    return processes.find_by(_arguments(directory))


def leave_behind(directory: DataDirectory) -> None:
    """Start a process that supervises this directory, unless one does."""
    if find(directory) is None:
        processes.start_command(command(directory), directory.supervisor_output_file)


def stop(directory: DataDirectory) -> bool:
    """End what supervises this directory, if something does, and return whether it did; what it started goes on."""
    was_there = False
    while (process := find(directory)) is not None:
        was_there = True
        processes.ask_to_stop(process)
        if processes.wait_gone([process], _STOP_S):
            # Its keeper takes that for a crash.
            processes.kill(process)
            time.sleep(_KEEPER_S)
    return was_there
