"""Commit rounds: at once on a quick disk, kept apart where a thread does them, checkpoints always by the thread. What
fails acknowledges nothing.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from data_plane.disk.port import DiskFull, SyncStep
from data_plane.node.replicas.committer import Committer, LogDirectoryFailed
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.disk import DISK_BYTES, DiskTiming, SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import Medium
from tests.unit.log.miniature import Miniature
from tests.unit.node.storage import CONFIG, committer_of

from .test_follower_stream import led


class _NotedDisk(SimDisk):
    """Notes which syncs were asked for in which way."""

    def __init__(self, at_once_chance: float) -> None:
        super().__init__(Medium(), timing=DiskTiming(sync_ms=0.3, at_once_chance=at_once_chance))
        self.asked: list[str] = []

    def sync_at_once(self, steps: Sequence[SyncStep]) -> bool:
        self.asked.append("at once")
        return super().sync_at_once(steps)

    async def sync(self, steps: Sequence[SyncStep]) -> None:
        self.asked.append("handed over")
        await super().sync(steps)


def _run(disk: SimDisk, story: Callable[[Miniature, Committer, NodeStats], Awaitable[None]]) -> None:
    loop = SimLoop(1)
    storage, stats = Miniature(disk), NodeStats()
    committer = committer_of(storage, SimClock(loop), stats)

    async def life() -> None:
        rounds = asyncio.create_task(committer.run())
        await story(storage, committer, stats)
        rounds.cancel()
        await asyncio.wait([rounds])

    try:
        loop.run_until_complete(life())
        assert not loop.failures
    finally:
        loop.close()


def test_a_round_on_a_quick_disk_takes_no_time_and_acknowledges() -> None:
    disk = _NotedDisk(at_once_chance=1.0)

    async def story(storage: Miniature, committer: Committer, stats: NodeStats) -> None:
        replica = led(storage)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(1, 6):
            storage.append()
            await committer.flushed(replica)
            assert replica.log.durable_end_offset == number
        assert loop.time() - began < 0.0003, "no wait for a thread, and none between two rounds"
        assert stats.journal_rounds == 5

    _run(disk, story)
    assert disk.asked == ["at once"] * 5


def test_rounds_that_a_thread_does_begin_two_milliseconds_apart() -> None:
    disk = _NotedDisk(at_once_chance=0.0)

    async def story(storage: Miniature, committer: Committer, stats: NodeStats) -> None:
        replica = led(storage)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(1, 6):
            storage.append()
            await committer.flushed(replica)
            assert replica.log.durable_end_offset == number
        assert loop.time() - began >= 4 * 0.002

    _run(disk, story)


def test_others_have_their_turn_between_two_rounds_at_once() -> None:
    disk = _NotedDisk(at_once_chance=1.0)

    async def story(storage: Miniature, committer: Committer, stats: NodeStats) -> None:
        replica = led(storage)
        storage.append()
        committer.wrote(replica)
        committer.wrote(replica)
        turns = 0
        while stats.journal_rounds < 20:
            # One round a turn of the loop: never two before this task goes on.
            before = stats.journal_rounds
            storage.append()
            committer.wrote(replica)
            await asyncio.sleep(0)
            assert stats.journal_rounds <= before + 1
            turns += 1
        assert turns >= 20

    _run(disk, story)


def test_a_checkpoint_is_handed_over_on_a_quick_disk_too() -> None:
    disk = _NotedDisk(at_once_chance=1.0)

    async def story(storage: Miniature, committer: Committer, stats: NodeStats) -> None:
        replica = led(storage)
        storage.append()
        await committer.flushed(replica)
        disk.asked.clear()
        await committer.checkpoint()

    _run(disk, story)
    assert disk.asked and set(disk.asked) == {"handed over"}


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


class _HeardDisk(SimDisk):
    """Says when a sync that was handed over begins."""

    def __init__(self) -> None:
        super().__init__(Medium())
        self.syncing = asyncio.Event()

    async def sync(self, steps: Sequence[SyncStep]) -> None:
        self.syncing.set()
        await super().sync(steps)


class ScarceFiles:
    """A broker that checkpoints once more than `WRITTEN_MAX` logs were written to; it has more of them than that."""

    WRITTEN_MAX, LOGS = 2, 5

    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.disk = _HeardDisk()
        self.storage, self.clock, self.stats = Miniature(self.disk), SimClock(self.loop), NodeStats()
        self.replicas = [led(self.storage, partition=number) for number in range(self.LOGS)]
        config = replace(CONFIG, written_logs_max=self.WRITTEN_MAX)
        self.committer = committer_of(self.storage, self.clock, self.stats, self.replicas, config)

    async def write(self, *numbers: int) -> None:
        """Durable in the journal when it returns."""
        for number in numbers:
            self.storage.append(number)
            self.committer.wrote(self.replicas[number])
        for number in numbers:
            await self.committer.flushed(self.replicas[number])

    def open(self) -> list[int]:
        """Logs whose files are open."""
        return [
            number
            for number, log in self.storage.logs.items()
            if any(segment._data is not None for segment in log._segments.all)
        ]

    def play(self, story: Callable[[], Awaitable[None]], *, checkpoints: bool = False) -> None:
        async def whole() -> None:
            running = [asyncio.create_task(self.committer.run())]
            if checkpoints:
                running.append(asyncio.create_task(self.committer.run_checkpoints()))
            await story()
            for task in running:
                task.cancel()
            await asyncio.wait(running)

        try:
            self.loop.run_until_complete(whole())
            assert not self.loop.failures
        finally:
            self.loop.close()


def test_a_checkpoint_is_due_once_more_logs_were_written_to_than_may_be() -> None:
    broker = ScarceFiles()

    async def story() -> None:
        await asyncio.sleep(1)
        before = broker.stats.checkpoints
        await broker.write(0, 1)
        await asyncio.sleep(1)
        assert broker.stats.checkpoints == before and broker.open() == [0, 1]
        await broker.write(2)
        await asyncio.sleep(1)
        assert broker.stats.checkpoints == before + 1
        assert broker.open() == []

    broker.play(story, checkpoints=True)


def test_a_checkpoint_of_few_logs_leaves_their_files_open() -> None:
    broker = ScarceFiles()

    async def story() -> None:
        await broker.write(0, 1)
        await broker.committer.checkpoint()
        assert broker.open() == [0, 1]

    broker.play(story)


def test_what_is_written_to_beside_a_checkpoint_keeps_its_files_open() -> None:
    broker = ScarceFiles()

    async def story() -> None:
        await broker.write(*range(broker.LOGS))
        broker.disk.syncing.clear()
        checkpoint = asyncio.create_task(broker.committer.checkpoint())
        await broker.disk.syncing.wait()
        # No batch: that it waits for a sync would keep the files open as well.
        broker.committer.wrote(broker.replicas[3])
        await checkpoint
        assert broker.open() == [3]

    broker.play(story)


def test_on_a_full_disk_each_spare_file_that_has_no_room_is_counted_once_and_checkpoints_go_on() -> None:
    disk = SimDisk(Medium())

    async def story(storage: Miniature, committer: Committer, stats: NodeStats) -> None:
        disk.faults.capacity_bytes = disk.medium.used_bytes()
        checkpoints = asyncio.create_task(committer.run_checkpoints())
        await asyncio.sleep(1)
        assert not checkpoints.done()
        assert (stats.no_room, stats.checkpoints) == (2, 1), (
            "no spare file before the checkpoint, and none after"
        )
        checkpoints.cancel()
        await asyncio.wait([checkpoints])

    _run(disk, story)


def test_logs_that_a_full_disk_kept_from_a_checkpoint_close_their_files_with_the_next_one() -> None:
    broker = ScarceFiles()

    async def story() -> None:
        await broker.write(*range(broker.LOGS))
        broker.disk.faults.capacity_bytes = broker.disk.medium.used_bytes()
        with pytest.raises(DiskFull):
            await broker.committer.checkpoint()
        assert broker.open() == [*range(broker.LOGS)]
        broker.disk.faults.capacity_bytes = DISK_BYTES
        await broker.committer.checkpoint()
        assert broker.open() == []

    broker.play(story)
