"""Reads which process does what."""

from collections.abc import Collection

from control_plane.processes.actions import WORKER
from control_plane.processes.models import Heartbeat, Lease, ScheduledTask

FRESH_S = 20.0
"""An older heartbeat means that no worker sweeps: several sweeps were missed."""


def last_beat() -> Heartbeat | None:
    """The workers' last heartbeat; None when there was none yet."""
    return Heartbeat.objects.filter(kind=WORKER).first()


def holder_of(lease: str) -> str:
    """The process that held the lease last; empty before the first."""
    return Lease.objects.filter(name=lease).values_list("holder", flat=True).first() or ""


def late_tasks(tasks: Collection[str], now: float, *, since: float = 0.0) -> dict[str, str]:
    """Those of these tasks of the schedule that did not go well in their time, counted from `since` at the earliest,
    with the reason. Moments are seconds since 1970.
    """
    late: dict[str, str] = {}
    for task in ScheduledTask.objects.filter(name__in=tasks).order_by("name"):
        counted_from = max(since, (task.well_at or task.since).timestamp())
        if (age_s := now - counted_from) > task.due_s:
            late[task.name] = f"has not gone well for {age_s:.0f} s" + (
                f": {task.error}" if task.error else ""
            )
    return late


def well_at(tasks: Collection[str]) -> dict[str, float]:
    """When each of these tasks of the schedule went well last, in seconds since 1970; 0: never."""
    return {
        task.name: 0.0 if task.well_at is None else task.well_at.timestamp()
        for task in ScheduledTask.objects.filter(name__in=tasks)
    }
