"""Of two workers' schedulers the one that holds the lease sends what is due."""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from django.db import DatabaseError, connection
from django.db.models import QuerySet
from django.utils import timezone

from control_plane import looks, schedule
from control_plane.celery import app
from control_plane.mail import queries as mails
from control_plane.mail.models import Mail
from control_plane.processes import actions
from control_plane.processes.models import Lease as Row
from control_plane.schedule import LENGTH_S, PAUSE_S_MIN, RENEW_S, STANDBY_S, LeasedScheduler
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
        assert PAUSE_S_MIN <= self.tick() <= STANDBY_S, "what is due in a moment is waited for, not asked for"
        return bool(self.sent)


class Database:
    """Counts statements about leases, and is away when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.away = False
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


class Round:
    """A scheduler with one task, which notes what it sends, and that task's look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.works = False
        self.looked = 0
        self.broken: Exception | None = None
        self.sent: list[str] = []
        self.now_s = 100.0
        app = Celery(broker="memory://", set_as_current=False)
        app.conf.beat_schedule = {"sweep": {"task": "a.round", "schedule": timedelta(0)}}
        self.scheduler = LeasedScheduler(app)
        monkeypatch.setattr(schedule, "_rests", {})
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(app, "send_task", lambda name, *_, **__: self.sent.append(name))
        schedule.looks_first("a.round", self._look, at_rest_s=10.0)

    def _look(self) -> bool:
        self.looked += 1
        if self.broken is not None:
            raise self.broken
        return self.works

    def turn(self) -> bool:
        """Whether the task is sent now."""
        self.sent.clear()
        self.scheduler.tick()
        return self.sent == ["a.round"]


def test_a_round_with_nothing_to_do_is_sent_after_its_rest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Round(monkeypatch)
    assert one.turn() and not one.looked
    assert not one.turn() and one.looked == 1
    one.now_s += 9.9
    assert not one.turn()
    one.now_s += 0.1
    assert one.turn()
    assert not one.turn()


def test_a_round_that_has_work_is_sent_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Round(monkeypatch)
    one.works = True
    assert one.turn() and one.turn() and one.turn()


@pytest.mark.parametrize("broken", [DatabaseError("away"), ValueError("a fault")])
def test_what_cannot_be_looked_for_is_sent(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    one = Round(monkeypatch)
    one.broken = broken
    assert one.turn() and one.turn()


def test_one_statement_sees_each_kind_of_row(database: Database) -> None:
    look = looks.any_row(
        lambda: Row.objects.filter(name="first").order_by("name"),
        lambda: Row.objects.filter(name="second"),
    )
    assert not look() and not look()
    for name in ("first", "second"):
        row = Row.objects.create(name=name, holder="a", number=1, until=0)
        before = database.asked
        assert look() and database.asked == before + 1
        row.delete()
        assert not look()


def test_a_look_for_what_is_due_asks_for_its_own_time_by_one_statement_that_is_made_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    asked: list[datetime] = []

    def question(at: datetime) -> QuerySet[Mail]:
        asked.append(at)
        return mails.all_due(at)

    look = looks.any_due(question)
    assert not look()
    Mail.objects.create(to="anna@acme.example", created_at=now, due_at=now + timedelta(seconds=30))
    assert not look(), "it is due later"
    now += timedelta(seconds=30)
    assert look() and database.asked == 3 and len(asked) == 1


def test_every_look_of_the_service_finds_nothing_at_rest() -> None:
    from billing import tasks as billing
    from control_plane.audit import tasks as audit
    from control_plane.mail import tasks as mail
    from control_plane.outbox import tasks as outbox
    from control_plane.placement import tasks as placement
    from control_plane.processes import tasks as processes
    from control_plane.reconciliation import tasks as reconciliation
    from payments import tasks as payments

    del (
        audit,
        billing,
        mail,
        outbox,
        payments,
        placement,
        processes,
        reconciliation,
    )  # imported, they have said which look they have
    app_tasks = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert schedule._rests.keys() <= app_tasks
    assert len(schedule._rests) == 11
    for task, rest in schedule._rests.items():
        rest.look()
        assert not rest.look(), task
