"""The operator: moves replicas and leaders about, cancels, and takes brokers out of use, while faults happen."""

import asyncio
import random
from collections import Counter

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.testkit.cluster import SimCluster
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import TopicPartition

_BETWEEN_S = (0.1, 2.0)


class Operator:
    """`run` acts until it is cancelled. What it began goes on by itself."""

    def __init__(self, cluster: SimCluster, watcher: Watcher) -> None:
        self._cluster = cluster
        self._watcher = watcher
        self._rng = random.Random(f"{cluster.plan.seed}/operator")
        self.asked: Counter[str] = Counter()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(*_BETWEEN_S))
            partitions = list(self._watcher.records)
            if partitions:
                await self._act(self._rng.choice(partitions))

    async def _act(self, where: TopicPartition) -> None:
        choice = self._rng.random()
        if choice < 0.45:
            await self._reassign(where)
        elif choice < 0.6:
            await self._cancel(where)
        elif choice < 0.85:
            await self._move_leader(where)
        else:
            await self._cordon()

    async def _reassign(self, where: TopicPartition) -> None:
        numbers = [int(broker.broker_id) for broker in self._cluster.brokers]
        copies = self._watcher.topics[where.topic_id].settings.replication
        request = pb.AlterReplicasRequest(
            topic_id=where.topic_id,
            partition=where.partition,
            replicas=self._rng.sample(numbers, min(copies, len(numbers))),
        )
        self._note("reassign", f"{self._watcher.name_of(where)} to {list(request.replicas)}")
        await self._cluster.ask(methods.ALTER_REPLICAS, request.SerializeToString())

    async def _cancel(self, where: TopicPartition) -> None:
        request = pb.AlterReplicasRequest(topic_id=where.topic_id, partition=where.partition, cancel=True)
        self._note("cancel", self._watcher.name_of(where))
        await self._cluster.ask(methods.ALTER_REPLICAS, request.SerializeToString())

    async def _move_leader(self, where: TopicPartition) -> None:
        to = self._rng.choice(self._watcher.records[where].replicas)
        request = pb.MoveLeaderRequest(topic_id=where.topic_id, partition=where.partition, broker=to)
        self._note("move leader", f"{self._watcher.name_of(where)} to {to}")
        await self._cluster.ask(methods.MOVE_LEADER, request.SerializeToString())

    async def _cordon(self) -> None:
        broker, cordoned = self._rng.choice(self._cluster.brokers), self._rng.random() < 0.5
        request = pb.CordonBrokerRequest(broker=broker.broker_id, cordoned=cordoned)
        self._note("cordon" if cordoned else "uncordon", broker.host)
        await self._cluster.ask(methods.CORDON_BROKER, request.SerializeToString())

    def _note(self, what: str, about: str) -> None:
        self.asked[what] += 1
        self._cluster.timeline.note("operator", what, about)
