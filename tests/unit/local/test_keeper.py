"""A supervisor that was killed is started again by what waits beside it; one that ended as asked is not."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local import cores, guardian
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

_SUPERVISOR = """
import os, pathlib, signal, sys, time
from local.keeper import Keeper
keeper = Keeper([sys.executable, *sys.argv])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
try:
    keeper.look()
    with open(sys.argv[1], "a") as lives:
        print(os.getpid(), file=lives)
    while True:
        time.sleep(0.05)
        keeper.look()
finally:
    keeper.release()
"""


class Supervised:
    """A program that does what a supervisor does, and notes each of its lives."""

    def __init__(self, folder: Path) -> None:
        self._lives = folder / "lives"
        program = folder / "supervisor.py"
        program.write_text(_SUPERVISOR)
        self.first = subprocess.Popen(
            [sys.executable, str(program), str(self._lives)],
            env={"PYTHONPATH": str(ROOT), **cores.inherited(), **guardian.mark()},
            start_new_session=True,
        )

    def lives(self) -> list[int]:
        return [int(line) for line in self._lives.read_text().split()] if self._lives.exists() else []

    def until_alive(self, number: int) -> psutil.Process:
        """The process of that life."""
        wait_until(f"life {number}", lambda: len(self.lives()) >= number)
        return psutil.Process(self.lives()[number - 1])

    def end(self) -> None:
        for process in [self.first.pid, *self.lives()]:
            if psutil.pid_exists(process):
                psutil.Process(process).terminate()
        self.first.wait(PATIENCE_S)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    supervised = Supervised(tmp_path)
    try:
        yield supervised
    finally:
        supervised.end()


def keeper_of(supervisor: psutil.Process) -> psutil.Process:
    found: list[psutil.Process] = []

    def waits() -> bool:
        # A supervisor starts nothing else here.
        found[:] = [child for child in supervisor.children() if child.status() != psutil.STATUS_ZOMBIE]
        return bool(found)

    wait_until("its keeper waits", waits)
    return found[0]


def test_a_supervisor_that_is_killed_is_started_again_each_time(supervised: Supervised) -> None:
    for life in (1, 2):
        process = supervised.until_alive(life)
        keeper_of(process)
        process.kill()
    assert keeper_of(supervised.until_alive(3)).is_running()


def test_a_keeper_that_is_killed_is_replaced(supervised: Supervised) -> None:
    process = supervised.until_alive(1)
    keeper = keeper_of(process)
    keeper.kill()
    wait_until("another one waits", lambda: keeper_of(process).pid != keeper.pid)
    process.kill()
    supervised.until_alive(2)


def test_a_supervisor_that_ends_as_it_was_asked_to_stays_away(supervised: Supervised) -> None:
    process = supervised.until_alive(1)
    keeper = keeper_of(process)
    process.send_signal(signal.SIGTERM)
    supervised.first.wait(PATIENCE_S)
    wait_until("its keeper has ended", lambda: not keeper.is_running())
    assert supervised.lives() == [process.pid]
