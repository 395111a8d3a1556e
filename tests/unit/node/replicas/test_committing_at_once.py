"""Rounds of the committer that are done at once: what fails acknowledges nothing."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from data_plane.node.replicas.committer import Committer, LogDirectoryFailed
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.disk import DISK_BYTES, DiskTiming, SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import Medium
from tests.unit.log.miniature import Miniature
from tests.unit.node.storage import committer_of

from .test_follower_stream import led


class Rounds:
    """One replica that leads, and the committer of its log, on a disk that answers sooner than a thread would."""

    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.disk = SimDisk(Medium(), timing=DiskTiming(at_once_chance=1.0, sync_ms=5.0))
        self.storage, self.clock, self.stats = Miniature(self.disk), SimClock(self.loop), NodeStats()
        self.replica: Replica = led(self.storage)
        self.committer: Committer = committer_of(self.storage, self.clock, self.stats)

    def append(self) -> None:
        self.storage.append()
        self.committer.wrote(self.replica)

    @property
    def durable(self) -> int:
        return self.replica.log.durable_end_offset

    def play(self, story: Callable[["asyncio.Task[None]"], Awaitable[None]]) -> None:
        async def whole() -> None:
            running = asyncio.create_task(self.committer.run())
            await story(running)
            running.cancel()
            await asyncio.wait([running])

        try:
            self.loop.run_until_complete(whole())
            assert not self.loop.failures
        finally:
            self.loop.close()


def test_a_round_at_once_that_meets_a_full_disk_acknowledges_nothing_until_there_is_space() -> None:
    rounds = Rounds()

    async def story(running: "asyncio.Task[None]") -> None:
        rounds.append()
        await rounds.committer.flushed(rounds.replica)
        # Beyond what the journal's last block still takes.
        for _ in range(100):
            rounds.append()
        rounds.disk.faults.capacity_bytes = rounds.disk.medium.used_bytes()
        await asyncio.sleep(1)
        assert rounds.durable == 1 and not running.done()
        assert rounds.stats.no_room >= 2
        rounds.disk.faults.capacity_bytes = DISK_BYTES
        await rounds.committer.flushed(rounds.replica)
        assert rounds.durable == 101

    rounds.play(story)
    rounds.disk.kill()
    rounds.disk.medium.power_cut(random.Random(1))
    assert Miniature(SimDisk(rounds.disk.medium)).log.log_end_offset == 101


def test_a_round_at_once_whose_sync_fails_ends_the_broker_and_acknowledges_nothing() -> None:
    rounds = Rounds()

    async def story(running: "asyncio.Task[None]") -> None:
        rounds.append()
        await rounds.committer.flushed(rounds.replica)
        rounds.disk.faults.failing_syncs = 1
        rounds.append()
        await asyncio.wait([running])
        with pytest.raises(LogDirectoryFailed, match="EIO"):
            running.result()
        assert rounds.durable == 1
        assert rounds.committer.sync_began_ms is None

    rounds.play(story)
