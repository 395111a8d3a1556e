"""A loop that stands still is noticed from beside it, and said once (RL137)."""

import threading

import pytest

from data_plane.broker.watchdog import Watchdog
from tests.waiting import PATIENCE_S


def test_a_loop_that_stands_still_is_told_while_it_does_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    age, told = [0.0], threading.Semaphore(0)
    dog = Watchdog(0.02, lambda: age[0], told.release)
    try:
        assert not told.acquire(timeout=0.1)
        age[0] = 5.0
        for _ in range(3):
            assert told.acquire(timeout=PATIENCE_S)
        assert dog.stalls == 1
        age[0] = 0.0
        while told.acquire(timeout=0.1):
            pass
        age[0] = 5.0
        assert told.acquire(timeout=PATIENCE_S)
        while dog.stalls < 2:
            assert told.acquire(timeout=PATIENCE_S)
    finally:
        dog.close()
    said = [record for record in caplog.records if record.message == "the event loop stands still"]
    assert len(said) == 2
    assert any("test_watchdog.py" in line for line in said[0].__dict__["at"])
