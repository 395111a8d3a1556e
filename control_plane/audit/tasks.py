"""Celery tasks of the audit app: chain what was counted, and make entries of an earlier release findable."""

from celery import shared_task

from control_plane import looks, schedule
from control_plane.audit import actions, chaining
from control_plane.audit.models import AuditEntry, AuditTally

AT_REST_S = 120.0


@shared_task(name="audit.chain")
def chain() -> None:
    """One round; what is not over yet is chained the next time."""
    actions.classify()
    chaining.chain_tallies()


schedule.looks_first(
    "audit.chain",
    looks.any_row(AuditTally.objects.all, lambda: AuditEntry.objects.filter(object_kind="")),
    at_rest_s=AT_REST_S,
)
