"""One broker: boots, registers, serves and drains, composed over the ports."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from data_plane.authz.access import AccessRules, Authenticator
from data_plane.contract import methods as internal
from data_plane.controller.leaderless import Leaderless
from data_plane.controller.registration import may_stop, waits_in_vain
from data_plane.disk.port import Disk, DiskFull
from data_plane.log.journal import Journal
from data_plane.metadata import model
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, Put, StoreUnavailable, WatchBatch
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.gate import Gate
from data_plane.node.conditions import Conditions
from data_plane.node.config import NodeConfig
from data_plane.node.control.admin_calls import AdminCalls
from data_plane.node.control.controller_seat import ControllerSeat
from data_plane.node.control.declared_losses import DeclaredLosses
from data_plane.node.control.handover import Handover
from data_plane.node.control.placement_calls import PlacementCalls
from data_plane.node.groups.group_calls import GroupCalls
from data_plane.node.groups.group_coordinators import GroupCoordinators
from data_plane.node.integrity.commitments import Commitments
from data_plane.node.integrity.proof_reads import ProofReads
from data_plane.node.integrity.scrubber import Scrubber
from data_plane.node.integrity.topic_durability import TopicDurability
from data_plane.node.log_directory.directory import mark_clean, open_directory
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.membership.trusted_store import Trust, TrustedStore
from data_plane.node.metering.cut_calls import CutCalls
from data_plane.node.metering.final_readings import FinalReadings
from data_plane.node.metering.metering import Metering
from data_plane.node.metering.usage_topic import UsageTopic
from data_plane.node.ports import (
    Caller,
    Clock,
    Connection,
    ConnectionLost,
    Rng,
    Service,
    Transport,
)
from data_plane.node.replicas.catch_up import CatchUp
from data_plane.node.replicas.committer import Committer, LogDirectoryFailed
from data_plane.node.replicas.follower_stream import FollowerStream
from data_plane.node.replicas.host import ReplicaHost
from data_plane.node.replicas.in_sync_writer import InSyncWriter
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.retention import MayDelete, Retention
from data_plane.node.replicas.step_aside import StepAside
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.node.serving.client_service import ClientParts, client_service
from data_plane.node.serving.client_streams import ClientStreams
from data_plane.node.serving.record_deletion import RecordDeletion
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import TopicPartition
from penstock.contract.invariant import invariant


class BrokerNode:
    """The production node. Everything it knows of the outside comes through its arguments.

    `run` serves until it is cancelled (as good as killed: nothing depends on cleaning up, RL136) or until `drain`
    has finished. It raises `LogDirectoryFailed` when the disk can no longer be trusted (RL126), and whatever is our
    own bug (RL140): the process must then end. `may_delete(partition, end)` is asked before log below `end` is deleted.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        clock: Clock,
        rng: Rng,
        transport: Transport,
        disk: Disk,
        store: MetaStore,
        rules: AccessRules | None = None,
        may_delete: MayDelete = lambda where, end: True,
    ) -> None:
        self.config, self.stats = config, NodeStats()
        self.announce_distrust: Callable[[str], None] = lambda reason: None
        """Told why the metadata store may not be acted on, for the log. Set before `run`."""
        self.trust = Trust(disk, lambda reason: self.announce_distrust(reason))
        self._untrusted_store = store
        store = TrustedStore(store, self.trust)
        self._clock, self._rng, self._disk, self._store = clock, rng, disk, store
        self.view = MetadataView(store, config.timings)
        self.host = ReplicaHost(config, self.view.image, disk, store, transport, clock, rng, self.stats)
        self._transport, self._may_delete = transport, may_delete
        self.usage_topic = UsageTopic(
            config, self.view.image, self.host.find, transport, clock, rng, self.stats
        )
        leaderless = Leaderless(self.view.image)
        self.metering = Metering(
            config,
            self.usage_topic,
            clock,
            self.stats,
            self.host.all,
            self.host.find,
            lambda: leaderless.partitions() if self.control.seated else {},
            FinalReadings(config, self.view, store),
        )
        self.host.hold = self.metering.hold
        self._gate = Gate(
            Authenticator(self.view.image, config.peppers, rules),
            clock,
            self.stats,
            lambda: self.registration.silence_ms(),
        )
        self._fairness = Fairness(clock, self.stats)
        self._begin_turn = partial(Turn, clock, rng)
        self.catch_up = CatchUp(config.catch_up_bytes_per_s, clock, self.stats)
        self.announce_loss: Callable[[TopicPartition, model.LossRecord], None] = lambda where, loss: None
        """Told of each loss that this broker declares, for the log. Set before `run`."""
        self._drained = asyncio.Event()
        self.booted = asyncio.Event()
        """Set once the log directory is recovered: calls may come."""
        self._draining = self._checkpointed = False
        self._tasks: asyncio.TaskGroup | None = None
        self.client_service = client_service(lambda: self._for_clients, self._gate, self._fairness)
        self.internal_service = self._internal_service()

    # -- life --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self.trust.wait_until_trusted(self._untrusted_store, self.config.broker_id)
        await self.view.load()
        await self._know_cluster()
        directory = open_directory(self._disk, self.config, self._rng)
        self.host.disk_space.before_recovery()
        try:
            journal = self.host.recover(directory)
        except DiskFull as full:
            raise LogDirectoryFailed(f"recovery needs room: {full}; free space and start again") from full
        self._compose(journal, directory.directory_id, self.host.data_lost(directory))
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                running = [
                    tasks.create_task(part)
                    for part in (
                        self.view.run(),
                        self.trust.run(),
                        self.committer.run(),
                        self.committer.run_flushes(),
                        self.committer.run_checkpoints(),
                        self.host.run(),
                        self.in_sync.run(),
                        self.control.run(),
                        self.losses.run(),
                        self.handover.run(),
                        self.retention.run(),
                        self.step_aside.run(),
                        self.scrubber.run(),
                        self._gate.run(),
                        self._fairness.run(),
                        self.groups.run(),
                        *(self._metering_tasks() if self.config.metering else ()),
                        self.registration.run(),
                    )
                ]
                self.booted.set()
                await self._drained.wait()
                for task in [*running, *self._background]:
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        # Leaders may have pushed more after the last checkpoint: no marker vouches for that (RL44).
        owing = any(replica.log.owes_a_sync for replica in self._all_logs())
        for replica in self._all_logs():
            replica.log.close(clean=True)
        if self._checkpointed and not owing:
            try:
                mark_clean(self._disk, self._last_epoch)
            except DiskFull:
                return  # the next start recovers as after a crash

    def _metering_tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (self.usage_topic.run(), *self.metering.tasks())

    def _compose(self, journal: Journal, directory_id: str, data_lost: Callable[..., bool]) -> None:
        config, clock, store, view = self.config, self._clock, self._store, self.view
        room = self.host.disk_space
        self._background: list[asyncio.Task[None]] = []
        self._last_epoch = 0
        self.committer = Committer(
            self._disk,
            journal,
            config,
            clock,
            self.stats,
            self._all_logs,
            self.host.became_durable,
            self._begin_turn,
        )
        self.registration = Registration(
            config,
            directory_id,
            view,
            store,
            clock,
            self._rng,
            data_lost=data_lost,
            damaged=self.host.untrusted,
            gained=self._registered,
            lost=self._unregistered,
        )
        self.in_sync = InSyncWriter(config, view, self.registration, store, clock, self.stats)
        self.handover = Handover(
            config,
            view,
            self.registration,
            store,
            self._transport,
            clock,
            self.stats,
            self.host.find,
            self.host.all,
            self.host.reassigning,
        )
        self.control = ControllerSeat(
            config,
            view,
            self.registration,
            store,
            self._transport,
            clock,
            self._rng,
            self.stats,
            self.handover.ask_all,
        )
        self.losses = DeclaredLosses(
            config,
            view,
            self.registration,
            store,
            self._transport,
            clock,
            self.stats,
            self.host.find,
            lambda: self.control.seated,
        )
        self.losses.announce = self.announce_loss
        self.step_aside = StepAside(
            config, view, self.registration, store, clock, self.stats, self.committer, room
        )
        self.committer.lacks_room, self.committer.cannot_commit = room.free_ballast, room.lacked
        room.changed = self._room_changed
        self.host.slow, self.step_aside.changed = lambda: self.step_aside.slow, self.host.open_again
        self.retention = Retention(
            config,
            self.host,
            clock,
            self.stats,
            lambda: self.control.clock_off_ms,
            lambda where, end: (
                not self.trust.refused
                and self.metering.may_delete(where, end)
                and self._may_delete(where, end)
            ),
        )
        self.conditions = Conditions(config, self.host, self.control, self.retention, self.step_aside)
        self.host.connect(self.committer, self.in_sync, self.registration, self._spawn)
        self._streams = ClientStreams(
            config,
            view,
            self._gate,
            self._fairness,
            self._disk,
            clock,
            self._rng,
            self.stats,
            self.host,
            self.committer,
            self.metering,
            writing=self.trust.writing(self.registration.confident),
            reading=self.trust.reading(self.registration.confident),
            begin_turn=self._begin_turn,
        )
        calls = ClientCalls(
            config,
            view,
            self._gate,
            store,
            self.host.find,
            self.metering.count_call,
            self._fairness,
            self._begin_turn,
        )
        self.groups = GroupCoordinators(
            view,
            self.host.find,
            self._disk,
            clock,
            self.stats,
            self.registration.confident,
            config.timings.group_retention_ms,
            lambda replica, offset: self._deletion.advance(replica, offset),
            self._begin_turn,
        )
        groups = GroupCalls(self.groups, view, self._gate, self.host.find, self._begin_turn)
        self._admin = AdminCalls(config, view, store, self._rng)
        self._placement = PlacementCalls(
            config, view, self._admin, self.host, self.handover, self._transport, clock
        )
        self._cuts = CutCalls(
            config,
            view,
            store,
            self._transport,
            clock,
            self.host.find,
            self.registration.confident,
            self.metering,
        )
        proofs = ProofReads(self._gate, self.host.find, self._disk, clock, self.registration.confident)
        commitments = Commitments(self._gate, view, store, clock)
        self._deletion = RecordDeletion(
            self._gate,
            self.host.find,
            self.host.trim,
            self.metering,
            clock,
            self.registration.confident,
            self._begin_turn,
        )
        self.scrubber = Scrubber(
            config,
            view.image,
            self._disk,
            self._transport,
            clock,
            self.stats,
            self._gate,
            self.host,
            self._begin_turn,
        )
        self._durability = TopicDurability(config, view, self._transport, self.scrubber)
        self._for_clients = ClientParts(
            streams=self._streams,
            calls=calls,
            groups=groups,
            proofs=proofs,
            commitments=commitments,
            deletion=self._deletion,
            scrubber=self.scrubber,
        )
        view.listen(self._observe)

    def _all_logs(self) -> list[Replica]:
        """Those of deleted topics that wait for their last reading included."""
        return [*self.host.all(), *self.metering.held()]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        invariant(self._tasks is not None, "links are made while the node runs")
        if self._tasks is not None:
            self._background.append(self._tasks.create_task(work))

    async def _know_cluster(self) -> None:
        """The first broker of a cluster writes its id; every other one checks it (RL54)."""
        while not self.view.image.cluster_id:
            record = model.ClusterRecord(cluster_id=self.config.cluster_id)
            try:
                await self._store.txn(
                    [Compare(model.CLUSTER_KEY, 0)], [Put(model.CLUSTER_KEY, record.encode())]
                )
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(self.config.timings.reconnect_ms / 1000)
            await self.view.load()
        if self.view.image.cluster_id != self.config.cluster_id:
            raise ConfigurationError(
                f"cluster_id: the metadata store belongs to {self.view.image.cluster_id!r}, "
                f"this broker is configured for {self.config.cluster_id!r}"
            )

    async def drain(self) -> None:
        """A clean stop (RL50): hand over what is led, announce it, wait until others lead the rest, checkpoint, leave.
        `run` then returns.
        """
        if not self.booted.is_set():
            raise ConnectionLost("the broker has not booted")
        self._draining = True
        await self.handover.leave()
        await self.registration.announce_draining()
        deadline_ms = self._clock.monotonic_ms() + self.config.timings.drain_ms
        image, me = self.view.image, self.config.broker_id
        while self.registration.epoch and not may_stop(image, me) and not waits_in_vain(image, me):
            if self._clock.monotonic_ms() > deadline_ms:
                break
            await asyncio.sleep(self.config.timings.heartbeat_ms / 3000)
        await self.metering.finish()
        self._last_epoch = self.registration.epoch
        await self.registration.end()
        await self.trust.write()
        await asyncio.gather(*(self.committer.flushed(replica) for replica in self._all_logs()))
        try:
            await self.committer.checkpoint()
            self._checkpointed = True
        except DiskFull:
            pass  # the journal has everything, and the next start reads it
        self._drained.set()

    # -- what the parts tell one another -----------------------------------------------------------------

    def _room_changed(self) -> None:
        self.host.open_again()
        self.step_aside.look_now()

    def _observe(self, batch: WatchBatch | None) -> None:
        self.trust.saw(self.view.image.revision)
        self.registration.observe(self.view.image)
        if self.registration.in_force() and not self._acting:
            self._acting = True
            self.host.look_at_all()
        else:
            self.host.observe(batch)
        self.control.wake()
        if batch is None or any(event.key.startswith(("/keys/", "/tenants/")) for event in batch.events):
            self._gate.recheck()
            self._streams.recheck()

    def _registered(self) -> None:
        self.stats.registrations += 1
        self.trust.saw(self.view.image.revision, registered=self.registration.epoch)
        self.host.gave_up()
        self._acting = False
        if self.registration.in_force():
            self._acting = True
            self.host.look_at_all()
        self.control.wake()

    def _unregistered(self, reason: str) -> None:
        """Give up every authority and all follower state at once (RL3)."""
        self._acting = False
        self.host.look_at_all()

    _acting = False
    """Whether the roles were given under the present registration."""

    @property
    def ready(self) -> bool:
        """Registered and serving."""
        return (
            not self.trust.refused
            and self.booted.is_set()
            and not self._draining
            and self.registration.in_force()
        )

    @property
    def ready_reason(self) -> str:
        """Why not ready; empty when ready."""
        if self.trust.refused or self.trust.unreachable:
            return self.trust.refused or self.trust.unreachable
        if not self.booted.is_set():
            return "booting"
        if self._draining:
            return "draining"
        return "" if self.registration.in_force() else "not registered"

    def warnings(self) -> dict[str, str]:
        """What an operator should look at, by kind; none while booting."""
        return self.conditions.told() if self.booted.is_set() else {}

    def stalled(self) -> None:
        """The event loop stands still (RL137). Called from another thread."""
        if self.booted.is_set():
            self.registration.doubt()

    def gauges(self) -> dict[str, int]:
        """What can be counted now rather than since the start, for metrics."""
        replicas = self.host.all()
        led = [replica.leading for replica in replicas if replica.leading is not None]
        return {
            "replicas": len(replicas),
            "replicas_broken": sum(1 for replica in replicas if replica.broken),
            "partitions_led": len(led),
            "partitions_under_replicated": sum(
                1 for leading in led if len(leading.record.in_sync) < len(leading.record.replicas)
            ),
            "partitions_under_min_in_sync": sum(1 for leading in led if not leading.enough_in_sync),
            "controller": int(self.booted.is_set() and self.control.seated),
            "registered": int(self.booted.is_set() and self.registration.in_force()),
            **(self.conditions.gauges() if self.booted.is_set() else {}),
            "log_bytes": sum(replica.log.size_bytes for replica in replicas),
            "client_connections": self._gate.connections,
            "group_partitions_coordinated": len(self.groups.serving()) if self.booted.is_set() else 0,
        }

    # -- what it offers ----------------------------------------------------------------------------------

    def _internal_service(self) -> Service:
        return Service(
            streams={
                internal.REPLICATE: self._replicate,
                internal.CONTROL: lambda caller, connection: self.control.serve(caller, connection),
            },
            calls={
                internal.COMPARE_SEGMENTS: lambda caller, asked: self.scrubber.compare_segments(
                    caller, asked
                ),
                internal.APPEND_USAGE: self.usage_topic.append,
                internal.REPLICA_ENDS: lambda caller, request: self.losses.replica_ends(caller, request),
                internal.DECLARE_LOSS: lambda caller, request: self.losses.declare_loss(caller, request),
                internal.CUT_PARTITIONS: lambda caller, request: self._cuts.cut_partitions(caller, request),
                internal.CUT: lambda caller, request: self._cuts.cut(caller, request),
                internal.PUT_TENANT: lambda caller, request: self._admin.put_tenant(caller, request),
                internal.CREATE_TOPIC: lambda caller, request: self._admin.create_topic(caller, request),
                internal.UPDATE_TOPIC: lambda caller, request: self._admin.update_topic(caller, request),
                internal.DELETE_TOPIC: lambda caller, request: self._admin.delete_topic(caller, request),
                internal.PUT_KEY: lambda caller, request: self._admin.put_key(caller, request),
                internal.REVOKE_KEY: lambda caller, request: self._admin.revoke_key(caller, request),
                internal.ALTER_REPLICAS: lambda caller, asked: self._placement.alter_replicas(caller, asked),
                internal.MOVE_LEADER: lambda caller, asked: self._placement.move_leader(caller, asked),
                internal.HAND_OVER: lambda caller, request: self.handover.hand_over(caller, request),
                internal.CORDON_BROKER: lambda caller, asked: self._placement.cordon_broker(caller, asked),
                internal.FORGET_BROKER: lambda caller, asked: self._placement.forget_broker(caller, asked),
                internal.DESCRIBE_MOVES: lambda caller, asked: self._placement.describe_moves(caller, asked),
                internal.TOPIC_DURABILITY: lambda caller, asked: self._durability.describe(caller, asked),
                internal.DESCRIBE_TOPIC: lambda caller, request: self._admin.describe_topic(caller, request),
                internal.DESCRIBE_CLUSTER: lambda caller, request: self._admin.describe_cluster(
                    caller, request
                ),
            },
            watches={},
        )

    async def _replicate(self, caller: Caller, connection: Connection) -> None:
        await FollowerStream(
            connection,
            self.config,
            self.view.image,
            self.host.find,
            self._disk,
            self._clock,
            self.stats,
            self.in_sync.progressed,
            self.catch_up,
        ).serve()
