"""What a process starts ends with it: also what has left its session, and what a command that has ended left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import psutil
import pytest

from local import guardian
from local.processes import running
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

_SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
_STARTS = """
import subprocess, sys, time
child = subprocess.Popen({command!r}, start_new_session=True, stdout=subprocess.DEVNULL, env={env})
print(child.pid, flush=True)
{then}
"""
_STAYS = "time.sleep(600)"


def program(command: Sequence[str], *, then: str, env: str = "None", first: str = "") -> list[str]:
    """A Python program that starts `command` in a session of its own, tells its process id, and does `then`."""
    code = f"{first}\n{_STARTS.format(command=list(command), env=env, then=then)}"
    return [sys.executable, "-c", code]


GUARDS = "from local import guardian; guardian.guard()"


def run(command: Sequence[str]) -> tuple["subprocess.Popen[str]", int]:
    """The process of `command`, and the id of the process that it tells of."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: "subprocess.Popen[str]", how: signal.Signals, started: int) -> None:
    """End the process, and wait until what it started is gone too."""
    assert running(started) is not None
    process.send_signal(how)
    process.communicate(timeout=PATIENCE_S)
    wait_until(f"{started} is gone after {how!r}", lambda: running(started) is None)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_a_process_started_ends_with_it(how: signal.Signals) -> None:
    process, started = run(program(_SLEEPER, then=_STAYS, first=GUARDS))
    end(process, how, started)


def test_what_a_command_left_behind_ends_with_the_process_that_ran_the_command() -> None:
    detaches = program(_SLEEPER, then="")
    process, started = run(
        [
            sys.executable,
            "-c",
            f"{GUARDS}\nimport subprocess, time\n"
            f"print(subprocess.run({detaches!r}, stdout=subprocess.PIPE, text=True).stdout, end='', flush=True)\n"
            f"{_STAYS}",
        ]
    )
    end(process, signal.SIGKILL, started)


def test_what_gets_an_environment_of_its_own_ends_with_it_when_that_holds_the_mark() -> None:
    process, started = run(program(_SLEEPER, then=_STAYS, env="guardian.mark()", first=GUARDS))
    end(process, signal.SIGKILL, started)


def test_what_a_guarded_process_of_a_guarded_process_started_ends_with_the_outer_one() -> None:
    inner = program(_SLEEPER, then=_STAYS, first=GUARDS)
    process, started = run(
        [
            sys.executable,
            "-c",
            f"{GUARDS}\nimport subprocess, time\nsubprocess.Popen({inner!r}, start_new_session=True)\n{_STAYS}",
        ]
    )
    end(process, signal.SIGKILL, started)


def test_what_a_process_starts_after_it_let_go_does_not_end_with_it() -> None:
    process, started = run(program(_SLEEPER, then=_STAYS, first=f"{GUARDS}; guardian.let_go()"))
    assert psutil.Process(started).environ()[guardian.VARIABLE] == guardian.mark()[guardian.VARIABLE]
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    os.kill(started, signal.SIGKILL)


def test_nothing_that_others_started_ends() -> None:
    bystander = subprocess.Popen(_SLEEPER)
    try:
        process, started = run(program(_SLEEPER, then=_STAYS, first=GUARDS))
        end(process, signal.SIGKILL, started)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_everything_that_these_tests_start_carries_their_mark() -> None:
    assert guardian.mark(), "tests/conftest.py guards each process of pytest"


def test_a_guardian_that_was_killed_is_replaced_and_what_was_started_before_still_ends() -> None:
    replaces = "import psutil\nwhile True:\n    guardian.guard(); time.sleep(0.05)"
    process, started = run(program(_SLEEPER, then=replaces, first=GUARDS))

    def guardians() -> list[int]:
        children = psutil.Process(process.pid).children()
        return [
            child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE and child.pid != started
        ]

    (killed,) = guardians()
    os.kill(killed, signal.SIGKILL)
    wait_until("there is another guardian", lambda: guardians() not in ([], [killed]))
    end(process, signal.SIGKILL, started)
