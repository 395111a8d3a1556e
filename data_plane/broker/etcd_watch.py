"""A watch of one cell in etcd that goes on over endpoints that fail, and says so when it cannot.

begun --task--> following --stream lost, another endpoint serves--> following
following --nobody serves within RESUME_S--> ended (`StoreUnavailable`)
following --compacted, gone back--> ended (`Compacted`, `StoreWentBack`)
"""

import asyncio
import logging
import time
import weakref
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING

from data_plane.etcd import kv_pb2 as kv
from data_plane.etcd.client import range_end
from data_plane.etcd.outcomes import NoAnswer, NotSent, RevisionCompacted, WatchCanceled
from data_plane.etcd.watching import Bookmark, Opened, follow
from data_plane.metadata.port import Compacted, Event, StoreUnavailable, StoreWentBack, WatchBatch

if TYPE_CHECKING:
    from data_plane.broker.etcd_store import EtcdStore

RESUME_S = 2.0
"""How long a watch looks for an endpoint that serves before it says that the store is not to be reached."""
_PAUSE_S = 0.05
UNREAD_BATCHES_MAX = 1_000
"""Nothing more is read while that many wait to be taken."""

_log = logging.getLogger(__name__)


class CellWatch:
    """An endless async iterator; after it has raised it is over. Made by `EtcdStore.watch`.

    It is all that its reader holds: when nobody does any more, the following ends by itself.
    """

    def __init__(self, following: "Following") -> None:
        self._following = following
        weakref.finalize(self, following.end)

    def __aiter__(self) -> "CellWatch":
        return self

    async def __anext__(self) -> WatchBatch:
        return await self._following.next()


class Following:
    """The task behind a watch, and what it has read."""

    def __init__(
        self, store: "EtcdStore", prefix: str, after_revision: int, quiet: dict[str, tuple[int, int]]
    ) -> None:
        """`quiet`, shared by the store's watches: what bookmarks have told of each prefix."""
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Task[None] | None = None
        self._store, self._prefix = store, prefix
        self._told = self._position = after_revision
        """The last revision told, and the one up to which there is nothing more to tell."""
        self._served_s = 0.0
        self._quiet = quiet
        self._batches: deque[WatchBatch] = deque()
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()

    def begin(self) -> None:
        self.task = asyncio.create_task(self._run())

    def fail(self, error: Exception) -> None:
        """The last thing it says, after what it has read."""
        self.ended = True
        self._error = self._error or error
        self._wake()

    def end(self) -> None:
        """Nobody reads any more."""
        self.ended = True
        if self.task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.task.cancel)

    async def next(self) -> WatchBatch:
        while not self._batches:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._room.set()
        return self._batches.popleft()

    # -- the task --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._follow_on()
        except (StoreUnavailable, StoreWentBack, Compacted) as error:
            self.fail(error)
        except Exception as error:
            self.fail(error)  # our own bug: whoever watches raises it (RL140)

    async def _follow_on(self) -> None:
        """Follow from where it was, whichever endpoint serves, for as long as one does."""
        told, bookmark = self._quiet.get(self._prefix, (-1, -1))
        if told <= self._position:
            self._position = max(self._position, bookmark)
        self._served_s = time.monotonic()
        while True:
            try:
                await self._follow_stream()
            except RevisionCompacted as error:
                raise Compacted(f"events after revision {self._position} are gone: {error}") from None
            except WatchCanceled as error:
                _log.warning("etcd canceled a watch", extra={"reason": str(error)})
                raise StoreUnavailable(f"the watch was canceled: {error}") from None
            except (NotSent, NoAnswer) as error:
                if time.monotonic() >= self._served_s + RESUME_S:
                    raise StoreUnavailable(str(error)) from None
                _log.info("etcd watch lost, opening it anew", extra={"reason": str(error)})
                await asyncio.sleep(_PAUSE_S)

    async def _follow_stream(self) -> None:
        """Follow one stream to its end, which is raised."""
        store = self._store
        origin = await store.origin()
        if self._position < origin.base:
            raise Compacted(f"events after revision {self._position}: the cell begins at {origin.base}")
        start = store.keys.to_etcd(self._prefix)
        # From the last revision told, not from the one after it: what a compaction at just that revision took away
        # (deletions, before 3.4.36 and 3.5.18) is then told as a compaction and not passed over.
        news_of = follow(store.client.endpoints, start, range_end(start), origin.to_etcd(self._position))
        async with aclosing(news_of):
            async for news in news_of:
                self._served_s = time.monotonic()
                revision = origin.to_cell(news.revision)
                if isinstance(news, Opened):
                    if revision < self._position:
                        await store.check_origin(self._position)  # only a member that lags behind?
                elif revision > self._position:
                    if isinstance(news, Bookmark):
                        self._quiet[self._prefix] = (self._told, revision)
                    else:
                        await self._tell(revision, news.events)
                    self._position = revision

    async def _tell(self, revision: int, events: tuple[kv.Event, ...]) -> None:
        while len(self._batches) >= UNREAD_BATCHES_MAX:
            self._room.clear()
            await self._room.wait()
        self._told = revision
        self._batches.append(WatchBatch(revision, tuple(self._event(event, revision) for event in events)))
        self._wake()

    def _event(self, event: kv.Event, revision: int) -> Event:
        gone = event.type == kv.Event.DELETE
        return Event(self._store.keys.to_cell(event.kv.key), None if gone else event.kv.value, revision)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
