"""A watch of one namespace in etcd that goes on over endpoints that fail, and says so when it cannot.

begun --task--> following --stream lost, another endpoint serves--> following
following --no endpoint serves within RESUME_S--> ended (`StoreUnavailable`)
following --compacted, gone back--> ended (`Compacted`, `StoreWentBack`)
"""

import asyncio
import logging
import time
import weakref
from contextlib import aclosing

from data_plane.broker.etcd_namespace import EtcdNamespace
from data_plane.etcd import kv_pb2 as kv
from data_plane.etcd.client import range_end
from data_plane.etcd.outcomes import NoAnswer, NotSent, RevisionCompacted, WatchCanceled
from data_plane.etcd.watching import Bookmark, Opened, follow
from data_plane.metadata.port import Compacted, Event, StoreUnavailable, StoreWentBack, WatchBatch
from data_plane.metadata.watch_queue import WatchQueue

RESUME_S = 2.0
"""How long a watch looks for an endpoint that serves before it says that the store is not to be reached."""
_PAUSE_S = 0.05
UNREAD_BATCHES_MAX = 1_000
"""Nothing more is read while that many wait to be taken."""

_log = logging.getLogger(__name__)


class NamespaceWatch:
    """An endless async iterator; after it has raised it is over. Made by `EtcdStore.watch`.

    It is all that its reader holds: once no reader does, the following ends by itself.
    """

    def __init__(self, following: "Following") -> None:
        self._following = following
        weakref.finalize(self, following.end)

    def __aiter__(self) -> "NamespaceWatch":
        return self

    async def __anext__(self) -> WatchBatch:
        return await self._following.next()


class Following:
    """The task behind a watch, and what it has read."""

    def __init__(
        self, namespace: EtcdNamespace, prefix: str, after_revision: int, quiet: dict[str, tuple[int, int]]
    ) -> None:
        """`quiet`, shared by the store's watches: what bookmarks have reported of each prefix."""
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Task[None] | None = None
        self._namespace = namespace
        self._prefix = prefix
        self._delivered = self._position = after_revision
        """The last revision delivered, and the one up to which there is nothing more to deliver."""
        self._served_s = 0.0
        self._quiet = quiet
        self._read = WatchQueue()
        self._space = asyncio.Event()

    def begin(self) -> None:
        self.task = asyncio.create_task(self._run())

    def fail(self, error: Exception) -> None:
        """The last thing it says, after what it has read."""
        self.ended = True
        self._read.fail(error)

    def end(self) -> None:
        """No reader is left."""
        self.ended = True
        if self.task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.task.cancel)

    async def next(self) -> WatchBatch:
        batch = await self._read.next()
        self._space.set()
        return batch

    # -- the task --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._follow_on()
        except (StoreUnavailable, StoreWentBack, Compacted) as error:
            self.fail(error)
        except Exception as error:
            self.fail(error)  # our own bug: the reader of the watch raises it (RL140)

    async def _follow_on(self) -> None:
        """Follow from where it was, whichever endpoint serves, for as long as one does."""
        delivered, bookmark = self._quiet.get(self._prefix, (-1, -1))
        if delivered <= self._position:
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
                _log.info("etcd watch lost, opening it again", extra={"reason": str(error)})
                await asyncio.sleep(_PAUSE_S)

    async def _follow_stream(self) -> None:
        """Follow one stream to its end, which is raised."""
        namespace = self._namespace
        origin = await namespace.origin()
        if self._position < origin.base:
            raise Compacted(f"events after revision {self._position}: the namespace begins at {origin.base}")
        start = namespace.keys.to_etcd(self._prefix)
        # From the last revision delivered, not from the one after it: what a compaction at just that revision took
        # away (deletions, before 3.4.36 and 3.5.18) then shows as a compaction and is not passed over.
        news_of = follow(namespace.client.endpoints, start, range_end(start), origin.to_etcd(self._position))
        async with aclosing(news_of):
            async for news in news_of:
                self._served_s = time.monotonic()
                revision = origin.to_namespace(news.revision)
                if isinstance(news, Opened):
                    if revision < self._position:
                        await namespace.check_origin(self._position)  # only a member that lags behind?
                elif revision > self._position:
                    if isinstance(news, Bookmark):
                        self._quiet[self._prefix] = (self._delivered, revision)
                    else:
                        await self._tell(revision, news.events)
                    self._position = revision

    async def _tell(self, revision: int, events: tuple[kv.Event, ...]) -> None:
        while len(self._read) >= UNREAD_BATCHES_MAX:
            self._space.clear()
            await self._space.wait()
        self._delivered = revision
        self._read.put(WatchBatch(revision, tuple(self._event(event, revision) for event in events)))

    def _event(self, event: kv.Event, revision: int) -> Event:
        gone = event.type == kv.Event.DELETE
        return Event(
            self._namespace.keys.to_namespace(event.kv.key), None if gone else event.kv.value, revision
        )
