"""Gives receivables to the outbox, one at a time: a month's invoices must not keep a worker's other tasks waiting.

A worker runs two tasks at once, and a delivery to Stripe takes seconds. So one receivable is given at a time, and the
next one when it is delivered. What Stripe refuses, or does not answer, comes again later: the pause grows.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from control_plane import config
from control_plane.outbox import actions as outbox
from control_plane.outbox import queries as outbox_queries
from payments import actions, queries
from payments.models import TEXT_LENGTH_MAX, Receivable

KIND_RECEIVABLE = "receivable"
IN_FLIGHT_MAX = 1
"""Receivables in the outbox at once. A worker has two places for tasks: one is free for the others."""
NO_ANSWER_FIRST, NO_ANSWER_MAX = timedelta(seconds=2), timedelta(minutes=5)
REFUSED_FIRST, REFUSED_MAX = timedelta(minutes=1), timedelta(hours=6)
"""Pauses. A refusal is the same the next time, unless someone changes what it is about."""


def send_next() -> bool:
    """Give the longest waiting receivable to the outbox; False: none is due, or enough are there, or Stripe is off."""
    if config.current().payments.stripe_key_file is None:
        return False
    # One whose delivery broke is tried again by the outbox, and keeps no other from its turn.
    if outbox_queries.untried_of(KIND_RECEIVABLE) >= IN_FLIGHT_MAX:
        return False
    found = queries.to_send(timezone.now()).first()
    if found is None:
        return False
    with actions.locked(found.public_id) as row:
        if row.unsent_since is None:
            return False
        row.generation += 1
        row.unsent_since = row.retry_at = None
        row.save(update_fields=["generation", "unsent_since", "retry_at"])
        outbox.enqueue(
            kind=KIND_RECEIVABLE,
            object_id=row.public_id,
            tenant=row.tenant.public_id,
            generation=row.generation,
        )
    return True


def later(
    receivable: str, now: datetime, *, refused: bool, problem: str = "", changed_there: bool = False
) -> bool:
    """The delivery did not get to its end: it comes again after a pause. True: the problem is a new one. With
    `changed_there` someone has changed it at Stripe.
    """
    first, most = (REFUSED_FIRST, REFUSED_MAX) if refused else (NO_ANSWER_FIRST, NO_ANSWER_MAX)
    with transaction.atomic():
        row = Receivable.objects.select_for_update(no_key=True).get(public_id=receivable)
        problem = problem[:TEXT_LENGTH_MAX]
        fresh = bool(problem) and row.problem != problem
        row.problem, row.refused = problem or row.problem, bool(problem) or row.refused
        row.changed_there = changed_there if problem else row.changed_there
        row.failures += 1
        row.unsent_since = row.unsent_since or now
        row.retry_at = now + min(most, first * 2 ** min(row.failures - 1, 20))
        row.save(
            update_fields=["problem", "refused", "changed_there", "failures", "unsent_since", "retry_at"]
        )
    return fresh
