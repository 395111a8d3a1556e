"""Brokers on one store and one network: each has its view, its registration, the controller's seat and its handover."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from daemon.identity import Identity, Role
from data_plane.authz.peers import ROLES, PeerRules
from data_plane.contract.methods import CONTROL, HAND_OVER
from data_plane.controller.leader_return import LeaderMove
from data_plane.metadata import broker_records, model
from data_plane.metadata.features import CURRENT, Supported
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.metadata.port import Delete, MetaStore, Put
from data_plane.node.config import Timings
from data_plane.node.control.controller_seat import ControllerSeat
from data_plane.node.control.handover import Handover
from data_plane.node.membership.cluster_id import ensure_cluster
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import CallHandler, Service, at_once
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.network import Listener, Network
from data_plane.testkit.rng import SimRng
from data_plane.testkit.store import SimulatedStore
from data_plane.testkit.transport import SimPeers
from penstock.contract.ids import BrokerId, TenantId, TopicId
from tests.unit.controller.setup import ORDERS, record
from tests.unit.node.storage import CONFIG, SETTINGS

LONG_S = 3_600
PATIENT = Timings(session_ttl_ms=LONG_S * 1_000)
"""No session ends for want of time: only what the brokers decide themselves fences one."""
SOON_S = 0.15
"""Messages and changes of metadata have arrived; less than what any broker waits for."""


class Member:
    """One broker. What it asks of leaders as controller is in `asked`."""

    def __init__(
        self, members: "Members", number: int, timings: Timings, skew_ms: int, supported: Supported = CURRENT
    ) -> None:
        self.broker_id = BrokerId(number)
        self.host = f"h{number}"
        self.config = replace(
            CONFIG,
            broker_id=self.broker_id,
            client_address=f"{self.host}:1",
            internal_address=f"{self.host}:2",
            peer_address=f"{self.host}:3",
            host=self.host,
            timings=timings,
            supported=supported,
        )
        self.identity = Identity(cluster_id=CONFIG.cluster_id, role=Role.BROKER, broker_id=self.broker_id)
        self.process = members.loop.process(self.host)
        self.clock = SimClock(members.loop, skew_ms=skew_ms, monotonic_start_ms=number * 100_000.0)
        self.stats = NodeStats()
        self.store: MetaStore = members.reached_by(self.host)
        self.view = MetadataView(self.store, timings)
        rng = SimRng(number)
        self.lost: list[str] = []
        """Why registrations ended."""
        self.lost_topics: list[TopicId] = []
        """Its replicas of these may miss what they acknowledged."""
        self.registration = Registration(
            self.config, f"directory-{number}", self.view, self.store, self.clock, rng,
            data_lost=lambda topic_id: topic_id in self.lost_topics, damaged=lambda topic_partition: False,
            gained=self._changed, lost=self._lost,
        )  # fmt: skip
        self.life: asyncio.Task[None] | None = None
        self.asked: list[Sequence[LeaderMove]] = []
        self.given_up = 0
        """So many questions to leaders were cancelled."""
        self.answering = asyncio.Event()
        """While it is not set, leaders that were asked have not answered."""
        self.answering.set()
        self.transport = SimPeers(members.network, self.process, self.host, self.identity)
        self.replicas = ReplicaSet()
        """Empty; a test adds what is led here."""
        self.handover = Handover(
            self.config, self.view, self.registration, self.store, self.transport, self.clock, self.stats,
            self.replicas,
        )  # fmt: skip
        self.seat = ControllerSeat(
            self.config, self.view, self.registration, self.store, self.transport, self.clock, rng, self.stats,
            ask_leaders=self._ask,
        )  # fmt: skip
        self.view.listen(self._observe)
        self.calls: dict[str, CallHandler] = {HAND_OVER: self.handover.hand_over}
        """Calls that it takes from brokers and operators; a test adds more."""
        service = Service(
            streams={CONTROL: self.seat.serve}, calls=self.calls, watches={},
            enter=lambda caller: nullcontext(),
            turn=at_once,
        )  # fmt: skip
        members.network.listen(
            self.config.peer_address,
            Listener(
                host=self.host,
                process=self.process,
                service=service,
                identity=self.identity,
                rules=PeerRules(cluster_id=CONFIG.cluster_id, roles=ROLES),
            ),
        )

    async def _ask(self, moves: Sequence[LeaderMove]) -> None:
        self.asked.append(moves)
        try:
            await self.answering.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise

    def _changed(self) -> None:
        self.seat.wake()

    def _lost(self, reason: str) -> None:
        self.lost.append(reason)
        self.seat.wake()

    def _observe(self, batch: object) -> None:
        self.registration.observe(self.view.image)
        self.seat.wake()

    async def live(self) -> None:
        await self.view.load()
        await ensure_cluster(self.config, self.view, self.store)
        await asyncio.gather(self.view.run(), self.registration.run(), self.seat.run())


class Members:
    """Brokers by their numbers. A test's story is a coroutine over this, begun when all are registered."""

    def __init__(
        self,
        *numbers: int,
        timings: Timings = PATIENT,
        skews_ms: dict[int, int] | None = None,
        patience: dict[int, Timings] | None = None,
        wrapped: Callable[[MetaStore], Any] | None = None,
        supported: Supported = CURRENT,
        seed: int = 1,
    ) -> None:
        """`wrapped` is what brokers use of the store; `patience` has the timings of some of them."""
        self.numbers = numbers or (1, 2, 3)
        self._timings = timings
        self._skews_ms = skews_ms or {}
        self._patience = patience or {}
        self._wrapped = wrapped
        self._supported = supported
        self.loop = SimLoop(seed, time_limit_s=LONG_S)
        self.by_number: dict[int, Member] = {}

    def run(
        self, story: Callable[["Members"], Awaitable[None]], *, start: Sequence[int] | None = None
    ) -> None:
        """`start`: those that start before the story; all unless given."""

        async def whole() -> None:
            self.network = Network(self.loop, 1)
            self.store = SimulatedStore(random.Random(1))
            for number in self.numbers:
                timings = self._patience.get(number, self._timings)
                self.by_number[number] = Member(
                    self, number, timings, self._skews_ms.get(number, 0), self._supported
                )
            for number in self.numbers if start is None else start:
                self.start(number)
                await self.until(self.by_number[number].registration.in_force)
            await asyncio.sleep(SOON_S)
            await story(self)

        try:
            self.loop.run_until_complete(whole())
            assert self.loop.failures == []
        finally:
            self.loop.close()

    def reached_by(self, host: str) -> Any:
        client = self.store.client(host)
        return client if self._wrapped is None else self._wrapped(client)

    def __getitem__(self, number: int) -> Member:
        return self.by_number[number]

    def start(self, number: int) -> None:
        member = self.by_number[number]
        member.life = self.loop.spawn(member.process, member.live(), name="life")

    def kill(self, number: int) -> None:
        """Its host says to others that it is gone."""
        member = self.by_number[number]
        self.loop.crash(member.process)
        self.store.crashed(member.host)
        self.network.process_ended(member.process)

    async def until(self, holds: Callable[[], bool], seconds: float = 10.0) -> float:
        """How long it took."""
        began_s = self.loop.time()
        while not holds():
            assert self.loop.time() < began_s + seconds, f"not within {seconds} s"
            await asyncio.sleep(0.005)
        return self.loop.time() - began_s

    # -- what the store holds ----------------------------------------------------------------------------

    @property
    def seated(self) -> list[int]:
        """Who runs and believes that it is controller."""
        return [n for n, member in self.by_number.items() if member.process.alive and member.seat.seated]

    @property
    def controller(self) -> int:
        (item,) = self.store.snapshot(broker_records.CONTROLLER_KEY).items
        return broker_records.ControllerRecord.decode(item.value).broker_id

    @property
    def takeovers(self) -> int:
        """How often the seat was taken."""
        events = [event for batch in self.store.history for event in batch.events]
        return sum(event.key == broker_records.CONTROLLER_KEY and event.value is not None for event in events)

    def alive(self, number: int) -> bool:
        return bool(self.store.snapshot(broker_records.live_key(number)).items)

    def fence(self, number: int) -> None:
        self.store.apply_txn((), (Delete(broker_records.live_key(number)),))

    def put_topic(self, *records: PartitionRecord, topic_id: TopicId = ORDERS) -> None:
        """One topic with these partitions."""
        topic = TopicRecord(
            topic_id=topic_id, tenant=TenantId("tn_a"), name=f"topic-{topic_id.hex()}",
            partitions=len(records), settings=SETTINGS,
        )  # fmt: skip
        blocks: dict[str, dict[int, PartitionRecord]] = {}
        for partition in records:
            key = model.block_key(topic_id, partition.partition)
            blocks.setdefault(key, {})[partition.partition] = partition
        changes = [Put(model.topic_key(topic_id), topic.encode())]
        changes += [Put(key, model.encode_block(block)) for key, block in blocks.items()]
        assert self.store.apply_txn((), changes).succeeded

    def partition(self, topic_id: TopicId = ORDERS, number: int = 0) -> PartitionRecord:
        (item,) = self.store.snapshot(model.block_key(topic_id, number)).items
        return model.decode_block(item.value)[number]


def led_by(leader: int, in_sync: Sequence[int] = (1, 2, 3), **changes: Any) -> PartitionRecord:
    """A partition on the brokers 1, 2 and 3."""
    return record(in_sync, leader=BrokerId(leader), **changes)
