"""Writes which process does what: leases of the database at hand, the workers' heartbeat, and what the schedule did."""

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.utils import timezone

from control_plane.processes import holder
from control_plane.processes.models import Heartbeat, ScheduledTask
from daemon.lease import Clock, Lease

WORKER = "worker"
_ERROR_LENGTH_MAX = 200


def lease(name: str, length_s: float) -> Lease:
    """This process's view of a lease."""
    clock = Clock.SQLITE if connection.vendor == "sqlite" else Clock.POSTGRESQL
    return Lease(name, holder.own_id(), length_s=length_s, clock=clock)


def execute(statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """What `Lease` runs its statements by. Raises `DatabaseError`."""
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values))
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
        return rows


def beat(state: str) -> None:
    """Note what a worker does, now."""
    Heartbeat.objects.update_or_create(
        kind=WORKER, defaults={"holder": holder.own_id(), "state": state, "at": timezone.now()}
    )


def say_stopping() -> None:
    """Note that this worker stops, unless another one has been seen since."""
    Heartbeat.objects.filter(kind=WORKER, holder=holder.own_id()).update(state="stopping", at=timezone.now())


def note_task(name: str, *, due_s: float, error: str = "") -> None:
    """A round of a task of the schedule went well, now, or failed with `error`."""
    now = timezone.now()
    changed = ["due_s", "error"] if error else ["due_s", "error", "well_at"]
    row = ScheduledTask(
        name=name, since=now, well_at=None if error else now, due_s=due_s, error=error[:_ERROR_LENGTH_MAX]
    )
    ScheduledTask.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["name"], update_fields=changed
    )
