"""Delivers one object: claims its row, calls the brokers, stores the outcome. A lease on the row makes it exclusive."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from django.db import transaction
from django.utils import timezone

from control_plane.outbox import actions, queries, wake_ups
from control_plane.outbox.actions import Claim
from control_plane.outbox.registry import Delivered, batch_deliverer, deliverer, is_batch
from control_plane.outbox.wake_ups import TOGETHER_MAX
from data_plane.contract.broker_calls import is_time_up, within
from penstock.contract.errors import InternalError, PenstockError

ROUNDS_MAX = 5
"""An object that changes faster than it is delivered is left to the next wake-up."""
SWEEP_MAX = 1_000
"""Objects that one look of the sweep finds; the next look finds the others."""
DELIVERY_S = actions.LEASE_S - 2.0
"""Of all calls of one delivery together, so that it ends before its lease does."""

TOGETHER_S = 4.0
"""Of all calls for them."""
ALL_TOGETHER_S = 10.0
"""Of all calls for any number of them: a request waits for it, and its caller not much longer."""

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


def deliver_all(kind: str, object_ids: Sequence[str]) -> None:
    """Deliver many objects, `TOGETHER_MAX` at a time. What another process delivers, or is not due, is left out.

    When the time is up, or none of a batch could be delivered, the sweep goes on with the rest.
    """
    waiting = actions.claim_all(kind, object_ids, timezone.now())
    deadline = time.monotonic() + ALL_TOGETHER_S
    while waiting and (left_s := deadline - time.monotonic()) > 0:
        with within(min(TOGETHER_S, left_s)):
            delivered = _deliver_together(kind, waiting[:TOGETHER_MAX])
        waiting = waiting[TOGETHER_MAX:]
        if not delivered:
            break
    actions.give_back(waiting)


def _deliver_together(kind: str, claims: Sequence[Claim]) -> int:
    """How many were delivered. The outcome of each is stored; those for which there was no time wait as before."""
    outcomes = _tell(kind, claims)
    done = {one: outcome for one, outcome in outcomes.items() if isinstance(outcome, Delivered)}
    if done:
        delivered = [claim for claim in claims if claim.object_id in done]
        actions.record_all_delivered(delivered, done, timezone.now())
    with transaction.atomic():
        for claim in claims:
            error = outcomes.get(claim.object_id)
            if isinstance(error, PenstockError):
                _log.warning("delivery failed", extra={"object": claim.object_id, "error": error.message})
                actions.record_failed(claim, error.code.name.lower(), error.message, timezone.now())
    actions.give_back([claim for claim in claims if claim.object_id not in outcomes])
    return len(done)


def _tell(kind: str, claims: Sequence[Claim]) -> Mapping[str, Delivered | PenstockError]:
    object_ids = [claim.object_id for claim in claims]
    try:
        return batch_deliverer(kind).deliver_all(object_ids)
    except PenstockError as error:
        return dict.fromkeys(object_ids, error)
    except Exception:
        # A fault of the service, which may be that of one object: it would hold up all that are ever due with it.
        _log.exception("deliveries broke", extra={"number": len(object_ids)})
        return _one_by_one(kind, claims)


def _one_by_one(kind: str, claims: Sequence[Claim]) -> Mapping[str, Delivered | PenstockError]:
    """What becomes of each by itself; those for which the time does not last are left out, but never all of them."""
    found: dict[str, Delivered | PenstockError] = {}
    for claim in claims:
        try:
            found[claim.object_id] = deliverer(kind).deliver(claim.object_id, claim.generation)
        except PenstockError as error:
            found[claim.object_id] = error
        except Exception:
            _log.exception("delivery broke", extra={"object": claim.object_id})
            found[claim.object_id] = InternalError("the delivery broke; see the log")
        if is_time_up():
            break
    return found


def sweep(budget_s: float) -> int:
    """Deliver what is due, whose wake-up was lost or whose deliverer died; how many objects were looked at."""
    deadline = time.monotonic() + budget_s
    count = 0
    for kind, object_ids in _batches(queries.due(timezone.now(), SWEEP_MAX)):
        if time.monotonic() > deadline:
            break
        if len(object_ids) == 1:
            deliver(kind, object_ids[0])
        else:
            deliver_all(kind, object_ids)
        count += len(object_ids)
    return count


def _batches(due: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """In order; neighbours of a kind that may be delivered together are, `TOGETHER_MAX` at a time."""
    for kind, neighbours in groupby(due, key=itemgetter(0)):
        object_ids = [object_id for _, object_id in neighbours]
        together = TOGETHER_MAX if is_batch(kind) else 1
        for first in range(0, len(object_ids), together):
            yield kind, object_ids[first : first + together]
