"""Who hears of a change once it is committed: a worker by a message, or the request that made it, which delivers it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from control_plane.celery import app

_log = logging.getLogger(__name__)
_undelivered: ContextVar[dict[tuple[str, str], None] | None] = ContextVar("undelivered", default=None)
"""(kind, object id) of what this request has changed and not delivered; None outside of requests."""


def committed(kind: str, object_id: str) -> None:
    """A change of the object is committed: the request delivers it, or a worker is woken."""
    undelivered = _undelivered.get()
    if undelivered is None:
        wake(kind, object_id)
    else:
        undelivered[kind, object_id] = None


def taken(kind: str, object_id: str) -> None:
    """The request delivers the object itself."""
    undelivered = _undelivered.get()
    if undelivered is not None:
        undelivered.pop((kind, object_id), None)


@contextmanager
def within_a_request() -> Iterator[None]:
    """What is changed in the block and not taken by its end is left to a worker."""
    undelivered: dict[tuple[str, str], None] = {}
    mark = _undelivered.set(undelivered)
    try:
        yield
    finally:
        _undelivered.reset(mark)
        for kind, object_id in undelivered:
            wake(kind, object_id)


def wake(kind: str, object_id: str) -> None:
    """Ask a worker to deliver the object now. A lost wake-up costs time only: the sweep finds the row."""
    try:
        app.send_task("outbox.deliver", args=[kind, object_id], retry=False, expires=60)
    except Exception:
        # Whatever the transport raises: the row is committed and will be found.
        _log.warning("no wake-up could be sent", extra={"object": object_id}, exc_info=True)
