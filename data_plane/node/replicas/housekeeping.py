"""The replicas' comings and trims: those of the boot, new ones as the metadata says, and where each log begins."""

import asyncio
from collections.abc import Sequence

from data_plane.disk.port import DiskFault, DiskFull, SyncStep
from data_plane.log import layout
from data_plane.log.partition_log import PartitionLog
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.node.environment import Environment
from data_plane.node.log_directory.boot import Booted
from data_plane.node.log_directory.log_directory import LogDirectory
from data_plane.node.replicas.assignment import Assignment
from data_plane.node.replicas.committer import Committer, LogDirectoryFailed
from data_plane.node.replicas.distrust import is_sole
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.in_sync_writer import InSyncWriter
from data_plane.node.replicas.leader_links import LeaderLinks
from data_plane.node.replicas.removal import Removal
from data_plane.node.replicas.repair import Repair
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.tasks import in_turns
from data_plane.replication.health import at_boot
from data_plane.throttling.queues import PartitionQueue
from penstock.contract.ids import TopicPartition

_BORN_AFTER_S = 2.0
"""From the last new replica until directories are made: what is made together is first usable together."""
_PUT_OFF_MAX = 10
"""So often they wait for more that come."""
_BORN_AT_ONCE = 32
"""Directories that one sync makes durable; each holds a file open until then, and no checkpoint begins."""
_BORN_EVERY_S = 0.05
"""Tens of thousands take a minute, and an eighth of a disk's time."""


class Housekeeping:
    """The only one that makes replicas. `run` does all that is due but removals, `run_births` makes directories.

    A new replica takes its role at once. Its directory is made by its first write, or soon after, so that the broker
    knows of it after a restart too: the last reading of a topic that is deleted meanwhile is then still made.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        image: ClusterImage,
        replicas: ReplicaSet,
        due: DueWork,
        committer: Committer,
        in_sync: InSyncWriter,
        links: LeaderLinks,
        assignment: Assignment,
        repair: Repair,
        removal: Removal,
        log_directory: LogDirectory,
    ) -> None:
        self._config = environment.config
        self._disk = environment.disk
        self._clock = environment.clock
        self._stats = environment.stats
        self._image = image
        self._replicas = replicas
        self._due = due
        self._committer = committer
        self._in_sync = in_sync
        self._links = links
        self._assignment = assignment
        self._repair = repair
        self._removal = removal
        self._disk_space = log_directory.disk_space
        self._strays = log_directory.strays
        self._tail = log_directory.tail
        self._begin_turn = environment.begin_turn
        self._unborn: dict[Replica, None] = {}
        self._birth = asyncio.Event()

    def take_over(self, booted: Booted) -> None:
        """What the boot has opened."""
        for one in booted.opened:
            if one.buried:
                replica = self._made(one.where, one.topic, one.log)
                self._removal.buried(replica)
                continue
            replica = self._add(one.where, one.topic, one.log)
            if not one.log.born:
                self._bear(replica)
            replica.health = at_boot(
                booted.damaged.get(one.where, booted.nothing_known),
                tail_lost=bool(booted.nothing_known),
                only=is_sole(self._image.partition(one.where)),
            )

    async def run(self) -> None:
        """Make new replicas, repair damaged ones and move log starts, many at a time."""
        while True:
            await self._due.wake.wait()
            self._due.wake.clear()
            await self._make()
            await self._repair.heal_due()
            for where, offset in list(self._due.to_trim.items()):
                del self._due.to_trim[where]
                replica = self._replicas.find(where)
                if replica is not None:
                    await self._move_log_start(replica, offset)

    async def _make(self) -> None:
        turn = self._begin_turn()
        while self._due.to_make:
            if turn.is_over:
                await turn.give_way()
            where = next(iter(self._due.to_make))
            del self._due.to_make[where]
            replica = self._create(where)
            if replica is not None:
                self._assignment.give_role(replica)

    async def run_births(self) -> None:
        """Make the directories of replicas that nothing was written to, and make those durable that a boot found and no
        checkpoint knew."""
        while True:
            await self._birth.wait()
            put_off = 0
            while self._birth.is_set() and put_off < _PUT_OFF_MAX:
                self._birth.clear()
                put_off += 1
                await asyncio.sleep(_BORN_AFTER_S)
            unborn, self._unborn = self._unborn, {}
            async for some in in_turns(list(unborn), _BORN_AT_ONCE):
                await asyncio.sleep(_BORN_EVERY_S)
                async with self._committer.no_checkpoint:  # nor is one of them removed meanwhile
                    await self._give_birth(some)

    async def _give_birth(self, replicas: Sequence[Replica]) -> None:
        steps: dict[SyncStep, None] = {}
        born: list[Replica] = []
        async for replica in self._begin_turn().through(replicas):
            if replica.log.closed:
                continue
            try:
                more = () if self._disk_space.read_only else replica.log.creation_steps()
            except DiskFull:
                more = ()
            if more:
                steps.update((step, None) for step in more)
                born.append(replica)
            elif not replica.log.born:
                self._bear(replica)
        try:
            await self._disk.sync(list(steps))
        except DiskFault as fault:
            raise LogDirectoryFailed(f"new partitions: {fault}") from fault
        for replica in born:
            replica.log.end_creation()

    def _bear(self, replica: Replica) -> None:
        """Its directory is to be made."""
        self._unborn[replica] = None
        self._birth.set()

    def _create(self, where: TopicPartition) -> Replica | None:
        """The replica of a partition that is to rest here and does not yet; None if it cannot be now."""
        topic, record = self._image.topics.get(where.topic_id), self._wanted(where)
        if topic is None or record is None:
            return None
        if self._replicas.find(where) is not None or self._removal.under_way(where):
            return None
        if self._disk_space.read_only:
            self._make_later(where)
            return None
        path = layout.partition_directory(where)
        if self._disk.exists(path):
            self._strays.set_aside(path, self._clock.now_ms(), "a new replica takes its place")
        log = PartitionLog.create(
            self._disk, path, where, self._generation(record), topic.log_settings, tail=self._tail
        )
        replica = self._add(where, topic, log)
        self._bear(replica)
        return replica

    def _wanted(self, where: TopicPartition) -> PartitionRecord | None:
        """The partition's record, if it wants a replica here. It may change while one is made."""
        record = self._image.partition(where)
        return record if record is not None and self._config.broker_id in record.replicas else None

    def _generation(self, record: PartitionRecord) -> int:
        return record.generation_of(self._config.broker_id)

    def _make_later(self, where: TopicPartition) -> None:
        """The disk has no space for a new partition now."""
        wait_s = self._config.timings.reconnect_ms_max / 1000
        asyncio.get_running_loop().call_later(wait_s, self._due.make, where)

    def _add(self, where: TopicPartition, topic: TopicRecord, log: PartitionLog) -> Replica:
        replica = self._made(where, topic, log)
        self._replicas.add(replica)
        return replica

    def _made(self, where: TopicPartition, topic: TopicRecord, log: PartitionLog) -> Replica:
        replica = Replica(
            where,
            topic,
            log,
            me=self._config.broker_id,
            clock=self._clock,
            stats=self._stats,
            wrote=self._wrote,
            look_at_in_sync=self._in_sync.look_at,
            stopped=self._repair.stopped,
            turned=self._replicas.turned,
            stored_more=self._links.tell,
            read_only=lambda: self._disk_space.read_only,
            disk_full=self._disk_space.lacked,
            loads=self._replicas.loads,
            queue=PartitionQueue(self._replicas.queues),
            replica_lag_ms_max=self._config.timings.replica_lag_ms_max,
        )
        log.name = replica.name
        record = self._image.partition(where)
        log.usage.log_generation = 1 if record is None else record.log_generation
        return replica

    def _wrote(self, replica: Replica, size: int) -> None:
        self._replicas.changed(replica)
        self._committer.add_bytes(size)
        self._committer.wrote(replica)

    async def _move_log_start(self, replica: Replica, offset: int) -> None:
        await replica.at_rest()
        target = replica.log_start_within(offset)
        if replica.stopped or not self._replicas.has(replica):
            return
        if target <= replica.log.log_start_offset:
            return
        before = replica.log.segment_count
        await self._committer.move_log_start(replica, target)
        self._replicas.changed(replica)
        self._stats.deleted_segments += before - replica.log.segment_count
        self._links.tell(replica)
