"""A worker that has lost a process that it forked ends whole; one that stands still is named by its health."""

import multiprocessing
import time

import pytest

from control_plane.worker_children import TASKS_S_MAX, TICK_S_MAX, Children, Moments
from tests.waiting import PATIENCE_S


class Forked:
    """What a worker forked, as Celery shows it."""

    def __init__(self, *, one_queue: bool) -> None:
        self.schedules = True
        self.pool = {11, 12}
        self.waiting = 0
        self.moments = Moments()
        self.children = Children(
            self,
            lambda: set(self.pool),
            one_queue=one_queue,
            waiting=lambda: self.waiting,
            moments=self.moments,
        )

    def is_alive(self) -> bool:
        return self.schedules


@pytest.mark.parametrize("one_queue", [True, False])
def test_a_worker_without_its_scheduler_is_lost_in_either_form(one_queue: bool) -> None:
    forked = Forked(one_queue=one_queue)
    assert forked.children.lost() == ""
    forked.schedules = False
    assert forked.children.lost() == "the scheduler has ended"


def test_a_process_of_the_pool_that_was_replaced_may_keep_the_lock_of_the_one_queue() -> None:
    forked = Forked(one_queue=True)
    forked.pool = {11, 13}
    assert forked.children.lost() == (
        "a process of the pool has ended (12), and may have held the lock of the queue"
    )


def test_a_pool_with_a_pipe_for_each_process_goes_on_with_another_one() -> None:
    forked = Forked(one_queue=False)
    forked.pool = {11, 13}
    assert forked.children.lost() == ""


def test_a_scheduler_that_has_not_looked_for_a_minute_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = Forked(one_queue=True)
    assert forked.children.late() == {}
    later = time.monotonic_ns() + int((TICK_S_MAX + 1) * 1e9)
    monkeypatch.setattr(time, "monotonic_ns", lambda: later)
    assert forked.children.late() == {"scheduler": "it has not looked at the schedule for 61 s"}
    forked.moments.tick.note()
    assert forked.children.late() == {}


def test_a_pool_in_which_nothing_begins_or_ends_is_late_while_tasks_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forked = Forked(one_queue=True)
    later = time.monotonic_ns() + int((TASKS_S_MAX + 1) * 1e9)
    monkeypatch.setattr(time, "monotonic_ns", lambda: later)
    forked.moments.tick.note()
    assert forked.children.late() == {}, "a pool without tasks rests"
    forked.waiting = 3
    assert forked.children.late() == {"pool": "no task has begun or ended for 601 s, and 3 wait"}
    forked.moments.task.note()
    assert forked.children.late() == {}


def test_what_a_forked_process_notes_its_parent_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = Moments()
    later = time.monotonic_ns() + 100_000_000_000
    monkeypatch.setattr(time, "monotonic_ns", lambda: later)
    assert moments.tick.age_s() == pytest.approx(100, abs=PATIENCE_S)
    child = multiprocessing.get_context("fork").Process(target=moments.tick.note)
    child.start()
    child.join(PATIENCE_S)
    assert (child.exitcode, moments.tick.age_s()) == (0, 0.0)
    assert moments.task.age_s() > 0
