"""Leader's side of one Replicate stream: takes a follower's positions, pushes batches, takes what it holds."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from data_plane.contract import replication_pb2 as pb
from data_plane.disk.port import Buffer, Disk
from data_plane.log.outcomes import Slice
from data_plane.log.reading import ColdRead
from data_plane.metadata.image import ClusterImage
from data_plane.node.config import NodeConfig
from data_plane.node.frame_heads import read_head
from data_plane.node.ports import Caller, Clock, Connection, require_broker
from data_plane.node.replicas.catch_up import WINDOW_SHARE, CatchUp
from data_plane.node.replicas.cold_reads import read_cold
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn, together
from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import Accepted, Diverging, Position, StartOver
from penstock.contract import limits
from penstock.contract.errors import CorruptLog, ErrorCode, PenstockError
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition
from penstock.records.stamp import STAMP_BYTES

SMALL_WINDOW_BYTES = 256 * limits.KIB
"""While less than this is on its way, what comes meanwhile waits until the follower holds it: each frame costs both
brokers a turn of their event loops, so the busier they are the more goes into one. Beyond, the frames are large
already."""
HOLD_OFF_MS = 25
"""Nothing waits longer than this for what is on its way. Two busy brokers on one core answer in 10 to 20: with less,
frames went out that were not waited for, and kept them as busy as they were."""
_ANSWERS_BYTES = 512 * limits.KIB
"""A frame of answers takes no more of them beyond this."""
_ANSWERS_STEP = 200
_SLOWED_MS = 5
"""Between two looks at what catches up while there is no capacity for it."""
METERED_BEATS = 10
"""Beats of the marks until what is metered goes out without a push."""
_STAMPS_PER_PUSH_MAX = 1_024
"""Batches of one partition in one frame: what a follower takes over in one turn of its event loop."""


@dataclass(slots=True)
class _Pushed:
    """One partition on this stream."""

    handle: int
    replica: Replica
    leading: LeaderState
    broker_epoch: int
    """With which it was opened."""
    next_offset: int
    window: int
    """Bytes pushed and not held yet."""
    sizes: list[tuple[int, int]]
    """(end offset, bytes) of each slice pushed and not acknowledged yet."""
    reported: tuple[int, ...] = ()
    """(high watermark, log start, metered, sealed) last pushed."""
    takes: bool = True
    """Whether the follower has space for more than the marks."""


class FollowerStream:
    """Serves one follower broker. At most one write is in flight; what queues meanwhile goes into the next frame."""

    def __init__(
        self,
        caller: Caller,
        connection: Connection,
        config: NodeConfig,
        image: ClusterImage,
        find: Callable[[TopicPartition], Replica | None],
        disk: Disk,
        clock: Clock,
        stats: NodeStats,
        *,
        catch_up: CatchUp,
        begin_turn: Callable[[], Turn],
    ) -> None:
        self._catch_up = catch_up
        self._begin_turn = begin_turn
        self._slowed: dict[int, None] = {}
        """Handles of followers far behind, whose turn comes at the rate of catching up."""
        self._caller = caller
        self._connection = connection
        self._config = config
        self._image = image
        self._find = find
        self._disk = disk
        self._clock = clock
        self._stats = stats
        self._broker = NO_BROKER
        self._broker_epoch = 0
        self._pushed: dict[int, _Pushed] = {}
        self._by_replica: dict[Replica, int] = {}
        self._ready: dict[int, None] = {}
        """Handles with something to push, in the order they came."""
        self._answers: list[pb.ReplicaAnswer] = []
        self._window = 0
        """Bytes on their way: pushed and not held yet."""
        self._sent_ms = 0.0
        self._later: asyncio.TimerHandle | None = None
        """Wakes the sender when it has held off long enough; one at a time."""
        self._wake = asyncio.Event()
        self._moved: dict[int, None] = {}
        """Handles whose marks have moved since they were pushed and since the last beat."""
        self._untold: dict[int, None] = {}
        """Handles whose marks the last beat found moved; they go out without batches."""
        self._beat: asyncio.TimerHandle | None = None
        """The next beat; None while no marks have moved."""
        self._metered: dict[int, None] = {}
        """Handles of which more was metered or sealed since they were pushed."""
        self._metered_beat: asyncio.TimerHandle | None = None

    async def serve(self) -> None:
        """Until the follower is gone. Raises `ConnectionLost`, `FrameError`, `CallFailed`."""
        try:
            await together(self._receive(), self._send())
        finally:
            for handle in list(self._pushed):
                self._close(handle)

    # -- what the follower says --------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            kind, head, _ = unpack_frame(await self._connection.receive())
            if kind is FrameKind.REPLICA_HELD:
                self._acked(read_head(pb.ReplicaHeldHead, kind, head))
            elif kind is FrameKind.REPLICA_OPEN:
                await self._open_all(read_head(pb.ReplicaOpenHead, kind, head))
            elif kind is FrameKind.REPLICA_CLOSE:
                for handle in read_head(pb.ReplicaCloseHead, kind, head).handles:
                    self._close(handle)
            else:
                raise FrameError(f"frame kind {kind.name} has no place on a replication stream")

    async def _open_all(self, head: pb.ReplicaOpenHead) -> None:
        require_broker(self._caller, head.broker_id)
        self._broker = BrokerId(head.broker_id)
        self._broker_epoch = head.broker_epoch
        turn = self._begin_turn()
        for wanted in head.partitions:
            if turn.is_over:
                self._wake.set()
                await turn.give_way()
            self._close(wanted.handle)
            self._answers.append(self._open(wanted))
        self._wake.set()

    def _open(self, wanted: pb.ReplicaOpen) -> pb.ReplicaAnswer:
        where = TopicPartition(TopicId(wanted.topic_id), wanted.partition)
        answer = pb.ReplicaAnswer(handle=wanted.handle, leader_epoch=wanted.leader_epoch)
        replica = self._find(where)
        try:
            if replica is None:
                answer.error, answer.message = ErrorCode.NOT_LEADER, f"{where}: not here"
                return answer
            leading = replica.leadership(wanted.leader_epoch)
        except PenstockError as refusal:
            answer.error, answer.message = refusal.code, refusal.message
            return answer
        position = Position(
            log_end_offset=wanted.log_end_offset,
            durable_end_offset=wanted.durable_end_offset,
            last_epoch=wanted.last_epoch,
            log_start_offset=wanted.log_start_offset,
        )
        verdict = leading.follower_opened(
            self._broker,
            self._broker_epoch,
            wanted.replica_generation,
            position,
            self._clock.monotonic_ms(),
            handle=wanted.handle,
            leader_epoch=wanted.leader_epoch,
            partition_epoch=wanted.partition_epoch,
            registered_epoch=self._image.epoch_of(self._broker),
            epoch_lookup=replica.log.end_offset_for_epoch,
            stored_from=replica.log.stored_from,
            wants_in=not wanted.stays_out,
        )
        answer.log_start_offset = replica.log.log_start_offset
        if leading.is_newest_open(self._broker, self._broker_epoch, wanted.handle):
            self._succeed(replica)
        if isinstance(verdict, Diverging):
            answer.diverging = True
            answer.divergence_epoch, answer.divergence_end_offset = verdict.epoch, verdict.end_offset
        elif isinstance(verdict, StartOver):
            answer.start_over = True
            answer.log_start_offset = verdict.offset
            known = replica.log.state_at_start()
            if known.offset == verdict.offset:
                answer.odometer, answer.producers = known.odometer, known.producers
        elif isinstance(verdict, Accepted):
            self._accept(wanted.handle, replica, leading, verdict.offset, takes=not wanted.no_room)
        else:
            answer.error, answer.message = verdict.code, verdict.message
        return answer

    def _succeed(self, replica: Replica) -> None:
        """End all that this follower opened of the replica before, on older streams too."""
        for stream in list(replica.on_append):
            if isinstance(stream, FollowerStream) and stream._broker == self._broker:
                stream._close(stream._by_replica[replica])

    def _accept(
        self, handle: int, replica: Replica, leading: LeaderState, offset: int, *, takes: bool
    ) -> None:
        self._pushed[handle] = _Pushed(
            handle, replica, leading, self._broker_epoch, offset, 0, [], takes=takes
        )
        self._by_replica[replica] = handle
        replica.on_append[self] = self._appended
        replica.on_marks[self] = self._marks_moved
        replica.on_metered[self] = self._more_metered
        replica.on_role[self] = self._role_changed
        self._ready[handle] = None
        self._marks_moved(replica)
        replica.carry_out()

    def _close(self, handle: int) -> None:
        pushed = self._pushed.pop(handle, None)
        if pushed is None:
            return
        self._window -= pushed.window
        self._ready.pop(handle, None)
        self._moved.pop(handle, None)
        self._metered.pop(handle, None)
        replica = pushed.replica
        self._by_replica.pop(replica, None)
        replica.on_append.pop(self, None)
        replica.on_marks.pop(self, None)
        replica.on_metered.pop(self, None)
        replica.on_role.pop(self, None)
        if replica.leading is pushed.leading:
            pushed.leading.follower_gone(self._broker, pushed.broker_epoch, handle)

    def _acked(self, head: pb.ReplicaHeldHead) -> None:
        now = self._clock.monotonic_ms()
        for ack in head.held:
            pushed = self._pushed.get(ack.handle)
            if pushed is None or pushed.replica.leading is not pushed.leading:
                continue
            if not pushed.leading.follower_acked(
                self._broker,
                pushed.broker_epoch,
                ack.written_end_offset,
                ack.durable_end_offset,
                now,
                handle=ack.handle,
                leader_epoch=ack.leader_epoch,
                log_start=ack.log_start_offset,
            ):
                continue
            freed = 0
            while pushed.sizes and pushed.sizes[0][0] <= ack.written_end_offset:
                freed += pushed.sizes.pop(0)[1]
            pushed.window -= freed
            self._window -= freed
            pushed.replica.carry_out()
        if self._ready:
            self._wake.set()

    # -- what the leader says ----------------------------------------------------------------------------

    def _appended(self, replica: Replica) -> None:
        handle = self._by_replica[replica]
        if handle not in self._ready:
            self._ready[handle] = None
            self._wake.set()

    def _role_changed(self, replica: Replica) -> None:
        handle = self._by_replica.get(replica)
        if handle is None:
            return
        pushed = self._pushed[handle]
        if replica.leading is not pushed.leading:
            self._refuse(pushed, ErrorCode.NOT_LEADER, f"{replica.name}: leadership moved")
        elif not pushed.leading.is_followed_by(self._broker):
            self._refuse(
                pushed,
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{replica.name}: its record was written by others since",
            )

    def _refuse(self, pushed: _Pushed, code: ErrorCode, message: str) -> None:
        """End one partition on this stream; the follower opens it again."""
        self._answers.append(
            pb.ReplicaAnswer(
                handle=pushed.handle, leader_epoch=pushed.leading.leader_epoch, error=code, message=message
            )
        )
        self._close(pushed.handle)
        self._wake.set()

    def _marks_moved(self, replica: Replica) -> None:
        """The marks ride on each push; those of partitions without pushes go out on a beat."""
        self._moved[self._by_replica[replica]] = None
        if self._beat is None:
            beat_s = self._config.timings.watermark_beat_ms / 1000
            self._beat = asyncio.get_running_loop().call_later(beat_s, self._on_beat)

    def _on_beat(self) -> None:
        self._beat = None
        self._untold.update(self._moved)
        self._moved.clear()
        if self._untold:
            self._wake.set()

    def _more_metered(self, replica: Replica) -> None:
        """Goes out like the marks, but later: what is metered is written to, so its next push is near. A leader that
        knows less reads again what was read.
        """
        self._metered[self._by_replica[replica]] = None
        if self._metered_beat is None:
            beat_s = METERED_BEATS * self._config.timings.watermark_beat_ms / 1000
            self._metered_beat = asyncio.get_running_loop().call_later(beat_s, self._on_metered_beat)

    def _on_metered_beat(self) -> None:
        self._metered_beat = None
        self._untold.update(self._metered)
        self._metered.clear()
        if self._untold:
            self._wake.set()

    async def _send(self) -> None:
        while True:
            self._wake.clear()
            frame = self._answer_frame()
            if frame is None and not self._holds_off():
                frame = await self._next_frame()
            if frame is None:
                await self._wake.wait()
            else:
                await self._connection.send(frame)

    def _answer_frame(self) -> bytes | None:
        """Answers go before any push of the partitions they open."""
        if not self._answers:
            return None
        many = self._config.replica_open_max
        head = pb.ReplicaAnswerHead()
        while self._answers and len(head.answers) < many and head.ByteSize() < _ANSWERS_BYTES:
            # Looking at the size costs as much as the answers that are there: by the hundred.
            head.answers.extend(self._answers[:_ANSWERS_STEP])
            del self._answers[:_ANSWERS_STEP]
        return pack_frame(FrameKind.REPLICA_ANSWER, head.SerializeToString())

    def _holds_off(self) -> bool:
        """Whether what is ready has to wait for what is on its way."""
        if not 0 < self._window < SMALL_WINDOW_BYTES:
            return False
        left_ms = self._sent_ms + HOLD_OFF_MS - self._clock.monotonic_ms()
        if left_ms <= 0:
            return False
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(left_ms / 1000, self._no_later)
        return True

    def _no_later(self) -> None:
        self._later = None
        self._wake.set()

    async def _next_frame(self) -> bytes | None:
        """One frame of what is ready, or None when nothing is or the window is closed."""
        head = pb.ReplicaPushHead()
        payload: list[Buffer] = []
        size = 0
        while (
            self._ready
            and size < self._config.push_bytes_max
            and self._window < self._config.replica_window_bytes
        ):
            if self._answers:
                break
            handle = next(iter(self._ready))
            del self._ready[handle]
            pushed = self._pushed[handle]
            behind = self._catch_up.concerns(
                pushed.replica, pushed.leading, self._broker, self._config.push_bytes_max
            )
            if behind and self._slow_down(pushed):
                continue
            try:
                part = await self._read(pushed, self._config.push_bytes_max - size)
            except PenstockError as failure:
                self._failed(pushed, failure)
                continue
            if part is None or self._pushed.get(handle) is not pushed:
                continue
            if behind:
                self._catch_up.sent(part.size)
            size += part.size
            payload.append(part.stamps)
            payload.extend(part.batches)
            self._account(head, pushed, part)
        while self._untold and len(head.pushes) < self._config.replica_open_max:
            handle, _ = self._untold.popitem()
            resting = self._pushed.get(handle)
            if resting is not None and resting.reported != _marks(resting.replica):
                self._account(head, resting, None)
        if not head.pushes:
            return None
        if size:
            self._sent_ms = self._clock.monotonic_ms()
        self._stats.replicated_bytes += size
        return pack_frame(FrameKind.REPLICA_PUSH, head.SerializeToString(), payload)

    def _failed(self, pushed: _Pushed, failure: PenstockError) -> None:
        """What is to be pushed cannot be read. Damage is the replica's to deal with; that the log begins beyond the
        follower's end is none: it opens again and starts over (RL32)."""
        self._refuse(pushed, failure.code, failure.message)
        if isinstance(failure, CorruptLog):
            pushed.replica.found_damage(failure.message)

    def _slow_down(self, pushed: _Pushed) -> bool:
        """Whether this follower, far behind, has to wait; it is ready again by itself."""
        wait_ms = self._catch_up.wait_ms()
        if wait_ms == 0 and pushed.window * WINDOW_SHARE <= self._config.replica_window_bytes:
            return False
        if not self._slowed:
            asyncio.get_running_loop().call_later(max(wait_ms, _SLOWED_MS) / 1000, self._no_longer_slowed)
        self._slowed[pushed.handle] = None
        return True

    def _no_longer_slowed(self) -> None:
        for handle in self._slowed:
            if handle in self._pushed:
                self._ready[handle] = None
        self._slowed.clear()
        self._wake.set()

    async def _read(self, pushed: _Pushed, max_bytes: int) -> Slice | None:
        log = pushed.replica.log
        if pushed.next_offset >= log.log_end_offset or not pushed.takes:
            return None
        found = log.read_stored(pushed.next_offset, log.log_end_offset, max_bytes)
        if len(found.stamps) > _STAMPS_PER_PUSH_MAX * STAMP_BYTES and isinstance(found, Slice):
            share = _STAMPS_PER_PUSH_MAX * STAMP_BYTES / len(found.stamps)
            found = log.read_stored(pushed.next_offset, log.log_end_offset, int(found.size * share))
        if isinstance(found, ColdRead):
            found = await read_cold(self._disk, log, found)
        if pushed.replica.leading is not pushed.leading or self._pushed.get(pushed.handle) is not pushed:
            return None
        if found.next_offset < log.log_end_offset:
            self._ready[pushed.handle] = None
        return found

    def _account(self, head: pb.ReplicaPushHead, pushed: _Pushed, part: Slice | None) -> None:
        log = pushed.replica.log
        pushed.reported = _marks(pushed.replica)
        self._moved.pop(pushed.handle, None)
        self._metered.pop(pushed.handle, None)
        push = head.pushes.add(
            handle=pushed.handle,
            leader_epoch=pushed.leading.leader_epoch,
            high_watermark=log.high_watermark,
            log_start_offset=pushed.replica.log_start_target,
            metered_offset=pushed.replica.metered_offset,
            sealed_offset=pushed.replica.sealed_offset,
            metered_generation=log.usage.log_generation,
        )
        if part is None:
            return
        push.base_offset = part.first_offset
        push.stamps = len(part.stamps) // STAMP_BYTES
        push.batches_bytes = part.size
        pushed.next_offset = part.next_offset
        pushed.sizes.append((part.next_offset, part.size))
        pushed.window += part.size
        self._window += part.size


def _marks(replica: Replica) -> tuple[int, ...]:
    return (
        replica.log.high_watermark,
        replica.log_start_target,
        replica.metered_offset,
        replica.sealed_offset,
    )
