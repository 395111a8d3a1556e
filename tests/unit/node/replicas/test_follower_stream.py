"""The leader's side of replication: which of a follower's streams counts, whom the log's start passed, who returns."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from daemon.identity import Identity, Role
from data_plane.contract import replication_pb2 as pb
from data_plane.log.push import check_push
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue
from data_plane.node.config import NodeConfig
from data_plane.node.ports import Caller, Clock, ConnectionLost
from data_plane.node.replicas.catch_up import CatchUp
from data_plane.node.replicas.follower_stream import (
    HOLD_OFF_MS,
    METERED_BEATS,
    SMALL_WINDOW_BYTES,
    FollowerStream,
)
from data_plane.node.replicas.loads import PartitionLoads
from data_plane.node.replicas.replica import Listener, LookAtInSync, Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.replication.effects import Look
from data_plane.replication.opening import NO_EPOCH, Position
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.rng import Chances, SimRng
from data_plane.throttling.queues import BrokerQueues, PartitionQueue
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import BrokerId, TenantId
from penstock.records.stamp import STAMP_BYTES, stamp_seed
from tests.unit.log.batches import made_batch, with_header
from tests.unit.log.miniature import SMALL, TOPIC, Miniature, where
from tests.waiting import PATIENCE_S

ME, FOLLOWER, OTHER = BrokerId(1), BrokerId(2), BrokerId(3)
REGISTERED = 5
CONFIG = NodeConfig(
    broker_id=ME,
    cluster_id="c",
    client_address="",
    internal_address="",
    peer_address="",
    zone="",
    peppers={},
)


class StillClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.passed_ms = 0.0

    def now_ms(self) -> int:
        return 1_000

    def monotonic_ms(self) -> float:
        return 1_000.0 + self.passed_ms


class Watch(StillClock):
    """A millisecond passes with each look at it."""

    def monotonic_ms(self) -> float:
        self.passed_ms += 1.0
        return super().monotonic_ms()


class Wire:
    """What the follower sends is put in; its end is `lost`."""

    peer = "follower"

    def __init__(self) -> None:
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answered = asyncio.Event()
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, frame: bytes) -> None:
        self.answered.set()
        self.sent.put_nowait(frame)

    async def receive(self) -> bytes:
        frame = await self.frames.get()
        if frame is None:
            raise ConnectionLost("lost")
        return frame

    def close(self) -> None:
        self.lose()

    @property
    def is_gone(self) -> bool:
        return False

    def when_gone(self, wake: object) -> None:
        """Its frames say so."""

    def lose(self) -> None:
        self.frames.put_nowait(None)

    def open(self, *handles: int, end_offset: int = 0, generation: int = 1) -> None:
        head = pb.ReplicaOpenHead(broker_id=FOLLOWER, broker_epoch=REGISTERED)
        for handle in handles:
            head.partitions.add(
                handle=handle,
                topic_id=TOPIC,
                partition=0,
                leader_epoch=1,
                last_epoch=NO_EPOCH,
                replica_generation=generation,
                log_end_offset=end_offset,
                durable_end_offset=end_offset,
                log_start_offset=end_offset,
            )
        self.frames.put_nowait(pack_frame(FrameKind.REPLICA_OPEN, head.SerializeToString()))

    def held(self, handle: int, end_offset: int) -> None:
        head = pb.ReplicaHeldHead()
        head.held.add(
            handle=handle, leader_epoch=1, durable_end_offset=end_offset, written_end_offset=end_offset
        )
        self.frames.put_nowait(pack_frame(FrameKind.REPLICA_HELD, head.SerializeToString()))

    async def pushes(self) -> list[pb.ReplicaPush]:
        """Those with batches of the next frame that has some; what came before is skipped."""
        while True:
            kind, head, _ = unpack_frame(await asyncio.wait_for(self.sent.get(), PATIENCE_S))
            if kind is FrameKind.REPLICA_PUSH:
                pushes = [push for push in pb.ReplicaPushHead.FromString(bytes(head)).pushes if push.stamps]
                if pushes:
                    return pushes

    async def pushed(self) -> list[tuple[int, int]]:
        """(handle, base offset) of each of `pushes`."""
        return [(push.handle, push.base_offset) for push in await self.pushes()]

    async def marks(self) -> pb.ReplicaPush:
        """Of the next frame of pushes without batches: its only one."""
        while True:
            kind, head, _ = unpack_frame(await asyncio.wait_for(self.sent.get(), PATIENCE_S))
            if kind is FrameKind.REPLICA_PUSH:
                pushes = pb.ReplicaPushHead.FromString(bytes(head)).pushes
                if not any(push.stamps for push in pushes):
                    (push,) = pushes
                    return push

    async def answer(self) -> pb.ReplicaAnswer:
        """The next one; pushes before it are skipped."""
        while True:
            kind, head, _ = unpack_frame(await asyncio.wait_for(self.sent.get(), PATIENCE_S))
            if kind is FrameKind.REPLICA_ANSWER:
                (answer,) = pb.ReplicaAnswerHead.FromString(bytes(head)).answers
                return answer


def led(
    broker: Miniature | None = None,
    *,
    look_at_in_sync: LookAtInSync = lambda replica, look: None,
    wrote: Callable[[Replica, int], None] = lambda replica, size: None,
    clock: Clock | None = None,
    turned: Listener = lambda replica: None,
    partition: int = 0,
) -> Replica:
    """A replica that leads, in sync with another one than the follower."""
    topic = model.TopicRecord(
        topic_id=TOPIC, tenant=TenantId("t"), name="orders", partitions=1, settings=SMALL
    )
    log = (broker or Miniature()).create(partition)
    replica = Replica(
        where(partition), topic, log, me=ME, clock=clock or StillClock(), stats=NodeStats(),
        wrote=wrote, look_at_in_sync=look_at_in_sync, stopped=lambda replica: None, turned=turned,
        stored_more=lambda replica: None, replica_lag_ms_max=10_000, read_only=lambda: "", disk_full=lambda: None,
        loads=PartitionLoads(), queue=PartitionQueue(BrokerQueues()),
    )  # fmt: skip
    replica.lead(
        model.PartitionRecord(
            partition=partition,
            replicas=(ME, FOLLOWER, OTHER),
            replica_generations=(1, 1, 1),
            leader=ME,
            leader_epoch=1,
            in_sync=(ME, OTHER),
        )
    )
    return replica


def stream_of(
    wire: Wire,
    replica: Replica,
    clock: StillClock | None = None,
    config: NodeConfig = CONFIG,
    catch_up: CatchUp | None = None,
    stats: NodeStats | None = None,
) -> FollowerStream:
    image = ClusterImage()
    live = broker_records.LiveRecord(incarnation="i", directory_id="d").encode()
    image.load([KeyValue(broker_records.live_key(FOLLOWER), live, REGISTERED)], REGISTERED)
    caller = Caller(
        peer="f",
        authorization="",
        identity=Identity(cluster_id="c", role=Role.BROKER, broker_id=FOLLOWER),
    )
    return FollowerStream(
        caller, wire, config, image, lambda _: replica, Miniature().disk, clock or StillClock(),
        stats or NodeStats(), catch_up=catch_up or CatchUp(0, StillClock(), NodeStats()),
        begin_turn=lambda: Turn(clock or StillClock(), SimRng(1, Chances(1))),
    )  # fmt: skip


def test_a_frame_that_opens_many_partitions_is_taken_in_turns() -> None:
    async def story() -> None:
        wire = Wire()
        serving = asyncio.create_task(stream_of(wire, led(), Watch()).serve())
        wire.open(*range(1, 13))
        answered: list[int] = []
        frames = 0
        while len(answered) < 12:
            kind, head, _ = unpack_frame(await asyncio.wait_for(wire.sent.get(), PATIENCE_S))
            if kind is FrameKind.REPLICA_ANSWER:
                frames += 1
                answered += [answer.handle for answer in pb.ReplicaAnswerHead.FromString(bytes(head)).answers]
        assert answered == list(range(1, 13))
        assert frames > 1, "the first were answered before the last were looked at"
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(story())


def test_the_late_end_of_an_old_stream_says_nothing_of_a_follower_that_came_back() -> None:
    replica = led()

    def follows() -> bool:
        assert replica.leading is not None
        return next(lag.following for lag in replica.leading.describe(1_000.0) if lag.broker == FOLLOWER)

    async def story() -> None:
        wires = [Wire(), Wire()]
        streams = []
        for number, wire in enumerate(wires, start=1):
            streams.append(asyncio.create_task(stream_of(wire, replica).serve()))
            wire.open(number)
            await wire.answered.wait()
            assert follows()
        for wire, still in zip(wires, (True, False), strict=True):
            wire.lose()
            await asyncio.wait(streams[:1], timeout=PATIENCE_S)
            assert isinstance(streams.pop(0).exception(), ConnectionLost)
            assert follows() is still

    asyncio.run(story())


def test_an_open_that_comes_late_on_an_old_stream_leaves_the_newer_stream_as_it_is() -> None:
    """An earlier life of the follower sent it, or this one before its connection broke."""
    pushing = Pushing()

    async def story() -> None:
        old = Wire()
        older = asyncio.create_task(stream_of(old, pushing.replica).serve())
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        pushing.wire.held(1, 1)
        old.open(0)
        late = await old.answer()
        assert (late.handle, late.error) == (0, ErrorCode.FENCED_LEADER_EPOCH)
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 1)]
        old.lose()
        await asyncio.wait([older])
        pushing.wire.held(1, 2)
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 2)]

    pushing.run(story)


def test_a_newer_open_that_is_refused_ends_the_pushes_of_the_older_one() -> None:
    pushing = Pushing()

    async def story() -> None:
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        pushing.wire.held(1, 1)
        pushing.wire.open(2, generation=2)
        assert (await pushing.wire.answer()).error == ErrorCode.UNKNOWN_LEADER_EPOCH
        pushing.produce()
        await pushing.nothing_comes()

    pushing.run(story)


def test_what_was_on_its_way_to_an_ended_open_holds_up_no_later_one() -> None:
    """The stream's window is free again: nothing of it is acknowledged any more."""
    pushing = Pushing(body_bytes=1_000, window_bytes=900)

    async def story() -> None:
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        pushing.produce()
        await pushing.nothing_comes()
        pushing.wire.open(2)
        assert not (await pushing.wire.answer()).error
        assert await pushing.wire.pushed() == [(2, 0)]

    pushing.run(story)


def test_a_follower_out_of_sync_opens_again_when_another_writer_has_changed_the_record() -> None:
    pushing = Pushing()

    async def story() -> None:
        replica = pushing.replica
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        assert replica.record is not None
        replica.lead(replica.record.changed())
        refused = await pushing.wire.answer()
        assert (refused.handle, refused.error) == (1, ErrorCode.FENCED_LEADER_EPOCH)
        pushing.wire.open(2)
        answer = await pushing.wire.answer()
        assert (answer.handle, answer.error) == (2, 0), "it names no record, as earlier versions"

    pushing.run(story)


def test_a_follower_whom_the_logs_start_has_passed_starts_over_and_its_leader_takes_no_harm() -> None:
    broker = Miniature()
    replica = led(broker)

    async def story() -> None:
        wire = Wire()
        serving = asyncio.create_task(stream_of(wire, replica).serve())
        wire.open(1)
        assert not (await wire.answer()).error
        for number in range(40):
            batch, header = with_header(made_batch(2, 400, fill=number))
            replica.produce(batch, header, acks=0, claimed_epoch=1, principal=5, answer=lambda outcome: None)
            broker.commit()
        broker.move_log_start(60)  # before the follower was sent anything
        refused = await wire.answer()
        assert (refused.handle, refused.error) == (1, ErrorCode.OFFSET_OUT_OF_RANGE)
        assert not replica.stopped, "it is whole"
        assert replica.leading is not None, "it leads on"
        wire.open(2)
        answer = await wire.answer()
        begins = replica.log.first_segment_offset
        assert 0 < begins < 60, "the log begins within a segment"
        assert (answer.handle, answer.start_over, answer.log_start_offset) == (2, True, begins)
        wire.open(3, end_offset=begins)
        assert not (await wire.answer()).start_over, "it may fetch that segment whole"
        kind, head, payload = unpack_frame(await asyncio.wait_for(wire.sent.get(), PATIENCE_S))
        assert kind is FrameKind.REPLICA_PUSH
        (push,) = pb.ReplicaPushHead.FromString(bytes(head)).pushes
        sizes = push.stamps * STAMP_BYTES
        taken = check_push(
            payload[:sizes], payload[sizes : sizes + push.batches_bytes], stamp_seed(where()), log_end=begins,
            last_epoch=NO_EPOCH, leader_epoch=1, last_accepted_ms=0, active_size=None,
        )  # fmt: skip
        assert taken[0].begins_segment
        wire.lose()
        await asyncio.wait([serving], timeout=PATIENCE_S)
        assert isinstance(serving.exception(), ConnectionLost)

    asyncio.run(story())


def test_a_leader_looks_at_a_set_that_others_made_smaller_until_it_is_whole() -> None:
    looked_at: list[tuple[Replica, Look]] = []
    replica = led(look_at_in_sync=lambda *asked: looked_at.append(asked))
    made = replica.record
    assert made is not None
    looked_at.clear()
    replica.lead(replace(made, in_sync=(ME,), partition_epoch=made.partition_epoch + 1))
    assert looked_at == [(replica, Look.IN_TIME)], "who left may be even, and say no more"
    replica.lead(replace(made, in_sync=made.replicas, partition_epoch=made.partition_epoch + 2))
    assert looked_at == [(replica, Look.IN_TIME)], "a whole one costs nothing"


class Pushing:
    """A leader that pushes to a follower which says what it holds when it is told to."""

    def __init__(
        self,
        body_bytes: int = 40,
        beat_ms: int = CONFIG.timings.watermark_beat_ms,
        window_bytes: int = CONFIG.replica_window_bytes,
        push_bytes: int = CONFIG.push_bytes_max,
        catch_up_bytes_per_s: int = 0,
    ) -> None:
        self.broker = Miniature(tail_bytes=1 << 22)
        self.replica = led(self.broker)
        self.wire = Wire()
        self.clock = StillClock()
        self.stats = NodeStats()
        self._catch_up = CatchUp(catch_up_bytes_per_s, self.clock, self.stats)
        self._body_bytes = body_bytes
        self._config = replace(
            CONFIG,
            timings=replace(CONFIG.timings, watermark_beat_ms=beat_ms),
            replica_window_bytes=window_bytes,
            push_bytes_max=push_bytes,
        )

    def produce(self) -> None:
        """One batch of one record."""
        batch, header = with_header(made_batch(1, self._body_bytes))
        self.replica.produce(batch, header, acks=0, claimed_epoch=1, principal=5, answer=lambda outcome: None)

    async def nothing_comes(self) -> None:
        """Longer than anything waits, if the clock did not stand."""
        await asyncio.sleep(4 * HOLD_OFF_MS / 1_000)
        assert self.wire.sent.empty()

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            serving = asyncio.create_task(
                stream_of(
                    self.wire, self.replica, self.clock, self._config, self._catch_up, self.stats
                ).serve()
            )
            self.wire.open(1)
            assert not (await self.wire.answer()).error
            await story()
            self.wire.lose()
            await asyncio.wait([serving], timeout=PATIENCE_S)
            assert isinstance(serving.exception(), ConnectionLost)

        loop = SimLoop(1)
        try:
            loop.run_until_complete(whole())
        finally:
            loop.close()


def test_what_is_produced_while_a_small_push_is_on_its_way_goes_together_once_the_follower_holds_it() -> None:
    pushing = Pushing()

    async def story() -> None:
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        pushing.produce()
        await pushing.nothing_comes()
        pushing.produce()
        pushing.wire.held(1, 1)
        assert await pushing.wire.pushed() == [(1, 1)]
        pushing.wire.held(1, 3)
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 3)], "the frame before took both batches"

    pushing.run(story)


def test_nothing_waits_longer_than_the_hold_off_for_what_is_on_its_way() -> None:
    pushing = Pushing()

    async def story() -> None:
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        pushing.produce()
        await pushing.nothing_comes()
        pushing.clock.passed_ms += HOLD_OFF_MS
        assert await pushing.wire.pushed() == [(1, 1)]

    pushing.run(story)


def test_behind_large_pushes_nothing_waits() -> None:
    pushing = Pushing(body_bytes=SMALL_WINDOW_BYTES)

    async def story() -> None:
        for offset in range(3):
            pushing.produce()
            assert await pushing.wire.pushed() == [(1, offset)]

    pushing.run(story)


def test_a_full_window_opens_as_soon_as_the_follower_has_what_was_sent() -> None:
    pushing = Pushing(body_bytes=SMALL_WINDOW_BYTES, beat_ms=60_000, window_bytes=SMALL_WINDOW_BYTES)

    async def story() -> None:
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        for offset in range(1, 4):
            pushing.produce()
            await pushing.nothing_comes()
            pushing.wire.held(1, offset - 1)
            await pushing.nothing_comes()
            pushing.wire.held(1, offset)
            assert await pushing.wire.pushed() == [(1, offset)]

    pushing.run(story)


def test_a_follower_far_behind_waits_for_the_rate_and_takes_a_part_of_its_window() -> None:
    size, rate = SMALL_WINDOW_BYTES, 10 << 20
    pushing = Pushing(
        body_bytes=size, beat_ms=60_000, window_bytes=8 * size, push_bytes=size, catch_up_bytes_per_s=rate
    )
    for _ in range(12):
        pushing.produce()

    async def story() -> None:
        await pushing.nothing_comes()
        pushing.clock.passed_ms += 100
        assert [await pushing.wire.pushed() for _ in range(2)] == [[(1, 0)], [(1, 1)]]
        await pushing.nothing_comes()
        pushing.wire.held(1, 2)
        assert [await pushing.wire.pushed() for _ in range(2)] == [[(1, 2)], [(1, 3)]]
        pushing.wire.held(1, 4)
        await pushing.nothing_comes()
        assert pushing.stats.catch_up_bytes == pushing.stats.replicated_bytes > rate // 10
        pushing.clock.passed_ms += 100
        assert await pushing.wire.pushed() == [(1, 4)]

    pushing.run(story)


def test_bytes_of_batches_are_counted_as_replicated_and_marks_are_not() -> None:
    pushing = Pushing(beat_ms=1)

    async def story() -> None:
        await pushing.wire.marks()
        assert pushing.stats.replicated_bytes == 0
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        assert pushing.stats.replicated_bytes == pushing.replica.log.size_bytes

    pushing.run(story)


def test_a_follower_gets_all_that_is_written_and_is_told_what_is_committed() -> None:
    pushing = Pushing(beat_ms=60_000)
    batches = 1_500  # more than one push holds

    async def story() -> None:
        wire, replica = pushing.wire, pushing.replica
        pushing.produce()
        assert await wire.pushed() == [(1, 0)]
        pushing.broker.commit(raise_watermark=False)
        replica.became_durable()
        held_by_other(replica, 1)
        for _ in range(batches):
            pushing.produce()
        wire.held(1, 1)
        assert replica.log.high_watermark == 1
        ends: list[int] = []
        for push in await wire.pushes():
            ends.append(push.base_offset + push.stamps)
            assert push.high_watermark == 1
        await asyncio.sleep(HOLD_OFF_MS / 1_000)
        while not wire.sent.empty():
            ends += [push.base_offset + push.stamps for push in await wire.pushes()]
        assert len(ends) == 2 and ends[-1] == replica.log.log_end_offset == batches + 1

    pushing.run(story)


def test_a_follower_is_refused_when_another_leadership_begins_and_not_at_every_change_of_role() -> None:
    pushing = Pushing()

    async def story() -> None:
        replica = pushing.replica
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 0)]
        listeners = list(replica.on_role.values())
        assert listeners
        for listener in listeners:
            listener(replica)
        pushing.wire.held(1, 1)
        pushing.produce()
        assert await pushing.wire.pushed() == [(1, 1)], "it is led in the same epoch"
        replica.rest()
        refused = await pushing.wire.answer()
        assert (refused.handle, refused.error) == (1, ErrorCode.NOT_LEADER)
        for listener in listeners:
            listener(replica)  # it is on the stream no more

    pushing.run(story)


# -- marks that ride on no push -------------------------------------------------------------------------------


def held_by_other(replica: Replica, end_offset: int) -> None:
    """The replica that is in sync has everything up to there."""
    held_by(OTHER, replica, end_offset)


def held_by(follower: BrokerId, replica: Replica, end_offset: int) -> None:
    """The follower has everything up to there."""
    leading = replica.leading
    assert leading is not None
    position = Position(log_end_offset=0, durable_end_offset=0, last_epoch=NO_EPOCH, log_start_offset=0)
    leading.follower_opened(
        follower, REGISTERED, 1, position, 1_000.0, handle=1, leader_epoch=1,
        partition_epoch=leading.record.partition_epoch, registered_epoch=REGISTERED,
        epoch_lookup=replica.log.end_offset_for_epoch, stored_from=0,
    )  # fmt: skip
    assert leading.follower_acked(
        follower, REGISTERED, end_offset, end_offset, 1_000.0, handle=1, leader_epoch=1
    )
    replica.carry_out()


def _told(push: pb.ReplicaPush) -> tuple[int, int, int, int]:
    return push.high_watermark, push.log_start_offset, push.metered_offset, push.sealed_offset


def test_each_mark_that_moves_without_a_batch_goes_out_on_a_beat() -> None:
    pushing = Pushing(beat_ms=20)

    async def story() -> None:
        wire, replica = pushing.wire, pushing.replica
        replica.in_generation(1)
        assert _told(await wire.marks()) == (0, 0, 0, 0), "an opened partition is told how it stands"
        pushing.produce()
        assert await wire.pushed() == [(1, 0)]
        wire.held(1, 1)
        pushing.broker.commit(raise_watermark=False)
        replica.became_durable()
        held_by_other(replica, 1)
        assert _told(await wire.marks()) == (1, 0, 0, 0)
        replica.note_metered(1, 1)
        assert _told(await wire.marks()) == (1, 0, 1, 0)
        replica.note_sealed(1)
        assert _told(await wire.marks()) == (1, 0, 1, 1)
        replica.want_log_start(1)
        assert _told(await wire.marks()) == (1, 1, 1, 1)
        replica.in_generation(2)
        assert _told(await wire.marks()) == (1, 1, 0, 0)

    pushing.run(story)


def test_what_is_metered_rides_on_the_marks_before_its_own_beat() -> None:
    beat_ms = 20
    pushing = Pushing(beat_ms=beat_ms)

    async def story() -> None:
        wire, replica = pushing.wire, pushing.replica
        replica.in_generation(1)
        assert _told(await wire.marks()) == (0, 0, 0, 0)
        pushing.produce()
        assert await wire.pushed() == [(1, 0)]
        wire.held(1, 1)
        pushing.broker.commit(raise_watermark=False)
        replica.became_durable()
        replica.note_metered(1, 1)
        await asyncio.sleep(3 * beat_ms / 1_000)
        assert wire.sent.empty(), "it waits for a push to ride on"
        held_by_other(replica, 1)
        assert _told(await wire.marks()) == (1, 0, 1, 0)
        await asyncio.sleep((METERED_BEATS + 3) * beat_ms / 1_000)
        assert wire.sent.empty(), "it is not told twice"

    pushing.run(story)


def test_a_partition_at_rest_that_a_follower_opens_has_its_marks_pushed() -> None:
    pushing = Pushing()

    async def story() -> None:
        assert _told(await pushing.wire.marks()) == (0, 0, 0, 0)

    pushing.run(story)
