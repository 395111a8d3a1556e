"""One Consume stream: positions and credit in, batches pushed out."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from data_plane.authz.access import Operation, Principal
from data_plane.disk.port import Buffer
from data_plane.log.outcomes import Slice
from data_plane.log.reading import ColdRead
from data_plane.metering.delivery import PushedBatches
from data_plane.metering.increments import DeliveredTally, RequestTally
from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.frame_heads import read_head, require_few, require_read
from data_plane.node.metering.client_use import ClientUse
from data_plane.node.ports import Connection
from data_plane.node.replicas.cold_reads import read_cold
from data_plane.node.replicas.reading_rights import (
    Right,
    may_report_watermark,
    require_position,
    right_to_read,
    still_holds,
)
from data_plane.node.replicas.replica import Following, Replica
from data_plane.node.serving.allowance import Allowance
from data_plane.node.serving.push_sender import PushSender
from data_plane.node.serving.read_turns import ReadTurns
from data_plane.node.serving.topic_reads import TopicReads
from data_plane.node.tasks import together
from penstock.contract import errors, limits
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from penstock.rules.names import check_printable_name

_LOOKED_AT = 1_000
"""Partitions of which a stream sees at once whether they have something to read: far below a turn of the event loop."""


@dataclass(slots=True)
class _Opened:
    """One partition on this stream."""

    handle: int
    generation: int
    replica: Replica
    right: Right
    offset: int
    credit: int
    taken: DeliveredTally
    pushed: PushedBatches = field(default_factory=PushedBatches)
    """Not yet taken by the consumer."""
    reported: tuple[int, int] = (-1, -1)
    """(log start, high watermark) last pushed."""


class ConsumeStream:
    """Serves one stream until it ends. An error of one partition closes its handle only."""

    def __init__(
        self,
        environment: Environment,
        connection: Connection,
        principal: Principal,
        *,
        gate: Gate,
        find: Callable[[TopicPartition], Replica | None],
        confident: Callable[[], bool],
        allowance: Allowance,
        client_use: ClientUse,
        tally: RequestTally,
    ) -> None:
        self._disk = environment.disk
        self._config = environment.config
        self._stats = environment.stats
        self._begin_turn = environment.begin_turn
        self._connection = connection
        self._principal = principal
        self._gate = gate
        self._find = find
        self._confident = confident
        self._allowance = allowance
        self._client_use = client_use
        self._tally = tally
        self._requests = allowance.requests
        self._budgets = allowance.budgets
        self._turns = allowance.turns
        self._opened: dict[int, _Opened] = {}
        self._by_replica: dict[Replica, int] = {}
        self._ready: dict[int, None] = {}
        self._errors: list[pb.ConsumePush] = []
        self._recheck_due = False
        self._wake = asyncio.Event()
        self._read_turns = ReadTurns(allowance, self._wake.set, environment.clock, environment.stats)
        self._sender = PushSender(connection, environment.clock, self._read_turns.leave)
        self._topic_reads = TopicReads(allowance, self._wake.set, environment.clock)
        self._zone = ""
        """Where the reader says it is."""
        self._in_own_zone = False
        """It says that it is in this broker's zone, or on its host."""

    async def serve(self) -> None:
        """Raises `ConnectionLost` at the end, `FrameError` for what is no frame, `CallFailed` when the key is gone."""
        try:
            await together(self._turns.charged(self._receive), self._turns.charged(self._send))
        finally:
            self._read_turns.leave()
            self._topic_reads.leave()
            try:
                async for handle in self._begin_turn().through(list(self._opened)):
                    self._close(handle)
            finally:
                # Cancelled once more: nothing may be left behind.
                for handle in list(self._opened):
                    self._close(handle)

    def recheck(self) -> None:
        """Keys changed: before anything more is read the sender looks at the key, and at all that is open."""
        self._recheck_due = True
        self._wake.set()

    async def _recheck(self) -> None:
        """What the key may no longer read is closed."""
        self._recheck_due = False
        async for opened in self._begin_turn().through(list(self._opened.values())):
            if self._opened.get(opened.handle) is not opened:
                continue
            try:
                self._gate.authorize(self._principal, Operation.CONSUME, opened.replica.topic)
                self._check_budgets(opened.replica)
            except PenstockError as refusal:
                self._close(opened.handle)
                self._refuse(opened.handle, opened.generation, refusal)

    # -- what the client says ----------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            frame = await self._connection.receive()
            kind, head, _ = unpack_frame(frame)
            if kind is FrameKind.CONSUME_OPEN:
                await self._requests.frame(self._connection, self._say_something)
            self._allowance.delayed(await self._turns.turn(self._connection, self._say_something))
            self._gate.check(self._principal)
            try:
                await self._take(kind, bytes(head))
            except PenstockError as refusal:
                raise FrameError(refusal.message) from None
            self._wake.set()

    def _say_something(self) -> None:
        """The client waits, and a push of nothing says that the broker is there."""
        self._sender.sign_due = True
        self._wake.set()

    async def _take(self, kind: FrameKind, head: bytes) -> None:
        turn = self._begin_turn()
        if kind is FrameKind.CONSUME_CREDIT:
            credits = read_head(pb.ConsumeCreditHead, kind, head).credits
            require_few(len(credits), "partitions")
            async for credit in turn.through(credits):
                self._add_credit(credit)
        elif kind is FrameKind.CONSUME_OPEN:
            opening = read_head(pb.ConsumeOpenHead, kind, head)
            require_few(len(opening.partitions), "partitions")
            require_read(len(self._errors))
            if opening.group:
                check_printable_name("group", opening.group, limits.GROUP_NAME_LENGTH_MAX)
            if opening.zone:
                check_printable_name("zone", opening.zone, limits.DOMAIN_NAME_LENGTH_MAX)
            self._locate(opening.zone)
            async for wanted in turn.through(opening.partitions):
                self._open(wanted, opening.group)
        elif kind is FrameKind.CONSUME_CLOSE:
            handles = read_head(pb.ConsumeCloseHead, kind, head).handles
            require_few(len(handles), "partitions")
            async for handle in turn.through(handles):
                self._close(handle)
        else:
            raise FrameError(f"frame kind {kind.name} has no place on a consume stream")

    def _locate(self, zone: str) -> None:
        """The reader says where it is; nothing is no zone."""
        self._zone = zone
        self._in_own_zone = bool(zone) and zone in (self._config.zone, self._config.host)

    def _add_credit(self, credit: pb.ConsumeCredit) -> None:
        opened = self._opened.get(credit.handle)
        if opened is not None and opened.generation == credit.generation:
            messages, size = opened.pushed.returned(credit.credit_bytes)
            if size:
                if opened.taken.add(messages, size, self._in_own_zone):
                    self._client_use.delivered(opened.replica, self._principal.number, opened.taken)
                if self._budgets.any and opened.replica.topic.metered:
                    self._budgets.delivered(opened.replica.topic.name, messages, size)
            opened.credit = min(opened.credit + credit.credit_bytes, limits.FETCH_CREDIT_BYTES_MAX)
            self._ready[credit.handle] = None

    def _open(self, wanted: pb.ConsumeOpen, group: str) -> None:
        self._close(wanted.handle)
        if len(self._opened) >= limits.PARTITIONS_PER_STREAM_MAX:
            raise FrameError(
                f"{len(self._opened)} partitions are open on the stream, at most {limits.PARTITIONS_PER_STREAM_MAX}"
                " allowed; open several streams"
            )
        where = TopicPartition(TopicId(wanted.topic_id), wanted.partition)
        try:
            replica = self._find(where)
            if replica is None:
                self._gate.refuse_unknown(
                    self._principal, Operation.CONSUME, wanted.topic_id, wanted.partition
                )
            self._gate.authorize(self._principal, Operation.CONSUME, replica.topic)
            self._check_budgets(replica)
            right = right_to_read(replica, wanted.leader_epoch, from_follower=wanted.from_follower)
            if wanted.offset < 0:
                raise errors.InvalidRequest(f"{replica.name}: offset {wanted.offset} is negative")
            require_position(replica, right, wanted.offset, wanted.last_epoch)
        except PenstockError as refusal:
            self._refuse(wanted.handle, wanted.generation, refusal)
            return
        previous = self._by_replica.get(replica)
        if previous is not None:
            self._close(previous)
        credit = min(wanted.credit_bytes, limits.FETCH_CREDIT_BYTES_MAX)
        self._opened[wanted.handle] = _Opened(
            wanted.handle,
            wanted.generation,
            replica,
            right,
            wanted.offset,
            credit,
            DeliveredTally(group),
        )
        self._by_replica[replica] = wanted.handle
        replica.on_commit[self] = self._committed
        replica.on_role[self] = self._role_changed
        self._ready[wanted.handle] = None

    def _check_budgets(self, replica: Replica) -> None:
        if not self._budgets.any or not replica.topic.metered:
            return
        refusal = self._budgets.read_refusal(replica.topic.name)
        if refusal is not None:
            self._stats.limit_refusals.note(self._principal.tenant, refusal.limit)
            raise refusal

    def _close(self, handle: int) -> None:
        opened = self._opened.pop(handle, None)
        if opened is None:
            return
        self._ready.pop(handle, None)
        self._topic_reads.closed(handle)
        self._by_replica.pop(opened.replica, None)
        opened.replica.on_commit.pop(self, None)
        opened.replica.on_role.pop(self, None)

    def _refuse(self, handle: int, generation: int, refusal: PenstockError) -> None:
        self._tally.count(refusal.code)
        push = pb.ConsumePush(
            handle=handle, generation=generation, error=refusal.code, message=refusal.message
        )
        if isinstance(refusal, errors.LogTruncated):
            push.divergence_offset = refusal.divergence_offset
        if isinstance(refusal, errors.OffsetOutOfRange):
            push.beyond_end = refusal.beyond_end
        self._errors.append(push)
        self._wake.set()

    # -- what happens to the partitions ------------------------------------------------------------------

    def _committed(self, replica: Replica) -> None:
        handle = self._by_replica[replica]
        if self._opened[handle].credit > 0 and handle not in self._ready:
            self._ready[handle] = None
            self._wake.set()

    def _role_changed(self, replica: Replica) -> None:
        opened = self._opened[self._by_replica[replica]]
        if not still_holds(replica, opened.right):
            self._close(opened.handle)
            what = (
                "this follower is not in sync any more, or its leader is another one"
                if isinstance(opened.right, Following)
                else "leadership moved to another broker"
            )
            self._refuse(opened.handle, opened.generation, errors.NotLeader(f"{replica.name}: {what}"))

    # -- what the client gets ----------------------------------------------------------------------------

    async def _send(self) -> None:
        while True:
            self._wake.clear()
            self._gate.check(self._principal)
            while self._recheck_due:
                await self._recheck()
            self._ready.update(dict.fromkeys(self._topic_reads.due()))
            wait_ms = self._wait_ms()
            frame = await self._next_frame() if wait_ms == 0 else self._packed(self._head(), [])
            if frame is not None:
                await self._sender.push(frame)
            elif self._sender.sign_due or (wait_ms != 0 and self._sender.sign_in_ms <= 0):
                await self._sender.sign()
            elif wait_ms != 0:
                sign_in_ms = self._sender.sign_in_ms
                await self._woken(sign_in_ms if wait_ms is None else min(wait_ms, sign_in_ms))
            elif self._ready and not self._confident():
                await asyncio.sleep(self._config.timings.heartbeat_ms / 1000)
            elif self._ready:
                # There was nothing of those that were looked at.
                await asyncio.sleep(0)
            else:
                await self._woken(self._topic_reads.wait_ms())

    def _wait_ms(self) -> float | None:
        """Until what is ready may be pushed, as `ReadTurns` says it."""
        if self._ready:
            wait_ms = self._read_turns.wait_ms(batches=self._has_batches())
            self._allowance.delayed(self._read_turns.take_processor_ms())
            return wait_ms
        self._read_turns.leave()
        return 0.0

    def _has_batches(self) -> bool:
        """Whether there is something to read of the next ones, rather than marks alone to tell."""
        return self._confident() and any(
            opened.credit > 0 and opened.offset < opened.replica.log.high_watermark
            for opened in map(self._opened.__getitem__, islice(self._ready, _LOOKED_AT))
        )

    async def _woken(self, wait_ms: float | None) -> None:
        """The rate delays batches, and nothing else: what is closed meanwhile is said at once."""
        try:
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _next_frame(self) -> bytes | None:
        """Errors, marks, and as much as may be read now."""
        head, payload = self._head(), list[Buffer]()
        size_max, turns = self._config.push_bytes_max, min(len(self._ready), _LOOKED_AT)
        if self._has_batches():
            size_max, turns = self._read_turns.begin(size_max), len(self._ready)
        try:
            await self._fill(head, payload, size_max, turns if self._confident() else 0)
        finally:
            head.throttled_ms = self._read_turns.end(sum(push.size for push in head.pushes))
            if head.throttled_ms:
                self._count_delay(head)
            head.throttled_ms += self._topic_reads.take_throttled_ms()
        return self._packed(head, payload)

    def _count_delay(self, head: pb.ConsumePushHead) -> None:
        """A delay is of a topic when all that was delayed is of it."""
        pushed = (self._opened.get(push.handle) for push in head.pushes if push.size)
        topics = {opened.replica.topic.topic_id: opened.replica.topic for opened in pushed if opened}
        topic = topics.popitem()[1] if len(topics) == 1 else None
        self._allowance.delayed(head.throttled_ms, topic)

    def _head(self) -> pb.ConsumePushHead:
        head = pb.ConsumePushHead(pushes=self._errors[: limits.FRAME_ENTRIES_MAX])
        del self._errors[: limits.FRAME_ENTRIES_MAX]
        return head

    async def _fill(self, head: pb.ConsumePushHead, payload: list[Buffer], size_max: int, turns: int) -> None:
        """Add what there is of the next `turns` partitions, as long as there is space."""
        turn, slows_topics = self._begin_turn(), self._budgets.slows_topics
        size = 0
        while turns and self._ready and self._has_space(head, size, size_max):
            if turn.is_over:
                await turn.give_way()
                continue
            turns -= 1
            handle = next(iter(self._ready))
            del self._ready[handle]
            opened = self._opened[handle]
            if opened.credit <= 0:
                continue
            bytes_max, topic = min(opened.credit, size_max - size), opened.replica.topic
            is_slowed = slows_topics and topic.metered and opened.offset < opened.replica.log.high_watermark
            if is_slowed:
                bytes_max = self._topic_reads.readable(handle, topic, bytes_max)
                if not bytes_max:
                    continue
            try:
                part = await self._read(opened, bytes_max)
            except PenstockError as failure:
                self._failed(opened, failure)
                continue
            if is_slowed and part is not None:
                self._topic_reads.read(topic.name, part.size)
            if self._opened.get(handle) is not opened:
                continue
            if self._recheck_due:
                self._ready[handle] = None
                break
            if part is None:
                self._tell_marks(head, opened)
                continue
            size += part.size
            payload.extend(part.batches)
            self._push(head, opened, part)

    def _packed(self, head: pb.ConsumePushHead, payload: list[Buffer]) -> bytes | None:
        if not head.pushes:
            return None
        size = sum(push.size for push in head.pushes)
        self._stats.pushed_bytes += size
        if self._zone:
            if self._in_own_zone:
                self._stats.pushed_bytes_own_zone += size
            else:
                self._stats.pushed_bytes_other_zone += size
        return pack_frame(FrameKind.CONSUME_PUSH, head.SerializeToString(), payload)

    def _has_space(self, head: pb.ConsumePushHead, size: int, size_max: int) -> bool:
        return size < size_max and len(head.pushes) < limits.FRAME_ENTRIES_MAX and not self._recheck_due

    def _failed(self, opened: _Opened, failure: PenstockError) -> None:
        """What was asked for cannot be read; damage is also the replica's to deal with. The client may have opened the
        handle elsewhere during the read: that stays."""
        if self._opened.get(opened.handle) is opened:
            self._close(opened.handle)
            self._refuse(opened.handle, opened.generation, failure)
        if isinstance(failure, errors.CorruptLog):
            opened.replica.found_damage(failure.message)

    async def _read(self, opened: _Opened, max_bytes: int) -> Slice | None:
        """Whole batches below the high watermark (RL20), or None at its end."""
        log = opened.replica.log
        if opened.offset >= log.high_watermark:
            return None
        found = log.read(opened.offset, log.high_watermark, max_bytes)
        if isinstance(found, ColdRead):
            found = await read_cold(self._disk, log, found)
        return found

    def _push(self, head: pb.ConsumePushHead, opened: _Opened, part: Slice) -> None:
        self._add(head, opened).size = part.size
        opened.replica.pushed(part.size)
        if isinstance(opened.right, Following):
            self._stats.pushed_bytes_follower += part.size
        self._tally.count(ErrorCode.OK)
        opened.pushed.pushed(part.stamps, opened.offset - part.first_offset)
        opened.offset = part.next_offset
        opened.credit -= part.size
        if opened.offset < opened.replica.log.high_watermark and opened.credit > 0:
            self._ready[opened.handle] = None

    def _tell_marks(self, head: pb.ConsumePushHead, opened: _Opened) -> None:
        if may_report_watermark(opened.right) and opened.reported != _marks(opened):
            self._add(head, opened)

    def _add(self, head: pb.ConsumePushHead, opened: _Opened) -> pb.ConsumePush:
        """The marks, as far as a new leader may report them."""
        log_start, mark = opened.reported = _marks(opened)
        return head.pushes.add(
            handle=opened.handle,
            generation=opened.generation,
            leader_epoch=opened.right.leader_epoch,
            log_start_offset=log_start,
            high_watermark=mark,
            last_stable_offset=mark,
        )


def _marks(opened: _Opened) -> tuple[int, int]:
    """(log start, high watermark); -1 for what a new leader does not report yet, because its own may be behind what its
    predecessor reported (RL21), or behind those of others who may lead next (RL108). Followers move their start first,
    so they never report it."""
    log = opened.replica.log
    return (
        log.log_start_offset if opened.replica.log_start_known else -1,
        log.high_watermark if may_report_watermark(opened.right) else -1,
    )
