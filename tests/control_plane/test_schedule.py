"""Of two workers' schedulers the one that holds the lease sends what is due."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from django.db import DatabaseError, connection

from control_plane import schedule
from control_plane.processes import actions
from control_plane.schedule import LENGTH_S, RENEW_S, STANDBY_S, LeasedScheduler
from daemon.lease import Clock, Lease

pytestmark = pytest.mark.django_db(transaction=True)


class Recorder(LeasedScheduler):
    """A worker's scheduler, with a clock that the test moves, which notes what it sends."""

    def __init__(self, holder: str) -> None:
        self.sent: list[str] = []
        self.now_s = 100.0
        app = Celery(broker="memory://", set_as_current=False)
        app.conf.beat_schedule = {"sweep": {"task": "outbox.sweep", "schedule": timedelta(0)}}
        super().__init__(app)
        clock = Clock.SQLITE if connection.vendor == "sqlite" else Clock.POSTGRESQL
        self._lease = Lease(
            schedule.LEASE,
            holder,
            length_s=LENGTH_S,
            clock=clock,
            monotonic=lambda: self.now_s,
        )

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        self.sent.append(entry.name)

    def looks(self) -> bool:
        """Whether it sends what is due."""
        self.sent.clear()
        assert 0 <= self.tick() <= STANDBY_S
        return bool(self.sent)


class Database:
    """Counts statements about leases, and is away when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.away = 0, False
        self._execute = actions.execute
        monkeypatch.setattr(actions, "execute", self.execute)

    def execute(self, statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        self.asked += 1
        if self.away:
            raise DatabaseError("away")
        return self._execute(statement, values)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    return Database(monkeypatch)


def test_one_sends_and_the_other_waits_until_it_leaves(database: Database) -> None:
    first, second = Recorder("a"), Recorder("b")
    assert first.looks() and not second.looks()
    assert first.looks() and not second.looks()
    first.close()
    assert second.looks() and not first.looks()


def test_the_lease_is_renewed_in_time_and_not_at_each_look(database: Database) -> None:
    first = Recorder("a")
    assert first.looks() and first.looks() and database.asked == 1
    first.now_s += RENEW_S
    assert first.looks() and database.asked == 2


def test_a_worker_that_was_paused_asks_before_it_sends(database: Database) -> None:
    first, second = Recorder("a"), Recorder("b")
    assert first.looks()
    first._lease.release(database.execute)  # as if its time were over
    assert second.looks()
    first.now_s += LENGTH_S + 1
    assert not first.looks()


def test_a_database_that_is_away_is_waited_for_as_long_as_the_lease_lasts(database: Database) -> None:
    first = Recorder("a")
    assert first.looks()
    database.away = True
    first.now_s += LENGTH_S - 0.1
    assert first.looks()
    first.now_s += 0.2
    assert not first.looks()
    database.away = False
    assert first.looks()
