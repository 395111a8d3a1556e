"""A scrape of /metrics asks the database seldom, and waits for it no longer than a bound."""

import math
import threading

import pytest
from django.db import OperationalError

from control_plane.api import metrics
from control_plane.api.database_readings import DatabaseReadings
from tests.control_plane.world import metrics_text
from tests.waiting import PATIENCE_S, wait_until

AGE = "penstock_database_reading_seconds"


class Database:
    """Stands for what is read: counts readings, and holds them up or fails as a test says."""

    def __init__(self) -> None:
        self.readings = 0
        self.answers = threading.Event()
        self.answers.set()
        self.lost = False
        self.now_s = 100.0

    def read(self) -> None:
        self.readings += 1
        assert self.answers.wait(PATIENCE_S)
        if self.lost:
            raise OperationalError("connection refused")

    def readings_of(self, wait_s: float = PATIENCE_S) -> DatabaseReadings:
        return DatabaseReadings(self.read, fresh_s=5.0, wait_s=wait_s, clock=lambda: self.now_s)


def test_what_was_read_a_moment_ago_is_not_read_again() -> None:
    database = Database()
    found = database.readings_of()
    assert found.age_s == math.inf
    for _ in range(3):
        found.look()
    assert (database.readings, found.age_s) == (1, 0.0)
    database.now_s += 5.0
    assert found.age_s == 5.0
    found.look()
    assert (database.readings, found.age_s) == (2, 0.0)


def test_a_database_that_does_not_answer_is_asked_once_at_a_time_and_holds_up_nothing() -> None:
    database = Database()
    database.answers.clear()
    found = database.readings_of(wait_s=0.01)
    for _ in range(10):
        found.look()
    assert database.readings == 1 and found.age_s == math.inf
    database.answers.set()
    wait_until("it answers", lambda: found.age_s == 0.0)


def test_a_lost_database_lets_the_age_grow_and_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    database = Database()
    found = database.readings_of()
    found.look()
    database.now_s, database.lost = 110.0, True
    found.look()
    assert found.age_s == 10.0
    assert "the database was not read" in caplog.text
    database.lost = False
    found.look()
    assert found.age_s == 0.0


def test_a_scrape_answers_while_the_database_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database()
    database.answers.clear()
    monkeypatch.setattr(metrics, "database", database.readings_of(wait_s=0.01))
    text = metrics_text()
    assert f"{AGE} +Inf" in text and "penstock_outbox_waiting" in text
    database.answers.set()
    wait_until("it answers", lambda: metrics.database.age_s == 0.0)
    assert f"{AGE} 0.0" in metrics_text()
