"""A disk that takes seconds to sync is as good as failed: the broker steps aside before others wait for it (RL133)."""

import asyncio
from collections.abc import Callable

from data_plane.controller.step_aside import steps_aside
from data_plane.metadata.port import MetaStore, OutcomeUnknown, Put, SessionLost, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.metadata_view import MetadataView
from data_plane.node.ports import Clock
from data_plane.node.registration import Registration
from data_plane.node.stats import NodeStats

_CELLS_AT_ONCE = 64
_LOOKS_PER_BOUND = 10


class SlowDisk:
    """Watches how long the running sync takes. `sync_began_ms`: when it began (monotonic), None while there is none."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        clock: Clock,
        stats: NodeStats,
        sync_began_ms: Callable[[], float | None],
    ) -> None:
        self._config, self._view, self._registration = config, view, registration
        self._store, self._clock, self._stats = store, clock, stats
        self._sync_began_ms = sync_began_ms
        self._reason = ""

    @property
    def slow(self) -> bool:
        return bool(self._reason)

    @property
    def reason(self) -> str:
        """Why the broker steps aside; empty when it does not."""
        return self._reason

    async def run(self) -> None:
        """Look for ever; step aside while a sync does not end."""
        bound_ms = self._config.timings.slow_sync_ms
        while True:
            began_ms = self._sync_began_ms()
            taken_ms = 0.0 if began_ms is None else self._clock.monotonic_ms() - began_ms
            was_slow, self._reason = self.slow, ""
            if taken_ms >= bound_ms:
                self._reason = f"a sync has taken {bound_ms} ms and more"
                self._stats.slow_syncs += not was_slow
                await self._step_aside()
            await asyncio.sleep(bound_ms / _LOOKS_PER_BOUND / 1000)

    async def _step_aside(self) -> None:
        if not self._registration.in_force():
            return
        for write in steps_aside(self._view.image, self._config.broker_id, _CELLS_AT_ONCE):
            try:
                result = await self._store.txn(write.compares, [Put(write.key, write.value)])
            except (StoreUnavailable, OutcomeUnknown, SessionLost):
                return
            if not result.succeeded:
                return  # the image was behind: look again
            self._stats.stepped_aside += len(write.transitions)
