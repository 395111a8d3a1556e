"""Who hears of a change once it is committed: a worker by a message, or the request that made it, which delivers it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from control_plane.celery import app
from control_plane.outbox.registry import is_batch

_log = logging.getLogger(__name__)
_undelivered: ContextVar[dict[tuple[str, str], None] | None] = ContextVar("undelivered", default=None)
"""(kind, object id) of what this request has changed and not delivered; None outside of requests."""

TOGETHER_MAX = 250
"""Objects that are delivered together: a call of the brokers, and a transaction here."""


def committed(kind: str, object_ids: Sequence[str]) -> None:
    """A change of these objects is committed: the request delivers them, or a worker is woken."""
    undelivered = _undelivered.get()
    if undelivered is None:
        _wake_all(kind, object_ids)
    else:
        undelivered.update(dict.fromkeys((kind, object_id) for object_id in object_ids))


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
        by_kind: dict[str, list[str]] = {}
        for kind, object_id in undelivered:
            by_kind.setdefault(kind, []).append(object_id)
        for kind, object_ids in by_kind.items():
            _wake_all(kind, object_ids)


def wake(kind: str, object_id: str) -> None:
    """Ask a worker to deliver the object now. A lost wake-up costs time only: the sweep finds the row."""
    _send("outbox.deliver", kind, object_id)


def _wake_all(kind: str, object_ids: Sequence[str]) -> None:
    """One message for all of them if they may be delivered together; a larger change is left to the sweep's batches."""
    if len(object_ids) == 1 or not is_batch(kind):
        for object_id in object_ids:
            wake(kind, object_id)
    else:
        _send("outbox.deliver_all", kind, list(object_ids[:TOGETHER_MAX]))


def _send(task: str, kind: str, what: str | list[str]) -> None:
    try:
        app.send_task(task, args=[kind, what], retry=False, expires=60)
    except Exception:
        # Whatever the transport raises: the row is committed and will be found.
        _log.warning("no wake-up could be sent", extra={"task": task, "object": what}, exc_info=True)
