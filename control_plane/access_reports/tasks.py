"""Celery tasks of the access reports app: make what is due, remove what has had its time."""

from celery import shared_task

from control_plane.access_reports import actions


@shared_task(name="access_reports.make")
def make() -> None:
    """One round; what it does not reach comes with the next."""
    actions.make_due()
    actions.remove_outlived()
