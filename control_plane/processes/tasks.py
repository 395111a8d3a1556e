"""Celery tasks about the processes' database."""

from celery import shared_task

from control_plane import embedded_database, schedule

AT_REST_S = 60.0


@shared_task(name="database.checkpoint")
def checkpoint() -> None:
    """Keep the embedded database's write-ahead log short."""
    embedded_database.checkpoint()


schedule.looks_first("database.checkpoint", embedded_database.is_log_long, at_rest_s=AT_REST_S)
