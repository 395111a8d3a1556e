"""A loop that stands still is noticed from beside it, and said once (RL137)."""

import threading

import pytest

from data_plane.broker.watchdog import Watchdog
from tests.waiting import PATIENCE_S


def test_a_loop_that_stands_still_is_told_while_it_does_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    age, told, turning = [0.0], threading.Semaphore(0), threading.Semaphore(0)

    def age_s() -> float:
        if not age[0]:
            turning.release()
        return age[0]

    def it_has_seen_that_the_loop_turns() -> None:
        while turning.acquire(blocking=False):
            pass
        for _ in range(2):  # with the second look, what it did after the first one is done
            assert turning.acquire(timeout=PATIENCE_S)

    dog = Watchdog(0.02, age_s, told.release)
    try:
        it_has_seen_that_the_loop_turns()
        assert not told.acquire(blocking=False)
        age[0] = 5.0
        for _ in range(3):
            assert told.acquire(timeout=PATIENCE_S)
        assert dog.stalls == 1
        age[0] = 0.0
        it_has_seen_that_the_loop_turns()
        while told.acquire(blocking=False):
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
