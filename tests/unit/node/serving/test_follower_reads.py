"""What a follower serves consumers: committed records while it is in sync with its leader, and nothing else (RL20)."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.broker.clock import SystemRng
from data_plane.metadata.model import PartitionRecord
from data_plane.metering.increments import RequestTally
from data_plane.node.replicas.reading_rights import require_position, right_to_read
from data_plane.node.replicas.replica import Following, Replica
from data_plane.node.serving.consume_stream import ConsumeStream
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import unpack_frame
from penstock.contract.v1 import log_pb2 as pb
from penstock.rules.service_levels import FETCH
from tests.unit.authz.setup import ACME
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import Miniature
from tests.unit.node.replicas.test_follower_stream import FOLLOWER, ME, OTHER, led
from tests.unit.node.serving.allowances import PRINCIPAL, allowance, environment

END, COMMITTED = 20, 12
EPOCH = 2


def following() -> tuple[Replica, PartitionRecord]:
    """A follower in sync with its leader: its log has END messages, of which it knows COMMITTED to be committed."""
    broker = Miniature()
    replica = led(broker)
    for number in range(END // 2):
        broker.append(batch=made_batch(2, 400, fill=number))
    broker.commit(raise_watermark=False)
    replica.log.set_high_watermark(COMMITTED)
    assert replica.record is not None
    record = replace(replica.record, leader=OTHER, in_sync=(ME, OTHER), leader_epoch=EPOCH, partition_epoch=2)
    replica.follow(record)
    replica.accepted(Following(OTHER, EPOCH))
    return replica, record


def changed(record: PartitionRecord, **changes: Any) -> PartitionRecord:
    return replace(record, partition_epoch=record.partition_epoch + 1, **changes)


class Reader:
    """A consumer's stream at that follower, without a network."""

    def __init__(self, replica: Replica, loop: SimLoop) -> None:
        self.stats = NodeStats()
        self.gate = Allowing()
        self.connection: Any = SimpleNamespace()
        anything = cast(Any, self.gate)
        clock = SimClock(loop)
        self.stream = ConsumeStream(
            environment(clock, SystemRng(), self.stats, disk=anything),
            self.connection,
            PRINCIPAL,
            gate=anything,
            find=lambda where: replica,
            confident=lambda: True,
            allowance=allowance(clock, self.stats),
            client_use=anything,
            tally=RequestTally(ACME, FETCH),
        )

    def open(
        self, offset: int, *, from_follower: bool = True, epoch: int = EPOCH, last_epoch: int = -1
    ) -> None:
        self.stream._open(
            pb.ConsumeOpen(
                handle=1, generation=1, topic_id=bytes(16), offset=offset, credit_bytes=1 << 20,
                leader_epoch=epoch, last_epoch=last_epoch, from_follower=from_follower,
            ),
            "",
        )  # fmt: skip

    async def pushes(self) -> list[pb.ConsumePush]:
        frame = await self.stream._next_frame()
        return (
            [] if frame is None else list(pb.ConsumePushHead.FromString(bytes(unpack_frame(frame)[1])).pushes)
        )

    async def read(self) -> int:
        """The offset behind all that is pushed."""
        while await self.pushes():
            pass
        return self.stream._opened[1].offset


class Allowing:
    """A gate through which every key may read, until it is closed."""

    closed = False

    def check(self, *_: object) -> None:
        """The key is good all the same."""

    def authorize(self, *_: object) -> None:
        if self.closed:
            raise errors.Forbidden("the key may not read this topic")


def run(story: Coroutine[Any, Any, None], loop: SimLoop) -> None:
    try:
        loop.run_until_complete(story)
    finally:
        loop.close()


@pytest.mark.pure  # the gate is a stand-in
def test_a_follower_serves_up_to_its_own_watermark_and_on_as_that_moves() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        replica, _ = following()
        reader = Reader(replica, loop)
        reader.open(0)
        assert await reader.read() == COMMITTED
        replica.note_watermark(END - 4)
        (push,) = await reader.pushes()
        assert (push.size > 0, push.high_watermark, push.log_start_offset) == (True, END - 4, -1)
        assert reader.stream._opened[1].offset == END - 4
        assert reader.stats.pushed_bytes_follower == reader.stats.pushed_bytes > 0

    run(story(), loop)


@pytest.mark.pure  # the gate is a stand-in
@pytest.mark.parametrize(
    "change",
    [
        {"in_sync": (OTHER,)},
        {"leader_epoch": EPOCH + 1},
        {"leader": FOLLOWER, "leader_epoch": EPOCH + 1},
        {"leader": ME, "leader_epoch": EPOCH + 1},
    ],
    ids=["left the in-sync set", "another epoch", "another leader", "leads itself"],
)
def test_a_reader_is_sent_to_the_leader_as_soon_as_the_follower_may_not_serve(change: dict[str, Any]) -> None:
    loop = SimLoop(1)

    async def story() -> None:
        replica, record = following()
        reader = Reader(replica, loop)
        reader.open(0)
        await reader.read()
        now = changed(record, **change)
        if now.leader == ME:
            replica.lead(now)
        else:
            replica.follow(now)
        assert [push.error for push in await reader.pushes()] == [ErrorCode.NOT_LEADER]
        assert not reader.stream._opened
        reader.open(0)
        if now.leader != ME:
            assert [push.error for push in await reader.pushes()] == [ErrorCode.NOT_LEADER]

    run(story(), loop)


@pytest.mark.pure  # the gate is a stand-in
def test_a_reader_is_sent_to_the_leader_when_the_stream_to_it_is_lost() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        replica, _ = following()
        reader = Reader(replica, loop)
        reader.open(0)
        replica.accepted(None)
        assert [push.error for push in await reader.pushes()] == [ErrorCode.NOT_LEADER]
        replica.accepted(Following(OTHER, EPOCH))
        reader.open(0)
        assert await reader.read() == COMMITTED

    run(story(), loop)


@pytest.mark.pure  # the gate is a stand-in
def test_a_key_without_the_right_reads_nothing_at_a_follower_either() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        replica, _ = following()
        reader = Reader(replica, loop)
        reader.open(0)
        reader.gate.closed = True
        reader.stream.recheck()
        await reader.stream._recheck()
        assert [(push.error, push.size) for push in await reader.pushes()] == [(ErrorCode.FORBIDDEN, 0)]
        reader.open(0)
        assert [(push.error, push.size) for push in await reader.pushes()] == [(ErrorCode.FORBIDDEN, 0)]
        assert not reader.stream._opened

    run(story(), loop)


@pytest.mark.pure  # the gate is a stand-in
def test_a_live_stream_looks_at_rights_again_before_it_sends_more() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        replica, _ = following()
        reader = Reader(replica, loop)
        reader.open(0)
        sent: list[pb.ConsumePush] = []

        async def send(frame: bytes) -> None:
            sent.extend(pb.ConsumePushHead.FromString(bytes(unpack_frame(frame)[1])).pushes)

        reader.connection.send = send
        sending = asyncio.create_task(reader.stream._send())
        for _ in range(100):
            await asyncio.sleep(0)
        assert reader.stream._opened[1].offset == COMMITTED
        before = sum(push.size for push in sent)
        reader.gate.closed = True
        reader.stream.recheck()
        replica.note_watermark(END - 4)
        for _ in range(100):
            await asyncio.sleep(0)
        sending.cancel()
        assert before > 0 and sum(push.size for push in sent) == before
        assert sent[-1].error == ErrorCode.FORBIDDEN
        assert not reader.stream._opened

    run(story(), loop)


@pytest.mark.parametrize(
    ("offset", "epoch", "last_epoch"),
    [(END + 1, EPOCH, -1), (0, EPOCH + 1, -1), (0, EPOCH - 1, -1), (8, EPOCH, EPOCH)],
    ids=["beyond its log", "a newer epoch", "an older epoch", "an epoch that it has not"],
)
def test_a_follower_judges_no_position(offset: int, epoch: int, last_epoch: int) -> None:
    replica, _ = following()
    refused_as = None
    try:
        right = right_to_read(replica, epoch, from_follower=True)
        require_position(replica, right, offset, last_epoch)
    except PenstockError as refusal:
        refused_as = type(refusal)
    assert refused_as is errors.NotLeader


def test_without_being_asked_to_a_follower_serves_nothing() -> None:
    replica, _ = following()
    with pytest.raises(errors.NotLeader):
        right_to_read(replica, EPOCH, from_follower=False)
    assert right_to_read(replica, EPOCH, from_follower=True) == Following(OTHER, EPOCH)


@pytest.mark.pure  # the gate is a stand-in
@pytest.mark.parametrize(("zone", "own", "other"), [("z", 1, 0), ("elsewhere", 0, 1), ("", 0, 0)])
def test_bytes_are_counted_by_whether_the_reader_is_in_the_brokers_zone(
    zone: str, own: int, other: int
) -> None:
    loop = SimLoop(1)

    async def story() -> None:
        replica, _ = following()
        reader = Reader(replica, loop)
        reader.stream._locate(zone)
        reader.open(0)
        await reader.read()
        stats = reader.stats
        assert (stats.pushed_bytes_own_zone > 0, stats.pushed_bytes_other_zone > 0) == (
            bool(own),
            bool(other),
        )
        assert stats.pushed_bytes_own_zone + stats.pushed_bytes_other_zone in (0, stats.pushed_bytes)

    run(story(), loop)
