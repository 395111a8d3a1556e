"""What a worker forks, as the worker looks after it: the scheduler, and the processes of the pool that do the tasks.

A scheduler that has ended is not started again by Celery. A process of the pool is, but in the embedded form all of
them read one queue under one lock, and a process that was killed while it held the lock keeps it: no task begins any
more, whatever is started. So a worker that has lost one of them ends whole, and its supervisor starts it again. With
Redis each process of the pool has a pipe of its own, and Celery puts another one in its place.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from control_plane.shared_moments import SharedMoment

TICK_S_MAX = 60.0
"""A scheduler that looks once a second, and whose database takes several tries of some seconds to be given up."""
TASKS_S_MAX = 600.0
"""While tasks wait, one of the pool begins or ends in this time: the longest takes minutes."""


class Scheduler(Protocol):
    """Celery's process of the schedule."""

    def is_alive(self) -> bool: ...


class Children:
    """The processes of one worker. Made once they run, and asked by the worker alone."""

    def __init__(
        self,
        scheduler: Scheduler,
        pool_pids: Callable[[], set[int]],
        *,
        one_queue: bool,
        waiting: Callable[[], int],
        moments: "Moments",
    ) -> None:
        """`pool_pids` are those of the pool now; `one_queue`: they share a queue, and its lock; `waiting` counts the
        tasks that were received and are not finished.
        """
        self._scheduler = scheduler
        self._pool_pids = pool_pids
        self._one_queue = one_queue
        self._waiting = waiting
        self._moments = moments
        self._first_pids = pool_pids()

    def lost(self) -> str:
        """Which has ended that must not; empty: none. The worker is of no use any more."""
        if not self._scheduler.is_alive():
            return "the scheduler has ended"
        gone = self._first_pids - self._pool_pids()
        if gone and self._one_queue:
            pids = ", ".join(map(str, sorted(gone)))
            return f"a process of the pool has ended ({pids}), and may have held the lock of the queue"
        return ""

    def late(self) -> Mapping[str, str]:
        """Which of them stands still, with the reason."""
        found: dict[str, str] = {}
        tick_s, tasks_s = self._moments.tick.age_s(), self._moments.task.age_s()
        if tick_s > TICK_S_MAX:
            found["scheduler"] = f"it has not looked at the schedule for {tick_s:.0f} s"
        if tasks_s > TASKS_S_MAX and (waiting := self._waiting()):
            found["pool"] = f"no task has begun or ended for {tasks_s:.0f} s, and {waiting} wait"
        return found


class Moments:
    """What the processes of a worker tell it, without a message."""

    def __init__(self) -> None:
        self.tick = SharedMoment()
        """The scheduler has looked at the schedule."""
        self.task = SharedMoment()
        """A task has begun or ended in a process of the pool."""


moments = Moments()
"""Of this process and of those that it forks."""


def children_of(controller: Any) -> Children:
    """Of Celery's worker, once it is ready."""
    from celery.worker import state

    return Children(
        controller.beat,
        lambda: set(controller.pool.info["processes"]),
        one_queue=not controller.use_eventloop,
        waiting=lambda: len(state.reserved_requests),
        moments=moments,
    )
