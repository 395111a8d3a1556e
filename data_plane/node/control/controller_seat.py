"""The controller's seat: taking it, acting from it, beating to every broker, and suspecting the controller."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from data_plane.contract import replication_pb2 as pb
from data_plane.contract.methods import CONTROL
from data_plane.controller.batches import all_compares, batched
from data_plane.controller.changed_blocks import ChangedBlocks
from data_plane.controller.clocks import ClockComparison, ClockOffset
from data_plane.controller.elections import BlockWrite, fence_changes, plan
from data_plane.controller.features import below
from data_plane.controller.leader_return import LeaderMove, LeaderReturn
from data_plane.controller.registration import takeover_changes
from data_plane.controller.suspicion import Suspicion, takeover_delay_ms
from data_plane.metadata import broker_records
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, Put, SessionLost, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.frame_heads import read_head
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import (
    Caller,
    Clock,
    Connection,
    ConnectionLost,
    Rng,
    Transport,
    peer_of,
    require_broker,
)
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import together
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import BrokerId

_WRITES_AT_ONCE = 1_000
LOOKED_A_TURN = 500
"""Partitions looked at in one turn of the event loop: some 10 ms where all of them change, 2 ms where none does."""
_TROUBLE = (StoreUnavailable, OutcomeUnknown, SessionLost)


async def planned(image: ClusterImage, changed: ChangedBlocks) -> list[BlockWrite]:
    """What must be written next; empty: every block was looked at since it changed.

    Others have their turns meanwhile. All writes are of one revision of the image, so that each block stands there once
    and they compare the same keys. When a write is outdated its comparison fails, and the block comes again.
    """
    writes: list[BlockWrite] = []
    while len(writes) < _WRITES_AT_ONCE and (blocks := changed.take(image, LOOKED_A_TURN)):
        revision = image.revision
        writes += plan(image, blocks)
        await asyncio.sleep(0)
        if writes and image.revision != revision:
            break
    return writes


class ControllerSeat:
    """Any broker may hold the controller key; each of its writes compares that key's revision (RL9).

    A wrong suspicion is harmless: a broker that is fenced wrongly registers again (RL3).
    """

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        transport: Transport,
        clock: Clock,
        rng: Rng,
        stats: NodeStats,
        *,
        ask_leaders: Callable[[Sequence[LeaderMove]], Awaitable[None]],
    ) -> None:
        """`ask_leaders` has leaders hand over as planned; what does not move is planned again."""
        self._ask_leaders = ask_leaders
        self._asking: asyncio.Task[None] | None = None
        self._config = config
        self._view = view
        self._registration = registration
        self._store = store
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._stats = stats
        self._me = config.broker_id
        self._brokers = Suspicion(config.timings.suspicion_ms)
        """As controller: of the other brokers."""
        self._controller = Suspicion(config.timings.suspicion_ms)
        """As any broker: of the controller."""
        self._returns = LeaderReturn()
        self._watched_epoch = -1
        self._beating: dict[BrokerId, tuple[int, asyncio.Task[None]]] = {}
        self._wake = asyncio.Event()
        self._last_look_ms = clock.monotonic_ms()
        self._clocks = ClockComparison()
        """As controller."""
        self._clock_offset: ClockOffset | None = None
        """As any broker: what the controller found about this one's clock."""
        self._changed = ChangedBlocks()
        """As controller: what may have to be written."""

    @property
    def seated(self) -> bool:
        """Whether this broker holds the controller key under its present registration, as its image shows it."""
        image = self._view.image
        return (
            self._registration.in_force()
            and image.controller is not None
            and image.controller.broker_id == self._me
            and image.controller.incarnation == self._registration.incarnation
        )

    @property
    def clock_off_ms(self) -> int | None:
        """How far this broker's wall clock is off the middle of all brokers' clocks just now; None = not known.

        Alone there is no clock to compare with: 0.
        """
        image = self._view.image
        if not any(image.epoch_of(broker) for broker in image.brokers if broker != self._me):
            return 0
        now_ms = self._clock.monotonic_ms()
        if self.seated:
            return self._clocks.own_off_ms(self._clock.now_ms(), now_ms)
        return (
            self._clock_offset.off_ms
            if self._clock_offset is not None and self._clock_offset.holds(now_ms)
            else None
        )

    def wake(self) -> None:
        """Something changed: look at once."""
        self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                await self._look()
                await self._pause()
        finally:
            for _, task in self._beating.values():
                task.cancel()
            if self._asking is not None:
                self._asking.cancel()

    async def _pause(self) -> None:
        """Until something changed, or the next suspicion may be due, or the time to look again has come."""
        try:
            async with asyncio.timeout(self._config.timings.heartbeat_ms / 3000):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _look(self) -> None:
        self._forgive_own_pause()
        self._watch_controller()
        self._keep_beating()
        if not self.seated:
            self._returns.forget()
            self._changed.everything()
        if not self._registration.in_force():
            return
        try:
            if self.seated:
                await self._act()
            else:
                await self._consider_seat()
        except _TROUBLE:
            self._changed.everything()  # what was taken may not be written
            await asyncio.sleep(self._config.timings.reconnect_ms / 1000)

    def _forgive_own_pause(self) -> None:
        """Silence that this process slept through says nothing of its peers (RL137)."""
        now = self._clock.monotonic_ms()
        if now - self._last_look_ms > self._config.timings.suspicion_ms / 2:
            for broker in self._beating:
                self._brokers.heard(broker, now)
            if self._view.image.controller is not None:
                self._controller.heard(self._view.image.controller_id, now)
        self._last_look_ms = now

    # -- the seat ----------------------------------------------------------------------------------------

    def _watch_controller(self) -> None:
        """Watch the current controller. A new one gets the whole suspicion time."""
        image = self._view.image
        if image.controller_epoch == self._watched_epoch:
            return
        self._watched_epoch = image.controller_epoch
        self._controller = Suspicion(self._config.timings.suspicion_ms)
        if image.controller is not None:
            self._controller.heard(image.controller_id, self._clock.monotonic_ms())

    async def _consider_seat(self) -> None:
        image = self._view.image
        suspected = image.controller is not None and image.controller_id in self._controller.due(
            self._clock.monotonic_ms()
        )
        if image.controller is not None and not suspected and image.controller_id != self._me:
            return
        delay_ms = takeover_delay_ms(image, self._me)
        if delay_ms is None:
            return
        epoch = image.controller_epoch
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
            if image.controller_epoch != epoch or not self._registration.in_force():
                return
            if suspected and image.controller_id not in self._controller.due(self._clock.monotonic_ms()):
                return
        transaction = takeover_changes(
            image,
            self._me,
            self._registration.incarnation,
            self._registration.session_id,
            suspected=suspected,
        )
        if transaction is not None:
            result = await self._store.txn(*transaction)
            await self._view.reached(result.revision, self._config.timings.call_ms)

    async def _act(self) -> None:
        """Fence the suspected and those below the feature level, then write what must change, each write fenced by the
        seat.
        """
        image = self._view.image
        seat = (Compare(broker_records.CONTROLLER_KEY, image.controller_epoch), self._registration.fence())
        for broker in [*self._brokers.due(self._clock.monotonic_ms()), *below(image, image.level)]:
            self._brokers.forget(broker)
            transaction = fence_changes(image, broker)
            if transaction is None:
                continue
            result = await self._store.txn([*transaction[0], *seat], transaction[1])
            self._stats.fences += result.succeeded
            await self._view.reached(result.revision, self._config.timings.call_ms)
        while self.seated:
            writes = await planned(image, self._changed)
            if not writes:
                self._plan_moves()
                return
            revision = 0
            for batch in batched(writes, seat):
                revision = await self._write(batch, seat)
            await self._view.reached(revision, self._config.timings.call_ms)

    async def _write(self, batch: Sequence[BlockWrite], seat: Sequence[Compare]) -> int:
        """Write the blocks in one transaction, or, when one of them has moved meanwhile, those that can be written one
        by one. The revision that shows it."""
        result = await self._store.txn(all_compares(batch, seat), [Put(w.key, w.value) for w in batch])
        if result.succeeded or len(batch) == 1:
            return result.revision
        for write in batch:
            result = await self._store.txn([*write.compares, *seat], [Put(write.key, write.value)])
        return result.revision

    def _plan_moves(self) -> None:
        """Nothing is wrong: see which leaders would better be others. Asked beside everything else."""
        if self._asking is not None:
            if not self._asking.done():
                return
            self._asking.result()
            self._asking = None
        now_ms = self._clock.monotonic_ms()
        unfit = self._clocks.far_off(self._me, self._clock.now_ms(), now_ms)
        moves = self._returns.due(self._view.image, now_ms, unfit)
        if moves:
            self._asking = asyncio.ensure_future(self._ask_leaders(moves))

    # -- beats -------------------------------------------------------------------------------------------

    def _keep_beating(self) -> None:
        """As controller: one stream to each registered broker, none otherwise."""
        image = self._view.image
        wanted: dict[BrokerId, int] = {}
        if self.seated:
            wanted = {b: image.epoch_of(b) for b in image.brokers if b != self._me and image.epoch_of(b)}
        for broker in [b for b, (epoch, _) in self._beating.items() if wanted.get(b) != epoch]:
            self._beating.pop(broker)[1].cancel()
            self._brokers.forget(broker)
            self._clocks.forget(broker)
        for broker, epoch in wanted.items():
            if broker not in self._beating:
                self._brokers.heard(broker, self._clock.monotonic_ms())
                task = asyncio.create_task(self._beat(broker, epoch))
                self._beating[broker] = (epoch, task)

    async def _beat(self, broker: BrokerId, epoch: int) -> None:
        """Beat to one registration of a broker until it is fenced; a reset is a suspicion."""
        peer = peer_of(self._view.image.brokers[broker].record)
        while True:
            try:
                connection = await self._transport.connect(peer, CONTROL, self._config.timings.suspicion_ms)
                try:
                    await together(self._send_beats(connection, broker), self._hear_beats(connection, broker))
                finally:
                    connection.close()
            except (ConnectionLost, FrameError):
                self._brokers.lost(broker, self._clock.monotonic_ms())
                self._wake.set()
            await asyncio.sleep(self._config.timings.reconnect_ms / 1000)

    async def _send_beats(self, connection: Connection, broker: BrokerId) -> None:
        sequence = 0
        while True:
            wall_ms, asked_ms = self._clock.now_ms(), self._clock.monotonic_ms()
            found = self._clocks.found(broker, wall_ms, asked_ms)
            head = pb.BeatHead(
                broker_id=self._me,
                broker_epoch=self._registration.epoch,
                controller_epoch=self._view.image.controller_epoch,
                sequence=sequence,
                clock_off_ms=None if found is None else found.off_ms,
                asked_ms=asked_ms,
                answered_ms=0.0 if found is None else found.answered_ms,
            )
            await connection.send(pack_frame(FrameKind.BEAT, head.SerializeToString()))
            sequence += 1
            await asyncio.sleep(self._config.timings.heartbeat_ms / 1000)

    async def _hear_beats(self, connection: Connection, broker: BrokerId) -> None:
        while True:
            beat = _beat(await connection.receive())
            now_ms = self._clock.monotonic_ms()
            self._brokers.heard(broker, now_ms)
            self._clocks.answered(broker, beat.wall_ms, beat.asked_ms, beat.answered_ms, now_ms)

    async def serve(self, caller: Caller, connection: Connection) -> None:
        """The broker's end of the controller's stream."""
        controller = BrokerId(-1)
        try:
            while True:
                beat = _beat(await connection.receive())
                require_broker(caller, beat.broker_id)
                controller = BrokerId(beat.broker_id)
                if beat.controller_epoch == self._view.image.controller_epoch:
                    self._controller.heard(controller, self._clock.monotonic_ms())
                    if beat.HasField("clock_off_ms"):
                        self._clock_offset = ClockOffset(beat.clock_off_ms, beat.answered_ms)
                answer = pb.BeatHead(
                    broker_id=self._me,
                    broker_epoch=self._registration.epoch,
                    sequence=beat.sequence,
                    wall_ms=self._clock.now_ms(),
                    asked_ms=beat.asked_ms,
                    answered_ms=self._clock.monotonic_ms(),
                )
                await connection.send(pack_frame(FrameKind.BEAT, answer.SerializeToString()))
        except ConnectionLost:
            if controller == self._view.image.controller_id:
                self._controller.lost(controller, self._clock.monotonic_ms())
                self._wake.set()
            raise


def _beat(frame: bytes) -> pb.BeatHead:
    kind, head, _ = unpack_frame(frame)
    if kind is not FrameKind.BEAT:
        raise FrameError(f"frame kind {kind.name} has no place on a control stream")
    return read_head(pb.BeatHead, kind, head)
