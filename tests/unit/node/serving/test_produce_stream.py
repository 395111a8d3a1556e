"""A frame of many batches that take long is taken in more than one turn of the event loop (RL134, RL137)."""

import asyncio
from typing import Any, cast

import pytest

from data_plane.authz.access import Principal
from data_plane.broker.clock import SystemRng
from data_plane.metering.increments import PRODUCE, RequestTally
from data_plane.node.admission.fairness import Fairness
from data_plane.node.ports import CallFailed, ConnectionLost
from data_plane.node.serving.produce_stream import ProduceStream
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import TURN_MS
from penstock.contract.errors import ErrorCode, NotFound, NotLeader, PenstockError
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.ids import TenantId
from penstock.contract.v1 import log_pb2 as pb

BATCHES = 12
PER_TURN = 2


class Slow:
    """A broker that knows no topic, and takes half a turn to say so."""

    def __init__(self) -> None:
        self.passed_ms = 0.0
        self.refused: list[int] = []
        self.has_begun = asyncio.Event()
        self.key_is_revoked = False
        self.refusal: PenstockError = NotFound("no such topic")

    def now_ms(self) -> int:
        return int(self.passed_ms)

    def monotonic_ms(self) -> float:
        return self.passed_ms

    def check(self, principal: Principal) -> None:
        if self.key_is_revoked:
            raise CallFailed(ErrorCode.UNAUTHENTICATED, "the key was revoked")

    def refuse_unknown(
        self, principal: Principal, operation: object, topic_id: bytes, partition: int
    ) -> None:
        self.passed_ms += TURN_MS / PER_TURN
        self.refused.append(partition)
        self.has_begun.set()
        raise self.refusal

    async def below_bound(self) -> None:
        """There is."""


class Wire:
    """Brings one frame, then nothing."""

    peer = "client"

    def __init__(self, frame: bytes) -> None:
        self.frames = [frame]
        self.sent: list[bytes] = []

    async def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    async def receive(self) -> bytes:
        if not self.frames:
            raise ConnectionLost("the client is gone")
        return self.frames.pop()

    def close(self) -> None:
        """Nothing is open."""


def frame() -> bytes:
    head = pb.ProduceHead(acks=-1)
    for partition in range(BATCHES):
        head.batches.add(id=partition, topic_id=bytes(16), partition=partition, size=1)
    return pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [bytes(BATCHES)])


class Turns:
    """In place of the tenant's turns: what was asked of them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def turn(self) -> None:
        self.asked.append("turn")

    async def turn_of_refused(self) -> None:
        self.asked.append("turn of refused")

    def refused(self, batches: int) -> None:
        self.asked.append(f"{batches} refused")

    async def charged(self, work: Any) -> Any:
        return await work()


def stream_of(
    slow: Slow, wire: Wire | None = None, turns: Turns | None = None, pace: object = None
) -> ProduceStream:
    tenant = TenantId("t")
    return ProduceStream(
        wire or Wire(frame()),
        cast(Any, None),
        cast(Any, slow),
        lambda where: None,
        cast(Any, slow),
        slow,
        SystemRng(),
        NodeStats(),
        refuses_writes=lambda: "",
        confident=lambda: True,
        pace=lambda: cast(Any, pace),
        tally=RequestTally(tenant, PRODUCE),
        turns=cast(Any, turns) or Fairness(slow, NodeStats()).of(tenant),
    )


@pytest.mark.pure
def test_others_have_their_turn_while_a_frame_is_taken() -> None:
    slow = Slow()
    seen: list[int] = []

    async def other() -> None:
        while True:
            seen.append(len(slow.refused))
            await asyncio.sleep(0)

    async def story() -> None:
        watching = asyncio.create_task(other())
        with pytest.raises(ConnectionLost):
            await stream_of(slow).serve()
        watching.cancel()

    asyncio.run(story())
    assert slow.refused == list(range(BATCHES)), "in order"
    assert list(dict.fromkeys(seen)) == list(range(PER_TURN, BATCHES + 1, PER_TURN))


@pytest.mark.pure
def test_a_key_that_is_revoked_meanwhile_has_nothing_more_taken() -> None:
    slow = Slow()

    async def revoke() -> None:
        await slow.has_begun.wait()
        slow.key_is_revoked = True

    async def story() -> None:
        revoking = asyncio.create_task(revoke())
        with pytest.raises(CallFailed) as raised:
            await stream_of(slow).serve()
        await revoking
        assert raised.value.code == ErrorCode.UNAUTHENTICATED

    asyncio.run(story())
    assert slow.refused == list(range(PER_TURN))


@pytest.mark.pure
def test_a_stream_whose_batches_no_retry_mends_waits_for_a_turn_of_such_before_its_next_frame() -> None:
    wire, turns = Wire(frame()), Turns()
    wire.frames.append(frame())

    async def story() -> None:
        with pytest.raises(ConnectionLost):
            await stream_of(Slow(), wire, turns).serve()

    asyncio.run(story())
    refused = f"{BATCHES} refused"
    assert turns.asked == ["turn", refused, "turn of refused", "turn", refused]


@pytest.mark.pure
def test_a_stream_whose_batches_may_be_sent_again_waits_for_no_such_turn() -> None:
    wire, turns, slow = Wire(frame()), Turns(), Slow()
    wire.frames.append(frame())
    slow.refusal = NotLeader("leadership moved")

    async def story() -> None:
        with pytest.raises(ConnectionLost):
            await stream_of(slow, wire, turns).serve()

    asyncio.run(story())
    assert turns.asked == ["turn", "turn"]


@pytest.mark.pure
def test_what_is_too_small_to_be_a_batch_is_refused_at_once_however_slow_the_tenants_rate_is() -> None:
    slow = Slow()
    with pytest.raises(ConnectionLost):
        asyncio.run(stream_of(slow, pace="nobody asks it").serve())
    assert slow.refused == list(range(BATCHES))
