"""The real SDK as workload: `penstock.asyncio` over the simulated network, accounted for as the wire clients are."""

import asyncio
import random
from collections.abc import AsyncIterator

from data_plane.node import ports
from data_plane.testkit.connection import Endpoint, StreamRefused
from data_plane.testkit.history import Anomaly, Outcome, ReadBatch, SentBatch
from data_plane.testkit.swarm import ProducerPlan
from data_plane.testkit.transport import SimTransport
from data_plane.testkit.wire_client import WireClient
from penstock.asyncio import Client
from penstock.asyncio.delivery import Delivery
from penstock.contract.errors import Belief, CorruptBatch, LogTruncated, PenstockError
from penstock.contract.ids import TopicPartition
from penstock.transport.port import CallFailed, ConnectionLost

_PENDING_MAX = 200
_POLL_S = 0.5


class SdkTransport:
    """The SDK's Transport port over a process' simulated one."""

    def __init__(self, transport: SimTransport) -> None:
        self._transport = transport

    async def connect(self, address: str, method: str, timeout_ms: int) -> "SdkConnection":
        try:
            return SdkConnection(await self._transport.connect(address, method, timeout_ms))
        except ports.ConnectionLost as lost:
            raise _lost(lost) from None

    async def call(self, address: str, method: str, request: bytes, timeout_ms: int) -> bytes:
        try:
            return await self._transport.call(address, method, request, timeout_ms)
        except ports.CallFailed as failed:
            raise CallFailed(failed.code, failed.message) from None
        except ports.ConnectionLost as lost:
            raise _lost(lost) from None

    async def watch(self, address: str, method: str, request: bytes) -> AsyncIterator[bytes]:
        try:
            async for answer in self._transport.watch(address, method, request):
                yield answer
        except ports.CallFailed as failed:
            raise CallFailed(failed.code, failed.message) from None
        except ports.ConnectionLost as lost:
            raise _lost(lost) from None

    async def close(self) -> None:
        """Connections end with their owners."""


class SdkConnection:
    """The SDK's Connection port over an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def send(self, frame: bytes) -> None:
        try:
            await self._endpoint.send(frame)
        except ports.ConnectionLost as lost:
            raise _lost(lost) from None

    async def receive(self) -> bytes:
        try:
            return await self._endpoint.receive()
        except ports.ConnectionLost as lost:
            raise _lost(lost) from None

    async def end(self) -> None:
        self._endpoint.half_close()

    def close(self) -> None:
        self._endpoint.close()


def _lost(lost: ports.ConnectionLost) -> ConnectionLost:
    return ConnectionLost(str(lost), lost.code if isinstance(lost, StreamRefused) else None)


def sdk_client(client: WireClient, zone: str | None = None) -> Client:
    """An SDK client with the same network, clock and key as `client`."""
    return Client.over(
        SdkTransport(client.transport),
        bootstrap=client.bootstrap,
        random=random.Random(client.rng.getrandbits(64)),
        wall_ms=client.clock.now_ms,
        zone=zone,
    )


class SdkProducer:
    """One process with the SDK's producer. Each message is one entry of the history."""

    def __init__(self, client: WireClient, plan: ProducerPlan, partitions: int) -> None:
        self._client = client
        self._plan = plan
        self._partitions = partitions
        self._pending: dict[SentBatch, None] = {}
        self._orders = [0] * partitions
        self._sending = False
        self._sent: list[asyncio.Queue[tuple[SentBatch, Delivery]]] = [
            asyncio.Queue() for _ in range(partitions)
        ]
        self.stopping = False

    @property
    def idle(self) -> bool:
        """Nothing is unresolved, and nothing is about to be sent."""
        return not self._pending and not self._sending

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send())
            for sent in self._sent:
                group.create_task(self._await_outcomes(sent))

    async def _send(self) -> None:
        rng, plan = self._client.rng, self._plan
        producer = sdk_client(self._client).producer(
            acks="all" if plan.acks == -1 else "1" if plan.acks else "0",
            compression=rng.choice(("none", "zstd", "lz4")),
            linger_ms=rng.choice((0, 5, 50)),
            batch_bytes=rng.choice((500, 4_000, 100_000)),
            idempotent=plan.idempotent,
            delivery_timeout_ms=plan.delivery_timeout_ms,
            max_block_ms=2_000,
        )
        made = 0
        while not self.stopping:
            await asyncio.sleep(rng.expovariate(plan.batches_per_s))
            if len(self._pending) >= _PENDING_MAX or self._client.resting() or self.stopping:
                continue
            partition, self._sending = rng.randrange(self._partitions), True
            for _ in range(rng.randint(1, plan.records_per_batch_max)):
                made += 1
                value = f"{self._client.name}/{made}".encode() + b"." * rng.randint(0, plan.value_bytes_max)
                sent = self._begin(partition, value)
                try:
                    delivery = await producer.send(self._client.topic, value, partition=partition)
                except PenstockError as error:
                    self._ended(sent, error)
                    continue
                self._sent[partition].put_nowait((sent, delivery))
            self._sending = False

    def _begin(self, partition: int, value: bytes) -> SentBatch:
        self._orders[partition] += 1
        sent = SentBatch(
            self._client.name,
            self._client.where(partition),
            self._orders[partition],
            (value,),
            self._plan.acks,
            self._plan.idempotent,
            self._client.loop.time(),
        )
        self._client.history.sent.append(sent)
        self._pending[sent] = None
        return sent

    async def _await_outcomes(self, deliveries: "asyncio.Queue[tuple[SentBatch, Delivery]]") -> None:
        """Of one partition, in the order sent."""
        while True:
            sent, delivery = await deliveries.get()
            try:
                receipt = await delivery
            except PenstockError as error:
                self._ended(sent, error)
                continue
            sent.offset, sent.duplicate = receipt.offset, receipt.duplicate
            self._resolve(sent, Outcome.APPLIED if self._plan.acks else Outcome.UNKNOWN)

    def _ended(self, sent: SentBatch, error: PenstockError) -> None:
        self._client.note_refusal(error.code)
        definite = error.belief is Belief.NOT_APPLIED
        self._resolve(sent, Outcome.NOT_APPLIED if definite else Outcome.UNKNOWN)

    def _resolve(self, sent: SentBatch, outcome: Outcome) -> None:
        sent.resolve(outcome, self._client.loop.time())
        self._pending.pop(sent, None)


class SdkConsumer:
    """One process with the SDK's consumer of all partitions of a topic."""

    def __init__(self, client: WireClient, zone: str | None = None) -> None:
        """`zone`: where it says that it is."""
        self._client = client
        self._zone = zone
        self._next: dict[int, int] = {}

    async def run(self) -> None:
        consumer = sdk_client(self._client, self._zone).consumer(
            self._client.topic,
            auto_offset_reset="earliest",
            fetch_bytes=64 * 1024,
            partition_fetch_bytes=16 * 1024,
            malformed="stop",
        )
        while True:
            try:
                messages = await consumer.poll(max_messages=200, timeout=_POLL_S)
            except LogTruncated as error:
                self._anomaly("I1", str(error))
                return
            except CorruptBatch as error:
                self._anomaly("I19", str(error))
                return
            except PenstockError as error:
                self._client.note_refusal(error.code)
                await self._client.pause()
                continue
            for message in messages:
                self._take(message.partition, message.offset, message.value or b"")

    def _take(self, partition: int, offset: int, value: bytes) -> None:
        client = self._client
        where: TopicPartition = client.where(partition)
        client.history.reads.append(
            ReadBatch(client.name, where, client.loop.time(), offset, (value,), -1, -1)
        )
        expected = self._next.get(partition, 0)
        if offset != expected and not client.deletes:
            self._anomaly(
                "I6", f"{client.history.name(where)}: offset {offset} was handed out where {expected} was due"
            )
        self._next[partition] = offset + 1

    def _anomaly(self, invariant: str, explanation: str) -> None:
        client = self._client
        client.history.anomalies.append(
            Anomaly(invariant, f"{client.name}: {explanation}", client.loop.time())
        )
