"""Delivers in the request that made the change, after its commit, or waits for the worker that has the lease.

A change that the brokers refuse for good is undone in its request.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from control_plane.outbox import delivery, queries, wake_ups
from data_plane.contract.broker_calls import within

WAIT_S = 2.0
"""How long a request takes for its change to reach the brokers."""
_POLL_S = 0.015
_POLL_MAX_S = 0.1

_undelivered: ContextVar[bool] = ContextVar("undelivered", default=False)


@contextmanager
def nothing_delivered() -> Iterator[None]:
    """The block's changes reach no broker: each delivery answers as if it were done. For changes that are undone."""
    mark = _undelivered.set(True)
    try:
        yield
    finally:
        _undelivered.reset(mark)


def deliver_now(kind: str, object_id: str, generation: int, timeout_s: float = WAIT_S) -> bool:
    """Deliver the object here and now; True if the brokers have this generation, or a later one. No transaction may be
    open.

    False: they refused it or did not answer, as the object's condition says, or the time is up. The sweep goes on.
    """
    if _undelivered.get():
        return True
    deadline = time.monotonic() + timeout_s
    pause = _POLL_S
    wake_ups.taken(kind, object_id)
    while (left_s := deadline - time.monotonic()) > 0:
        with within(left_s):
            if delivery.deliver(kind, object_id):
                return True
        if queries.is_with_somebody(kind, object_id):
            time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            pause = min(_POLL_MAX_S, pause * 1.5)
        elif not queries.is_delivered(kind, object_id, generation):
            return False
    return queries.is_delivered(kind, object_id, generation)


def deliver_all_now(kind: str, object_ids: Sequence[str]) -> None:
    """Deliver new objects here and now. No transaction may be open.

    It goes on while the brokers make them. What they refused, or did not answer in time, is left to the sweep.
    """
    if _undelivered.get():
        return
    for object_id in object_ids:
        wake_ups.taken(kind, object_id)
    delivery.deliver_all(kind, object_ids)


def deliver_or_take_back(
    kind: str, object_id: str, generation: int, take_back: Callable[[str], bool]
) -> bool:
    """As `deliver_now`, but a change that the brokers refuse for good is taken back, and their refusal is raised.

    `take_back` gets the refusal's message and undoes the change. It returns False, and changes nothing, if a process
    delivers the object or has changed it since: then the object's condition shows the refusal. So it does when this
    process dies in between, or when only the sweep meets the refusal.
    """
    if deliver_now(kind, object_id, generation):
        return True
    refusal = queries.refusal(kind, object_id, generation)
    if refusal is None or not take_back(refusal.message):
        return False
    raise refusal
