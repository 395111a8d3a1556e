"""Writes which process does what: leases of the database at hand, and the workers' heartbeat."""

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.utils import timezone

from control_plane.processes import holder
from control_plane.processes.models import Heartbeat
from daemon.lease import Clock, Lease

WORKER = "worker"


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
