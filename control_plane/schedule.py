"""What workers do at intervals. Each runs a scheduler, and the one that holds the lease `schedule` sends the tasks.

A task that is sent twice does no harm, since what it changes is guarded row by row: the lease saves the work, and a
scheduler that was paused and wakes up sends nothing.

Most rounds have nothing to do, and a message with its task costs ten times what it costs to see that. So a task may
have a look, a short question to the database on the scheduler's own connection: while it says no, the task is sent at
longer intervals only, for what the look does not know.
"""

import logging
import time
from dataclasses import dataclass
from typing import Any

from celery.beat import Scheduler
from django.db import DatabaseError, close_old_connections

from control_plane.looks import Look
from control_plane.processes import actions
from control_plane.worker_children import moments

LEASE = "schedule"
LENGTH_S = 6.0
RENEW_S = 2.0
LATE_S = 60.0
"""What a task takes, and what a busy machine or a short fault adds, before it is said to be late."""
STANDBY_S = 1.0
"""Between the looks of a scheduler that does not hold the lease."""
PAUSE_S_MIN = 0.01
"""Celery wakes up 10 ms before an entry is due and then asks without a pause until it is: that took most of what the
schedule takes at rest."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    look: Look
    """Whether a round of the task has something to do now."""
    at_rest_s: float


_rests: dict[str, _Rest] = {}


def looks_first(task: str, look: Look, *, at_rest_s: float) -> None:
    """`task` is sent at its interval if `look` says yes, and after `at_rest_s` in any case."""
    _rests[task] = _Rest(look=look, at_rest_s=at_rest_s)


def due_within_s(task: str, interval_s: float) -> float:
    """The longest time between two rounds of a task that is done in time: it is sent at intervals, and begins within
    the next one.
    """
    rest = _rests.get(task)
    return max(interval_s, 0.0 if rest is None else rest.at_rest_s) + interval_s + LATE_S


class LeasedScheduler(Scheduler):  # type: ignore[misc]  # Celery has no types
    """Celery's scheduler, in memory, while this worker holds the lease."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lease = actions.lease(LEASE, LENGTH_S)
        self._active = False
        self._sent_at: dict[str, float] = {}

    def schedules_equal(self, *_: Any) -> bool:
        """The entries never change while a worker runs; Celery would compare them at each look."""
        return self.old_schedulers is not None

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send the entry's task, unless its look finds nothing to do."""
        now = time.monotonic()
        if self._has_work(entry.task, now):
            self._sent_at[entry.task] = now
            super().apply_entry(entry, producer=producer)

    def _has_work(self, task: str, now: float) -> bool:
        rest = _rests.get(task)
        if rest is None or now - self._sent_at.get(task, float("-inf")) >= rest.at_rest_s:
            return True
        try:
            return rest.look()
        except DatabaseError as error:
            _log.warning("nothing was looked for", extra={"task": task, "error": str(error)})
            close_old_connections()
        except Exception:
            # A fault of the look. The task does its work without it.
            _log.exception("a look broke", extra={"task": task})
        return True

    def tick(self, *arguments: Any, **options: Any) -> float:
        """Send what is due, and show that it was looked at. Returns the seconds until the next look."""
        pause_s = self._tick(*arguments, **options)
        moments.tick.note()
        return pause_s

    def _tick(self, *arguments: Any, **options: Any) -> float:
        if not self._holds():
            if self._active:
                _log.warning("another worker keeps the schedule")
            self._active = False
            return STANDBY_S
        if not self._active:
            _log.info("this worker keeps the schedule", extra={"number": self._lease.number})
            self._active = True
        pause: float = super().tick(*arguments, **options)
        return min(max(pause, PAUSE_S_MIN), STANDBY_S)

    def close(self) -> None:
        """Leave the schedule to another worker at once."""
        try:
            self._lease.release(actions.execute)
        except DatabaseError:
            pass  # the lease ends by itself
        super().close()

    def _holds(self) -> bool:
        if self._lease.lasts and self._lease.age_s < RENEW_S:
            return True
        try:
            return self._lease.hold(actions.execute)
        except DatabaseError as error:
            # The next look connects again; until the lease ends, no other worker has it.
            _log.warning("the lease of the schedule was not renewed", extra={"error": str(error)})
            close_old_connections()
            return self._lease.lasts
