"""One Produce stream: frames of batches in, results and credit out."""

import asyncio
from collections.abc import Callable
from functools import partial

from data_plane.authz.access import Operation, Principal
from data_plane.disk.port import DiskFault
from data_plane.node.access import Gate
from data_plane.node.committer import Committer
from data_plane.node.group_coordinators import GROUPS_TOPIC
from data_plane.node.heads import demand_few, demand_read, read_head
from data_plane.node.ports import Clock, Connection, ConnectionLost
from data_plane.node.replica import ProduceOutcome, Replica
from data_plane.node.stats import NodeStats
from penstock.contract import errors, limits
from penstock.contract.errors import PenstockError
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import BatchHeader, check_batch

_ACKS = (-1, 0, 1)


class ProduceStream:
    """Serves one stream until it ends. A refused batch never ends the stream; a bad frame or a lost key does."""

    def __init__(
        self,
        connection: Connection,
        principal: Principal,
        gate: Gate,
        find: Callable[[TopicPartition], Replica | None],
        committer: Committer,
        clock: Clock,
        stats: NodeStats,
        refuses_writes: Callable[[], str],
        confident: Callable[[], bool],
    ) -> None:
        self._connection, self._principal, self._gate = connection, principal, gate
        self._find, self._committer, self._clock, self._stats = find, committer, clock, stats
        self._refuses_writes, self._confident = refuses_writes, confident
        self._results: list[pb.ProduceResult] = []
        self._credit = limits.STREAM_CREDIT_BYTES
        self._granted = 0
        self._wake = asyncio.Event()

    async def serve(self) -> None:
        """Raises `ConnectionLost` at the end, `FrameError` for what is no frame, `CallFailed` when the key is gone."""
        opening = pb.ProduceAnswerHead(credit_bytes=limits.STREAM_CREDIT_BYTES)
        await self._connection.send(pack_frame(FrameKind.PRODUCE_ANSWER, opening.SerializeToString()))
        sender = asyncio.create_task(self._send())
        try:
            while True:
                frame = await self._connection.receive()
                await self._committer.room()
                self._gate.check(self._principal)
                self._take(frame)
                if sender.done():
                    raise ConnectionLost("the client stopped reading results")
                # What this frame set going, pushes and a commit, begins before the next frame is taken.
                await asyncio.sleep(0)
        finally:
            sender.cancel()

    def _take(self, frame: bytes) -> None:
        arrived_ms = self._clock.monotonic_ms()
        kind, head_bytes, payload = unpack_frame(frame)
        if kind is not FrameKind.PRODUCE:
            raise FrameError(f"frame kind {kind.name} has no place on a produce stream")
        head = read_head(pb.ProduceHead, kind, head_bytes)
        demand_few(len(head.batches), "batches")
        demand_read(len(self._results))
        if head.acks not in _ACKS:
            raise FrameError(f"acks {head.acks}; 0, 1 or -1 required")
        if sum(batch.size for batch in head.batches) != len(payload):
            raise FrameError(f"batches named and payload of {len(payload)} bytes differ in size")
        self._credit -= len(payload)
        if self._credit < 0:
            raise FrameError(f"{-self._credit} bytes sent beyond the credit granted")
        position = 0
        for wanted in head.batches:
            batch = payload[position : position + wanted.size]
            position += wanted.size
            answer = partial(self._answer, wanted.id if head.acks else None, wanted.size, arrived_ms)
            try:
                self._produce(head.acks, wanted, batch, answer)
            except PenstockError as refusal:
                self._stats.produce_refusals += 1
                answer(ProduceOutcome(error=refusal.code, message=refusal.message))

    def _produce(
        self, acks: int, wanted: pb.ProduceBatch, batch: memoryview, answer: Callable[[ProduceOutcome], None]
    ) -> None:
        replica = self._find(TopicPartition(TopicId(wanted.topic_id), wanted.partition))
        if replica is None:
            self._gate.refuse_unknown(self._principal, Operation.PRODUCE, wanted.topic_id, wanted.partition)
        self._gate.authorize(self._principal, Operation.PRODUCE, replica.topic)
        if (replica.topic.tenant, replica.topic.name) == (SYSTEM_TENANT, GROUPS_TOPIC):
            raise errors.Forbidden(f"{replica.name}: only the coordinators of groups write it")
        reason = self._refuses_writes()
        if reason:
            raise errors.DiskFull(f"{replica.name}: {reason}")
        if not self._confident():
            raise errors.NotLeader(f"{replica.name}: this broker has lost touch with the metadata store")
        settings = replica.topic.settings
        if wanted.size > settings.max_batch_bytes:
            raise errors.MessageTooLarge(
                f"{replica.name}: batch of {wanted.size} bytes, at most {settings.max_batch_bytes} allowed"
            )
        try:
            header = check_batch(batch)
        except PenstockError as refusal:
            raise type(refusal)(f"{replica.name}: {refusal.message}") from None
        self._check_timestamp(replica, header)
        if header.control or header.transactional:
            raise errors.InvalidRequest(
                f"{replica.name}: transactional and control batches are not taken from clients"
            )
        try:
            replica.produce(
                batch,
                header,
                acks=acks,
                claimed_epoch=wanted.leader_epoch,
                principal=self._principal.number,
                answer=answer,
            )
        except InvariantBroken as broken:
            replica.stop(str(broken))
            raise errors.InternalError(f"{replica.name}: {broken}") from broken
        except DiskFault as fault:
            replica.stop(str(fault))
            raise errors.InternalError(f"{replica.name}: the disk failed") from fault

    def _check_timestamp(self, replica: Replica, header: BatchHeader) -> None:
        """Refuse timestamps too far ahead: they would hold retention by event time for ever (RL107)."""
        latest = self._clock.now_ms() + limits.TIMESTAMP_AHEAD_MS_MAX
        if header.max_timestamp > latest:
            raise errors.TimestampOutOfRange(
                f"{replica.name}: timestamp {header.max_timestamp} ms, at most {latest} ms allowed"
            )

    def _answer(self, batch_id: int | None, size: int, arrived_ms: float, outcome: ProduceOutcome) -> None:
        """Queue one result and its credit; with acks 0 only the credit goes back."""
        self._granted += size
        if batch_id is not None:
            self._stats.ack_ms.observe(self._clock.monotonic_ms() - arrived_ms)
            self._results.append(
                pb.ProduceResult(
                    id=batch_id,
                    error=outcome.error,
                    base_offset=outcome.base_offset,
                    accepted_ms=outcome.accepted_ms,
                    duplicate=outcome.duplicate,
                    message=outcome.message,
                    leader_epoch=outcome.leader_epoch,
                )
            )
        self._wake.set()

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            head = pb.ProduceAnswerHead(credit_bytes=self._granted, results=self._results)
            self._credit += self._granted
            self._results, self._granted = [], 0
            try:
                await self._connection.send(pack_frame(FrameKind.PRODUCE_ANSWER, head.SerializeToString()))
            except ConnectionLost:
                return
