"""Runs what waits for the outcome of messages, when it is known, and tells of messages that nobody waited for."""

import logging
import warnings
from collections.abc import Callable, Iterable

from penstock.client.producing.batch import PendingBatch

_log = logging.getLogger("penstock")


def when_done(batch: PendingBatch, callback: Callable[[], None]) -> None:
    """Call `callback` once the outcome is known; at once if it is.

    Needs no lock: `done` is set before the callbacks are taken out one by one, so either they find this one
    or we see `done`.
    """
    batch.callbacks.append(callback)
    if batch.done and forget(batch, callback):
        call_back(callback)


def forget(batch: PendingBatch, callback: Callable[[], None]) -> bool:
    """Take a callback back; whether it had not been called or taken out yet."""
    try:
        batch.callbacks.remove(callback)
    except ValueError:
        return False
    return True


def settle(batches: Iterable[PendingBatch]) -> None:
    """Run what waits for these batches, in the order it was added. Not under the client's lock."""
    for batch in batches:
        callbacks = batch.callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                break
            call_back(callback)


def hurried(kind: type[BaseException] | None) -> float | None:
    """How long a block that ends with this exception may still flush, in seconds: an interrupt or a
    cancellation does not wait, everything else does as `close` says.
    """
    return None if kind is None or issubclass(kind, Exception) else 0.0


def tell_lost(batches: Iterable[PendingBatch], when: str) -> None:
    """Say how many messages of these batches, which all have their outcome, were not acknowledged."""
    lost = [batch for batch in batches if batch.error is not None]
    if not lost:
        return
    said = (
        f"{sum(batch.count for batch in lost)} messages were not acknowledged before {when}"
        f" ({lost[0].error}); close the producer to wait for them"
    )
    _log.error("penstock: %s", said)
    warnings.warn(f"penstock: {said}", ResourceWarning, stacklevel=2)


def call_back(callback: Callable[[], None]) -> None:
    """A user's callback may fail without harm to others; it is told in the log."""
    try:
        callback()
    except Exception:
        _log.exception("penstock: a delivery's callback failed")
