"""A simulated cluster: brokers on hosts of their own, started, killed, paused, isolated, set up through Admin calls.

States of a broker and what moves between them:

    DOWN --start--> UP --kill, power cut, its own end--> DOWN
    UP --pause--> PAUSED --resume--> UP

A broker keeps its medium, its clock and its addresses over all its lives; everything else is made again.
"""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from daemon.identity import Identity, Role
from data_plane.authz.peers import ROLES, PeerRules
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.disk.port import DiskFault
from data_plane.metadata import model
from data_plane.metadata.losses import LossRecord
from data_plane.metadata.port import MetaStore
from data_plane.node.broker_node import BrokerNode
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.directory import WrongDirectory
from data_plane.node.ports import CallFailed, ConnectionLost
from data_plane.node.replicas.committer import LogDirectoryFailed
from data_plane.testkit.clock import SimClock
from data_plane.testkit.disk import DISK_BYTES, DiskFaults, SimDisk
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.loop import Process, SimLoop
from data_plane.testkit.medium import Medium
from data_plane.testkit.network import Listener, Network
from data_plane.testkit.rng import Chances, SimRng
from data_plane.testkit.store import SimulatedStore
from data_plane.testkit.store_history import StoreHistory
from data_plane.testkit.swarm import GROUPS_PLAN, USAGE_PLAN, Plan, TopicPlan
from data_plane.testkit.timeline import Timeline
from data_plane.testkit.transport import SimPeers, SimTransport
from penstock.contract import limits
from penstock.contract.api_keys import RANDOM_BYTES, make_api_key
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import SYSTEM_TENANT, BrokerId, TopicId, TopicPartition
from penstock.rules.credentials import SCRAM_SALT_BYTES, make_credential

CLUSTER_ID = "simulated"
OPERATOR = Identity(cluster_id=CLUSTER_ID, role=Role.OPERATOR)
TENANT = "tn_sim"
PEPPER = b"pepper of the simulation" * 2
ADMIN_HOST = "admin"
_CALL_MS = 5_000
_WRAPPED: dict[str, type[pb.CreateTopicResponse | pb.PutKeyResponse]] = {
    methods.CREATE_TOPIC: pb.CreateTopicResponse,
    methods.PUT_KEY: pb.PutKeyResponse,
}
"""Admin calls whose answer holds more than an outcome."""


class BrokerState(Enum):
    DOWN = "down"
    UP = "up"
    PAUSED = "paused"


class Unread:
    """Notices to an operator: the simulation looks for itself."""

    def loss_declared(self, where: TopicPartition, loss: LossRecord) -> None:
        """The watcher sees it in the metadata."""

    def store_refused(self, reason: str) -> None:
        """The plan did it."""


@dataclass(slots=True, eq=False)
class SimBroker:
    """One broker over all its lives."""

    broker_id: BrokerId
    clock: SimClock
    medium: Medium = field(default_factory=Medium)
    faults: DiskFaults = field(default_factory=DiskFaults)
    state: BrokerState = BrokerState.DOWN
    lives: int = 0
    process: Process | None = None
    disk: SimDisk | None = None
    node: BrokerNode | None = None
    started_s: float = 0.0
    own_medium: Medium | None = None
    """Its own while it has another broker's."""
    without_power: bool = False
    draining: bool = False
    failed_syncs_before: int = 0
    """How many syncs the nemesis had let fail when this life began: only a later one explains its end."""
    ended: str = ""
    """Why its last life ended by itself."""

    @property
    def host(self) -> str:
        return f"b{self.broker_id}"

    @property
    def client_address(self) -> str:
        return f"{self.host}:9092"

    @property
    def internal_address(self) -> str:
        return f"{self.host}:9093"

    @property
    def peer_address(self) -> str:
        return f"{self.host}:9094"

    @property
    def identity(self) -> Identity:
        return Identity(cluster_id=CLUSTER_ID, role=Role.BROKER, broker_id=self.broker_id)

    @property
    def ready(self) -> bool:
        return self.state is BrokerState.UP and self.node is not None and self.node.ready


class SimCluster:
    """All brokers of one simulation, and the only one who starts and stops them."""

    def __init__(self, loop: SimLoop, plan: Plan, timeline: Timeline) -> None:
        self.loop = loop
        self.plan = plan
        self.timeline = timeline
        self.network = Network(loop, plan.seed, plan.network)
        self.chances = Chances(plan.seed)
        self.store = SimulatedStore(random.Random(f"{plan.seed}/store"), plan.store)
        self.store_history = StoreHistory(loop.time)
        self.topic_ids: dict[str, TopicId] = {}
        self.api_key = ""
        self.disk_hook: Callable[[SimBroker, str, str], None] | None = None
        """Called with each operation of a broker's disk before it happens."""
        self.lull_until_s = 0.0
        """Producers have nothing new to send before this (the loop's time)."""
        self.unexpected_ends: list[tuple[SimBroker, Exception]] = []
        """Lives that ended by an exception that no fault explains."""
        self.stopped_cleanly: Callable[[SimBroker], None] | None = None
        """Called with each broker that ends by a clean stop, while its node and its files are as it left them."""
        self.wrong_directories = 0
        """Starts that a broker refused because the log directory was another's."""
        self._rng = random.Random(f"{plan.seed}/cluster")
        self._admin_process = loop.process(ADMIN_HOST)
        self._admin = SimTransport(self.network, self._admin_process, ADMIN_HOST, identity=OPERATOR)
        self.brokers = [self._make_broker(BrokerId(number)) for number in range(plan.brokers)]

    def _make_broker(self, broker_id: BrokerId) -> SimBroker:
        skew = self.plan.clock_skew_ms_max
        clock = SimClock(
            self.loop,
            skew_ms=self._rng.randint(-skew, skew),
            rate=self._rng.uniform(0.999, 1.001),
            monotonic_start_ms=self._rng.uniform(0, 1e9),
        )
        return SimBroker(broker_id, clock)

    def broker(self, broker_id: int) -> SimBroker:
        return self.brokers[broker_id]

    # -- lives ----------------------------------------------------------------------------------------

    def start(self, broker: SimBroker) -> None:
        """A new life from what the medium holds."""
        if broker.state is not BrokerState.DOWN:
            return
        broker.lives += 1
        life = f"{broker.host}.{broker.lives}"
        if broker.without_power:
            broker.without_power = False
            self.network.host_up(broker.host)
        process = broker.process = self.loop.process(life)
        seed = f"{self.plan.seed}/{life}"
        disk = broker.disk = SimDisk(
            broker.medium, rng=random.Random(f"{seed}/disk"), timing=self.plan.disk, faults=broker.faults
        )
        disk.hook = lambda kind, path: self._disk_operation(broker, process, kind, path)
        store = self.store_history.recording(self.store.client(broker.host), life)
        broker.state, broker.started_s, broker.draining, broker.ended = (
            BrokerState.UP,
            self.loop.time(),
            False,
            "",
        )
        broker.failed_syncs_before = broker.faults.failed_syncs
        self.timeline.note(broker.host, "start", life)
        self.loop.spawn(
            process, self._live(broker, process, disk, store, SimRng(seed, self.chances)), name="life"
        )

    async def _live(
        self, broker: SimBroker, process: Process, disk: SimDisk, store: MetaStore, rng: SimRng
    ) -> None:
        """The process' main task. Its end is the end of the process."""
        transport = SimPeers(self.network, process, broker.host, broker.identity)
        ending: Exception | None = None
        try:
            node = BrokerNode(
                self.config(broker),
                clock=broker.clock,
                rng=rng,
                transport=transport,
                disk=disk,
                store=store,
                notices=Unread(),
            )
            broker.node = node
            self.loop.create_task(self._listen(broker, process, node), name="listen")
            await node.run()
        except Exception as error:
            ending = error
        self._ended_later(broker, process, ending)

    async def _listen(self, broker: SimBroker, process: Process, node: BrokerNode) -> None:
        """As the shell does: listen once the node has booted."""
        await node.booted.wait()
        rules = PeerRules(cluster_id=CLUSTER_ID, roles=ROLES)
        for address, service, within in (
            (broker.client_address, node.client_service, None),
            (broker.internal_address, node.internal_service, rules),
            (broker.peer_address, node.peer_service, rules),
        ):
            listener = Listener(
                host=broker.host,
                process=process,
                service=service,
                identity=None if within is None else broker.identity,
                rules=within,
                failed=lambda error: self._ended_later(broker, process, error),
            )
            self.network.listen(address, listener)

    def _ended_later(self, broker: SimBroker, process: Process, ending: Exception | None) -> None:
        if process.alive:
            self.loop.call_soon(self._ended, broker, process, ending, context=self.loop.outside.context)

    def _ended(self, broker: SimBroker, process: Process, ending: Exception | None) -> None:
        if broker.process is not process or not process.alive:
            return
        reason = "drained" if ending is None else f"{type(ending).__name__}: {ending}"
        faults = broker.faults
        explained = faults.failed_syncs > broker.failed_syncs_before or faults.capacity_bytes < DISK_BYTES
        refused = broker.own_medium is not None and isinstance(ending, WrongDirectory)
        self.wrong_directories += refused
        explained = refused or (explained and isinstance(ending, LogDirectoryFailed | DiskFault))
        if ending is not None and not explained:
            self.unexpected_ends.append((broker, ending))
        if ending is None and self.stopped_cleanly is not None:
            self.stopped_cleanly(broker)
        self._end(broker, f"ended by itself: {reason}")
        broker.medium.evict()
        self.network.process_ended(process)
        broker.ended = reason

    def config(self, broker: SimBroker) -> NodeConfig:
        sizes = self.plan.sizes
        return NodeConfig(
            broker_id=broker.broker_id,
            cluster_id=CLUSTER_ID,
            client_address=broker.client_address,
            internal_address=broker.internal_address,
            peer_address=broker.peer_address,
            zone=f"z{broker.broker_id % 3}",
            peppers={1: PEPPER},
            timings=self.plan.timings,
            journal_bytes=sizes.journal_bytes,
            tail_bytes=sizes.tail_bytes,
            replica_window_bytes=sizes.replica_window_bytes,
            push_bytes_max=sizes.push_bytes_max,
            unsynced_bytes_max=sizes.unsynced_bytes_max,
            disk_soft_free_bytes=64 * limits.KIB,
            ballast_bytes=16 * limits.KIB,
            metering=self.plan.metered,
        )

    def _end(self, broker: SimBroker, what: str) -> None:
        process, disk = broker.process, broker.disk
        if process is None or disk is None or broker.state is BrokerState.DOWN:
            return
        disk.kill()
        self.loop.crash(process)
        self.store.crashed(broker.host)
        broker.state, broker.node = BrokerState.DOWN, None
        self.timeline.note(broker.host, "end", what)

    def kill(self, broker: SimBroker) -> None:
        """SIGKILL. The page cache stays."""
        process = broker.process
        self._end(broker, "killed")
        if process is not None:
            self.network.process_ended(process)

    def power_cut(self, broker: SimBroker) -> None:
        """The host loses its power, whether a broker runs on it or not."""
        process = broker.process if broker.state is not BrokerState.DOWN else None
        self._end(broker, "power cut")
        self.network.power_lost(broker.host, process)
        broker.without_power = True
        before = len(broker.medium.unsettled())
        broker.medium.power_cut(self._rng)
        self.timeline.note(broker.host, "power", f"{before} files were not wholly synced")

    def pause(self, broker: SimBroker) -> None:
        """SIGSTOP."""
        if broker.state is BrokerState.UP and broker.process is not None:
            self.loop.pause(broker.process)
            broker.state = BrokerState.PAUSED
            self.timeline.note(broker.host, "pause", "")

    def resume(self, broker: SimBroker) -> None:
        """SIGCONT."""
        if broker.state is BrokerState.PAUSED and broker.process is not None:
            broker.state = BrokerState.UP
            self.loop.resume(broker.process)
            self.timeline.note(broker.host, "resume", "")

    def drain(self, broker: SimBroker) -> None:
        """Ask for a clean stop."""
        if broker.ready and broker.process is not None and broker.node is not None:
            broker.draining = True
            self.timeline.note(broker.host, "drain", "")
            self.loop.spawn(broker.process, self._drain(broker, broker.process, broker.node), name="drain")

    async def _drain(self, broker: SimBroker, process: Process, node: BrokerNode) -> None:
        """As the shell does: what keeps it from draining ends the process."""
        try:
            await node.drain()
        except Exception as error:
            self._ended_later(broker, process, error)

    def _disk_operation(self, broker: SimBroker, process: Process, kind: str, path: str) -> None:
        if self.disk_hook is not None and broker.process is process:
            self.disk_hook(broker, kind, path)

    # -- log directories ------------------------------------------------------------------------------

    def honest(self, broker: SimBroker) -> None:
        """Its disk lies no more: what it has confirmed is durable."""
        if broker.faults.lying:
            broker.faults.lying = False
            broker.medium.flush()

    def empty(self, broker: SimBroker) -> None:
        """The broker ends, and its log directory is new when it is started again."""
        self.kill(broker)
        broker.medium = Medium()
        self.timeline.note(broker.host, "emptied", "")

    def swap(self, broker: SimBroker, other: SimBroker) -> None:
        """The broker ends, and has a copy of another's log directory until `give_back`."""
        self.kill(broker)
        broker.own_medium = broker.medium
        broker.medium = other.medium.after_cut(other.medium.random_choice(self._rng))
        self.timeline.note(broker.host, "swapped", f"has the log directory of {other.host}")

    def give_back(self, broker: SimBroker) -> None:
        """Its own log directory again. On the other one it must never have served."""
        if broker.own_medium is None:
            return
        if broker.state is not BrokerState.DOWN and broker.node is not None and broker.node.booted.is_set():
            explanation = f"{broker.host} serves from another broker's log directory"
            self.loop.stop_with(InvariantViolated(Invariant.I19, explanation))
        self.kill(broker)
        broker.medium, broker.own_medium = broker.own_medium, None
        self.timeline.note(broker.host, "swapped back", "")

    # -- cuts -----------------------------------------------------------------------------------------

    def isolate(self, broker: SimBroker) -> None:
        """Nothing gets to or from the host, the metadata store included."""
        for other in self.all_hosts():
            if other != broker.host:
                self.network.cut(broker.host, other)
                self.network.cut(other, broker.host)
        self.store.cut(broker.host)

    def rejoin(self, broker: SimBroker) -> None:
        for other in self.all_hosts():
            self.network.heal(broker.host, other)
            self.network.heal(other, broker.host)
        self.store.heal(broker.host)

    def hears_all(self, broker: SimBroker) -> bool:
        """Whether it runs, and has a link to every other broker and to the metadata store."""
        links = (
            self.network.link(*pair)
            for other in self.brokers
            for pair in ((broker.host, other.host), (other.host, broker.host))
            if other is not broker
        )
        return broker.ready and not self.store.is_cut(broker.host) and not any(link.cut for link in links)

    def all_hosts(self) -> list[str]:
        clients = [f"c{number}" for number in range(self.plan.client_hosts)]
        return [*(broker.host for broker in self.brokers), *clients, ADMIN_HOST]

    def heal(self) -> None:
        """Undo every fault that is still on, and start what is down."""
        self.network.heal_all()
        self.chances.enabled = False
        faults = self.store.faults
        for name in (
            "slow",
            "refused",
            "request_lost",
            "answer_lost",
            "watch_delayed",
            "watch_cut",
            "compacted",
        ):
            setattr(faults, f"{name}_chance", 0.0)
        faults.session_early_chance = 0.0
        for broker in self.brokers:
            self.store.heal(broker.host)
            broker.clock.correct()
            broker.faults.capacity_bytes = DISK_BYTES
            broker.faults.extra_sync_ms = 0.0
            broker.faults.failing_syncs = broker.faults.misdirected_writes = 0
            broker.faults.extra_read_ms = 0.0
            self.honest(broker)
            self.give_back(broker)
            self.resume(broker)
            self.start(broker)

    # -- set-up through the Admin calls ---------------------------------------------------------------

    async def set_up(self) -> None:
        """Tenant, key and topics, as an operator makes them. Faults may already be happening."""
        await self.admin_call(methods.PUT_TENANT, pb.PutTenantRequest(tenant=TENANT).SerializeToString())
        key = make_api_key("sim", self._rng.randbytes(RANDOM_BYTES))
        credential = make_credential(
            key, pepper_version=1, pepper=PEPPER, salts=self._rng.randbytes(2 * SCRAM_SALT_BYTES)
        )
        request = pb.PutKeyRequest(
            key_id=credential.key_id,
            tenant=TENANT,
            name="workload",
            pepper_version=1,
            secret_hmac=bytes.fromhex(credential.secret_hmac),
            scram_json=json.dumps(credential.scram),
        )
        await self.admin_call(methods.PUT_KEY, request.SerializeToString())
        self.api_key = key.reveal()
        for topic in self.plan.topics:
            await self.create_topic(topic)
        if self.plan.metered:
            await self.create_topic(USAGE_PLAN, SYSTEM_TENANT)
        if self.plan.grouped:
            await self.create_topic(GROUPS_PLAN, SYSTEM_TENANT)

    async def create_topic(
        self, topic: TopicPlan, tenant: str = TENANT, *, topic_id: TopicId | None = None
    ) -> None:
        """Its id is in `topic_ids` then. With `topic_id` a repetition that comes late makes no second topic."""
        request = pb.CreateTopicRequest(
            tenant=tenant,
            name=topic.name,
            settings_json=json.dumps(topic.settings.to_dict()),
            topic_id=topic_id or b"",
        )
        for partition in range(topic.partitions):
            first = (partition + len(self.topic_ids)) % len(self.brokers)
            count = topic.settings.replication
            request.assignments.add(brokers=self.assignment(first, count))
        while True:
            await self.admin_call(methods.CREATE_TOPIC, request.SerializeToString())
            named = self.store.snapshot(model.name_key(tenant, topic.name)).items
            # A broker that has not heard of a deletion yet says that the name is taken.
            if named and topic_id in (None, found := TopicId(bytes.fromhex(named[0].value.decode()))):
                self.topic_ids[topic.name] = found
                return

    def assignment(self, first: int, copies: int) -> list[int]:
        """Brokers for the replicas of one partition."""
        return [(first + step) % len(self.brokers) for step in range(copies)]

    async def admin_call(self, method: str, request: bytes) -> None:
        """Any broker takes it; again until one has applied it, or an earlier try of ours was."""
        while True:
            broker = self._rng.choice(self.brokers)
            try:
                answer = await self._admin.call(broker.internal_address, method, request, _CALL_MS)
            except (ConnectionLost, CallFailed):
                await asyncio.sleep(0.2)
                continue
            kind = _WRAPPED.get(method)
            outcome = pb.Outcome.FromString(answer) if kind is None else kind.FromString(answer).outcome
            if outcome.error in (ErrorCode.OK, ErrorCode.ALREADY_EXISTS):
                return
            self.timeline.note(ADMIN_HOST, "refused", f"{method.rpartition('/')[2]}: {outcome.message}")
            await asyncio.sleep(0.2)

    async def ask(self, method: str, request: bytes) -> None:
        """One Admin call of some broker; what becomes of it is seen in the metadata."""
        try:
            await self._admin.call(self._rng.choice(self.brokers).internal_address, method, request, _CALL_MS)
        except (ConnectionLost, CallFailed):
            return

    def all_ready(self) -> bool:
        """Every broker is registered and serves."""
        return all(broker.ready for broker in self.brokers)
