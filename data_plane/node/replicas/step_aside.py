"""A disk that takes seconds to sync, or nothing at all: its broker steps aside before others wait (RL128, RL133)."""

import asyncio
from collections.abc import Callable

from data_plane.controller.step_aside import steps_aside
from data_plane.metadata.port import MetaStore, OutcomeUnknown, Put, SessionLost, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Clock
from data_plane.node.replicas.committer import Committer
from data_plane.node.stats import NodeStats

_BLOCKS_AT_ONCE = 64
_LOOKS_PER_BOUND = 10


class StepAside:
    """Watches how long the committer's running sync takes, and whether the disk is full."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        clock: Clock,
        stats: NodeStats,
        committer: Committer,
        disk_space: DiskSpace,
    ) -> None:
        self._config = config
        self._view = view
        self._registration = registration
        self._store = store
        self._clock = clock
        self._stats = stats
        self._committer = committer
        self._disk_space = disk_space
        self._reason = ""
        self._listeners: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        disk_space.listen(self._wake.set)
        self._left_all_at = -1
        """Revision of the metadata at which there was nothing more to leave."""

    @property
    def slow(self) -> bool:
        return bool(self._reason)

    @property
    def reason(self) -> str:
        """What is wrong with the syncs; empty when nothing is."""
        return self._reason

    def listen(self, changed: Callable[[], None]) -> None:
        """`changed` is called when syncs have become slow, and when they no longer are."""
        self._listeners.append(changed)

    async def run(self) -> None:
        """Look again and again; step aside while a sync does not end, or the disk is full."""
        bound_ms = self._config.timings.slow_sync_ms
        while True:
            began_ms = self._committer.sync_began_ms
            taken_ms = 0.0 if began_ms is None else self._clock.monotonic_ms() - began_ms
            was_slow, self._reason = self.slow, ""
            if taken_ms >= bound_ms:
                self._reason = f"a sync has taken {bound_ms} ms and more"
                self._stats.slow_syncs += not was_slow
            if self.slow is not was_slow:
                for changed in self._listeners:
                    changed()
            self._wake.clear()
            wait_ms = bound_ms / _LOOKS_PER_BOUND
            if (self.slow or self._disk_space.full) and await self._step_aside():
                wait_ms /= _LOOKS_PER_BOUND
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _step_aside(self) -> bool:
        """Whether there may be more to leave."""
        revision = self._view.image.revision
        if not self._registration.in_force() or revision == self._left_all_at:
            return False
        writes = steps_aside(self._view.image, self._config.broker_id, _BLOCKS_AT_ONCE)
        if not writes:
            self._left_all_at = revision
        for write in writes:
            try:
                result = await self._store.txn(write.compares, [Put(write.key, write.value)])
            except (StoreUnavailable, OutcomeUnknown, SessionLost):
                return False
            if not result.succeeded:
                return True  # the image was behind: look again
            self._stats.stepped_aside += len(write.transitions)
        return bool(writes)
