"""Housekeeping by time: retention, strays, files of idle partitions, and the disk's free space."""

import asyncio
from collections.abc import Callable, Sequence

from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.log_directory import LogDirectory
from data_plane.node.ports import Clock
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import in_turns
from penstock.contract.ids import TopicPartition

MayDelete = Callable[[TopicPartition, int], bool]
"""Whether the log below an end may go: asked before each deletion, so that metering comes first."""
_STRAYS_EVERY_MS = 3_600_000
_LOOKS_AT_ALL_FILES = 6
"""One of so many looks closes files of every idle partition, and not only of those that were written."""
_LOOKED_AT_ONCE = 100
"""Partitions that are looked at in one turn of the event loop: a millisecond, but for what is deleted."""


class Retention:
    """Leaders decide where their log begins; followers take it over from the pushes (RL107, RL108)."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaSet,
        due: DueWork,
        log_directory: LogDirectory,
        clock: Clock,
        stats: NodeStats,
        clock_off_ms: Callable[[], int | None],
        may_delete: MayDelete,
    ) -> None:
        """`clock_off_ms`: how far this broker's wall clock is off the middle of the cluster's just now, None = not
        known."""
        self._config = config
        self._replicas = replicas
        self._due = due
        self._log_directory = log_directory
        self._clock = clock
        self._clock_off_ms = clock_off_ms
        self._may_delete = may_delete
        self._stats = stats
        self._changes = replicas.changes()
        self._written: dict[Replica, None] = {}
        """Those that were written, and whose files are still open."""
        self._looks = 0

    @property
    def clock_trusted(self) -> bool:
        """Whether the other brokers' clocks agree with this one's, as far as is known."""
        return self._clock_off_ms() is None or self.may_go_by_age

    @property
    def may_go_by_age(self) -> bool:
        """Whether anything may be deleted for its age: the clock was compared just now, and agrees."""
        off_ms = self._clock_off_ms()
        return off_ms is not None and abs(off_ms) <= self._config.timings.clock_off_ms_max

    async def run(self) -> None:
        since_ms, strays_ms = 0, 0
        await self._look_at_what_is_aside()
        while True:
            self._log_directory.disk_space.look(self._trim_all)
            if since_ms >= self._config.timings.retention_check_ms:
                since_ms = 0
                await self._look_at_all()
            if strays_ms >= _STRAYS_EVERY_MS:
                strays_ms = 0
                await self._look_at_what_is_aside()
            await asyncio.sleep(self._config.timings.revisit_ms / 1000)
            since_ms += self._config.timings.revisit_ms
            strays_ms += self._config.timings.revisit_ms

    async def _look_at_what_is_aside(self) -> None:
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        self._log_directory.strays.look(now_ms, monotonic_ms, clock_trusted=self.may_go_by_age)
        await self._log_directory.quarantine.look(now_ms, monotonic_ms, clock_trusted=self.may_go_by_age)

    async def _look_at_all(self) -> None:
        async for some in in_turns(self._replicas.all(), _LOOKED_AT_ONCE):
            self._trim([replica for replica in some if self._replicas.has(replica)])
        before, self._written = self._written, self._changes.take()
        self._looks += 1
        if self._looks % _LOOKS_AT_ALL_FILES == 0:
            before = dict.fromkeys(self._replicas.all())
        async for some in in_turns(list(before), _LOOKED_AT_ONCE):
            for replica in some:
                if replica not in self._written and self._replicas.has(replica):
                    _release_files(replica)

    def _trim_all(self) -> int:
        """At once, to free disk space; returns how many partitions have something to be deleted."""
        return self._trim(self._replicas.all())

    def _trim(self, replicas: Sequence[Replica]) -> int:
        """Of those led here; how many have something to be deleted."""
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        # Asked after the clocks were read: what they do meanwhile deletes nothing.
        by_time = self.may_go_by_age
        return sum([self._trim_one(replica, now_ms, monotonic_ms, by_time) for replica in replicas])

    def _trim_one(self, replica: Replica, now_ms: int, monotonic_ms: float, by_time: bool) -> bool:
        """Set the target, which rides on pushes; move the own start once all who may lead next have moved (RL108)."""
        log = replica.log
        if log.has_deletable and not replica.busy:
            self._stats.deleted_segments += replica.delete_below_start()
            self._replicas.changed(replica)
        if replica.leading is None or replica.busy:
            return False
        if log.segment_count < 2 and replica.log_start_target == log.log_start_offset:
            return False  # the ordinary case: no segment that could go, and none that is to go
        end = log.retention_end(now_ms, monotonic_ms, by_time=by_time)
        if end > replica.log_start_target and self._may_delete(replica.where, end):
            replica.want_log_start(end)
        due = replica.log_start_due
        if due is not None:
            self._due.trim(replica, due)
        return replica.log_start_target > log.log_start_offset


def _release_files(replica: Replica) -> None:
    """Close the files of a partition that was not written for a while."""
    log = replica.log
    if log.durable_end_offset == log.log_end_offset and not replica.busy:
        log.release_files()
