"""Notes what came of the rounds of the schedule, seldom enough to cost nothing beside them."""

import logging
import time
from collections.abc import Callable

from django.db import DatabaseError

from control_plane import schedule
from control_plane.processes import actions

NOTED_EVERY_S = 15.0
"""Of a task that goes on as it went: much less than what makes it late."""
_log = logging.getLogger(__name__)


class TaskNotes:
    """What this process has noted. A change of good and bad is noted at once."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._noted: dict[str, tuple[float, bool]] = {}
        """Task -> when it was noted last, and whether it had failed."""

    def note(self, task: str, interval_s: float, error: str) -> None:
        """A round has gone well, or failed with `error`. A database that is away is left alone."""
        now, failed = self._monotonic(), bool(error)
        noted_at, had_failed = self._noted.get(task, (float("-inf"), failed))
        if now - noted_at < NOTED_EVERY_S and failed is had_failed:
            return
        try:
            actions.note_task(task, due_s=schedule.due_within_s(task, interval_s), error=error)
        except DatabaseError as failure:
            _log.warning("a round was not noted", extra={"task": task, "error": str(failure)})
        else:
            self._noted[task] = (now, failed)


notes = TaskNotes()
"""Of this process."""
