"""Housekeeping by time: retention, files of idle partitions, and the room left on the disk."""

import asyncio
from collections.abc import Callable

from data_plane.disk.port import Disk
from data_plane.node.config import NodeConfig
from data_plane.node.host import ReplicaHost
from data_plane.node.ports import Clock
from data_plane.node.replica import Replica
from penstock.contract.ids import TopicPartition

MayDelete = Callable[[TopicPartition, int], bool]
"""Whether the log below an end may go: asked before each deletion, so that metering comes first."""


class Retention:
    """Leaders decide where their log begins; followers take it over from the pushes (RL107, RL108)."""

    def __init__(
        self,
        config: NodeConfig,
        host: ReplicaHost,
        disk: Disk,
        clock: Clock,
        may_delete: MayDelete,
    ) -> None:
        self._config, self._host = config, host
        self._disk, self._clock, self._may_delete = disk, clock, may_delete
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
                    self._trim(replica)
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

    def _trim(self, replica: Replica) -> None:
        """Set the target, which rides on pushes; move the own start once every in-sync follower has moved (RL108)."""
        if replica.leading is None or replica.busy:
            return
        end = replica.log.retention_end(self._clock.now_ms(), self._clock.monotonic_ms())
        if end > replica.log_start_target and self._may_delete(replica.where, end):
            replica.log_start_target = end
        if replica.log_start_target > replica.log.log_start_offset and replica.log_start_agreed:
            self._host.trim(replica, replica.log_start_target)
