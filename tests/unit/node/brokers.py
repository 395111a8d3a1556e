"""Whole brokers on one simulated machine room, and a client of theirs that speaks frame by frame."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.metadata import broker_records
from data_plane.metadata.port import Delete
from data_plane.node.broker_node import BrokerNode
from data_plane.node.config import Timings
from data_plane.node.replicas.replica import Replica
from data_plane.testkit.cluster import TENANT, BrokerState, SimBroker, SimCluster
from data_plane.testkit.connection import Endpoint
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.network import NetworkSettings
from data_plane.testkit.store_faults import StoreFaults
from data_plane.testkit.swarm import TopicPlan
from data_plane.testkit.timeline import Timeline
from data_plane.testkit.transport import SimTransport
from penstock.contract import methods
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import NO_BROKER, TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from tests.simulation.plans import SETTINGS, plan_of

TIMINGS = Timings(session_ttl_ms=600_000, suspicion_ms=600_000, drain_ms=5_000)
"""Who is silent stays registered for the length of a story."""
SOON_S = 0.2
"""Changes of the metadata have arrived everywhere."""


class Producing:
    """A produce stream to a broker."""

    def __init__(self, stream: Endpoint, topic_partition: TopicPartition) -> None:
        self._stream = stream
        self._where = topic_partition
        self._sent = 0
        self.credit = 0

    async def send(self, batch: bytes, *, acks: int = -1, leader_epoch: int = -1) -> pb.ProduceResult:
        """Send it; the answer to it."""
        await self.begin(batch, acks=acks, leader_epoch=leader_epoch)
        while True:
            for result in await self.hear():
                assert result.id == self._sent - 1
                return result

    async def begin(self, batch: bytes, *, acks: int = -1, leader_epoch: int = -1) -> None:
        """Send it; `hear` tells more."""
        head = pb.ProduceHead(acks=acks)
        head.batches.add(
            id=self._sent, topic_id=self._where.topic_id, partition=self._where.partition,
            leader_epoch=leader_epoch, size=len(batch),
        )  # fmt: skip
        self._sent += 1
        await self._stream.send(pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [batch]))

    async def hear(self) -> list[pb.ProduceResult]:
        """Results of the next frame; the credit that it gives is added up."""
        answer = pb.ProduceAnswerHead.FromString(bytes(unpack_frame(await self._stream.receive())[1]))
        self.credit += answer.credit_bytes
        return list(answer.results)


class Consuming:
    """A consume stream to a broker."""

    def __init__(self, stream: Endpoint, topic_partition: TopicPartition) -> None:
        self._stream = stream
        self._where = topic_partition
        self.bytes = 0

    async def begin(self, offset: int = 0, credit: int = 1 << 20, **fields: Any) -> None:
        head = pb.ConsumeOpenHead()
        values: dict[str, Any] = {"handle": 1, "generation": 1, "last_epoch": -1, "leader_epoch": -1}
        head.partitions.add(
            topic_id=self._where.topic_id, partition=self._where.partition, offset=offset, credit_bytes=credit,
            **values | fields,
        )  # fmt: skip
        await self._stream.send(pack_frame(FrameKind.CONSUME_OPEN, head.SerializeToString()))

    async def give(self, credit: int) -> None:
        head = pb.ConsumeCreditHead()
        head.credits.add(handle=1, generation=1, credit_bytes=credit)
        await self._stream.send(pack_frame(FrameKind.CONSUME_CREDIT, head.SerializeToString()))

    async def error(self) -> int:
        """The next one; what comes before it is read."""
        while True:
            _, head, payload = unpack_frame(await self._stream.receive())
            self.bytes += len(payload)
            for push in pb.ConsumePushHead.FromString(bytes(head)).pushes:
                if push.error:
                    return push.error

    async def read(self, size: int) -> None:
        """So many bytes have come, and no error before them."""
        while self.bytes < size:
            _, head, payload = unpack_frame(await self._stream.receive())
            assert not any(push.error for push in pb.ConsumePushHead.FromString(bytes(head)).pushes)
            self.bytes += len(payload)


class Brokers:
    """A cluster of whole brokers. A story begins when they are ready and there is a tenant with a key."""

    def __init__(
        self,
        count: int = 1,
        *topics: TopicPlan,
        timings: Timings = TIMINGS,
        boots: bool = True,
        metered: bool = False,
    ) -> None:
        """`metered`: brokers meter; a test makes the topic that takes the readings."""
        self.plan = replace(
            plan_of(0, (), ()), brokers=count, topics=topics, producers=(), timings=timings, put_off_chance=0.0,
            clock_skew_ms_max=0, network=NetworkSettings(), store=StoreFaults(),
        )  # fmt: skip
        self.loop = SimLoop(0, time_limit_s=600)
        self._boots = boots
        self._metered = metered

    def run(self, story: Callable[["Brokers"], Awaitable[None]]) -> None:
        async def whole() -> None:
            self.cluster = SimCluster(self.loop, self.plan, Timeline(self.loop.time))
            self.cluster.plan = replace(self.plan, metered=self._metered)
            if self._boots:
                for broker in self.cluster.brokers:
                    self.cluster.start(broker)
                await self.until(self.cluster.all_ready)
                self.cluster.plan = self.plan
                await self.cluster.set_up()
                self.cluster.plan = replace(self.plan, metered=self._metered)
                await asyncio.sleep(SOON_S)
            await story(self)

        try:
            self.loop.run_until_complete(whole())
        finally:
            self.loop.close()

    async def until(self, holds: Callable[[], bool], seconds: float = 30.0) -> float:
        """How long it took."""
        began_s = self.loop.time()
        while not holds():
            assert self.loop.time() < began_s + seconds, f"not within {seconds} s"
            await asyncio.sleep(0.01)
        return self.loop.time() - began_s

    @property
    def store(self) -> Any:
        return self.cluster.store

    def broker(self, number: int = 0) -> SimBroker:
        return self.cluster.broker(number)

    def node(self, number: int = 0) -> BrokerNode:
        node = self.broker(number).node
        assert node is not None
        return node

    def where(self, topic: str = "orders", partition: int = 0) -> TopicPartition:
        return TopicPartition(self.cluster.topic_ids[topic], partition)

    def leader(self, topic: str = "orders", number: int = 0) -> int:
        """The leader that this broker's metadata name."""
        record = self.node(number).view.image.partition(self.where(topic))
        return NO_BROKER if record is None else record.leader

    async def in_sync(self, count: int) -> None:
        """So many replicas of the topic are, with all that it holds."""

        def complete() -> bool:
            record = self.node().view.image.partition(self.where())
            return record is not None and len(record.in_sync) == count

        await self.until(complete)
        await asyncio.sleep(SOON_S)

    def fence(self, number: int = 0) -> None:
        self.store.apply_txn((), (Delete(broker_records.live_key(number)),))

    async def drained(self, number: int = 0) -> float:
        """How long it took to stop in good order."""
        self.cluster.drain(self.broker(number))
        took_s = await self.until(lambda: self.broker(number).state is BrokerState.DOWN)
        assert self.broker(number).ended == "drained"
        return took_s

    async def put_tenant(self, generation: int = 1, **fields: Any) -> None:
        request = admin_pb2.PutTenantRequest(tenant=TENANT, generation=generation, **fields)
        await self.cluster.admin_call(own_methods.PUT_TENANT, request.SerializeToString())
        await asyncio.sleep(SOON_S)

    async def stream_to(self, number: int) -> Endpoint:
        """A produce stream."""
        return await self.stream(methods.PRODUCE, number)

    async def producing(self, topic: str = "orders") -> Producing:
        return Producing(await self.stream(methods.PRODUCE, self.leader(topic)), self.where(topic))

    async def consuming(self, topic: str = "orders") -> Consuming:
        return Consuming(await self.stream(methods.CONSUME, self.leader(topic)), self.where(topic))

    def replica(self, topic: str = "orders") -> Replica:
        """The leader's."""
        return self.node(self.leader(topic)).replicas.by_partition[self.where(topic)]

    async def stream(self, method: str = methods.CONSUME, number: int = 0) -> Endpoint:
        process = self.loop.process("client")
        authorization = f"Bearer {self.cluster.api_key}"
        transport = SimTransport(self.cluster.network, process, "c0", authorization=authorization)
        return await transport.connect(self.broker(number).client_address, method, 1_000)


def topic(name: str = "orders", replicas: int = 1, **settings: Any) -> TopicPlan:
    changed = replace(SETTINGS, replication=replicas, min_insync_replicas=1, **settings)
    return TopicPlan(name=name, partitions=1, settings=changed)
