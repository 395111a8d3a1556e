"""A topic that does not stay as it is: records are deleted, partitions are added, it is deleted and made again."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from data_plane.contract import admin_pb2 as admin_pb
from data_plane.contract import methods as admin
from data_plane.testkit.activities import Activity, wait_unless
from data_plane.testkit.cluster import TENANT, SimCluster
from data_plane.testkit.history import History, Outcome
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.loop import Process
from data_plane.testkit.swarm import ProducerPlan, TopicPlan
from data_plane.testkit.watcher import Watcher
from data_plane.testkit.wire_client import WireClient
from data_plane.testkit.wire_consumer import WireConsumer
from data_plane.testkit.wire_producer import WireProducer
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import UNLIMITED, TopicSettings
from penstock.contract.v1 import log_pb2 as pb

_TOPIC = TopicPlan(
    name="changing",
    partitions=1,
    settings=TopicSettings(
        replication=3,
        min_insync_replicas=2,
        segment_bytes=limits.SEGMENT_BYTES_MIN,
        retention_ms=UNLIMITED,
        retention_bytes=UNLIMITED,
    ),
)
_PRODUCER = ProducerPlan(
    topic=-1,
    acks=-1,
    idempotent=True,
    batches_per_s=15.0,
    records_per_batch_max=3,
    value_bytes_max=60,
    in_flight=3,
    delivery_timeout_ms=10_000,
    sdk=False,
    repeats=True,
)
_BETWEEN_S = (0.3, 2.0)
_ASKS_MAX = 5

ClientOf = Callable[[str, TopicPlan], tuple[Process, WireClient]]
"""Makes a client process of some kind for a topic."""


class ChangingTopic:
    """States of the topic, by name:

    none --made--> one partition --records deleted, partitions added--> more partitions --deleted--> none

    Its clients are killed whenever it changes its shape. In the end it is there, with clients.
    """

    def __init__(self, cluster: SimCluster, watcher: Watcher, history: History, client: ClientOf) -> None:
        self._cluster = cluster
        self._watcher = watcher
        self._history = history
        self._client_of = client
        self._rng = random.Random(f"{cluster.plan.seed}/changing topic")
        self._clients: list[tuple[Process, WireClient]] = []
        self._generation = 0
        self._trims_asked: dict[TopicPartition, int] = {}
        self._trims_done: dict[TopicPartition, int] = {}
        self.topic = _TOPIC
        """As it is now."""
        self.producers: list[WireProducer] = []
        """Those of the topic as it is now."""
        self.reached: Counter[Activity] = Counter()
        self.over = asyncio.Event()

    async def run(self) -> None:
        await self._make()
        while not self.over.is_set():
            for change in (self._trim, self._grow, self._trim, self._make_again):
                await wait_unless(self.over, self._rng.uniform(*_BETWEEN_S))
                if not self.over.is_set():
                    await change()

    # -- the topic ------------------------------------------------------------------------------------

    async def _make(self) -> None:
        self.topic = _TOPIC
        topic_id = TopicId(self._rng.randbytes(16))
        await self._cluster.create_topic(_TOPIC, topic_id=topic_id)
        self._note("made", topic_id.hex())
        self._attach()

    async def _make_again(self) -> None:
        """Its clients live through the deletion or are gone before it."""
        if self._rng.random() < 0.5:
            self._detach()
        topic_id = self._cluster.topic_ids[_TOPIC.name]
        request = admin_pb.DeleteTopicRequest(tenant=TENANT, name=_TOPIC.name, topic_id=topic_id)
        self._note("delete", topic_id.hex())
        await self._cluster.admin_call(admin.DELETE_TOPIC, request.SerializeToString())
        if self._rng.random() < 0.5:
            await wait_unless(self.over, self._rng.uniform(0.0, 1.0))
        self._detach()
        await self._make()
        self.reached[Activity.RECREATED] += 1

    async def _grow(self) -> None:
        grown = replace(self.topic, partitions=self.topic.partitions + 1)
        self._generation += 1
        request = admin_pb.UpdateTopicRequest(
            tenant=TENANT,
            topic_id=self._cluster.topic_ids[_TOPIC.name],
            settings_json=json.dumps(grown.settings.to_dict()),
            generation=self._generation,
        )
        first = self._rng.randrange(len(self._cluster.brokers))
        request.added.add(brokers=self._cluster.assignment(first, grown.settings.replication))
        self._note("grow", f"to {grown.partitions} partitions")
        await self._cluster.admin_call(admin.UPDATE_TOPIC, request.SerializeToString())
        self._detach()
        self.topic = grown
        self._attach()
        self.reached[Activity.GROWN] += 1

    # -- its records ----------------------------------------------------------------------------------

    async def _trim(self) -> None:
        """Ask the leader to delete some of what is committed."""
        process, client = self._clients[0]
        where = client.where(self._rng.randrange(self.topic.partitions))
        offset = self._rng.randint(0, self._watcher.ledger(where).end)
        self._trims_asked[where] = max(offset, self._trims_asked.get(where, 0))
        self._note("delete records", f"of {self._watcher.name_of(where)} before {offset}")
        if await self._cluster.loop.spawn(process, _delete_records(client, where, offset)):
            self._trims_done[where] = max(offset, self._trims_done.get(where, 0))
            self.reached[Activity.TRIMMED] += offset > 0

    def check(self, log_starts: dict[TopicPartition, int]) -> None:
        """I23: each log of the topic begins where deletions that were confirmed, or at most asked for, let it begin."""
        for where, start in log_starts.items():
            if where.topic_id != self._cluster.topic_ids[_TOPIC.name]:
                continue
            done, asked = self._trims_done.get(where, 0), self._trims_asked.get(where, 0)
            if not done <= start <= asked:
                raise InvariantViolated(
                    Invariant.I23,
                    f"{self._history.name(where)} begins at {start}: deletion before {done} was confirmed, before"
                    f" {asked} asked for",
                )

    # -- its clients ----------------------------------------------------------------------------------

    def _attach(self) -> None:
        for partition in range(self.topic.partitions):
            where = TopicPartition(self._cluster.topic_ids[_TOPIC.name], partition)
            self._history.names[where] = f"{_TOPIC.name}-{partition} of {where.topic_id.hex()[:4]}"
        process, client = self._client_of("p", self.topic)
        producer = WireProducer(client, _PRODUCER, self.topic.partitions)
        self._clients = [(process, client)]
        self.producers = [producer]
        self._cluster.loop.spawn(process, producer.run())
        process, client = self._client_of("r", self.topic)
        self._clients.append((process, client))
        consumer = WireConsumer(client, self.topic.partitions, restless=False)
        self._cluster.loop.spawn(process, consumer.run())

    def _detach(self) -> None:
        """The clients are killed: what they had under way has no known outcome."""
        for process, client in self._clients:
            self._cluster.loop.crash(process)
            self._cluster.network.process_ended(process)
            for batch in self._history.sent:
                if batch.producer == client.name:
                    batch.resolve(Outcome.UNKNOWN, self._cluster.loop.time())
        self._clients = []
        self.producers = []

    def _note(self, what: str, about: str) -> None:
        self._cluster.timeline.note("operator", what, about)


async def _delete_records(client: WireClient, where: TopicPartition, offset: int) -> bool:
    """Ask until it is done, a few times."""
    for _ in range(_ASKS_MAX):
        leader = await client.leader(where.partition, refresh=True)
        if leader is None:
            await client.pause()
            continue
        request = pb.DeleteRecordsRequest()
        request.partitions.add(
            topic_id=where.topic_id,
            partition=where.partition,
            leader_epoch=leader.epoch,
            before_offset=offset,
        )
        answer = await client.call(leader.address, methods.DELETE_RECORDS, request.SerializeToString())
        if answer is not None:
            deleted = pb.DeleteRecordsResponse.FromString(answer).partitions[0]
            if deleted.error == ErrorCode.OK:
                return True
            client.note_refusal(deleted.error)
        await client.pause()
    return False
