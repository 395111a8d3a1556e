"""Delivers one object: claims its row, calls the brokers, stores the outcome. A lease on the row makes it exclusive."""

import logging
import time

from django.utils import timezone

from control_plane.outbox import actions, queries, wake_ups
from control_plane.outbox.registry import deliverer
from data_plane.contract.broker_calls import within
from penstock.contract.errors import PenstockError

ROUNDS_MAX = 5
"""An object that changes faster than it is delivered is left to the next wake-up."""
SWEEP_MAX = 200
DELIVERY_S = actions.LEASE_S - 2.0
"""Of all calls of one delivery together, so that it ends before its lease does."""

_log = logging.getLogger(__name__)


def deliver(kind: str, object_id: str) -> bool:
    """Deliver the object until nothing newer waits. False if another process does, it is not due, or it failed."""
    for _ in range(ROUNDS_MAX):
        claim = actions.claim(kind, object_id, timezone.now())
        if claim is None:
            return queries.is_delivered(kind, object_id, 2**62)
        try:
            with within(DELIVERY_S):
                done = deliverer(kind).deliver(object_id, claim.generation)
        except PenstockError as error:
            _log.warning("delivery failed", extra={"object": object_id, "error": error.message})
            actions.record_failed(claim, error.code.name.lower(), error.message, timezone.now())
            return False
        except Exception:
            # A fault of the service. It is stored on the object, too; else it would be retried at once, without an end.
            _log.exception("delivery broke", extra={"object": object_id})
            actions.record_failed(claim, "internal", "the delivery broke; see the log", timezone.now())
            return False
        if not actions.record_delivered(claim, done, timezone.now()):
            return True
    wake_ups.wake(kind, object_id)
    return False


def sweep(budget_s: float) -> int:
    """Deliver what is due, whose wake-up was lost or whose deliverer died; how many objects were looked at."""
    deadline = time.monotonic() + budget_s
    count = 0
    for kind, object_id in queries.due(timezone.now(), SWEEP_MAX):
        if time.monotonic() > deadline:
            break
        deliver(kind, object_id)
        count += 1
    return count
