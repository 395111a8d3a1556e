"""Housekeeping by time: retention, files of idle partitions, and the room left on the disk."""

import asyncio
from collections.abc import Callable

from data_plane.disk.port import Disk
from data_plane.node.committer import Committer
from data_plane.node.config import NodeConfig
from data_plane.node.host import ReplicaHost
from data_plane.node.ports import Clock
from data_plane.node.replica import Replica
from data_plane.node.stats import NodeStats
from penstock.contract.ids import TopicPartition

MayDelete = Callable[[TopicPartition, int], bool]
"""Whether the log below an end may go: asked before each deletion, so that metering comes first."""


class Retention:
    """Leaders decide where their log begins; followers take it over from the pushes (RL107, RL108)."""

    def __init__(
        self,
        config: NodeConfig,
        host: ReplicaHost,
        committer: Committer,
        disk: Disk,
        clock: Clock,
        stats: NodeStats,
        may_delete: MayDelete,
    ) -> None:
        self._config, self._host, self._committer = config, host, committer
        self._disk, self._clock, self._stats, self._may_delete = disk, clock, stats, may_delete
        self.refuses_writes = ""
        """Why produce is refused at the moment (RL128); empty when it is not."""
        self._seen: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        since_ms = 0
        while True:
            self._look_at_disk()
            if since_ms >= self._config.timings.retention_check_ms:
                since_ms = 0
                for replica in self._host.all():
                    if replica.leading is not None and not replica.busy:
                        await self._trim(replica)
                self._host.release_idle_files(self._seen)
            await asyncio.sleep(self._config.timings.revisit_ms / 1000)
            since_ms += self._config.timings.revisit_ms

    def _look_at_disk(self) -> None:
        usage = self._disk.usage()
        least = self._config.disk_soft_free_bytes
        self.refuses_writes = (
            ""
            if usage.free_bytes >= least
            else f"the disk has {usage.free_bytes} bytes free, {least} required for writes"
        )

    async def _trim(self, replica: Replica) -> None:
        end = replica.log.retention_end(self._clock.now_ms(), self._clock.monotonic_ms())
        if end > replica.log.log_start_offset and self._may_delete(replica.where, end):
            before = replica.log.segment_count
            await self._committer.move_log_start(replica, end)
            self._stats.deleted_segments += before - replica.log.segment_count
