"""A process is found by what it was started with, and asked about anew without a look at all others."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from local import processes
from tests.waiting import wait_until

ARGUMENTS = ["-c", "import sys; sys.stdin.read()", "test-processes"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, *ARGUMENTS], stdin=subprocess.PIPE) as started:
        wait_until("the child has its command line", lambda: processes.find_by(ARGUMENTS) is not None)
        yield started
        started.kill()


def test_what_was_found_once_is_found_again_without_a_look_at_all(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_of_them() -> Iterator[psutil.Process]:
        yield pytest.fail("all processes were looked at")

    monkeypatch.setattr(psutil, "process_iter", all_of_them)
    found = processes.find_by(ARGUMENTS)
    assert found is not None and found.pid == child.pid


def test_a_process_that_ended_is_found_no_more_and_its_successor_is(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    assert processes.find_by(ARGUMENTS) is None
    with subprocess.Popen([sys.executable, *ARGUMENTS], stdin=subprocess.PIPE) as successor:
        wait_until("the successor has its command line", lambda: processes.find_by(ARGUMENTS) is not None)
        found = processes.find_by(ARGUMENTS)
        assert found is not None and found.pid == successor.pid
        successor.kill()


def test_what_is_remembered_is_looked_at_again(child: subprocess.Popen[bytes]) -> None:
    """An answer of yesterday is no answer: the process has to be so still."""
    assert processes.find_where("so", lambda process: process.pid == child.pid) is not None
    assert processes.find_where("so", lambda process: False) is None
