"""systemd hears that a process is healthy for as long as it is."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.watchdog import Watchdog
from tests.waiting import PATIENCE_S, wait_until


class Process:
    """One that is asked whether it is healthy."""

    def __init__(self) -> None:
        self.healthy = True
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.healthy


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE_S)
        yield listening


def drained(manager: socket.socket) -> int:
    """How many datagrams waited."""
    count = 0
    manager.setblocking(False)
    while True:
        try:
            manager.recv(100)
        except BlockingIOError:
            return count
        count += 1


def test_systemd_hears_of_a_healthy_process_and_nothing_of_one_that_is_not(manager: socket.socket) -> None:
    process = Process()
    unit = {
        "NOTIFY_SOCKET": manager.getsockname(),
        "WATCHDOG_USEC": "60000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    watchdog = Watchdog(process, unit)
    assert watchdog.every_s <= 0.030, "sd_watchdog_enabled(3) asks for a sign in each half of the time"
    try:
        assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        process.healthy = False
        asked = process.asked
        wait_until("it was asked since", lambda: process.asked > asked + 1)
        drained(manager)
        asked = process.asked
        wait_until("it was asked again and again", lambda: process.asked > asked + 3)
        assert drained(manager) == 0
        process.healthy = True
        wait_until("it is told again", lambda: drained(manager) > 0)
    finally:
        watchdog.close()


@pytest.mark.parametrize(
    "left_out", [{"NOTIFY_SOCKET": ""}, {"WATCHDOG_USEC": ""}, {"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}]
)
def test_a_process_that_is_asked_for_no_sign_of_life_gives_none(
    manager: socket.socket, left_out: dict[str, str]
) -> None:
    process = Process()
    unit = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000"}
    Watchdog(process, {**unit, **left_out}).close()
    assert (process.asked, drained(manager)) == (0, 0)


def test_an_abstract_name_is_understood() -> None:
    name = f"penstock-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(PATIENCE_S)
        watchdog = Watchdog(Process(), {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "1000000"})
        try:
            assert listening.recv(100) == b"WATCHDOG=1"
        finally:
            watchdog.close()
