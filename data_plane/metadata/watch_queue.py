"""What a watch has read and its reader has not taken yet: batches in order, and behind them the error that ended it."""

import asyncio
from collections import deque

from data_plane.metadata.port import WatchBatch


class WatchQueue:
    """One reader, on the loop of who fills it."""

    def __init__(self) -> None:
        self._batches: deque[WatchBatch] = deque()
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: WatchBatch) -> None:
        self._batches.append(batch)
        self._wake()

    def fail(self, error: Exception) -> None:
        """The reader gets the first error, once it has read everything before."""
        self._error = self._error or error
        self._wake()

    async def next(self) -> WatchBatch:
        """The oldest batch. Raises the error when there is none left."""
        while not self._batches:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._batches.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
