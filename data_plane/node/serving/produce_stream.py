"""One Produce stream: frames of batches in, results and credit out."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from data_plane.authz.access import Operation, Principal
from data_plane.disk.port import DiskFault
from data_plane.metering.increments import RequestTally
from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.frame_heads import read_head, require_few, require_read
from data_plane.node.groups.group_coordinators import GROUPS_TOPIC
from data_plane.node.leasing.pacing import PRODUCE_RATE
from data_plane.node.limit_refusals import of_whom
from data_plane.node.ports import Connection, ConnectionLost
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.produce_answers import ProduceOutcome
from data_plane.node.replicas.replica import Replica
from data_plane.node.serving.allowance import Allowance
from data_plane.node.serving.append_limits import AppendLimits
from data_plane.node.serving.batch_turns import BatchTurns, Waiting
from data_plane.node.tasks import Turn
from data_plane.throttling.pacing import Pace
from data_plane.throttling.queues import SLOW_DOWN_MS_MAX
from data_plane.throttling.rate_words import rate_words
from penstock.contract import errors, limits
from penstock.contract.errors import PenstockError
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import BATCH_HEADER_BYTES, BatchHeader, check_batch

_ACKS = (-1, 0, 1)
_SOON_MS = 10
"""After which metadata that a client has already seen is here too."""
_PACED_CREDIT_BYTES = limits.BATCH_BYTES_MAX_LIMIT + 4 * limits.MIB
"""What a stream of a tenant with a produce rate may have unanswered: the largest batch
fits, with the slack that a client reserves.
"""
_LOOK_MS = 50.0
"""A batch is delayed at most so long until its turn is looked at once more: its tenant's rate may be another one."""


@dataclass(slots=True)
class _Owed:
    """The credit of a batch that was refused."""

    due_ms: float
    size: int


class ProduceStream:
    """Serves one stream until it ends. A refused batch never ends the stream; a bad frame or a lost key does."""

    def __init__(
        self,
        environment: Environment,
        connection: Connection,
        principal: Principal,
        *,
        gate: Gate,
        find: Callable[[TopicPartition], Replica | None],
        committer: Committer,
        refuses_writes: Callable[[], str],
        confident: Callable[[], bool],
        allowance: Allowance,
        tally: RequestTally,
    ) -> None:
        self._clock = environment.clock
        self._rng = environment.rng
        self._stats = environment.stats
        self._connection = connection
        self._principal = principal
        self._gate = gate
        self._find = find
        self._committer = committer
        self._refuses_writes = refuses_writes
        self._confident = confident
        self._allowance = allowance
        self._tally = tally
        self._requests = allowance.requests
        self._budgets = allowance.budgets
        self._turns = allowance.turns
        self._append_limits = AppendLimits(allowance, environment.clock)
        self._batch_turns = BatchTurns(allowance, environment.stats, begin=self._begin, refuse=self._refuse)
        self._owed: deque[_Owed] = deque()
        self._holding = asyncio.Event()
        self._releaser: asyncio.Task[None] | None = None
        self._results: list[pb.ProduceResult] = []
        self._credit = self._credit_limit = self._credit_wanted()
        self._granted = 0
        self._refused = 0
        """Batches of the last frame, refused for a reason that no retry repairs."""
        self._wake = asyncio.Event()

    async def serve(self) -> None:
        """Raises `ConnectionLost` at the end, `FrameError` for what is no frame, `CallFailed` when the key is gone."""
        opening = pb.ProduceAnswerHead(credit_bytes=self._credit_limit)
        await self._connection.send(pack_frame(FrameKind.PRODUCE_ANSWER, opening.SerializeToString()))
        sender = asyncio.create_task(self._turns.charged(self._send))
        try:
            await self._turns.charged(partial(self._receive, sender))
        finally:
            sender.cancel()
            if self._releaser is not None:
                self._releaser.cancel()
            self._batch_turns.leave(self._clock.monotonic_ms())

    async def _receive(self, sender: asyncio.Task[None]) -> None:
        while True:
            frame = await self._connection.receive()
            if not self._requests.passes():
                # An answer without results says that the broker is there.
                await self._requests.frame(self._connection, self._wake.set)
            await self._committer.below_bound()
            if self._refused:
                await self._turns.turn_of_refused()
                self._refused = 0
            self._allowance.delayed(await self._turns.turn(self._connection, self._wake.set))
            self._gate.check(self._principal)
            await self._take(frame)
            if self._refused:
                self._turns.refused(self._refused)
            if sender.done():
                raise ConnectionLost("the client stopped reading results")
            if self._releaser is not None and self._releaser.done():
                self._releaser.result()
            # What this frame set going, pushes and a commit, begins before the next frame is taken.
            await asyncio.sleep(0)

    async def _take(self, frame: bytes) -> None:
        arrived_ms = self._clock.monotonic_ms()
        kind, head_bytes, payload = unpack_frame(frame)
        if kind is not FrameKind.PRODUCE:
            raise FrameError(f"frame kind {kind.name} has no place on a produce stream")
        head = read_head(pb.ProduceHead, kind, head_bytes)
        require_few(len(head.batches), "batches")
        require_read(len(self._results))
        if head.acks not in _ACKS:
            raise FrameError(f"acks {head.acks}; 0, 1 or -1 required")
        if sum(batch.size for batch in head.batches) != len(payload):
            raise FrameError(f"batches named and payload of {len(payload)} bytes differ in size")
        self._credit -= len(payload)
        if self._credit < 0:
            raise FrameError(f"{-self._credit} bytes sent beyond the credit granted")
        position = 0
        slows_topics = self._budgets.slows_topics
        is_paced = self._batch_turns.look() or slows_topics
        turn = Turn(self._clock, self._rng)
        for wanted in head.batches:
            if turn.is_over:
                # The first batch of a partition makes its files: a thousand of those take more than a second.
                await turn.give_way()
                self._gate.check(self._principal)
            batch = payload[position : position + wanted.size]
            position += wanted.size
            # What is too small to be a batch takes next to no credit, so their number would have no bound.
            if is_paced and wanted.size >= BATCH_HEADER_BYTES:
                topics = self._topic_of(wanted) if slows_topics else ()
                waiting = Waiting(head.acks, wanted, batch, arrived_ms, topics)
                if self._batch_turns.take(waiting, arrived_ms):
                    self._hold()
            else:
                answer = partial(self._answer, wanted.id if head.acks else None, wanted.size, arrived_ms)
                self._try(head.acks, wanted, batch, answer)

    def _try(
        self, acks: int, wanted: pb.ProduceBatch, batch: memoryview, answer: Callable[[ProduceOutcome], None]
    ) -> None:
        try:
            self._produce(acks, wanted, batch, answer)
        except PenstockError as refusal:
            self._stats.produce_refusals += 1
            self._refused += not refusal.retriable
            retry_after_ms = _SOON_MS if self._is_behind(wanted) else 0
            if refusal.limit:
                self._stats.limit_refusals.note(self._principal.tenant, refusal.limit)
            if isinstance(refusal, errors.Throttled):
                retry_after_ms = refusal.retry_after_ms
            answer(ProduceOutcome(error=refusal.code, message=refusal.message, retry_after_ms=retry_after_ms))

    def _is_behind(self, wanted: pb.ProduceBatch) -> bool:
        """Does the client know a later leader epoch than this broker has seen yet? It will in a moment."""
        replica = self._find(TopicPartition(TopicId(wanted.topic_id), wanted.partition))
        known = None if replica is None else replica.record
        return known is not None and wanted.leader_epoch > known.leader_epoch

    # -- the tenant's produce rate -----------------------------------------------------------------------

    def _topic_of(self, wanted: pb.ProduceBatch) -> Sequence[Pace]:
        """The paces by which budgets slow the batch's topic now; none where it is refused anyway: it would take of what
        others may send."""
        replica = self._find(TopicPartition(TopicId(wanted.topic_id), wanted.partition))
        if replica is None or not replica.topic.metered or replica.topic.tenant != self._principal.tenant:
            return ()
        paces = self._allowance.topic_paces(replica.topic.name)
        if paces:
            try:
                self._gate.authorize(self._principal, Operation.PRODUCE, replica.topic)
            except PenstockError:
                return ()
        return paces

    def _begin(self, waiting: Waiting, now_ms: float) -> None:
        """Its turn is now. What its tenant's rate delayed it is not ours: else as if it came now."""
        throttled_ms = int(now_ms - waiting.since_ms)
        if throttled_ms:
            self._stats.throttled_ms += throttled_ms
            replica = self._find(TopicPartition(TopicId(waiting.wanted.topic_id), waiting.wanted.partition))
            self._allowance.delayed(throttled_ms, None if replica is None else replica.topic)
        id_ = waiting.wanted.id if waiting.acks else None
        answer = partial(
            self._answer, id_, waiting.size, now_ms, throttled_ms=throttled_ms, topics=waiting.topics
        )
        self._try(waiting.acks, waiting.wanted, waiting.batch, answer)

    def _refuse(self, pace: Pace, wanted: pb.ProduceBatch, now_ms: float) -> None:
        self._stats.throttle_refusals += 1
        named = of_whom(PRODUCE_RATE, pace.principal, pace.topic)
        self._stats.limit_refusals.note(self._principal.tenant, named)
        wait_ms = pace.come_back_in_ms(now_ms)
        self._results.append(
            pb.ProduceResult(
                id=wanted.id,
                error=errors.Throttled.code,
                base_offset=-1,
                message=f"{rate_words(PRODUCE_RATE, pace, wait_ms)}"
                f"{self._budgets.slowing(PRODUCE_RATE, pace.principal, pace.topic)}",
                retry_after_ms=wait_ms,
                slow_down_ms=min(wait_ms, SLOW_DOWN_MS_MAX) if pace.topic else 0,
            )
        )
        self._wake.set()
        if pace.topic:
            self._granted += wanted.size
            return
        self._owed.append(_Owed(now_ms + wait_ms, wanted.size))
        self._hold()

    def _hold(self) -> None:
        """Something is delayed."""
        self._holding.set()
        if self._releaser is None:
            self._releaser = asyncio.create_task(self._turns.charged(self._release))

    async def _release(self) -> None:
        """Let batches in when their turn comes, in the order they came; credit of refused ones goes back likewise."""
        while True:
            now_ms = self._clock.monotonic_ms()
            wait_ms = self._batch_turns.move(now_ms)
            waits = [] if wait_ms is None else [wait_ms]
            if self._owed:
                waits.append(max(0.0, self._owed[0].due_ms - now_ms))
            if not waits:
                self._holding.clear()
                await self._holding.wait()
                continue
            wait_ms = min(waits)
            if wait_ms > 0:
                self._holding.clear()
                try:
                    async with asyncio.timeout(min(wait_ms, _LOOK_MS) / 1000):
                        await self._holding.wait()
                except TimeoutError:
                    pass
                continue
            if self._owed and self._owed[0].due_ms <= now_ms:
                self._give_credit(self._owed.popleft().size)
                continue
            await self._committer.below_bound()
            waiting = self._batch_turns.next()
            if waiting is not None:
                self._begin(waiting, self._clock.monotonic_ms())
            await asyncio.sleep(0)

    def _give_credit(self, size: int) -> None:
        self._granted += size
        self._wake.set()

    def _credit_wanted(self) -> int:
        paced = self._allowance.pace() is not None or self._allowance.own_pace() is not None
        return _PACED_CREDIT_BYTES if paced else limits.STREAM_CREDIT_BYTES

    def _credit_to_give(self) -> int:
        """What was granted and not yet given, less or more what the stream's limit moves by."""
        wanted = self._credit_wanted()
        change = max(wanted - self._credit_limit, -self._granted)
        given = self._granted + change
        self._credit_limit += change
        self._granted = 0
        return given

    # -- one batch ---------------------------------------------------------------------------------------

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
        counted = replica.topic.metered and self._append_limits.check(
            replica, header, wanted.size, wanted.leader_epoch
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
            if counted:
                self._budgets.produced(replica.topic.name, header.record_count, wanted.size)
        except InvariantBroken as broken:
            replica.stop(str(broken))
            raise errors.InternalError(f"{replica.name}: {broken}") from broken
        except DiskFault as fault:
            replica.stop(str(fault))
            raise errors.InternalError(f"{replica.name}: the disk failed") from fault

    def _check_timestamp(self, replica: Replica, header: BatchHeader) -> None:
        """Refuse timestamps too far ahead: they would block retention by event time permanently (RL107)."""
        latest = self._clock.now_ms() + limits.TIMESTAMP_AHEAD_MS_MAX
        if header.max_timestamp > latest:
            raise errors.TimestampOutOfRange(
                f"{replica.name}: timestamp {header.max_timestamp} ms, at most {latest} ms allowed"
            )

    def _answer(
        self,
        batch_id: int | None,
        size: int,
        arrived_ms: float,
        outcome: ProduceOutcome,
        throttled_ms: int = 0,
        topics: Sequence[Pace] = (),
    ) -> None:
        """Queue one result and its credit; with acks 0 only the credit goes back. `topics`: paces of the topic: while
        they delay, its partitions have a share of the client's buffer and not all of it."""
        self._granted += size
        self._tally.count(outcome.error)
        if batch_id is not None:
            took_ms = self._clock.monotonic_ms() - arrived_ms
            self._stats.ack_ms.observe(took_ms)
            if not outcome.error:
                self._tally.took(took_ms)
            self._results.append(
                pb.ProduceResult(
                    id=batch_id,
                    error=outcome.error,
                    base_offset=outcome.base_offset,
                    accepted_ms=outcome.accepted_ms,
                    duplicate=outcome.duplicate,
                    message=outcome.message,
                    leader_epoch=outcome.leader_epoch,
                    retry_after_ms=outcome.retry_after_ms,
                    slow_down_ms=max(outcome.slow_down_ms, self._topics_delay_ms(topics)),
                    throttled_ms=throttled_ms,
                )
            )
        self._wake.set()

    def _topics_delay_ms(self, topics: Sequence[Pace]) -> int:
        if not topics:
            return 0
        now_ms = self._clock.monotonic_ms()
        return min(SLOW_DOWN_MS_MAX, int(max([pace.clears_in_ms(now_ms) for pace in topics])))

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            credit = self._credit_to_give()
            head = pb.ProduceAnswerHead(
                credit_bytes=credit, results=self._results[: limits.FRAME_ENTRIES_MAX]
            )
            self._credit += credit
            del self._results[: limits.FRAME_ENTRIES_MAX]
            if self._results:
                self._wake.set()
            try:
                await self._connection.send(pack_frame(FrameKind.PRODUCE_ANSWER, head.SerializeToString()))
            except ConnectionLost:
                # Of a client that has only ended its own direction all that it sent is still taken.
                if self._connection.is_gone:
                    return
