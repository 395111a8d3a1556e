"""The future of one sent message, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from penstock.client.pending_batch import PendingBatch, PendingDelivery, Receipt
from penstock.client.settling import forget, when_done
from penstock.contract.errors import PenstockError, TimedOut


class Delivery(PendingDelivery):
    """What became of one message. Light: all messages of a batch share its outcome, and a receipt is made
    when asked for. `await delivery` is `await delivery.result()`.
    """

    __slots__ = ()

    async def result(self, timeout: float | None = None) -> Receipt:
        """Wait up to `timeout` seconds for the receipt.

        Raises what the message failed with; its `belief` says whether it may be in the topic all the same.
        Raises `TimedOut` when there is no outcome yet: the message is still under way.
        """
        await self._wait(timeout)
        return self._receipt()

    async def exception(self, timeout: float | None = None) -> PenstockError | None:
        """Wait likewise; the error instead of raising it, None for a message that was applied."""
        await self._wait(timeout)
        return self._batch.error

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call `callback(delivery)` when the outcome is known: now if it is, else soon after, in the
        client's loop.

        Keep it short. What it raises is logged.
        """
        when_done(self._batch, partial(_call, callback, self))

    def __await__(self) -> Generator[Any, None, Receipt]:
        return self.result().__await__()

    async def _wait(self, timeout: float | None) -> None:
        if not self._batch.done and not await outcome(self._batch, timeout):
            queue = self._batch.queue
            raise TimedOut(
                f"{queue.topic}-{queue.partition}: no outcome within {timeout:g} s; the message is still under way"
            )


async def outcome(batch: PendingBatch, timeout: float | None) -> bool:
    """Wait for a batch's outcome; False when `timeout` seconds have passed."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    callback = partial(_resolve, future)
    when_done(batch, callback)
    try:
        async with asyncio.timeout(timeout):
            await future
    except TimeoutError:
        return batch.done
    finally:
        forget(batch, callback)
    return True


def _call(callback: Callable[[Delivery], object], delivery: Delivery) -> None:
    callback(delivery)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
