"""Writing usage records: one after the other into the internal topic `__usage`, each until it is committed.

A record keeps its sequence and its bytes however often it is sent, so that a second copy of it is recognized. Records
wait in a bounded queue; their maker is notified when they are committed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from data_plane.contract import methods, usage_pb2
from data_plane.disk.port import DiskFault
from data_plane.metadata.image import ClusterImage
from data_plane.node.config import NodeConfig
from data_plane.node.ports import Caller, CallFailed, Clock, ConnectionLost, Rng, Transport, peer_of
from data_plane.node.replicas.produce_answers import ProduceOutcome
from data_plane.node.replicas.replica import Replica
from data_plane.node.requests import parsed
from data_plane.node.stats import NodeStats
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.records.batch import check_batch
from penstock.records.build import BatchBuilder

USAGE_TOPIC = "__usage"
QUEUED_MAX = 256
"""Records that wait; with so many, cuts are refused. Periodic readings wait one at a time."""
_PRINCIPAL = 0
"""Internal."""
_ALL = -1


@dataclass(frozen=True, slots=True)
class _Queued:
    record: usage_pb2.UsageRecord
    written: asyncio.Future[None]


class UsageTopic:
    """This broker's way into `__usage`. `run` is the only writer."""

    def __init__(
        self,
        config: NodeConfig,
        image: ClusterImage,
        find: Callable[[TopicPartition], Replica | None],
        transport: Transport,
        clock: Clock,
        rng: Rng,
        stats: NodeStats,
    ) -> None:
        self._config = config
        self._image = image
        self._find = find
        self._transport = transport
        self._clock = clock
        self._stats = stats
        self._rng = rng
        self._boot_id = ""
        self._sequence = 0
        self._queue: deque[_Queued] = deque()
        self._wake = asyncio.Event()

    @property
    def topic_id(self) -> TopicId | None:
        """None until the topic exists."""
        return self._image.names.get((SYSTEM_TENANT, USAGE_TOPIC))

    @property
    def takes_records(self) -> bool:
        """Whether a partition of it has enough replicas in sync on brokers that are there."""
        image, topic_id = self._image, self.topic_id
        topic = None if topic_id is None else image.topics.get(topic_id)
        if topic_id is None or topic is None:
            return False
        return any(
            image.epoch_of(record.leader) != 0
            and sum(image.epoch_of(broker) != 0 for broker in record.in_sync)
            >= topic.settings.min_insync_replicas
            for record in image.partitions_of(topic_id)
        )

    @property
    def waiting(self) -> int:
        """Records that are not committed yet."""
        return len(self._queue)

    def require_space(self) -> None:
        """Raise `Throttled` when too many records wait."""
        if len(self._queue) >= QUEUED_MAX:
            raise errors.Throttled(f"{USAGE_TOPIC}: {len(self._queue)} records wait to be written")

    def write(self, record: usage_pb2.UsageRecord) -> asyncio.Future[None]:
        """Queue it; the future ends when it is committed. Its sequence is assigned when its turn comes, and it is
        never given up, even when its maker stops waiting."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(_Queued(record, written))
        self._wake.set()
        return written

    async def run(self) -> None:
        """Write what is queued. Runs without an end."""
        self._boot_id = self._rng.random_bytes(8).hex()
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            queued = self._queue[0]
            self._sequence += 1
            queued.record.broker_id = self._config.broker_id
            queued.record.boot_id = self._boot_id
            queued.record.sequence = self._sequence
            queued.record.made_ms = self._clock.now_ms()
            builder = BatchBuilder()
            builder.append(queued.record.made_ms, None, queued.record.SerializeToString(deterministic=True))
            await self._commit(builder.build())
            self._queue.popleft()
            self._stats.usage_records += 1
            if not queued.written.done():
                queued.written.set_result(None)

    async def _commit(self, batch: bytes) -> None:
        """Until one partition has it: the home partition first, then the next one whose leader answers."""
        while True:
            topic_id = self.topic_id
            topic = None if topic_id is None else self._image.topics.get(topic_id)
            count = 0 if topic is None else topic.partitions
            for step in range(count):
                partition = (self._config.broker_id + step) % count
                if topic_id is not None and await self._append(TopicPartition(topic_id, partition), batch):
                    return
            self._stats.usage_retries += 1
            await asyncio.sleep(self._config.timings.reconnect_ms_max / 1000)

    async def _append(self, where: TopicPartition, batch: bytes) -> bool:
        record = self._image.partition(where)
        if record is None:
            return False
        try:
            if record.leader == self._config.broker_id:
                await self._append_here(where, batch)
                return True
            known = self._image.brokers.get(record.leader)
            if known is None or not known.epoch:
                return False
            request = usage_pb2.AppendUsageRequest(
                topic_id=where.topic_id, partition=where.partition, batch=batch
            )
            answer = usage_pb2.AppendUsageResponse.FromString(
                await self._transport.call(
                    peer_of(known.record),
                    methods.APPEND_USAGE,
                    request.SerializeToString(),
                    self._config.timings.call_ms,
                )
            )
            return not answer.error
        except (PenstockError, CallFailed, ConnectionLost):
            return False

    async def append(self, caller: Caller, request: bytes) -> bytes:
        """Internal call: another broker's batch, answered when it is committed."""
        wanted = parsed(usage_pb2.AppendUsageRequest, request)
        response = usage_pb2.AppendUsageResponse()
        try:
            if wanted.topic_id != self.topic_id:
                raise errors.NotFound(f"{wanted.topic_id.hex()}: is not the topic {USAGE_TOPIC}")
            await self._append_here(TopicPartition(TopicId(wanted.topic_id), wanted.partition), wanted.batch)
        except PenstockError as refusal:
            response.error, response.message = refusal.code, refusal.message
        return response.SerializeToString()

    async def _append_here(self, where: TopicPartition, batch: bytes) -> None:
        """Raises `PenstockError` unless the batch was committed in time."""
        replica = self._find(where)
        if replica is None:
            raise errors.NotLeader(f"{where}: no replica here")
        view = memoryview(batch)
        answered: asyncio.Future[ProduceOutcome] = asyncio.get_running_loop().create_future()

        def answer(outcome: ProduceOutcome) -> None:
            if not answered.done():
                answered.set_result(outcome)

        try:
            replica.produce(
                view, check_batch(view), acks=_ALL, claimed_epoch=-1, principal=_PRINCIPAL, answer=answer
            )
        except (InvariantBroken, DiskFault) as broken:
            replica.stop(str(broken))
            raise errors.InternalError(f"{replica.name}: {broken}") from broken
        try:
            async with asyncio.timeout(self._config.timings.call_ms / 1000):
                outcome = await answered
        except TimeoutError:
            raise errors.OutcomeUnknown(f"{replica.name}: not committed in time") from None
        if outcome.error != ErrorCode.OK:
            raise errors.error_class(outcome.error)(outcome.message)
