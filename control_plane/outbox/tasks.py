"""Celery tasks of the outbox: the wake-up of one object or of many, and the sweep."""

from celery import shared_task

from control_plane import looks, schedule
from control_plane.outbox import delivery, queries
from control_plane.processes import actions as processes

SWEEP_BUDGET_S = 5.0
HEARTBEAT_S = 5.0
"""Between sweeps while nothing is due: several in the time for which a heartbeat is fresh."""


@shared_task(name="outbox.deliver")
def deliver(kind: str, object_id: str) -> None:
    """Deliver an object that was changed."""
    delivery.deliver(kind, object_id)


@shared_task(name="outbox.deliver_all")
def deliver_all(kind: str, object_ids: list[str]) -> None:
    """Deliver objects that were changed together."""
    delivery.deliver_all(kind, object_ids)


@shared_task(name="outbox.sweep")
def sweep() -> None:
    """Deliver what was not, and show that scheduler, worker and database work."""
    delivery.sweep(SWEEP_BUDGET_S)
    processes.beat("ready")


schedule.looks_first("outbox.sweep", looks.any_due(queries.rows_due), at_rest_s=HEARTBEAT_S)
