"""Keeps a broker's image of the metadata current: lists once, then follows the watch."""

import asyncio
from collections.abc import Callable

from data_plane.metadata import broker_records
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Compacted, MetaStore, StoreUnavailable, WatchBatch
from data_plane.node.config import Timings
from penstock.contract.invariant import invariant

ROOT = "/"


class MetadataView:
    """Owner of the one `ClusterImage`; tells its listeners after each revision.

    A listener gets the batch, or None when the whole image was listed again. Listeners run on the loop, one after
    the other, and must not await.
    """

    def __init__(self, store: MetaStore, timings: Timings) -> None:
        self.image = ClusterImage()
        self._store = store
        self._timings = timings
        self._listeners: list[Callable[[WatchBatch | None], None]] = []
        self._advanced = asyncio.Event()
        self._asking = asyncio.Lock()
        self._questions = 0
        """To the store, how far it is; begun so far."""
        self._store_revision: int | None = None
        """The last one's answer; None = the store did not answer."""
        self.connected = False

    def listen(self, listener: Callable[[WatchBatch | None], None]) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[WatchBatch | None], None]) -> None:
        self._listeners.remove(listener)

    async def load(self) -> None:
        """List everything; returns when the image is whole. Retries while the store cannot be asked."""
        while True:
            try:
                listing = await self._store.range(ROOT)
            except StoreUnavailable:
                await asyncio.sleep(self._timings.reconnect_ms_max / 1000)
                continue
            invariant(
                listing.revision >= self.image.revision,
                f"the metadata store never goes back: revision {listing.revision} after {self.image.revision} (RL55)",
            )
            self.image.load(listing.items, listing.revision)
            self._tell(None)
            return

    async def run(self) -> None:
        """Follow the watch without an end. After a gap (Compacted) list all again; retry an unreachable store."""
        while True:
            try:
                self.connected = True
                async for batch in self._store.watch(ROOT, self.image.revision):
                    self.image.apply(batch)
                    self._tell(batch)
                    await asyncio.sleep(0)
            except Compacted:
                await self.load()
            except StoreUnavailable:
                self.connected = False
                await asyncio.sleep(self._timings.reconnect_ms / 1000)

    async def reached(self, revision: int, timeout_ms: int) -> bool:
        """Wait until the image holds `revision`; False when it did not within the time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.image.revision < revision:
                    await self.changed()
        except TimeoutError:
            return False
        return True

    async def caught_up(self, timeout_ms: int) -> bool:
        """Wait until the image holds everything that was committed when this was called; False when it does not within
        the time, or the store does not say. Only then what the image does not know is known not to exist.

        One question to the store answers all who ask while the one before it is under way.
        """
        before = self._questions
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                async with self._asking:
                    if self._questions == before:
                        await self._ask_store()
                    revision = self._store_revision
                return revision is not None and await self.reached(revision, timeout_ms)
        except TimeoutError:
            return False

    async def _ask_store(self) -> None:
        self._questions += 1
        self._store_revision = None
        try:
            self._store_revision = (await self._store.range(broker_records.CLUSTER_KEY)).revision
        except StoreUnavailable:
            pass  # those who wait for the answer see that there is none

    async def changed(self) -> None:
        """Wait for the next revision."""
        await self._advanced.wait()

    def _tell(self, batch: WatchBatch | None) -> None:
        waiting, self._advanced = self._advanced, asyncio.Event()
        waiting.set()
        for listener in list(self._listeners):
            listener(batch)
