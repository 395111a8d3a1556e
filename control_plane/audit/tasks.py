"""Celery tasks of the audit app: chain what was counted, and make entries of an earlier release findable."""

from celery import shared_task

from control_plane.audit import actions, chaining


@shared_task(name="audit.chain")
def chain() -> None:
    """One round; what is not over yet is chained the next time."""
    actions.classify()
    chaining.chain_tallies()
