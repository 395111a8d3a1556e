"""What a worker says of itself while its database is away, and that its own bugs are not taken for that."""

import time
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from control_plane import worker
from control_plane.worker import Worker


class Asked(Worker):
    """A ready worker whose look at the database raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.state = "ready"
        self._error = error

    def gauges(self) -> dict[str, float]:
        raise self._error


class Counted(Worker):
    """A ready worker that counts its looks at the database."""

    def __init__(self, **raises: Any) -> None:
        super().__init__()
        self.state = "ready"
        self.looks = 0
        self._error = raises.get("error")

    def gauges(self) -> dict[str, float]:
        self.looks += 1
        if self._error is not None:
            raise self._error
        return {"worker_keeps_schedule": float(self.looks)}

    def levels(self) -> dict[str, dict[str, float]]:
        return {"webhooks_off": {"gone": 3.0}}


def exported(asked: Worker) -> dict[str, float]:
    return {
        sample.name: sample.value for metric in worker._Gauges(asked).collect() for sample in metric.samples
    }


@pytest.mark.parametrize("error", [OperationalError("connection refused"), InterfaceError("closed")])
def test_a_lost_database_is_the_reason_and_leaves_what_needs_none(error: Exception) -> None:
    assert Asked(error).not_ready() == f"database: {type(error).__name__}"
    assert exported(Asked(error)) == {"penstock_worker_ready": 1.0}


def test_levels_of_tenants_are_there_once_the_database_has_answered() -> None:
    found = exported(Counted())
    assert found["penstock_webhooks_off"] == 3.0 and found["penstock_worker_keeps_schedule"] == 1.0
    away = exported(Counted(error=OperationalError("connection refused")))
    assert "penstock_webhooks_off" not in away


def test_scrapes_within_a_few_seconds_ask_the_database_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counted()
    assert [exported(asked)["penstock_worker_keeps_schedule"] for _ in range(3)] == [1.0] * 3
    later = time.monotonic() + worker._LOOK_S + 0.1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert exported(asked)["penstock_worker_keeps_schedule"] == 2.0


def test_a_database_that_is_away_is_not_asked_at_each_scrape_either() -> None:
    asked = Counted(error=OperationalError("connection refused"))
    assert [exported(asked) for _ in range(3)] == [{"penstock_worker_ready": 1.0}] * 3
    assert asked.looks == 1


def test_a_worker_that_starts_asks_no_database_for_its_metrics() -> None:
    """It forks meanwhile, and what a thread has locked stays locked in the forked process."""
    asked = Counted()
    asked.state = "starting"
    assert exported(asked) == {"penstock_worker_ready": 0.0}
    assert asked.not_ready() == "starting"
    assert asked.looks == 0


def test_a_bug_of_our_own_is_no_lost_database() -> None:
    with pytest.raises(TypeError, match="our own"):
        Asked(TypeError("our own")).not_ready()
    with pytest.raises(TypeError, match="our own"):
        exported(Asked(TypeError("our own")))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_what_is_written_beside_the_work_reaches_the_log_of_threads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lost() -> None:
        raise OperationalError("connection refused")

    def wrong() -> None:
        raise TypeError("our own")

    worker._on_a_thread(lost)
    assert "the database does not know of it" in caplog.text
    caplog.clear()
    worker._on_a_thread(wrong)
    assert "the database does not know of it" not in caplog.text


def test_a_worker_that_waits_for_its_transport_is_healthy_and_a_loop_that_stands_still_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, connected, began = Worker(), [True], time.monotonic()
    asked.follow(lambda: connected[0])
    asked.turn()
    monkeypatch.setattr(time, "monotonic", lambda: began + 60)
    assert asked.loop_age_s() == pytest.approx(60, abs=5)
    connected[0] = False
    assert asked.loop_age_s() == 0
    connected[0] = True
    assert asked.loop_age_s() == 0, "it has a moment to turn again"
    monkeypatch.setattr(time, "monotonic", lambda: began + 120)
    assert asked.loop_age_s() == pytest.approx(60)
