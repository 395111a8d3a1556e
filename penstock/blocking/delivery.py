"""The future of one sent message, for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from weakref import ref

from penstock.client.call_arguments import require_function, wait_ms
from penstock.client.producing.batch import ProducerBatch
from penstock.client.producing.delivery import BatchDelivery, Receipt, add_done_callback, run_callbacks
from penstock.contract.errors import ConfigurationError, PenstockError, TimedOut


class _Serving(threading.local):
    """In each thread: whether it runs callbacks for the client now."""

    callbacks = False


_serving = _Serving()


_locks: list[ref[threading.RLock]] = []
"""The locks of all clients. A list grows, shrinks and is copied in one step each, whatever other threads do."""


def client_lock() -> threading.RLock:
    """A lock for one more client. It knows its thread, so that a call within another call is refused, and not waited
    for without end.
    """
    lock = threading.RLock()
    _locks.append(ref(lock, _locks.remove))
    return lock


def is_within_call(lock: threading.RLock) -> bool:
    """True if the calling thread has the lock now. `threading.Condition` asks the same way."""
    owned: bool = lock._is_owned()  # type: ignore[attr-defined]
    return owned


def require_outside_calls(lock: threading.RLock) -> None:
    """Raise `ConfigurationError` where this thread is within a call of the client whose lock this is: what it works on
    is half changed.
    """
    if is_within_call(lock):
        raise ConfigurationError(
            "client: called within another call of it, by what interrupted that (a signal handler, a finalizer, a"
            " handler of the log) or by its partitioner. Note there what is to be done, and do it later or in another"
            " thread (queue.SimpleQueue takes it everywhere); a consumer's stop() may be called anywhere"
        )


class Delivery(BatchDelivery, eq=False, gc=False):
    """What became of one message. Light: all messages of a batch share its outcome, and a receipt is made
    when asked for.
    """

    def result(self, timeout: float | None = None) -> Receipt:
        """Wait up to `timeout` seconds for the receipt.

        Raises what the message failed with; its `belief` says whether it may be in the topic all the same.
        Raises `TimedOut` when there is no outcome yet: the message is still under way.
        """
        self._wait(timeout)
        return self._receipt()

    def exception(self, timeout: float | None = None) -> PenstockError | None:
        """Wait likewise; the error instead of raising it, None for a message that was applied."""
        self._wait(timeout)
        return self._batch.error

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call `callback(delivery)` when the outcome is known: now if it is, else soon after, in a thread
        of the client.

        Keep it short: that thread serves all messages. What it raises is logged, `SystemExit` too. It may send, and
        may not wait: a call that would have to raises `ConfigurationError`.
        """
        require_function("callback", callback)
        add_done_callback(self._batch, partial(_call, callback, self))

    def _wait(self, timeout: float | None) -> None:
        if outcomes_missing([self._batch], timeout):
            raise TimedOut(
                f"{self._batch.queue.label}: no outcome within {timeout:g} s; the message is still under way"
                f"{self._batch.blocked_note}"
            )


def outcomes_missing(batches: Sequence[ProducerBatch], timeout: float | None) -> int:
    """Wait up to `timeout` seconds for the outcome of all these batches; of how many it is not known then."""
    pending = [batch for batch in batches if not batch.done]
    if not pending:
        return 0
    require_outside_callbacks()
    for reference in list(_locks):
        lock = reference()
        if lock is not None:
            require_outside_calls(lock)
    countdown = _Countdown(len(pending))
    for batch in pending:
        add_done_callback(batch, countdown.count)
    countdown.over.wait(None if timeout is None else wait_ms(timeout) / 1000)
    return countdown.left


def serve_callbacks(batches: Iterable[ProducerBatch]) -> None:
    """Run what waits for these batches in this thread of the client, without which no other call gets on."""
    _serving.callbacks = True
    try:
        run_callbacks(batches, contained=True)
    finally:
        _serving.callbacks = False


def require_outside_callbacks() -> None:
    """Raise `ConfigurationError` where this thread would wait for itself."""
    if _serving.callbacks:
        raise ConfigurationError(
            "a delivery's callback cannot wait: the thread that runs it serves the whole client. Add a callback to the "
            "other delivery, or wait in a thread of your own"
        )


class _Countdown:
    """Wait for a number of events."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.over = threading.Event()
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self.left -= 1
            if self.left == 0:
                self.over.set()


def _call(callback: Callable[[Delivery], object], delivery: Delivery) -> None:
    callback(delivery)
