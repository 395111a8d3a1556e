"""One message's share in a batch: its receipt, the callbacks that wait for it, and a warning when it is lost."""

import logging
import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from penstock.client.producing.batch import ProducerBatch

_log = logging.getLogger("penstock")


class Receipt(NamedTuple):
    """Where a message is stored. With `acks=0` no broker answers: `offset` is -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """The message's own time, or the broker's for topics with `timestamp_type` append."""
    duplicate: bool
    """The broker had the message already, from an earlier attempt; `offset` is the one given then."""


class BatchDelivery(msgspec.Struct, eq=False, gc=False):
    """One message's share in a batch; the runtimes add how to wait for it. Nothing here is computed before
    it is asked.
    """

    # Without the garbage collector: a batch refers to its deliveries in its callbacks alone, until it has its outcome.

    _batch: ProducerBatch
    _index: int
    _timestamp_ms: int

    def done(self) -> bool:
        """Whether the outcome is known: applied, not applied, or given up as unknown."""
        return self._batch.done

    @property
    def throttled_ms(self) -> int:
        """How long the tenant's produce rate delayed the message's batch at the broker; known once it is done."""
        return self._batch.throttled_ms

    def _receipt(self) -> Receipt:
        """The receipt, or the error raised; the batch must be done."""
        batch = self._batch
        if batch.error is not None:
            raise batch.error
        queue = batch.queue
        return Receipt(
            queue.topic,
            queue.partition,
            batch.base_offset + self._index if batch.base_offset >= 0 else -1,
            batch.accepted_ms if queue.append_time and batch.accepted_ms >= 0 else self._timestamp_ms,
            batch.duplicate,
        )

    def __repr__(self) -> str:
        batch = self._batch
        state = (
            "pending" if not batch.done else "applied" if batch.error is None else type(batch.error).__name__
        )
        return f"<Delivery {batch.queue.topic}-{batch.queue.partition} {state}>"


def add_done_callback(batch: ProducerBatch, callback: Callable[[], None]) -> None:
    """Call `callback` once the outcome is known; at once if it is.

    Needs no lock: `done` is set before the callbacks are taken out one by one, so either they find this one
    or we see `done`.
    """
    batch.callbacks.append(callback)
    if batch.done and remove_done_callback(batch, callback):
        run_callback(callback)


def remove_done_callback(batch: ProducerBatch, callback: Callable[[], None]) -> bool:
    """Take a callback back; whether it had not been called or taken out yet."""
    try:
        batch.callbacks.remove(callback)
    except ValueError:
        return False
    return True


def run_callbacks(batches: Iterable[ProducerBatch], *, contained: bool = False) -> None:
    """Run what waits for these batches, in the order it was added. Not under the client's lock. `contained`: in a
    thread of the client, which a callback that ends the program would end in its place.
    """
    for batch in batches:
        callbacks = batch.callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                break
            run_callback(callback, contained=contained)


def flush_timeout_after(kind: type[BaseException] | None) -> float | None:
    """How long a block that ends with this exception may still flush, in seconds: an interrupt or a
    cancellation does not wait, everything else does as `close` says.
    """
    return None if kind is None or issubclass(kind, Exception) else 0.0


def warn_unacknowledged(batches: Iterable[ProducerBatch], when: str) -> None:
    """Warn how many messages of these batches, which all have their outcome, were not acknowledged."""
    lost = [batch for batch in batches if batch.error is not None]
    if not lost:
        return
    said = (
        f"{sum(batch.count for batch in lost)} messages were not acknowledged before {when}"
        f" ({lost[0].error}); close the producer to wait for them"
    )
    _log.error("penstock: %s", said)
    warnings.warn(f"penstock: {said}", ResourceWarning, stacklevel=2)


def run_callback(callback: Callable[[], None], *, contained: bool = False) -> None:
    """A user's callback may fail without harm to others; the log has the failure."""
    try:
        callback()
    except Exception:
        _log.exception("penstock: a delivery's callback failed")
    except (SystemExit, KeyboardInterrupt):
        if not contained:
            raise
        _log.exception(
            "penstock: a delivery's callback cannot end the program: a thread of the client runs it"
        )
