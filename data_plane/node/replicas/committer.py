"""Group commit: one round makes everything written since the last one durable, off the loop unless the disk is quicker
than that (RL135)."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from data_plane.disk.port import Disk, DiskFault, DiskFull, SyncStep
from data_plane.log.checkpoint import take_checkpoint
from data_plane.log.journal import Journal
from data_plane.log.outcomes import Unsynced
from data_plane.log.start_state import StartState
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn

Protocol = Iterator[list[SyncStep]]

_ROUND_MS_MIN = 2
"""Between the beginnings of two rounds of which the first was handed over. Such a round costs a turn of the sync thread
and of the loop whatever it holds; this spares a sixth of a busy broker's processor time. A round that was done at once
costs less than the wait."""
_DISK_FULL_S = 0.1
"""Between two tries to write the journal on a full disk."""


class LogDirectoryFailed(Exception):
    """A sync failed: what the log directory holds durably is unknown from here on (RL126). The broker must stop."""


class Committer:
    """The only writer of the journal, and the only one that makes anything durable while the broker serves.

    `replicas` answers with every replica whose log is open. Each is notified when its durable end has moved.
    """

    def __init__(
        self,
        disk: Disk,
        journal: Journal,
        config: NodeConfig,
        clock: Clock,
        stats: NodeStats,
        replicas: Callable[[], list[Replica]],
        disk_space: DiskSpace,
        begin_turn: Callable[[], Turn],
    ) -> None:
        self._begin_turn = begin_turn
        self._disk = disk
        self._journal = journal
        self._config = config
        self._clock = clock
        self._stats = stats
        self._replicas = replicas
        self._disk_space = disk_space
        self._written_max = config.written_logs_max or sys.maxsize
        self._dirty: dict[Replica, None] = {}
        self._written: dict[Replica, None] = {}
        """Replicas that were written to since the last checkpoint began: their files are open."""
        self._relaxed: dict[Replica, float] = {}
        """Replicas that are flushed by time, with the moment it is due."""
        self._due: list[tuple[asyncio.Future[None], Callable[[], None]]] = []
        """What to do, and which future to resolve, once everything handed out so far is durable."""
        self._wake = asyncio.Event()
        self._checkpoint_wanted = asyncio.Event()
        self.no_checkpoint = asyncio.Lock()
        """Locked while a checkpoint runs, and by work that must not meet one."""
        self._below_bound = asyncio.Event()
        self._below_bound.set()
        self._written_bytes = 0
        self.sync_began_ms: float | None = None
        """When the sync of the running round began (monotonic); None while there is none."""

    def wrote(self, replica: Replica) -> None:
        """The replica's log has something that is not durable yet."""
        self._written[replica] = None
        if len(self._written) > self._written_max:
            self._checkpoint_wanted.set()
        if replica.strict:
            self._dirty[replica] = None
            self._wake.set()
        elif replica not in self._relaxed:
            self._relaxed[replica] = self._clock.monotonic_ms() + replica.topic.settings.flush_ms

    def add_bytes(self, count: int) -> None:
        """Count what was written towards the bound that `below_bound` waits for."""
        self._written_bytes += count
        if self._written_bytes > self._config.unsynced_bytes_max:
            self._below_bound.clear()

    async def below_bound(self) -> None:
        """Wait while more is written and not durable than memory should hold."""
        if not self._below_bound.is_set():
            await self._below_bound.wait()

    async def flushed(self, replica: Replica) -> None:
        """Wait until all that the replica's log has handed out so far is durable."""
        await self._once_durable(replica, lambda: None)

    async def truncate(self, replica: Replica, offset: int, *, declared: bool = False) -> None:
        """Truncate the log: the journal's record first, then the files (RL30). The replica is busy meanwhile.

        `declared` allows a truncation below the high watermark, for a replica that was given up (RL122).
        """
        replica.log.request_truncation(offset, declared=declared)
        await self._change(replica, lambda: replica.log.truncate_to(offset))

    async def start_over(self, replica: Replica, offset: int, state: StartState) -> None:
        """Wipe the log and begin at `offset` (RL32), with what the leader knows of everything below it. The replica is
        busy meanwhile."""
        replica.busy = True
        try:
            if offset:
                await self._perform(replica.log.keep_start(state))
        except DiskFull:
            pass  # it is known until the next start, and then taken from the leader's seals or not at all
        except BaseException:
            replica.no_longer_busy()
            raise
        replica.log.request_start_over(offset, state)
        await self._change(replica, lambda: replica.log.start_over(offset))

    async def move_log_start(self, replica: Replica, offset: int) -> None:
        """Move the log's start, then remove what lies below (RL107). The replica is busy meanwhile."""

        def act() -> None:
            replica.log.move_log_start(offset)
            replica.log.delete_below(offset)

        replica.log.request_log_start(offset)
        await self._change(replica, act)

    async def _change(self, replica: Replica, act: Callable[[], None]) -> None:
        """What was requested of the log is done by the committer itself, whatever becomes of the caller (RL136)."""

        def finish() -> None:
            act()
            replica.no_longer_busy()
            replica.notice_damage()

        replica.busy = True
        await self._once_durable(replica, finish)

    async def _once_durable(self, replica: Replica, act: Callable[[], None]) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._relaxed.pop(replica, None)
        self._dirty[replica] = None
        self._due.append((waiting, act))
        self._wake.set()
        await waiting

    # -- the loops ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run commit rounds without an end. Raises `LogDirectoryFailed`."""
        not_before_ms = float("-inf")
        while True:
            await self._wake.wait()
            early_ms = not_before_ms - self._clock.monotonic_ms()
            if early_ms > 0:
                await asyncio.sleep(early_ms / 1000)
            self._wake.clear()
            began_ms = self._clock.monotonic_ms()
            if await self._commit():
                await asyncio.sleep(0)  # what the loop has ready joins the next round
            else:
                not_before_ms = began_ms + _ROUND_MS_MIN

    async def run_flushes(self) -> None:
        """Give relaxed replicas to the next round when their time has come."""
        while True:
            await asyncio.sleep(0.1)
            now = self._clock.monotonic_ms()
            for replica in [replica for replica, due in self._relaxed.items() if due <= now]:
                del self._relaxed[replica]
                self._dirty[replica] = None
                self._wake.set()

    async def run_checkpoints(self) -> None:
        """Checkpoint when the journal asks for it, beside the commits. Raises `LogDirectoryFailed`.

        On a full disk the last checkpoint stands, and the journal goes on without a spare file.
        """
        await self._unless_full(self._perform(self._journal.prepare_steps()))
        self._checkpoint_wanted.set()  # what recovery found above the durable end is soon known to be durable
        while True:
            await self._checkpoint_wanted.wait()
            self._checkpoint_wanted.clear()
            await self._unless_full(self.checkpoint())
            await self._unless_full(self._perform(self._journal.prepare_steps()))

    async def _unless_full(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except DiskFull:
            self._stats.no_room += 1
            self._disk_space.free_ballast()

    async def checkpoint(self) -> None:
        """Sync the segment files, write the checkpoint, give journal files back.

        Raises `DiskFull`: the last one stands.
        """
        async with self.no_checkpoint:
            self._stats.checkpoints += 1
            logs = [replica.log for replica in self._replicas()]
            written, self._written = self._written, {}
            try:
                await self._perform(take_checkpoint(self._disk, self._journal, logs))
            except DiskFull:
                self._written = written | self._written
                raise
            if len(written) > self._written_max:
                await self._release_files(written)

    async def _release_files(self, written: Iterable[Replica]) -> None:
        """Files are scarce: close those of logs that were not written to since."""
        async for replica in self._begin_turn().through(written):
            if replica not in self._written and not replica.busy:
                replica.log.release_files()

    async def _perform(self, protocol: Protocol) -> None:
        for steps in protocol:
            await self._sync(steps)
            await asyncio.sleep(0)

    async def _commit(self) -> bool:
        """One round. Whether its sync was done at once."""
        at_once = False
        dirty, self._dirty = self._dirty, {}
        waiting, self._due = self._due, []
        self._written_bytes = 0
        taken: list[tuple[Replica, Unsynced]] = []
        for replica in dirty:
            unsynced = replica.log.take_unsynced()
            if unsynced is not None:
                taken.append((replica, unsynced))
        if taken:
            began = self._clock.monotonic_ms()
            at_once = await self._append([unsynced for _, unsynced in taken])
            self._stats.sync_ms.observe(self._clock.monotonic_ms() - began)
            self._stats.journal_rounds += 1
            async for replica, unsynced in self._begin_turn().through(taken):
                replica.log.mark_durable(unsynced)
                replica.became_durable()
        for future, act in waiting:
            act()
            if not future.done():
                future.set_result(None)
        self._below_bound.set()
        if self._journal.checkpoint_due:
            self._checkpoint_wanted.set()
        return at_once

    async def _append(self, unsynced: list[Unsynced]) -> bool:
        """Journal it; whether that was done at once. On a full disk nothing is acknowledged until there is space
        (RL127, RL128)."""
        while True:
            try:
                steps = self._journal.append_steps(unsynced)
                self.sync_began_ms = self._clock.monotonic_ms()
                try:
                    return await self._sync(steps, commit=True)
                except DiskFull:
                    self._journal.take_back()
                finally:
                    self.sync_began_ms = None
            except DiskFull:
                pass  # no new file could be made, and nothing was changed
            self._stats.no_room += 1
            if not self._disk_space.free_ballast():
                self._disk_space.lacked()
            await asyncio.sleep(_DISK_FULL_S)

    async def _sync(self, steps: list[SyncStep], *, commit: bool = False) -> bool:
        """Whether it was done at once, as a commit may be. The small files of a checkpoint are new to the file system,
        which takes its time for that."""
        if not steps:
            return False
        try:
            if commit and self._disk.sync_at_once(steps):
                return True
            await self._disk.sync(steps)
        except DiskFull:
            raise
        except DiskFault as fault:
            raise LogDirectoryFailed(f"{type(fault).__name__}: {fault}") from fault
        return False
