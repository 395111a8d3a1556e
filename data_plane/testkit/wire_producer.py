"""A producing client: batches of unique values, numbered and retried by the rules, with an exact account of
each.

Each partition has a sender with a producer id of its own. A sender is

    connecting --stream open--> sending --any error or loss--> connecting, and sends again what is unresolved
    any --the oldest batch is too old--> what was sent is unknown, and a new epoch begins
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from data_plane.node.ports import ConnectionLost
from data_plane.testkit.connection import Endpoint
from data_plane.testkit.history import Anomaly, Outcome, SentBatch
from data_plane.testkit.swarm import ProducerPlan
from data_plane.testkit.wire_client import CALL_MS, WireClient
from penstock.contract import methods
from penstock.contract.errors import Belief, ErrorCode, error_class
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import Compression
from penstock.records.build import BatchBuilder

_CODECS = (Compression.NONE, Compression.NONE, Compression.ZSTD, Compression.LZ4)
_SILENCE_S = 5.0
"""A stream that owes answers and is silent for this long is given up."""
_PENDING_MAX = 50
_REMEMBERED = 4
"""Acknowledged batches that may be sent once more, within what a broker must remember."""


@dataclass(slots=True, eq=False)
class _Numbered:
    """A batch with the identity under which it is sent."""

    sent: SentBatch
    data: bytes
    base_sequence: int


class WireProducer:
    """One producing process."""

    def __init__(self, client: WireClient, plan: ProducerPlan, partitions: int) -> None:
        self._client = client
        self._plan = plan
        self._senders = [_Sender(client, plan, partition) for partition in range(partitions)]
        self._made = 0
        self.stopping = False
        """No new batches; what is pending goes on."""

    @property
    def idle(self) -> bool:
        """Nothing is unresolved."""
        return all(not sender.pending for sender in self._senders)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for sender in self._senders:
                group.create_task(sender.run())
            group.create_task(self._produce())

    async def _produce(self) -> None:
        rng, plan = self._client.rng, self._plan
        while not self.stopping:
            await asyncio.sleep(rng.expovariate(plan.batches_per_s))
            sender = rng.choice(self._senders)
            if len(sender.pending) < _PENDING_MAX and not (self._client.resting() or self.stopping):
                sender.offer(self._values())

    def _values(self) -> tuple[bytes, ...]:
        rng, values = self._client.rng, []
        for _ in range(rng.randint(1, self._plan.records_per_batch_max)):
            self._made += 1
            unique = f"{self._client.name}/{self._made}".encode()
            values.append(unique + b"." * rng.randint(0, self._plan.value_bytes_max))
        return tuple(values)


class _Sender:
    """The batches of one producer to one partition, in order."""

    def __init__(self, client: WireClient, plan: ProducerPlan, partition: int) -> None:
        self._client = client
        self._plan = plan
        self._partition = partition
        self._where = client.where(partition)
        self.pending: deque[SentBatch] = deque()
        """Unresolved, oldest first."""
        self._wake = asyncio.Event()
        self._numbered: dict[SentBatch, _Numbered] = {}
        """What has an identity of the present epoch."""
        self._producer_id = self._epoch = -1
        self._next_sequence = 0
        self._epoch_wanted = plan.idempotent
        self._orders = 0
        self._batch_ids = 0
        self._answered: deque[_Numbered] = deque(maxlen=_REMEMBERED)
        self._heard_s = 0.0

    def offer(self, values: tuple[bytes, ...]) -> None:
        self._orders += 1
        batch = SentBatch(
            self._client.name,
            self._where,
            self._orders,
            values,
            self._plan.acks,
            self._plan.idempotent,
            self._client.loop.time(),
        )
        self._client.history.sent.append(batch)
        self.pending.append(batch)
        self._wake.set()

    async def run(self) -> None:
        refresh = False
        while True:
            while not self.pending:
                self._wake.clear()
                await self._wake.wait()
            self._expire()
            leader = await self._client.leader(self._partition, refresh=refresh)
            refresh = True
            if leader is None or (self._epoch_wanted and not await self._begin_epoch()):
                await self._client.pause()
                continue
            try:
                stream = await self._client.transport.connect(leader.address, methods.PRODUCE, CALL_MS)
            except ConnectionLost:
                await self._client.pause()
                continue
            try:
                await self._converse(stream, leader.epoch)
            finally:
                stream.close()
            self._attempts_lost()
            await self._client.pause()

    # -- one stream -----------------------------------------------------------------------------------

    async def _converse(self, stream: Endpoint, leader_epoch: int) -> None:
        """Send and take answers until something goes wrong."""
        in_flight: dict[int, _Numbered] = {}
        claimed = leader_epoch if self._client.rng.random() < 0.5 else -1
        sending = asyncio.create_task(self._send(stream, claimed, in_flight))
        try:
            while True:
                async with asyncio.timeout(_SILENCE_S):
                    kind, head, _ = unpack_frame(await stream.receive())
                if kind is not FrameKind.PRODUCE_ANSWER:
                    return
                self._heard_s = self._client.loop.time()
                for result in pb.ProduceAnswerHead.FromString(bytes(head)).results:
                    numbered = in_flight.pop(result.id, None)
                    if numbered is not None and not self._answer(numbered, result):
                        return
                self._wake.set()
                if sending.done():
                    return
        except (ConnectionLost, TimeoutError):
            return
        finally:
            sending.cancel()

    async def _send(self, stream: Endpoint, claimed_epoch: int, in_flight: dict[int, _Numbered]) -> None:
        """Keep up to the plan's number of batches under way, oldest first."""
        sent: dict[SentBatch, None] = {}
        try:
            while not self._epoch_wanted:
                self._wake.clear()
                for batch in list(self.pending):
                    if len(in_flight) >= self._plan.in_flight:
                        break
                    if batch not in sent:
                        sent[batch] = None
                        await self._send_one(stream, self._identify(batch), claimed_epoch, in_flight)
                if self._plan.repeats and self._answered and self._client.rng.random() < 0.05:
                    again = self._client.rng.choice(list(self._answered))
                    await self._send_one(stream, again, claimed_epoch, in_flight)
                await self._wake.wait()
        except ConnectionLost:
            return

    async def _send_one(
        self, stream: Endpoint, numbered: _Numbered, claimed_epoch: int, in_flight: dict[int, _Numbered]
    ) -> None:
        self._batch_ids += 1
        head = pb.ProduceHead(acks=self._plan.acks)
        head.batches.add(
            id=self._batch_ids,
            topic_id=self._where.topic_id,
            partition=self._where.partition,
            size=len(numbered.data),
            leader_epoch=claimed_epoch,
        )
        batch = numbered.sent
        if self._plan.acks:
            in_flight[self._batch_ids] = numbered
        if batch.outcome is Outcome.PENDING:
            batch.attempts += 1
            batch.open_attempts += 1
        await stream.send(pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [numbered.data]))
        if not self._plan.acks:
            self._resolve(batch, Outcome.UNKNOWN)

    # -- answers --------------------------------------------------------------------------------------

    def _answer(self, numbered: _Numbered, result: pb.ProduceResult) -> bool:
        """Take one result; False = begin again with what is unresolved."""
        batch = numbered.sent
        if result.error == ErrorCode.OK:
            if batch.outcome is Outcome.PENDING:
                batch.offset, batch.duplicate = result.base_offset, result.duplicate
                self._resolve(batch, Outcome.APPLIED)
                self._answered.append(numbered)
            elif batch.outcome is Outcome.APPLIED and batch.offset != result.base_offset:
                name = batch.values[0].decode()[:40]
                self._anomaly("I4", f"{name} has offsets {batch.offset} and {result.base_offset}")
            return True
        self._client.note_refusal(result.error)
        if batch.outcome is not Outcome.PENDING:
            return True
        definite = error_class(result.error).belief is Belief.NOT_APPLIED
        batch.open_attempts -= definite
        if not self._plan.idempotent:
            self._resolve(batch, Outcome.NOT_APPLIED if definite else Outcome.UNKNOWN)
            return False
        if result.error in (ErrorCode.OUT_OF_ORDER_SEQUENCE, ErrorCode.UNKNOWN_PRODUCER):
            self._judge_sequence(batch, result)
        elif result.error == ErrorCode.PRODUCER_FENCED:
            self._give_up_epoch()
        return False

    def _judge_sequence(self, batch: SentBatch, result: pb.ProduceResult) -> None:
        """A gap is the broker's fault when everything before the batch was acknowledged under this epoch."""
        if not self.pending or batch is not self.pending[0]:
            return
        if self._plan.acks == -1 and not self._client.deletes:
            self._anomaly(
                "I1" if result.error == ErrorCode.OUT_OF_ORDER_SEQUENCE else "I4",
                f"{self._client.history.name(self._where)} refuses {batch.values[0].decode()[:40]} of"
                f" {self._client.name} ({result.message}), though all before it were acknowledged",
            )
        self._give_up_epoch()

    def _attempts_lost(self) -> None:
        """The stream ended. Without sequence numbers nothing may be sent twice."""
        if not self._plan.idempotent:
            for batch in [batch for batch in self.pending if batch.attempts]:
                self._resolve(batch, Outcome.UNKNOWN if batch.maybe_applied else Outcome.NOT_APPLIED)

    def _expire(self) -> None:
        """The delivery timeout: what was sent is unknown, what was not is not applied (RL59)."""
        limit_s = self._plan.delivery_timeout_ms / 1000
        now = self._client.loop.time()
        if self.pending and now - self.pending[0].began_s > limit_s:
            self._give_up_epoch()
            while self.pending and now - self.pending[0].began_s > limit_s:
                self._resolve(self.pending[0], Outcome.NOT_APPLIED)

    def _give_up_epoch(self) -> None:
        """Whatever may stand in the log is unknown; the rest is sent under the next epoch."""
        for batch in [batch for batch in self.pending if batch.maybe_applied]:
            self._resolve(batch, Outcome.UNKNOWN)
        self._epoch_wanted = self._plan.idempotent
        self._wake.set()

    def _resolve(self, batch: SentBatch, outcome: Outcome) -> None:
        batch.resolve(outcome, self._client.loop.time())
        self.pending.remove(batch)
        self._numbered.pop(batch, None)

    def _anomaly(self, invariant: str, explanation: str) -> None:
        self._client.history.anomalies.append(Anomaly(invariant, explanation, self._client.loop.time()))

    # -- identity -------------------------------------------------------------------------------------

    async def _begin_epoch(self) -> bool:
        """Get a producer id or its next epoch; batches are then numbered from 0."""
        request = pb.InitProducerRequest(producer_id=self._producer_id, producer_epoch=self._epoch)
        address = self._client.rng.choice(self._client.bootstrap)
        answer = await self._client.call(address, methods.INIT_PRODUCER, request.SerializeToString())
        if answer is None:
            return False
        response = pb.InitProducerResponse.FromString(answer)
        if response.error:
            self._client.note_refusal(response.error)
            return False
        self._producer_id = response.producer_id
        self._epoch = response.producer_epoch
        self._next_sequence = 0
        self._numbered.clear()
        self._answered.clear()
        self._epoch_wanted = False
        return True

    def _identify(self, batch: SentBatch) -> _Numbered:
        numbered = self._numbered.get(batch)
        if numbered is None:
            builder = BatchBuilder(self._client.rng.choice(_CODECS))
            for value in batch.values:
                builder.append(self._client.clock.now_ms(), None, value)
            if self._plan.idempotent:
                sequence, self._next_sequence = self._next_sequence, self._next_sequence + len(batch.values)
                data = builder.build(sequence, self._producer_id, self._epoch)
            else:
                sequence, data = -1, builder.build()
            numbered = self._numbered[batch] = _Numbered(batch, data, sequence)
        return numbered
