"""A follower's link to its leader: its written end decides what it asks for, and what it takes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from data_plane.contract import replication_pb2 as pb
from data_plane.log.outcomes import Slice
from data_plane.node.ports import Connection, Peer
from data_plane.node.replicas.leader_link import LeaderLink
from data_plane.node.replicas.replica import Following, Replica
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import Medium
from data_plane.testkit.rng import Chances, SimRng
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import Miniature
from tests.unit.node.replicas.test_follower_stream import ME, OTHER, Wire, led
from tests.unit.node.storage import CONFIG, committer_of

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

COMMITTED, WRITTEN = 12, 20
"""What the follower knows to be committed, and the end of its log."""
LEADER_EPOCH = 2
_LATER_S = 0.1
"""On a virtual clock: what was sent has been acted upon."""


class CountedWire(Wire):
    """Counts how often it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


@dataclass
class Link:
    """A follower whose last batches are not known to be committed, and the wire to its leader."""

    loop: SimLoop = field(default_factory=lambda: SimLoop(1))
    full: str = ""
    stays_out: bool = False

    def __post_init__(self) -> None:
        self.clock, self.stats, self.wire = SimClock(self.loop), NodeStats(), CountedWire()
        self.wires: list[CountedWire] = []
        """One after the other, as they were connected."""
        self.storage = Miniature(SimDisk(Medium()))
        self.replica: Replica = led(self.storage, clock=self.clock)
        for number in range(WRITTEN // 2):
            self.storage.append(batch=made_batch(2, 400, fill=number))
        self.storage.commit(raise_watermark=False)
        self.replica.log.set_high_watermark(COMMITTED)
        record = self.replica.record
        assert record is not None
        self.replica.follow(record.changed(leader=OTHER, in_sync=(ME, OTHER), leader_epoch=LEADER_EPOCH))
        self.committer = committer_of(self.storage, self.clock, self.stats)
        peer: Any = "leader"
        self.link = LeaderLink(
            OTHER, lambda: peer, lambda: 5, CONFIG, self, self.committer, self.clock, SimRng(1, Chances(1)),
            stats=self.stats, trim=lambda replica, offset: None, full=lambda: self.full,
            stays_out=lambda: self.stays_out,
        )  # fmt: skip

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        if self.wires:
            self.wire = CountedWire()
        self.wires.append(self.wire)
        return self.wire

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        raise AssertionError("no calls are made")

    async def sent(self, kind: FrameKind) -> bytes:
        """The head of the next frame of that kind; others before it are skipped."""
        while True:
            sent, head, _ = unpack_frame(await self.wire.sent.get())
            if sent is kind:
                return bytes(head)

    async def opened(self) -> pb.ReplicaOpen:
        """What it asks for next."""
        (opened,) = pb.ReplicaOpenHead.FromString(await self.sent(FrameKind.REPLICA_OPEN)).partitions
        return opened

    async def held(self) -> pb.ReplicaHeld:
        (held,) = pb.ReplicaHeldHead.FromString(await self.sent(FrameKind.REPLICA_HELD)).held
        return held

    def answer(self, opened: pb.ReplicaOpen, **says: object) -> None:
        """The leader's; without more it takes the follower up."""
        head = pb.ReplicaAnswerHead()
        head.answers.add(handle=opened.handle, leader_epoch=LEADER_EPOCH, **says)
        self.wire.frames.put_nowait(pack_frame(FrameKind.REPLICA_ANSWER, head.SerializeToString()))

    def push(self, opened: pb.ReplicaOpen, base_offset: int, high_watermark: int) -> None:
        """The batch of the leader at that offset."""
        leader = Miniature()
        leader.create()
        for number in range(base_offset // 2 + 1):
            leader.append(epoch=1 if number < WRITTEN // 2 else 2, batch=made_batch(2, 400, fill=number))
        part = leader.read(base_offset)
        assert isinstance(part, Slice)
        batches = b"".join(part.batches)
        head = pb.ReplicaPushHead()
        head.pushes.add(
            handle=opened.handle, leader_epoch=LEADER_EPOCH, base_offset=base_offset, stamps=1,
            batches_bytes=len(batches), high_watermark=high_watermark,
        )  # fmt: skip
        self.wire.frames.put_nowait(
            pack_frame(FrameKind.REPLICA_PUSH, head.SerializeToString(), [part.stamps, batches])
        )

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            rounds = asyncio.create_task(self.committer.run())
            linked = asyncio.create_task(self.link.run())
            self.link.follow(self.replica, Following(OTHER, LEADER_EPOCH))
            await story()
            for task in (linked, rounds):
                task.cancel()
            await asyncio.wait([linked, rounds])

        self.loop.run_until_complete(whole())
        assert not self.loop.failures


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    yield made
    made.loop.close()


def test_a_follower_asks_for_what_comes_behind_its_written_end_and_says_that_it_holds_it(link: Link) -> None:
    async def story() -> None:
        opened = await link.opened()
        assert (opened.log_end_offset, opened.durable_end_offset) == (WRITTEN, WRITTEN)
        assert link.replica.record is not None and link.replica.record.partition_epoch > 0
        assert opened.partition_epoch == link.replica.record.partition_epoch
        link.answer(opened)
        held = await link.held()
        assert (held.written_end_offset, held.durable_end_offset) == (WRITTEN, WRITTEN)

    link.play(story)


def test_a_push_at_the_written_end_is_taken_and_one_before_it_is_asked_for_again(link: Link) -> None:
    async def story() -> None:
        opened = await link.opened()
        link.answer(opened)
        await link.held()
        began_s = link.loop.time()
        link.push(opened, COMMITTED + 6, COMMITTED)
        again = await link.opened()
        assert again.log_end_offset == WRITTEN
        assert link.loop.time() - began_s < CONFIG.timings.reconnect_ms / 1_000, "at once"
        link.answer(again)
        await link.held()
        link.push(again, WRITTEN, COMMITTED + 4)
        await asyncio.sleep(_LATER_S)
        assert link.replica.log.log_end_offset == WRITTEN + 2
        assert link.replica.log.high_watermark == COMMITTED + 4

    link.play(story)


def test_a_follower_cuts_what_is_not_committed_where_the_logs_part(link: Link) -> None:
    async def story() -> None:
        link.answer(
            await link.opened(), diverging=True, divergence_epoch=1, divergence_end_offset=COMMITTED + 2
        )
        assert (await link.opened()).log_end_offset == COMMITTED + 2

    link.play(story)
    assert not link.replica.stopped
    assert link.stats.truncated_messages == WRITTEN - COMMITTED - 2


def test_a_follower_starts_over_above_what_it_knows_to_be_committed(link: Link) -> None:
    async def story() -> None:
        link.answer(await link.opened(), start_over=True, log_start_offset=COMMITTED + 2)
        assert (await link.opened()).log_end_offset == COMMITTED + 2

    link.play(story)
    assert not link.replica.stopped


@pytest.mark.parametrize(
    "asked",
    [
        {"diverging": True, "divergence_epoch": 1, "divergence_end_offset": COMMITTED - 2},
        {"start_over": True, "log_start_offset": COMMITTED - 2},
    ],
    ids=["cut", "start over"],
)
def test_a_follower_gives_up_nothing_that_it_knows_to_be_committed(link: Link, asked: dict[str, Any]) -> None:
    async def story() -> None:
        link.answer(await link.opened(), **asked)
        await asyncio.sleep(_LATER_S)

    link.play(story)
    assert link.replica.stopped
    assert (link.replica.log.log_end_offset, link.replica.log.high_watermark) == (WRITTEN, COMMITTED)


def test_what_becomes_durable_is_told_at_once_and_only_of_what_is_followed(link: Link) -> None:
    async def story() -> None:
        opened = await link.opened()
        link.answer(opened)
        await link.held()
        link.push(opened, WRITTEN, COMMITTED)
        await asyncio.sleep(_LATER_S)
        link.storage.commit(raise_watermark=False)
        link.link.became_durable(link.replica)
        await asyncio.sleep(_LATER_S)
        held = await link.held()
        assert (held.written_end_offset, held.durable_end_offset) == (WRITTEN + 2, WRITTEN + 2)
        link.link.leave(link.replica)
        link.link.became_durable(link.replica)
        await asyncio.sleep(_LATER_S)
        sent = [unpack_frame(link.wire.sent.get_nowait())[0] for _ in range(link.wire.sent.qsize())]
        assert sent == [FrameKind.REPLICA_CLOSE]

    link.play(story)


def test_a_refused_replica_is_opened_again_after_a_while_unless_it_has_left(link: Link) -> None:
    pause_s = CONFIG.timings.reconnect_ms * 2 / 1_000

    async def story() -> None:
        link.answer(await link.opened(), error=ErrorCode.NOT_LEADER)
        began_s = link.loop.time()
        again = await link.opened()
        assert link.loop.time() - began_s == pytest.approx(pause_s, abs=0.01)
        link.answer(again, error=ErrorCode.NOT_LEADER)
        await asyncio.sleep(pause_s / 2)
        link.link.leave(link.replica)
        await asyncio.sleep(2 * pause_s)
        sent = [unpack_frame(link.wire.sent.get_nowait())[0] for _ in range(link.wire.sent.qsize())]
        assert sent == [FrameKind.REPLICA_CLOSE]

    link.play(story)


def test_a_broker_that_has_changed_opens_all_again_with_what_it_is_now(link: Link) -> None:
    async def story() -> None:
        opened = await link.opened()
        assert not opened.stays_out and not opened.no_room
        link.answer(opened)
        await link.held()
        link.stays_out, link.full = True, "full"
        link.link.open_again()
        again = await link.opened()
        assert again.stays_out and again.no_room
        assert again.handle > opened.handle

    link.play(story)


@pytest.mark.parametrize("ends", ["lost", "no frame of a leader"])
def test_a_conversation_that_ends_is_closed_once_and_begun_again_on_another_connection(
    link: Link, ends: str
) -> None:
    async def story() -> None:
        first = await link.opened()
        link.answer(first)
        await link.held()
        frame = None if ends == "lost" else pack_frame(FrameKind.CONSUME_PUSH, b"")
        (wire,) = link.wires
        wire.frames.put_nowait(frame)
        await asyncio.sleep(CONFIG.timings.reconnect_ms / 1_000)
        again = await link.opened()
        assert len(link.wires) == 2 and [wire.closed for wire in link.wires] == [1, 0]
        assert again.handle > first.handle

    link.play(story)
