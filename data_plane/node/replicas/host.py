"""All replicas of one broker: recovered at boot, made and removed as the metadata says, given their roles."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from data_plane.controller.elections import strip_replica
from data_plane.controller.losses import declared_here
from data_plane.disk.port import Disk, DiskFault, DiskFull
from data_plane.log import layout
from data_plane.log.journal import Journal
from data_plane.log.partition_log import PartitionLog
from data_plane.log.tail import TailBudget
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PARTITIONS_PER_CELL, PartitionRecord, TopicRecord
from data_plane.metadata.port import MetaStore, OutcomeUnknown, Put, StoreUnavailable, WatchBatch
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.boot import Boot
from data_plane.node.log_directory.directory import Directory
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.node.log_directory.stray_directories import StrayDirectories
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Clock, Rng, Transport
from data_plane.node.replicas.committer import Committer, LogDirectoryFailed
from data_plane.node.replicas.in_sync_writer import InSyncWriter
from data_plane.node.replicas.leader_link import LeaderLink
from data_plane.node.replicas.replica import Listener, Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import in_turns
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition
from penstock.contract.topic_settings import Durability

Spawn = Callable[[Coroutine[Any, Any, None]], None]
_MADE_PER_TURN = 10
"""New partitions before others have their turn of the event loop: some 10 ms (RL137)."""


class ReplicaHost:
    """Owner of the log directory's partitions. `connect` before use: the parts know each other in a ring."""

    def __init__(
        self,
        config: NodeConfig,
        image: ClusterImage,
        disk: Disk,
        store: MetaStore,
        transport: Transport,
        clock: Clock,
        rng: Rng,
        stats: NodeStats,
    ) -> None:
        self._config, self._image, self._disk, self._store = config, image, disk, store
        self._transport = transport
        self._clock, self._rng, self._stats = clock, rng, stats
        self._tail = TailBudget(config.tail_bytes)
        self.strays = StrayDirectories(disk, config.stray_keep_ms)
        self.disk_space = DiskSpace(config, disk)
        self.quarantine = Quarantine(disk, config.damaged_keep_ms)
        self.disk_space.give_up_damaged = self.quarantine.give_up
        self.replicas: dict[TopicPartition, Replica] = {}
        self.damaged: dict[TopicPartition, str] = {}
        """Partitions whose data here failed its checks at boot: unclean (RL45, RL122)."""
        self._unknown_loss: dict[TopicPartition, None] = {}
        """Those of which the journal or checkpoint cannot tell what is missing."""
        self._links: dict[BrokerId, LeaderLink] = {}
        self._to_make: dict[TopicPartition, None] = {}
        self._to_trim: dict[TopicPartition, int] = {}
        self._to_remove: list[Replica] = []
        self._removing: dict[TopicPartition, None] = {}
        """Partitions whose replica here goes: a new one of theirs waits until it has gone."""
        self.reassigning: dict[TopicPartition, None] = {}
        """Partitions led here whose replicas are being changed (RL52)."""
        self.hold: Callable[[Replica, Listener], bool] = lambda replica, release: False
        """Asked of each replica of a deleted topic: whether it has to wait, and is released later."""
        self.slow: Callable[[], bool] = lambda: False
        """Whether this broker steps aside because its syncs take too long (RL133)."""
        self._to_give_up: dict[TopicPartition, None] = {}
        self._to_repair: dict[TopicPartition, None] = {}
        self._to_accept: dict[TopicPartition, None] = {}
        """Those of which a loss was declared here: to be cut where the new log generation begins."""
        self._wake = asyncio.Event()

    def connect(
        self, committer: Committer, in_sync: InSyncWriter, registration: Registration, spawn: Spawn
    ) -> None:
        self._committer, self._in_sync, self._registration = committer, in_sync, registration
        self._spawn = spawn

    def find(self, where: TopicPartition) -> Replica | None:
        return self.replicas.get(where)

    def all(self) -> list[Replica]:
        return list(self.replicas.values())

    # -- boot --------------------------------------------------------------------------------------------

    def recover(self, directory: Directory) -> Journal:
        """Open every partition on the disk whose topic the image knows; the others become strays (RL53).

        Blocking: the broker serves nothing yet.
        """
        booted = Boot(
            self._disk,
            self._config,
            self._image,
            directory,
            self.strays,
            self._tail,
            now_ms=self._clock.now_ms(),
            monotonic_ms=self._clock.monotonic_ms(),
        ).run()
        self.damaged.update(booted.damaged)
        for one in booted.opened:
            if one.buried:
                replica = self._made(one.where, one.topic, one.log)
                replica.broken = "the topic was deleted"
                if not self.hold(replica, self._remove_soon):
                    self._remove_soon(replica)
                continue
            if booted.nothing_known:
                self.damaged.setdefault(one.where, booted.nothing_known)
                self._unknown_loss[one.where] = None
            replica = self._add(one.where, one.topic, one.log)
            reason = self.damaged.get(one.where, "")
            if self._alone(one.where):
                replica.writes_stopped = reason
            else:
                replica.broken = reason
        return booted.journal

    def untrusted(self, where: TopicPartition) -> bool:
        """Whether this broker has to give up what it is trusted with there (RL45, RL122). A partition's only replica
        keeps it: it serves what is good, takes no writes, and an operator repairs it."""
        return where in self.damaged and not (where in self.replicas and self._alone(where))

    def gave_up(self) -> None:
        """Everything untrusted was given up: what took the place of a lost directory may be trusted anew."""
        for where in list(self.damaged):
            replica = self.replicas.get(where)
            if replica is None or not (replica.broken or replica.writes_stopped):
                del self.damaged[where]

    def _alone(self, where: TopicPartition) -> bool:
        record = self._image.partition(where)
        return record is not None and len(record.replicas) == 1

    def _generation(self, record: PartitionRecord) -> int:
        return record.replica_generations[record.replicas.index(self._config.broker_id)]

    def data_lost(self, directory: Directory) -> Callable[[TopicId], bool]:
        """Which topics' replicas here may all miss what they acknowledged: relaxed ones after a crash (RL44)."""

        def lost(topic_id: TopicId) -> bool:
            relaxed = self._image.topics[topic_id].settings.durability is not Durability.FSYNC
            return relaxed and not directory.clean

        return lost

    # -- following the metadata --------------------------------------------------------------------------

    def observe(self, batch: WatchBatch | None) -> None:
        """The image moved: look at what the batch touched, or at everything."""
        if batch is None:
            self.look_at_all()
            return
        for event in batch.events:
            kind, _, rest = event.key[1:].partition("/")
            if kind == "partitions":
                topic_hex, _, cell = rest.partition("/")
                self._look_at_cell(TopicId(bytes.fromhex(topic_hex)), int(cell))
            elif kind in ("topics", "tombstones"):
                self._look_at_topic(TopicId(bytes.fromhex(rest)))

    def look_at_all(self) -> None:
        """Every partition takes the role that the image gives it now."""
        for topic_id in list(self._image.topics):
            self._look_at_topic(topic_id)
        for where in list(self.replicas):
            if where.topic_id not in self._image.topics:
                self._look_at_topic(where.topic_id)

    def _look_at_topic(self, topic_id: TopicId) -> None:
        if topic_id in self._image.topics:
            for cell in sorted(self._image.cells.get(topic_id, {})):
                self._look_at_cell(topic_id, cell)
        elif topic_id in self._image.tombstones:
            for where in [where for where in self.replicas if where.topic_id == topic_id]:
                self._retire(where, "the topic was deleted")

    def _look_at_cell(self, topic_id: TopicId, number: int) -> None:
        topic = self._image.topics.get(topic_id)
        cell = self._image.cells.get(topic_id, {}).get(number)
        if topic is None or cell is None:
            return
        for partition in range(number * PARTITIONS_PER_CELL, (number + 1) * PARTITIONS_PER_CELL):
            record = cell.partitions.get(partition)
            if record is None:
                continue
            where = TopicPartition(topic_id, partition)
            replica = self.replicas.get(where)
            if replica is not None and not self._still_mine(record, replica):
                self._retire(where, "the partition was moved to other brokers", gone=True)
                replica = None
            if self._config.broker_id not in record.replicas:
                continue
            if replica is None:
                self._to_make[where] = None
                self._wake.set()
            else:
                replica.topic = topic
                replica.log.settings = topic.settings
                if replica.leading is not None:
                    replica.leading.demand_in_sync(topic.settings.min_insync_replicas)
                self.give_role(replica)

    def _still_mine(self, record: PartitionRecord, replica: Replica) -> bool:
        """Does the record count this very replica, or say nothing newer than what it knows (RL39, RL53)?"""
        known = replica.record
        if known is not None and record.partition_epoch <= known.partition_epoch:
            return True
        me = self._config.broker_id
        return me in record.replicas and record.generation_of(me) == replica.log.replica_generation

    def give_role(self, replica: Replica) -> None:
        """Lead, follow or rest, as the image says now; later if the replica is busy. What was given under an earlier
        registration ends at once all the same: a follower opens again under the new one (RL3, RL34)."""
        before = replica.following
        if replica.busy:
            replica.on_settled = self.give_role
            if not self._registration.in_force():
                replica.rest()
                if before is not None:
                    self._links[before.leader].leave(replica)
            return
        record = self._image.partition(replica.where)
        if record is not None:
            replica.in_generation(record.log_generation)
        if record is not None and record.target and record.leader == self._config.broker_id:
            self.reassigning[replica.where] = None
        else:
            self.reassigning.pop(replica.where, None)
        if record is None or not self._registration.in_force():
            replica.rest()
        elif (replica.broken or replica.writes_stopped) and self._given_to_it(replica, record):
            replica.rest()
            self._to_accept[replica.where] = None
            self._wake.set()
        elif replica.broken:
            replica.rest()
            if self._counted_on(record):
                self._to_give_up[replica.where] = None
                self._wake.set()
            elif record.leader != NO_BROKER and (replica.log.damage or replica.where in self._unknown_loss):
                self._to_repair[replica.where] = None
                self._wake.set()
        elif record.leader == self._config.broker_id:
            replica.lead(record)
            due = replica.log_start_due
            if due is not None:
                self.trim(replica, due)
        elif record.leader == NO_BROKER:
            replica.rest()
        else:
            replica.follow(record)
        if replica.following != before:
            if before is not None:
                self._links[before.leader].leave(replica)
            if replica.following is not None:
                self._link(replica.following.leader).follow(replica, replica.following)

    def _link(self, leader: BrokerId) -> LeaderLink:
        link = self._links.get(leader)
        if link is None:
            link = self._links[leader] = LeaderLink(
                leader,
                lambda: self._address(leader),
                lambda: self._registration.epoch,
                self._config,
                self._transport,
                self._committer,
                self._clock,
                self._rng,
                self._stats,
                self.trim,
                lambda: self.disk_space.full,
                lambda: bool(self.disk_space.full) or self.slow(),
            )
            self._spawn(link.run())
        return link

    def _address(self, broker: BrokerId) -> str | None:
        known = self._image.brokers.get(broker)
        return None if known is None or not known.epoch else known.record.internal_address

    def open_again(self) -> None:
        """This broker begins or ends to step aside: each leader is told by a new open, and takes it back after that."""
        for link in self._links.values():
            link.open_again()

    def became_durable(self, replica: Replica) -> None:
        """Told by the committer: a leader's followers need not know, a follower's leader does."""
        if replica.following is not None:
            self._links[replica.following.leader].became_durable(replica)

    def _counted_on(self, record: PartitionRecord) -> bool:
        """Whether this replica leads or may lead next: only what nobody counts on may be fetched anew from another one
        that leads (RL122)."""
        me = self._config.broker_id
        return me == record.leader or me in record.in_sync or me in record.eligible

    def _given_to_it(self, replica: Replica, record: PartitionRecord) -> bool:
        """An operator chose this replica as it is: a loss was declared that covers all that is wrong with it."""
        if record.leader != self._config.broker_id:
            return False
        loss = declared_here(self._image, replica.where, record, last_epoch=replica.log.last_epoch)
        return loss is not None and replica.sound_end_offset >= loss.offset

    async def _accept(self, replica: Replica) -> None:
        """Cut the log where the new generation begins, and lead it."""
        record = self._image.partition(replica.where)
        if replica.busy or record is None or not self._given_to_it(replica, record):
            return
        if replica.log.damage:
            replica.repairs += 1
            await self._committer.truncate(replica, replica.sound_end_offset, declared=True)
            self._set_aside_in(replica)
        self._unknown_loss.pop(replica.where, None)
        self.damaged.pop(replica.where, None)
        replica.broken = replica.writes_stopped = replica.note = ""
        self.give_role(replica)

    def _stopped(self, replica: Replica) -> None:
        """It takes no part any more, and its leader is told, so that it is not taken for even. One that found damage in
        itself gives up what it is trusted with (RL122)."""
        for link in self._links.values():
            link.leave(replica)
        if replica.where in self.replicas:
            self.damaged[replica.where] = replica.broken
            self._to_give_up[replica.where] = None
            self._wake.set()

    async def _give_up(self, where: TopicPartition) -> None:
        write = strip_replica(self._image, self._config.broker_id, where)
        if write is None:
            return
        try:
            result = await self._store.txn(write.compares, [Put(write.key, write.value)])
        except (StoreUnavailable, OutcomeUnknown):
            result = None
        if result is None or not result.succeeded:
            await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
            self._to_give_up[where] = None
            self._wake.set()

    async def _repair(self, replica: Replica) -> None:
        """Cut the log where the damaged segment begins, which is kept beside it, and fetch the rest from the leader,
        verified as any fetch is.

        Where the journal or checkpoint was damaged nobody can tell where that is: everything is fetched anew.
        """
        log, damage = replica.log, replica.log.damage
        unknown = replica.where in self._unknown_loss
        if replica.busy or not (damage or unknown):
            return
        replica.repairs += 1
        cut = log.log_start_offset if unknown else log.scrub.refetch_from()
        if cut < log.log_start_offset:
            await self._committer.start_over(replica, cut, log.state_at_start())
        else:
            await self._committer.truncate(replica, cut, declared=True)
        self._set_aside_in(replica)
        self._unknown_loss.pop(replica.where, None)
        replica.broken = ""
        self.damaged.pop(replica.where, None)
        self.give_role(replica)

    def _set_aside_in(self, replica: Replica) -> None:
        """What was cut of it may be kept beside it."""
        self.quarantine.look_in(layout.partition_directory(replica.where), self._clock.now_ms())

    # -- making, trimming, removing ----------------------------------------------------------------------

    async def run(self) -> None:
        """Make new replicas, remove deleted ones and move log starts, many at a time."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._make()
            for where in list(self._to_give_up):
                del self._to_give_up[where]
                await self._give_up(where)
            for where in list(self._to_repair):
                del self._to_repair[where]
                if where in self.replicas:
                    await self._repair(self.replicas[where])
            for where in list(self._to_accept):
                del self._to_accept[where]
                if where in self.replicas:
                    await self._accept(self.replicas[where])
            while self._to_remove:
                await self._remove(self._to_remove.pop())
            for where, offset in list(self._to_trim.items()):
                del self._to_trim[where]
                if where in self.replicas:
                    await self._move_log_start(self.replicas[where], offset)

    async def _make(self) -> None:
        made: list[tuple[TopicPartition, PartitionLog]] = []
        async for wanted in in_turns(list(self._to_make), _MADE_PER_TURN):
            for where in wanted:
                self._to_make.pop(where, None)
                log = self._create(where)
                if log is not None:
                    made.append((where, log))
        try:
            await self._disk.sync([step for _, log in made for step in log.creation_steps()])
        except DiskFault as fault:
            raise LogDirectoryFailed(f"new partitions: {fault}") from fault
        async for some in in_turns(made, _MADE_PER_TURN):
            for where, log in some:
                topic = self._image.topics.get(where.topic_id)
                if topic is None:
                    log.close(clean=False)
                    self._disk.remove_directory(layout.partition_directory(where))
                else:
                    self.give_role(self._add(where, topic, log))

    def _create(self, where: TopicPartition) -> PartitionLog | None:
        """The files of a partition that shall rest here and does not yet, not synced; None if it cannot be now."""
        topic, record = self._image.topics.get(where.topic_id), self._image.partition(where)
        if topic is None or record is None or where in self.replicas or where in self._removing:
            return None
        if self._config.broker_id not in record.replicas:
            return None
        if self.disk_space.read_only:
            self._make_later(where)
            return None
        path = layout.partition_directory(where)
        if self._disk.exists(path):
            self.strays.set_aside(path, self._clock.now_ms(), "a new replica takes its place")
        try:
            return PartitionLog.create(
                self._disk, path, where, self._generation(record), topic.settings, tail=self._tail
            )
        except DiskFull:
            self._disk.remove_directory(path)
            self._make_later(where)
            return None

    def _make_later(self, where: TopicPartition) -> None:
        """There is no room for a new partition now."""

        def again() -> None:
            self._to_make[where] = None
            self._wake.set()

        asyncio.get_running_loop().call_later(self._config.timings.reconnect_ms_max / 1000, again)

    def _add(self, where: TopicPartition, topic: TopicRecord, log: PartitionLog) -> Replica:
        replica = self.replicas[where] = self._made(where, topic, log)
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
            unsettled=lambda replica: self._in_sync.unsettled(replica),
            stopped=self._stopped,
            read_only=lambda: self.disk_space.read_only,
            lacks_room=self.disk_space.lacked,
            replica_lag_ms_max=self._config.timings.replica_lag_ms_max,
        )
        log.name = replica.name
        record = self._image.partition(where)
        log.usage.log_generation = 1 if record is None else record.log_generation
        return replica

    def _wrote(self, replica: Replica, size: int) -> None:
        self._committer.add_bytes(size)
        self._committer.wrote(replica)

    def trim(self, replica: Replica, offset: int) -> None:
        """Let the replica's log begin at `offset`, soon. Followers do when their leader says so, leaders last."""
        self._to_trim[replica.where] = offset
        self._wake.set()

    async def _move_log_start(self, replica: Replica, offset: int) -> None:
        await replica.at_rest()
        target = replica.log_start_within(offset)
        if replica.broken or self.replicas.get(replica.where) is not replica:
            return
        if target <= replica.log.log_start_offset:
            return
        before = replica.log.segment_count
        await self._committer.move_log_start(replica, target)
        self._stats.deleted_segments += before - replica.log.segment_count
        self.became_durable(replica)

    def _retire(self, where: TopicPartition, reason: str, *, gone: bool = False) -> None:
        """The metadata says that this replica is not wanted: take no part from now on, remove soon (RL53).

        `gone`: others hold the partition now, and nothing here is waited for.
        """
        replica = self.replicas.pop(where)
        self._removing[where] = None
        self.reassigning.pop(where, None)
        replica.stop(reason)
        if gone or not self.hold(replica, self._remove_soon):
            self._remove_soon(replica)

    def _remove_soon(self, replica: Replica) -> None:
        self._to_remove.append(replica)
        self._wake.set()

    async def _remove(self, replica: Replica) -> None:
        await replica.at_rest()
        async with self._committer.no_checkpoint:
            await self._committer.flushed(replica)
            replica.log.close(clean=False)
            self._disk.remove_directory(layout.partition_directory(replica.where))
        self._removing.pop(replica.where, None)
        record = self._image.partition(replica.where)
        if record is not None and self._config.broker_id in record.replicas:
            self._to_make[replica.where] = None
            self._wake.set()
