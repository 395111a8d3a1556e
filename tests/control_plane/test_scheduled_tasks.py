"""What the schedule did is noted task by task, seldom, and what did not go well in its time is named."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from control_plane import schedule
from control_plane.celery import SCHEDULED, app
from control_plane.outbox import tasks as outbox
from control_plane.processes import actions, queries
from control_plane.processes.models import ScheduledTask
from control_plane.processes.task_notes import NOTED_EVERY_S, TaskNotes
from control_plane.rest import health
from control_plane.worker import Worker
from tests.control_plane.world import call

pytestmark = pytest.mark.django_db
BILLS = "billing.bill_run"
SWEEP = "outbox.sweep"


def went_well(task: str, seconds_ago: float, due_s: float = 60.0) -> None:
    actions.note_task(task, due_s=due_s)
    ScheduledTask.objects.filter(name=task).update(well_at=timezone.now() - timedelta(seconds=seconds_ago))


def late() -> dict[str, str]:
    return queries.late_tasks(SCHEDULED, time.time())


def test_a_task_that_went_well_in_its_time_is_not_late() -> None:
    went_well(BILLS, 59)
    assert late() == {}
    assert queries.well_at(SCHEDULED)[BILLS] == pytest.approx(time.time() - 59, abs=5)


def test_a_task_that_nobody_did_is_late_and_one_that_fails_says_with_what() -> None:
    went_well(SWEEP, 100)
    went_well(BILLS, 200)
    actions.note_task(BILLS, due_s=60.0, error="OperationalError: locked")
    assert late() == {
        BILLS: "has not gone well for 200 s: OperationalError: locked",
        SWEEP: "has not gone well for 100 s",
    }
    actions.note_task(BILLS, due_s=60.0)
    assert set(late()) == {SWEEP}


def test_a_task_that_never_went_well_counts_from_its_first_failure() -> None:
    actions.note_task(BILLS, due_s=60.0, error="ValueError: no")
    assert late() == {} and queries.well_at(SCHEDULED) == {BILLS: 0.0}
    ScheduledTask.objects.update(since=timezone.now() - timedelta(seconds=61))
    assert late() == {BILLS: "has not gone well for 61 s: ValueError: no"}


def test_a_task_of_an_earlier_release_is_not_missed() -> None:
    went_well("of.an.earlier.release", 1_000)
    assert late() == {}


@pytest.mark.django_db(transaction=True)
def test_a_worker_counts_from_its_own_start() -> None:
    went_well(BILLS, 200)
    actions.beat("ready")
    young, old = Worker(), Worker(began=time.time() - 61)
    young.state = old.state = "ready"
    assert young.not_ready() == "", "it has had no time yet"
    assert old.not_ready().startswith(f"{BILLS} has not gone well for 6")


@pytest.mark.django_db(transaction=True)
def test_the_web_application_counts_from_its_own_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "BEGAN", time.time())
    went_well(BILLS, 100_000)
    actions.beat("ready")
    assert "warnings" not in call("GET", "/readyz").body, "nothing ran in the night"


@pytest.mark.django_db(transaction=True)
def test_readiness_of_a_worker_and_warnings_of_the_web_application_name_what_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "BEGAN", 0.0)
    worker = Worker(began=0.0)
    worker.state = "ready"
    went_well(BILLS, 200)
    actions.beat("ready")
    assert call("GET", "/readyz").body["warnings"][BILLS].startswith("has not gone well for 20")
    assert worker.not_ready().startswith(f"{BILLS} has not gone well for 20")
    actions.note_task(BILLS, due_s=60.0)
    assert "warnings" not in call("GET", "/readyz").body
    assert worker.not_ready() == ""


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_rounds_are_noted_seldom_and_a_change_of_good_and_bad_at_once(
    django_assert_num_queries: Any,
) -> None:
    clock = Clock()
    notes = TaskNotes(clock)
    notes.note(BILLS, 3.0, "")
    with django_assert_num_queries(0):
        clock.now_s += NOTED_EVERY_S - 0.1
        notes.note(BILLS, 3.0, "")
    with django_assert_num_queries(1):
        notes.note(BILLS, 3.0, "ValueError: no")
        notes.note(BILLS, 3.0, "ValueError: no")
    with django_assert_num_queries(1):
        clock.now_s += NOTED_EVERY_S
        notes.note(BILLS, 3.0, "ValueError: no")
    with django_assert_num_queries(1):
        notes.note(BILLS, 3.0, "")
    assert ScheduledTask.objects.get().error == ""


def test_a_database_that_is_away_fails_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise DatabaseError("away")

    notes = TaskNotes()
    with monkeypatch.context() as patched:
        patched.setattr(actions, "note_task", away)
        notes.note(BILLS, 3.0, "")
    notes.note(BILLS, 3.0, "")
    assert ScheduledTask.objects.get().name == BILLS, "it is tried again with the next round"


def test_a_task_is_late_after_its_interval_or_its_rest_and_another_interval() -> None:
    assert schedule.due_within_s("no.such.task", 10.0) == 20.0 + schedule.LATE_S
    interval_s = SCHEDULED[outbox.sweep.name]
    assert schedule.due_within_s(outbox.sweep.name, interval_s) == (
        outbox.HEARTBEAT_S + interval_s + schedule.LATE_S
    )


def test_every_task_of_the_schedule_has_an_interval() -> None:
    assert set(SCHEDULED) == {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert all(interval_s > 0 for interval_s in SCHEDULED.values())
