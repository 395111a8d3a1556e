"""One broker: boots, registers, serves and drains, composed over the ports."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from data_plane.authz.access import AccessRules, Authenticator
from data_plane.contract import methods as internal
from data_plane.controller.leaderless import Leaderless
from data_plane.controller.registration import may_stop, waits_in_vain
from data_plane.disk.port import Disk, DiskFull
from data_plane.metadata.model import TopicRecord
from data_plane.metadata.port import Event, MetaStore, WatchBatch
from data_plane.metering.connection_time import ConnectionTime
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.gate import Gate
from data_plane.node.conditions import Conditions
from data_plane.node.config import NodeConfig
from data_plane.node.control.key_use_calls import KeyUseCalls
from data_plane.node.control.load_calls import LoadCalls
from data_plane.node.control.tenant_use_calls import TenantUseCalls
from data_plane.node.control.wing import Control
from data_plane.node.environment import Environment
from data_plane.node.integrity.wing import Integrity
from data_plane.node.leasing.budgets import Budgets
from data_plane.node.leasing.wing import Leasing
from data_plane.node.log_directory.boot import Booted
from data_plane.node.log_directory.directory import Directory, mark_clean
from data_plane.node.log_directory.log_directory import LogDirectory
from data_plane.node.membership.cluster_id import ensure_cluster
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.only_one import ensure_only_one
from data_plane.node.membership.registration import Registration
from data_plane.node.membership.trusted_store import StoreWitness, TrustedStore
from data_plane.node.metering.wing import Usage
from data_plane.node.ports import (
    ConnectionLost,
    Notices,
    Rng,
    Service,
    Transport,
    WorkClock,
    anyone,
    at_once,
)
from data_plane.node.replicas.committer import LogDirectoryFailed
from data_plane.node.replicas.distrust import Distrust
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.replicas.wing import Hosting
from data_plane.node.serving.allowance import Allowances
from data_plane.node.serving.wing import Serving
from data_plane.node.stats import NodeStats
from data_plane.node.storage_limits.wing import Storage
from data_plane.placement.hot_keys import HotKeyTable
from penstock.contract.ids import TenantId, TopicId, TopicPartition
from penstock.contract.invariant import invariant


class BrokerNode:
    """The production node. Everything it knows of the outside comes through its arguments.

    `run` serves until it is cancelled (as good as killed: nothing depends on cleaning up, RL136) or until `drain`
    has finished. It raises `LogDirectoryFailed` when the disk can no longer be trusted (RL126), and whatever is our
    own bug (RL140): the process must then end. The wings and the services are there once `booted` is set.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        clock: WorkClock,
        rng: Rng,
        transport: Transport,
        disk: Disk,
        store: MetaStore,
        notices: Notices,
        rules: AccessRules | None = None,
    ) -> None:
        self.config = config
        self.stats = NodeStats()
        self._environment = Environment(
            config=config, clock=clock, rng=rng, transport=transport, disk=disk, stats=self.stats
        )
        self._notices = notices
        self._rules = rules
        self.store_witness = StoreWitness(disk, notices.store_refused)
        self._untrusted_store, self._store = store, TrustedStore(store, self.store_witness)
        self.view = MetadataView(self._store, config.timings)
        self.replicas = ReplicaSet(config.unsynced_bytes_max)
        self.log_directory = LogDirectory(self._environment)
        self._drained = asyncio.Event()
        self.booted = asyncio.Event()
        """Set once the log directory is recovered: calls may come."""
        self._draining = self._checkpointed = False
        self._acting = False
        """Whether the roles were given under the present registration."""
        self._last_epoch = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._background: list[asyncio.Task[None]] = []

    # -- life --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self.store_witness.wait_until_trusted(self._untrusted_store, self.config.broker_id)
        await self.view.load()
        await ensure_cluster(self.config, self.view, self._store)
        try:
            directory, booted = self.log_directory.open(self.view.image)
        except DiskFull as full:
            raise LogDirectoryFailed(
                f"recovery needs disk space: {full}; free space and start again"
            ) from full
        await ensure_only_one(
            self.config, directory.directory_id, self.view.image, self._store, self._environment.clock
        )
        self._compose(directory, booted)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                running = [tasks.create_task(part) for part in self._parts()]
                self.booted.set()
                await self._drained.wait()
                for task in [*running, *self._background]:
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        # Leaders may have pushed more after the last checkpoint: no marker vouches for that (RL44).
        owing = any(replica.log.owes_a_sync for replica in self.hosting.open_logs())
        for replica in self.hosting.open_logs():
            replica.log.close(clean=True)
        if self._checkpointed and not owing:
            try:
                mark_clean(self._environment.disk, self._last_epoch)
            except DiskFull:
                return  # the next start recovers as after a crash

    def _compose(self, directory: Directory, booted: Booted) -> None:
        environment, view, store, replicas = self._environment, self.view, self._store, self.replicas
        clock = environment.clock
        distrust = self._distrust = Distrust(view.image, directory, booted, replicas)
        self.registration = Registration(
            self.config,
            directory.directory_id,
            view,
            store,
            clock,
            environment.rng,
            data_lost=distrust.data_lost,
            damaged=distrust.is_damaged,
            gained=self._registered,
            lost=self._unregistered,
        )
        confident = self.registration.confident
        self.control = Control(
            environment,
            view=view,
            registration=self.registration,
            store=store,
            replicas=replicas,
            notices=self._notices,
        )
        leaderless = Leaderless(view.image)

        def leaderless_as_controller() -> Mapping[TopicPartition, TopicRecord]:
            return leaderless.partitions() if self.control.seat.seated else {}

        connection_time = ConnectionTime()
        self.usage = Usage(
            environment,
            view=view,
            store=store,
            replicas=replicas,
            confident=confident,
            leaderless=leaderless_as_controller,
            connection_time=connection_time,
        )
        self.hosting = Hosting(
            environment,
            view=view,
            registration=self.registration,
            store=store,
            replicas=replicas,
            log_directory=self.log_directory,
            booted=booted,
            last_readings=self.usage.metering.deleted,
            clock_off_ms=lambda: self.control.seat.clock_off_ms,
            may_delete=self._may_delete,
            spawn=self._spawn,
        )
        authenticator = Authenticator(view.image, self.config.peppers, self._rules, self.config.read_peppers)
        self._gate = Gate(
            authenticator,
            clock,
            self.stats,
            self.registration.silence_ms,
            view.image.quotas_of,
            connection_time,
        )
        key_use = KeyUseCalls(
            environment,
            view,
            self._gate.key_use,
            authenticator.peppers,
            near_storage=lambda: self.storage.office.named,
        )
        hot_keys = HotKeyTable()
        self.loads = LoadCalls(
            environment, replicas=replicas, connections=lambda: self._gate.connections, hot_keys=hot_keys
        )
        self.fairness = Fairness(clock, self.stats, view.image.quotas_of)
        self.integrity = Integrity(
            environment, view=view, store=store, gate=self._gate, replicas=replicas, confident=confident
        )
        self.budgets = Budgets(
            environment,
            view=view,
            store=store,
            registration=self.registration,
            seated=lambda: self.control.seat.seated,
        )
        self.leasing = Leasing(
            environment,
            view=view,
            registration=self.registration,
            seated=lambda: self.control.seat.seated,
            slowed=self.budgets.slowed,
        )
        self.storage = Storage(
            environment,
            view=view,
            registration=self.registration,
            replicas=replicas,
            seated=lambda: self.control.seat.seated,
        )
        self.allowances = Allowances(
            paces=self.leasing,
            budgets=self.budgets.of,
            storage_refusal=self.storage.refusal,
            fairness=self.fairness,
            throttled=self.usage.metering.clients.throttled,
            clock=clock,
            stats=self.stats,
        )
        self.serving = Serving(
            environment,
            view=view,
            store=store,
            gate=self._gate,
            allowances=self.allowances,
            replicas=replicas,
            disk_space=self.log_directory.disk_space,
            committer=self.hosting.committer,
            trim=self.hosting.trim,
            metering=self.usage.metering,
            integrity=self.integrity,
            hot_keys=hot_keys,
            writing=self.store_witness.writing(confident),
            reading=self.store_witness.reading(confident),
            confident=confident,
        )
        tenant_use = TenantUseCalls(
            environment,
            view,
            replicas,
            connections=self._gate.connections_of,
            groups=self.serving.groups.coordinators.groups_of,
            groups_topic=lambda: self.serving.groups.coordinators.topic,
        )
        self.conditions = Conditions(
            self.config,
            replicas,
            self.log_directory,
            self.control.seat,
            self.hosting.retention,
            self.hosting.step_aside,
            self.view.image,
        )
        self.client_service = self.serving.service
        self.internal_service = Service(
            streams={},
            calls={
                **self.integrity.internal_calls(),
                **self.usage.internal_calls(),
                **self.control.internal_calls(),
                **key_use.internal_calls(),
                **tenant_use.internal_calls(),
                **self.budgets.internal_calls(),
                internal.DESCRIBE_LOAD: self.loads.describe_load,
                internal.DESCRIBE_HOT_KEYS: self.serving.key_reports.describe_hot_keys,
            },
            watches={},
            enter=anyone,
            turn=at_once,
        )
        self.peer_service = Service(
            streams={
                internal.REPLICATE: self.hosting.replicate,
                internal.CONTROL: self.control.seat.serve,
                **self.leasing.peer_streams(),
                **self.storage.peer_streams(),
                **self.budgets.peer_streams(),
            },
            calls={
                **self.integrity.peer_calls(),
                **self.usage.peer_calls(),
                **self.control.peer_calls(),
                **key_use.peer_calls(),
                **tenant_use.peer_calls(),
            },
            watches={},
            enter=anyone,
            turn=at_once,
        )
        view.listen(self._observe)

    def _parts(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (
            self.view.run(),
            self.store_witness.run(),
            *self.hosting.tasks(),
            *self.control.tasks(),
            self.integrity.scrubber.run(),
            self._gate.run(),
            self.fairness.run(),
            self.serving.groups.coordinators.run(),
            *self.usage.tasks(),
            *self.leasing.tasks(),
            *self.storage.tasks(),
            *self.budgets.tasks(),
            self.loads.run(),
            self.registration.run(),
        )

    def _may_delete(self, where: TopicPartition, end: int) -> bool:
        return not self.store_witness.refused and self.usage.metering.may_delete(where, end)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        invariant(self._tasks is not None, "links are made while the node runs")
        if self._tasks is not None:
            self._background.append(self._tasks.create_task(work))

    async def drain(self) -> None:
        """A clean stop (RL50): hand over what is led, announce it, wait until others lead the rest, checkpoint, leave.
        `run` then returns.
        """
        if not self.booted.is_set():
            raise ConnectionLost("the broker has not booted")
        self._draining = True
        await self.control.handover.leave()
        await self.registration.announce_draining()
        deadline_ms = self._environment.clock.monotonic_ms() + self.config.timings.drain_ms
        image, me = self.view.image, self.config.broker_id
        while self.registration.epoch and not may_stop(image, me) and not waits_in_vain(image, me):
            if self._environment.clock.monotonic_ms() > deadline_ms:
                break
            await asyncio.sleep(self.config.timings.heartbeat_ms / 3000)
        await self.usage.metering.finish()
        self._last_epoch = self.registration.epoch
        await self.registration.end()
        await self.store_witness.write()
        await asyncio.gather(
            *(self.hosting.committer.flushed(replica) for replica in self.hosting.open_logs())
        )
        try:
            await self.hosting.committer.checkpoint()
            self._checkpointed = True
        except DiskFull:
            pass  # the journal has everything, and the next start reads it
        self._drained.set()

    # -- what the parts tell one another -----------------------------------------------------------------

    def _observe(self, batch: WatchBatch | None) -> None:
        self.store_witness.saw(self.view.image.revision)
        self.registration.observe(self.view.image)
        if self.registration.in_force() and not self._acting:
            self._acting = True
            self.hosting.assignment.look_at_all()
        else:
            self.hosting.assignment.observe(batch)
        self.control.seat.wake()
        self.leasing.observe()
        if batch is None or any(
            event.key.startswith(("/keys/", "/tenants/", "/access_lists/")) for event in batch.events
        ):
            self._gate.recheck()
            self.serving.recheck()
        elif any(self._puts_into_the_bin(event) or self._stops_readers(event) for event in batch.events):
            self.serving.recheck()

    def _puts_into_the_bin(self, event: Event) -> bool:
        if event.value is None or not event.key.startswith("/topics/"):
            return False
        topic = self.view.image.topics.get(TopicId(bytes.fromhex(event.key.removeprefix("/topics/"))))
        return topic is not None and topic.binned

    def _stops_readers(self, event: Event) -> bool:
        whose = event.key.removeprefix("/budget_use/")
        return whose != event.key and self.budgets.stops_more_readers(TenantId(whose))

    def _registered(self) -> None:
        self.stats.registrations += 1
        self.store_witness.saw(self.view.image.revision, registered=self.registration.epoch)
        self._distrust.gave_up()
        self._acting = False
        if self.registration.in_force():
            self._acting = True
            self.hosting.assignment.look_at_all()
        self.control.seat.wake()
        self.leasing.observe()

    def _unregistered(self, reason: str) -> None:
        """Give up every authority and all follower state at once (RL3)."""
        self._acting = False
        self.hosting.assignment.look_at_all()
        self.leasing.observe()

    @property
    def ready(self) -> bool:
        """Registered and serving."""
        return (
            not self.store_witness.refused
            and self.booted.is_set()
            and not self._draining
            and self.registration.in_force()
        )

    @property
    def ready_reason(self) -> str:
        """Why not ready; empty when ready."""
        if self.store_witness.refused or self.store_witness.unreachable:
            return self.store_witness.refused or self.store_witness.unreachable
        if not self.booted.is_set():
            return "booting"
        if self._draining:
            return "draining"
        return "" if self.registration.in_force() else "not registered"

    def warnings(self) -> dict[str, str]:
        """What an operator should look at, by kind; none while booting."""
        return self.conditions.by_kind() if self.booted.is_set() else {}

    def stalled(self) -> None:
        """The event loop stands still (RL137). Called from another thread."""
        if self.booted.is_set():
            self.registration.doubt()

    def gauges(self) -> dict[str, int]:
        """What can be counted now rather than since the start, for metrics."""
        booted = self.booted.is_set()
        return {
            **self.replicas.gauges(),
            "controller": int(booted and self.control.seat.seated),
            "limits_leased": self.leasing.office.limits_leased if booted else 0,
            **(self.storage.gauges() if booted else {}),
            "registered": int(booted and self.registration.in_force()),
            **(self.conditions.gauges() if booted else {}),
            "client_connections": self._gate.connections if booted else 0,
            "group_partitions_coordinated": len(self.serving.groups.coordinators.serving())
            if self.booted.is_set()
            else 0,
        }
