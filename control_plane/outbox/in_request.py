"""Delivers in the request that made the change, after its commit, or waits for the worker that has the lease."""

import time

from control_plane.outbox import delivery, queries, wake_ups
from data_plane.contract.broker_calls import within

WAIT_S = 2.0
"""How long a request takes for its change to reach the brokers."""
_POLL_S = 0.015
_POLL_MAX_S = 0.1


def deliver_now(kind: str, object_id: str, generation: int, timeout_s: float = WAIT_S) -> bool:
    """Deliver the object here and now; True if the brokers have this generation, or a later one. No transaction may be
    open.

    False: they refused it or did not answer, as the object's condition says, or the time is up. The sweep goes on.
    """
    deadline = time.monotonic() + timeout_s
    pause = _POLL_S
    wake_ups.taken(kind, object_id)
    while not queries.is_delivered(kind, object_id, generation):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return False
        with within(left_s):
            delivery.deliver(kind, object_id)
        if queries.is_with_somebody(kind, object_id):
            time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            pause = min(_POLL_MAX_S, pause * 1.5)
        elif not queries.is_delivered(kind, object_id, generation):
            return False
    return True
