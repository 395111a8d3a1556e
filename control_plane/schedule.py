"""What workers do at intervals. Each runs a scheduler, and the one that holds the lease `schedule` sends the tasks.

A task that is sent twice does no harm, since what it changes is guarded row by row: the lease saves the work, and a
scheduler that was paused and wakes up sends nothing.
"""

import logging
from typing import Any

from celery.beat import Scheduler
from django.db import DatabaseError, close_old_connections

from control_plane.processes import actions

LEASE = "schedule"
LENGTH_S = 6.0
RENEW_S = 2.0
STANDBY_S = 1.0
"""Between the looks of a scheduler that does not hold the lease."""
_log = logging.getLogger(__name__)


class LeasedScheduler(Scheduler):  # type: ignore[misc]  # Celery has no types
    """Celery's scheduler, in memory, while this worker holds the lease."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lease = actions.lease(LEASE, LENGTH_S)
        self._active = False

    def tick(self, *arguments: Any, **options: Any) -> float:
        """Send what is due. Returns the seconds until the next look."""
        if not self._holds():
            if self._active:
                _log.warning("another worker keeps the schedule")
            self._active = False
            return STANDBY_S
        if not self._active:
            _log.info("this worker keeps the schedule", extra={"number": self._lease.number})
            self._active = True
        pause: float = super().tick(*arguments, **options)
        return min(pause, STANDBY_S)

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
