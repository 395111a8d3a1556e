"""The future of one sent message, for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from penstock.client.pending_batch import PendingDelivery, Receipt
from penstock.client.settling import when_done
from penstock.contract.errors import PenstockError, TimedOut


class Delivery(PendingDelivery):
    """What became of one message. Light: all messages of a batch share its outcome, and a receipt is made
    when asked for.
    """

    __slots__ = ()

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

        Keep it short: that thread serves all messages. What it raises is logged.
        """
        when_done(self._batch, partial(_call, callback, self))

    def _wait(self, timeout: float | None) -> None:
        if self._batch.done:
            return
        event = threading.Event()
        when_done(self._batch, partial(_set, event))
        if not event.wait(timeout):
            queue = self._batch.queue
            raise TimedOut(
                f"{queue.topic}-{queue.partition}: no outcome within {timeout:g} s; the message is still under way"
            )


def _call(callback: Callable[[Delivery], object], delivery: Delivery) -> None:
    callback(delivery)


def _set(event: threading.Event) -> None:
    event.set()
