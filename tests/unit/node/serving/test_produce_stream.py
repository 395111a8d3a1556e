"""A frame of many batches that take long is taken in more than one turn of the event loop (RL134, RL137)."""

import asyncio
from collections.abc import Callable

import pytest

from data_plane.broker.clock import SystemRng
from data_plane.metadata import model
from data_plane.metadata.model import TenantQuotas, TopicRecord
from data_plane.metering.connection_time import ConnectionTime
from data_plane.metering.increments import RequestTally
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.gate import Gate
from data_plane.node.ports import CallFailed, Connection, ConnectionLost
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.replica import Replica
from data_plane.node.serving.produce_stream import ProduceStream
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import TURN_MS
from data_plane.storage_limits.standing import StorageRefusal
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.pacing import BURST_MS, Pace
from data_plane.throttling.refusals import AT_ONCE
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.rules.service_levels import PRODUCE
from tests.unit.authz.setup import ACME, NOW_MS, Tenants, key_number
from tests.unit.log.miniature import Miniature
from tests.unit.node.admission.test_fairness import no_quotas
from tests.unit.node.serving.allowances import KEY_ID, GivenPaces, allowances, environment
from tests.unit.node.serving.delays import Delays
from tests.unit.node.storage import committer_of

BATCHES = 12
PER_TURN = 2
TOPIC_ID = TopicId(b"f" * 16)


class Slow:
    """A broker that has no replica here, and takes half a turn to find that out; its own clock."""

    def __init__(self, loop: SimLoop | None = None) -> None:
        self.tenants = Tenants()
        self.stats = NodeStats()
        self.gate = Gate(
            self.tenants.authenticator,
            self,
            self.stats,
            lambda: 0.0,
            lambda tenant: TenantQuotas(),
            ConnectionTime(),
        )
        self.passed_ms = 0.0
        self.refused: list[int] = []
        self.refused_s: list[float] = []
        self.has_begun = asyncio.Event()
        self._loop = loop

    def now_ms(self) -> int:
        return NOW_MS + int(self.passed_ms)

    def monotonic_ms(self) -> float:
        return self.passed_ms

    def processor_ms(self) -> float:
        return self.passed_ms

    def find(self, where: TopicPartition) -> Replica | None:
        """Asked more than once about one batch."""
        if self.refused[-1:] != [where.partition]:
            self.passed_ms += TURN_MS / PER_TURN
            self.refused.append(where.partition)
            self.refused_s.append(0.0 if self._loop is None else self._loop.time())
            self.has_begun.set()
        return None

    def lead_elsewhere(self) -> None:
        """The topic exists, and another broker leads it."""
        topic = TopicRecord(
            topic_id=TOPIC_ID, tenant=ACME, name="far", partitions=BATCHES, settings=TopicSettings()
        )
        self.tenants.put(model.topic_key(TOPIC_ID), topic.encode())


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

    @property
    def is_gone(self) -> bool:
        return not self.frames

    def when_gone(self, wake: object) -> None:
        """It brings all its frames."""


def frame() -> bytes:
    head = pb.ProduceHead(acks=-1)
    for partition in range(BATCHES):
        head.batches.add(id=partition, topic_id=TOPIC_ID, partition=partition, size=1)
    return pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [bytes(BATCHES)])


def stream_of(
    slow: Slow,
    wire: Connection | None = None,
    *,
    fairness: Fairness | None = None,
    paces: GivenPaces | None = None,
    storage: Callable[[], StorageRefusal | None] = lambda: None,
    requests: RequestTurns | None = None,
    committer: Committer | None = None,
    delays: Delays | None = None,
) -> ProduceStream:
    principal = slow.tenants.enter(key_number(1))
    allowance = allowances(
        slow, slow.stats, paces, fairness=fairness, throttled=delays, storage_refusal=storage
    ).to_produce(principal)
    if requests is not None:
        allowance.requests = requests.of(ACME, KEY_ID, 1)
    return ProduceStream(
        environment(slow, SystemRng(), slow.stats),
        wire or Wire(frame()),
        principal,
        gate=slow.gate,
        find=slow.find,
        committer=committer or committer_of(Miniature(), slow, slow.stats),
        refuses_writes=lambda: "",
        confident=lambda: True,
        allowance=allowance,
        tally=RequestTally(ACME, PRODUCE),
    )


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


def test_a_key_that_is_revoked_meanwhile_has_nothing_more_taken() -> None:
    slow = Slow()

    async def revoke() -> None:
        await slow.has_begun.wait()
        slow.tenants.change_key(1, revoked=True)

    async def story() -> None:
        revoking = asyncio.create_task(revoke())
        with pytest.raises(CallFailed) as raised:
            await stream_of(slow).serve()
        await revoking
        assert raised.value.code == ErrorCode.UNAUTHENTICATED

    asyncio.run(story())
    assert slow.refused == list(range(PER_TURN))


def waited_s(slow: Slow, loop: SimLoop) -> float:
    """Between two frames of a tenant that was refused nearly as much as goes at once when the first has been taken."""
    fair = Fairness(slow, slow.stats, no_quotas)
    forgotten = BATCHES // PER_TURN * TURN_MS * limits.REFUSED_BATCHES_PER_S_MAX / 1_000
    fair.refused(ACME, AT_ONCE + int(forgotten) - 30)
    wire = Wire(frame())
    wire.frames.append(frame())

    async def story() -> None:
        with pytest.raises(ConnectionLost):
            await stream_of(slow, wire, fairness=fair).serve()

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
    assert slow.refused == [*range(BATCHES), *range(BATCHES)]
    return slow.refused_s[BATCHES] - slow.refused_s[BATCHES - 1]


def test_a_stream_whose_batches_no_retry_mends_waits_for_a_turn_of_such_before_its_next_frame() -> None:
    loop = SimLoop(1)
    assert waited_s(Slow(loop), loop) > 0.01


def test_a_stream_whose_batches_may_be_sent_again_waits_for_no_such_turn() -> None:
    loop = SimLoop(1)
    slow = Slow(loop)
    slow.lead_elsewhere()
    assert waited_s(slow, loop) < 0.005


def test_what_is_too_small_to_be_a_batch_is_refused_at_once_however_slow_the_tenants_rate_is() -> None:
    slow, pace = Slow(), Pace(1)
    with pytest.raises(ConnectionLost):
        asyncio.run(stream_of(slow, paces=GivenPaces(pace)).serve())
    assert slow.refused == list(range(BATCHES))
    assert pace.clears_in_ms(0) == 0, "it was not asked"


def frame_of(partition: int, size: int = 1) -> bytes:
    head = pb.ProduceHead(acks=-1)
    head.batches.add(id=partition, topic_id=TOPIC_ID, partition=partition, size=size)
    return pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [bytes(size)])


def serve(sent: bytes, pace: Pace | None = None) -> Wire:
    """A stream is served that frame, and then the client goes."""
    wire = Wire(sent)
    with pytest.raises(ConnectionLost):
        asyncio.run(stream_of(Slow(), wire, paces=GivenPaces(pace)).serve())
    return wire


def test_a_client_may_send_the_bytes_it_has_credit_for_and_not_one_more() -> None:
    pace = Pace(10**9)
    _, opening, _ = unpack_frame(serve(frame_of(1), pace).sent[0])
    credit_bytes = pb.ProduceAnswerHead.FromString(bytes(opening)).credit_bytes
    serve(frame_of(1, credit_bytes), pace)
    with pytest.raises(FrameError, match="1 bytes sent beyond the credit granted"):
        asyncio.run(stream_of(Slow(), Wire(frame_of(1, credit_bytes + 1)), paces=GivenPaces(pace)).serve())


@pytest.mark.parametrize(
    ("kind", "acks", "named", "sent", "says"),
    [
        (FrameKind.CONSUME_OPEN, -1, 5, 5, "frame kind CONSUME_OPEN has no place on a produce stream"),
        (FrameKind.PRODUCE, 2, 5, 5, "acks 2; 0, 1 or -1 required"),
        (FrameKind.PRODUCE, -2, 5, 5, "acks -2; 0, 1 or -1 required"),
        (FrameKind.PRODUCE, -1, 5, 4, "batches named and payload of 4 bytes differ in size"),
        (FrameKind.PRODUCE, -1, 5, 6, "batches named and payload of 6 bytes differ in size"),
    ],
)
def test_a_frame_that_is_no_produce_frame_ends_the_stream(
    kind: FrameKind, acks: int, named: int, sent: int, says: str
) -> None:
    head = pb.ProduceHead(acks=acks)
    head.batches.add(id=1, topic_id=TOPIC_ID, partition=1, size=named)
    wire = Wire(pack_frame(kind, head.SerializeToString(), [bytes(sent)]))
    with pytest.raises(FrameError, match=says):
        asyncio.run(stream_of(Slow(), wire).serve())


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_each_way_of_acknowledging_is_taken(acks: int) -> None:
    head = pb.ProduceHead(acks=acks)
    head.batches.add(id=1, topic_id=TOPIC_ID, partition=1, size=5)
    serve(pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [bytes(5)]))


class Patient(Wire):
    """The client goes once the broker has looked for what it sent; before that it sends `last`, if it has one."""

    def __init__(self, frame: bytes, taken: asyncio.Event) -> None:
        super().__init__(frame)
        self.last: bytes | None = None
        self._taken = taken

    async def receive(self) -> bytes:
        if not self.frames:
            await self._taken.wait()
            if self.last is not None:
                self.frames, self.last = [self.last], None
        return await super().receive()


def test_what_the_rate_delayed_is_charged_to_its_tenant_when_it_is_taken() -> None:
    slow = Slow()
    slow.lead_elsewhere()
    fair = Fairness(slow, slow.stats, no_quotas)
    pace = Pace(1_000)
    pace.enter(100 + int(pace.bytes_per_s), 0.0)
    began_ms = 0.0

    async def time_passes() -> None:
        nonlocal began_ms
        for _ in range(20):  # it comes, and waits
            await asyncio.sleep(0)
        slow.passed_ms = began_ms = 2_000.0

    async def story() -> None:
        passing = asyncio.create_task(time_passes())
        wire = Patient(frame_of(1, BATCH_HEADER_BYTES), slow.has_begun)
        with pytest.raises(ConnectionLost):
            await stream_of(slow, wire, fairness=fair, paces=GivenPaces(pace)).serve()
        await passing

    asyncio.run(story())
    assert slow.refused == [1] and slow.passed_ms > began_ms
    assert fair._use.of(ACME, slow.passed_ms) == pytest.approx(slow.passed_ms - began_ms)


class Failing(Slow):
    """What lets delayed batches in has a mistake of ours."""

    def find(self, where: TopicPartition) -> Replica | None:
        self.has_begun.set()
        raise KeyError("ours")


def test_a_mistake_in_what_lets_delayed_batches_in_ends_the_stream_with_its_next_frame() -> None:
    slow, pace = Failing(), Pace(1_000)
    pace.enter(100 + int(pace.bytes_per_s), 0.0)

    async def time_passes() -> None:
        for _ in range(20):  # the batch comes, and waits
            await asyncio.sleep(0)
        slow.passed_ms = 2_000.0

    async def story() -> None:
        passing = asyncio.create_task(time_passes())
        wire = Patient(frame_of(1, BATCH_HEADER_BYTES), slow.has_begun)
        wire.last = pack_frame(FrameKind.PRODUCE, pb.ProduceHead(acks=-1).SerializeToString())
        with pytest.raises(KeyError, match="ours"):
            await stream_of(slow, wire, paces=GivenPaces(pace)).serve()
        await passing

    asyncio.run(story())


class Working(Slow):
    """Its clock goes on with the loop's virtual time too."""

    def monotonic_ms(self) -> float:
        assert self._loop is not None
        return self.passed_ms + self._loop.time() * 1_000


class Open(Wire):
    """The client is there, also when it has sent all."""

    @property
    def is_gone(self) -> bool:
        return False


def test_a_stream_whose_tenant_is_above_its_limit_of_processor_time_waits_with_its_next_frame() -> None:
    loop = SimLoop(1)
    slow, delays = Working(loop), Delays()
    slow.lead_elsewhere()
    fair = Fairness(slow, slow.stats, lambda tenant: TenantQuotas(broker_processor_ms_per_s=10))
    wire = Open(frame())
    wire.frames.append(frame())

    async def story() -> None:
        with pytest.raises(ConnectionLost):
            await stream_of(slow, wire, fairness=fair, delays=delays).serve()

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
    assert slow.refused == [*range(BATCHES), *range(BATCHES)], "nothing is lost"
    owed_ms = BATCHES / PER_TURN * TURN_MS - 10 * BURST_MS / 1_000
    waited_ms = (slow.refused_s[BATCHES] - slow.refused_s[BATCHES - 1]) * 1_000
    assert owed_ms * 100 * 0.9 <= waited_ms <= owed_ms * 100 * 1.1
    assert sum(told[2] for told in delays.told) == slow.stats.processor_throttled_ms > 0
