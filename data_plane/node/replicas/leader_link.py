"""Follower's side: one link to each broker that leads partitions this broker follows."""

import asyncio
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass

from data_plane.contract import replication_pb2 as pb
from data_plane.contract.methods import REPLICATE
from data_plane.controller.losses import begins_below
from data_plane.disk import port
from data_plane.disk.port import DiskFault
from data_plane.log.outcomes import ReplicaRejected
from data_plane.log.start_state import StartState
from data_plane.node.config import NodeConfig
from data_plane.node.frame_heads import read_head
from data_plane.node.ports import Clock, Connection, ConnectionLost, Peer, Rng, Transport
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.replica import Following, Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn, together
from data_plane.replication.follower import (
    BelowWatermark,
    BrokenPush,
    FollowerState,
    Phase,
    TakePush,
)
from data_plane.replication.opening import NO_EPOCH, Position
from penstock.contract.errors import CorruptLog, DiskFull
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import BrokerId
from penstock.records.stamp import STAMP_BYTES

_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_AT = 20
"""Where a packed stamp has its leader epoch (penstock/records/stamp.py)."""


@dataclass(slots=True)
class _Followed:
    """One partition on this link."""

    replica: Replica
    following: Following
    state: FollowerState


class LeaderLink:
    """Follows everything that one broker leads, over one stream; reconnects while there is something to follow."""

    def __init__(
        self,
        leader: BrokerId,
        peer: Callable[[], Peer | None],
        broker_epoch: Callable[[], int],
        config: NodeConfig,
        transport: Transport,
        committer: Committer,
        clock: Clock,
        rng: Rng,
        *,
        stats: NodeStats,
        trim: Callable[[Replica, int], None],
        full: Callable[[], str],
        stays_out: Callable[[], bool],
    ) -> None:
        self.leader = leader
        self._trim = trim
        self._full = full
        self._stays_out = stays_out
        self._peer = peer
        self._broker_epoch = broker_epoch
        self._config = config
        self._transport = transport
        self._committer = committer
        self._clock = clock
        self._rng = rng
        self._stats = stats
        self._followed: dict[Replica, _Followed] = {}
        self._by_handle: dict[int, _Followed] = {}
        self._next_handle = 1
        self._to_open: dict[Replica, None] = {}
        self._to_tell: dict[Replica, None] = {}
        self._to_close: list[int] = []
        self._wake = asyncio.Event()
        self._wanted = asyncio.Event()

    @property
    def idle(self) -> bool:
        return not self._followed

    # -- what to follow ----------------------------------------------------------------------------------

    def follow(self, replica: Replica, following: Following) -> None:
        """Follow from the replica's own position; again with a newer leader epoch."""
        self.leave(replica)
        state = FollowerState(
            following.leader,
            leader_epoch=following.leader_epoch,
            replica_generation=replica.log.replica_generation,
            strict=replica.strict,
            loss_declared=replica.record is not None
            and begins_below(replica.record, last_epoch=replica.log.last_epoch),
        )
        self._followed[replica] = _Followed(replica, following, state)
        self._to_open[replica] = None
        self._wanted.set()
        self._wake.set()

    def leave(self, replica: Replica) -> None:
        followed = self._followed.pop(replica, None)
        replica.accepted(None)
        self._to_open.pop(replica, None)
        self._to_tell.pop(replica, None)
        if followed is not None and self._by_handle.pop(followed.state.handle, None) is not None:
            self._to_close.append(followed.state.handle)
            self._wake.set()
        if not self._followed:
            self._wanted.clear()

    def open_again(self) -> None:
        """What an open says of this broker has changed."""
        for replica in self._followed:
            self._reopen(replica)

    def became_durable(self, replica: Replica) -> None:
        """What the replica holds changed: tell the leader."""
        if replica in self._followed:
            self._to_tell[replica] = None
            self._wake.set()

    # -- the connection ----------------------------------------------------------------------------------

    async def run(self) -> None:
        wait_ms = self._config.timings.reconnect_ms
        while True:
            await self._wanted.wait()
            peer = self._peer()
            if peer is not None and self._broker_epoch():
                try:
                    connection = await self._transport.connect(peer, REPLICATE, self._config.timings.call_ms)
                    wait_ms = self._config.timings.reconnect_ms
                    await self._converse(connection)
                except (ConnectionLost, FrameError):
                    pass
            self._forget_handles()
            await asyncio.sleep(self._rng.uniform(wait_ms / 2, wait_ms) / 1000)
            wait_ms = min(wait_ms * 2, self._config.timings.reconnect_ms_max)

    def _forget_handles(self) -> None:
        self._by_handle.clear()
        self._to_tell.clear()
        self._to_close.clear()
        for replica, followed in self._followed.items():
            followed.state.stream_lost()
            replica.accepted(None)
            self._to_open[replica] = None

    async def _converse(self, connection: Connection) -> None:
        self._wake.set()
        try:
            await together(self._speak(connection), self._listen(connection))
        finally:
            connection.close()

    async def _speak(self, connection: Connection) -> None:
        while True:
            self._wake.clear()
            frames = [*self._close_frames(), *self._open_frames(), *self._ack_frames()]
            for frame in frames:
                await connection.send(frame)
            if not frames:
                await self._wake.wait()
            elif self._to_open:
                await asyncio.sleep(0)  # the next thousand are opened in a later turn

    def _close_frames(self) -> list[bytes]:
        if not self._to_close:
            return []
        head, self._to_close = pb.ReplicaCloseHead(handles=self._to_close), []
        return [pack_frame(FrameKind.REPLICA_CLOSE, head.SerializeToString())]

    def _open_frames(self) -> list[bytes]:
        wanted = [replica for replica in self._to_open if not replica.busy]
        if len(wanted) > self._config.replica_open_max:
            # The head of one frame is bounded; the rest goes out with the next ones.
            del wanted[self._config.replica_open_max :]
            self._wake.set()
        elif len(wanted) < len(self._to_open):
            asyncio.get_running_loop().call_later(self._config.timings.reconnect_ms / 1000, self._wake.set)
        if not wanted:
            return []
        head = pb.ReplicaOpenHead(broker_id=self._config.broker_id, broker_epoch=self._broker_epoch())
        for replica in wanted:
            del self._to_open[replica]
            followed = self._followed[replica]
            self._by_handle.pop(followed.state.handle, None)
            log = replica.log
            position = Position(
                log_end_offset=log.log_end_offset,
                durable_end_offset=log.durable_end_offset,
                last_epoch=log.last_epoch,
                log_start_offset=log.log_start_offset,
            )
            opened = followed.state.open(self._next_handle, position)
            self._next_handle += 1
            self._by_handle[opened.handle] = followed
            head.partitions.add(
                handle=opened.handle,
                topic_id=replica.where.topic_id,
                partition=replica.where.partition,
                leader_epoch=opened.leader_epoch,
                log_end_offset=position.log_end_offset,
                durable_end_offset=position.durable_end_offset,
                last_epoch=position.last_epoch,
                replica_generation=opened.replica_generation,
                log_start_offset=position.log_start_offset,
                no_room=bool(self._full()),
                stays_out=self._stays_out(),
                partition_epoch=0 if replica.record is None else replica.record.partition_epoch,
            )
        return [pack_frame(FrameKind.REPLICA_OPEN, head.SerializeToString())]

    def _ack_frames(self) -> list[bytes]:
        head = pb.ReplicaHeldHead()
        for replica in list(itertools.islice(self._to_tell, self._config.replica_open_max)):
            del self._to_tell[replica]
            followed = self._followed[replica]
            if followed.state.phase is Phase.FOLLOWING:
                head.held.add(
                    handle=followed.state.handle,
                    leader_epoch=followed.following.leader_epoch,
                    durable_end_offset=replica.log.durable_end_offset,
                    written_end_offset=replica.log.log_end_offset,
                    log_start_offset=replica.log.log_start_offset,
                )
        if self._to_tell:
            self._wake.set()
        return [pack_frame(FrameKind.REPLICA_HELD, head.SerializeToString())] if head.held else []

    # -- what the leader says ----------------------------------------------------------------------------

    async def _listen(self, connection: Connection) -> None:
        while True:
            kind, head, payload = unpack_frame(await connection.receive())
            if kind is FrameKind.REPLICA_PUSH:
                await self._committer.below_bound()
                await self._take_all(read_head(pb.ReplicaPushHead, kind, head), payload)
            elif kind is FrameKind.REPLICA_ANSWER:
                for answer in read_head(pb.ReplicaAnswerHead, kind, head).answers:
                    await self._answered(answer)
            else:
                raise FrameError(f"frame kind {kind.name} has no place on a replication stream")

    def _current(self, handle: int) -> _Followed | None:
        """The partition of a handle, unless its role changed since the request was sent (RL29)."""
        followed = self._by_handle.get(handle)
        if followed is None or followed.replica.busy or followed.replica.following != followed.following:
            return None
        return followed

    async def _take_all(self, head: pb.ReplicaPushHead, payload: memoryview) -> None:
        """Take the pushes in order. One for a busy replica waits: a push left out would leave a hole."""
        position = 0
        turn = Turn(self._clock, self._rng)
        for push in head.pushes:
            if turn.is_over:
                await turn.give_way()
            stamps_end = position + push.stamps * STAMP_BYTES
            batches_end = stamps_end + push.batches_bytes
            stamps, batches = payload[position:stamps_end], payload[stamps_end:batches_end]
            position = batches_end
            followed = self._by_handle.get(push.handle)
            if followed is not None and followed.replica.busy:
                await followed.replica.at_rest()
            followed = self._current(push.handle)
            if followed is not None:
                self._take(followed, push, stamps, batches)
        if self._to_tell:
            self._wake.set()

    def _take(
        self, followed: _Followed, push: pb.ReplicaPush, stamps: memoryview, batches: memoryview
    ) -> None:
        replica, log = followed.replica, followed.replica.log
        verdict = followed.state.push(
            push.handle,
            push.leader_epoch,
            push.base_offset if push.stamps else None,
            high_watermark=push.high_watermark,
            first_batch_epoch=_LEADER_EPOCH.unpack_from(stamps, _LEADER_EPOCH_AT)[0]
            if push.stamps
            else NO_EPOCH,
            log_end=log.log_end_offset,
            last_epoch=log.last_epoch,
        )
        if isinstance(verdict, BrokenPush):
            self._reopen(replica)
        if not isinstance(verdict, TakePush):
            return
        try:
            if verdict.append:
                replica.take_over(stamps, batches, push.leader_epoch)
        except (ReplicaRejected, DiskFull, DiskFault):
            self._later(replica)
            return
        replica.note_watermark(verdict.high_watermark)
        if push.metered_offset > replica.metered_offset:
            replica.note_metered(push.metered_generation, push.metered_offset)
        replica.note_sealed(push.sealed_offset)
        if push.log_start_offset > log.log_start_offset:
            self._trim(replica, push.log_start_offset)
        if verdict.ack:
            self._to_tell[replica] = None

    async def _answered(self, answer: pb.ReplicaAnswer) -> None:
        """Act on it. One for a busy replica waits: it comes once, and without it nothing is taken any more."""
        followed = self._by_handle.get(answer.handle)
        if followed is not None and followed.replica.busy:
            await followed.replica.at_rest()
        followed = self._current(answer.handle)
        if followed is None:
            return
        replica, state = followed.replica, followed.state
        if answer.error:
            self._later(replica)
            return
        if not state.answers(answer.handle, answer.leader_epoch):
            return
        try:
            if answer.start_over or answer.diverging:
                replica.log.make_directory()
            if answer.start_over:
                known = StartState(
                    offset=answer.log_start_offset, odometer=answer.odometer, producers=answer.producers
                )
                offset = state.start_over(answer.log_start_offset, high_watermark=replica.log.high_watermark)
                await self._committer.start_over(replica, offset, known)
                self._reopen(replica)
            elif answer.diverging:
                await self._truncate(replica, state, answer.divergence_epoch, answer.divergence_end_offset)
            else:
                state.accepted()
                replica.accepted(followed.following)
                # What became durable while the answer was on its way has not been reported.
                self._to_tell[replica] = None
                self._wake.set()
        except BelowWatermark as wrong:
            replica.stop(str(wrong))
        except CorruptLog as damage:
            replica.found_damage(damage.message)
        except port.DiskFull:
            self._later(replica)

    async def _truncate(self, replica: Replica, state: FollowerState, epoch: int, end: int) -> None:
        """Cut to where the logs agree and ask again (RL26, RL31); several rounds may be needed."""
        log = replica.log
        cut = state.diverging(
            epoch=epoch,
            end_offset=end,
            epoch_lookup=log.end_offset_for_epoch,
            log_end=log.log_end_offset,
            high_watermark=log.high_watermark,
        )
        self._stats.truncations += 1
        self._stats.truncated_messages += log.log_end_offset - cut
        await self._committer.truncate(replica, cut, declared=state.loss_declared)
        self._reopen(replica)

    def _reopen(self, replica: Replica) -> None:
        followed = self._followed.get(replica)
        if followed is not None and followed.replica.following == followed.following:
            followed.state.refused()
            replica.accepted(None)
            self._to_open[replica] = None
            self._wake.set()

    def _later(self, replica: Replica) -> None:
        """The leader refused, or the disk did: open again after a while."""
        followed = self._followed.get(replica)
        if followed is not None:
            followed.state.refused()
            replica.accepted(None)
            asyncio.get_running_loop().call_later(
                self._config.timings.reconnect_ms * 2 / 1000, self._reopen, replica
            )
