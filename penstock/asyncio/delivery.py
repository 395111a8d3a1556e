"""The future of one sent message, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from penstock.client.call_arguments import require_function
from penstock.client.producing.batch import ProducerBatch
from penstock.client.producing.delivery import BatchDelivery, Receipt, add_done_callback, remove_done_callback
from penstock.contract.errors import PenstockError


class Delivery(BatchDelivery, eq=False, gc=False):
    """What became of one message. Light: all messages of a batch share its outcome, and a receipt is made
    when asked for.

    As with an `asyncio.Future`, `await delivery` waits for the receipt, or raises what the message failed with, and
    `result` and `exception` give the outcome that is known. `asyncio.timeout` and `asyncio.wait_for` bound the wait;
    the message stays under way when that ends.
    """

    def result(self) -> Receipt:
        """The receipt.

        Raises what the message failed with; its `belief` says whether it may be in the topic all the same.
        Raises `asyncio.InvalidStateError` while there is no outcome.
        """
        self._require_outcome()
        return self._receipt()

    def exception(self) -> PenstockError | None:
        """The error instead of raising it, None for a message that was applied.

        Raises `asyncio.InvalidStateError` while there is no outcome.
        """
        self._require_outcome()
        return self._batch.error

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call `callback(delivery)` when the outcome is known: now if it is, else soon after, in the
        client's loop.

        Keep it short. What it raises is logged.
        """
        require_function("callback", callback)
        add_done_callback(self._batch, partial(_call, callback, self))

    def __await__(self) -> Generator[Any, None, Receipt]:
        if not self._batch.done:
            yield from outcome(self._batch, None).__await__()
        return self._receipt()

    def _require_outcome(self) -> None:
        if not self._batch.done:
            raise asyncio.InvalidStateError(f"{self._batch.queue.label}: no outcome yet; await the delivery")


async def outcome(batch: ProducerBatch, timeout: float | None) -> bool:
    """Wait for a batch's outcome; False when `timeout` seconds have passed."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    callback = partial(_resolve, future)
    add_done_callback(batch, callback)
    try:
        async with asyncio.timeout(timeout):
            await future
    except TimeoutError:
        return batch.done
    finally:
        remove_done_callback(batch, callback)
    return True


def _call(callback: Callable[[Delivery], object], delivery: Delivery) -> None:
    callback(delivery)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
