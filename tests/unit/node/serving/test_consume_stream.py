"""What a client says on its consume stream while a slow read of the disk is under way for it."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.broker.clock import SystemRng
from data_plane.disk.port import DiskFault
from data_plane.log.outcomes import Slice
from data_plane.log.reading import ColdRead
from data_plane.metadata.model import TenantQuotas
from data_plane.metering.increments import RequestTally
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.pace_lines import SIGN_MS
from data_plane.node.serving.allowance import Allowance
from data_plane.node.serving.consume_stream import ConsumeStream
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.pacing import Pace
from penstock.contract import errors
from penstock.contract.errors import CorruptLog
from penstock.contract.frames import unpack_frame
from penstock.contract.ids import TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from penstock.rules.service_levels import FETCH
from tests.unit.authz.setup import ACME
from tests.unit.node.serving.allowances import PRINCIPAL, GivenPaces, allowances, environment
from tests.unit.node.serving.delays import Delays

BAD_OFFSET, END = 0, 5


class BadSector:
    """A partition with its log and its disk, which fails for the first offset when the test says so."""

    topic = leading = None
    log_start_known, log_start_offset, high_watermark = True, 0, END

    def __init__(self) -> None:
        self.log = self
        self.on_commit: dict[object, object] = {}
        self.on_role: dict[object, object] = {}
        self.is_read = asyncio.Event()
        self.may_fail = asyncio.Event()
        self.damage: list[str] = []

    def authorize(self, *_: object) -> None:
        """Keys may read it."""

    def check_position(self, *_: object) -> None:
        """Every offset lies in the log."""

    def leadership(self, claimed_epoch: int) -> Any:
        return SimpleNamespace(ready=True, leader_epoch=claimed_epoch)

    def read(self, first: Any, *_: int) -> Any:
        if first == BAD_OFFSET:
            return ColdRead(cast(Any, None), 0, 1, 0, 1, b"", cast(Any, None))
        return self._fail() if first is None else Slice(first, first, b"", (), 0)

    async def _fail(self) -> bytes:
        self.is_read.set()
        await self.may_fail.wait()
        raise DiskFault("bad sector")

    def read_failed(self, cold: ColdRead, fault: DiskFault) -> CorruptLog:
        return CorruptLog(str(fault))

    def found_damage(self, reason: str) -> None:
        self.damage.append(reason)


def stream_of(
    clock: SimClock,
    connection: Any,
    find: Callable[[TopicPartition], Any],
    *,
    gate: Any,
    disk: Any = None,
    allowance: Allowance | None = None,
) -> ConsumeStream:
    stats = NodeStats()
    return ConsumeStream(
        environment(clock, SystemRng(), stats, disk),
        connection,
        PRINCIPAL,
        gate=gate,
        find=find,
        confident=lambda: True,
        allowance=allowance or allowances(clock, stats).to_consume(PRINCIPAL),
        client_use=cast(Any, None),
        tally=RequestTally(ACME, FETCH),
    )


@pytest.mark.pure  # one stand-in is the partition, its log and its disk
def test_a_read_that_fails_after_the_client_went_elsewhere_ends_nothing() -> None:
    loop = SimLoop(1)
    clock = SimClock(loop)

    async def story() -> None:
        sector = BadSector()
        anything = cast(Any, sector)
        stream = stream_of(clock, cast(Any, None), lambda where: anything, gate=anything, disk=anything)
        wanted = pb.ConsumeOpen(
            handle=1, generation=1, topic_id=bytes(16), offset=BAD_OFFSET, credit_bytes=99
        )
        stream._open(wanted, "")
        sending = asyncio.create_task(stream._next_frame())
        await sector.is_read.wait()
        wanted.generation, wanted.offset = 2, END
        stream._open(wanted, "")
        sector.may_fail.set()
        frame = await sending or await stream._next_frame()
        assert frame is not None
        head = pb.ConsumePushHead.FromString(bytes(unpack_frame(frame)[1]))
        assert [(push.generation, push.error, push.high_watermark) for push in head.pushes] == [(2, 0, END)]
        assert sector.damage == ["bad sector"], "what was found is the replica's to deal with all the same"

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


class Heard(BadSector):
    """A partition whose key is good, and the stream to its client."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[pb.ConsumePushHead] = []

    def check(self, *_: object) -> None:
        """The key is good."""

    async def send(self, frame: bytes) -> None:
        self.frames.append(pb.ConsumePushHead.FromString(bytes(unpack_frame(frame)[1])))
        self.is_read.set()


@pytest.mark.pure  # stand-ins, and a smaller bound
def test_partitions_behind_many_that_have_no_credit_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_plane.node.serving.consume_stream._LOOKED_AT", 2)
    loop = SimLoop(1)
    clock = SimClock(loop)

    async def story() -> None:
        heard = Heard()
        anything = cast(Any, heard)
        partitions = [cast(Any, Heard()) for _ in range(5)]
        stream = stream_of(clock, anything, lambda where: partitions[where.partition], gate=anything)
        for number in range(5):
            credit = 99 if number == 4 else 0
            stream._open(
                pb.ConsumeOpen(
                    handle=number, partition=number, topic_id=bytes(16), offset=END, credit_bytes=credit
                ),
                "",
            )
        sending = asyncio.create_task(stream._send())
        async with asyncio.timeout(1):
            await heard.is_read.wait()
        sending.cancel()
        assert [[push.handle for push in frame.pushes] for frame in heard.frames] == [[4]]

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


@pytest.mark.pure  # stand-ins
def test_pushes_to_a_tenant_above_its_limit_of_processor_time_wait_and_errors_do_not() -> None:
    loop = SimLoop(1)
    clock = SimClock(loop)
    fair = Fairness(clock, NodeStats(), lambda tenant: TenantQuotas(broker_processor_ms_per_s=1))
    delays = Delays()
    given = allowances(clock, NodeStats(), fairness=fair, throttled=delays).to_consume(PRINCIPAL)

    async def work() -> None:
        loop.work(0.003)

    async def story() -> None:
        heard = Heard()
        anything = cast(Any, heard)
        stream = stream_of(clock, anything, lambda where: anything, gate=anything, allowance=given)
        await given.turns.charged(work)
        wanted = pb.ConsumeOpen(handle=1, topic_id=bytes(16), offset=END, credit_bytes=99)
        stream._open(wanted, "")
        stream._refuse(9, 1, errors.InvalidRequest("no such partition"))
        sending = asyncio.create_task(stream._send())
        await asyncio.sleep(0.1)
        assert [push.handle for frame in heard.frames for push in frame.pushes if push.error] == [9]
        wanted.handle, wanted.generation = 2, 2
        stream._open(wanted, "")
        stream._wake.set()
        told = len(heard.frames)
        await asyncio.sleep(1.0)
        assert len(heard.frames) == told
        await asyncio.sleep(3.0)
        assert [push.handle for frame in heard.frames[told:] for push in frame.pushes] == [2]
        assert sum(milliseconds for _, _, milliseconds, _ in delays.told) > 1_000
        sending.cancel()

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


@pytest.mark.pure  # stand-ins
def test_a_consumer_whose_push_waits_for_processor_time_hears_of_the_broker_and_of_errors() -> None:
    """Sooner than it takes the stream for a broken one, or asks once more and waits for that too."""
    loop = SimLoop(1)
    clock = SimClock(loop)
    fair = Fairness(clock, NodeStats(), lambda tenant: TenantQuotas(broker_processor_ms_per_s=1))
    given = allowances(clock, NodeStats(), fairness=fair).to_consume(PRINCIPAL)

    async def work() -> None:
        loop.work(0.030)

    async def story() -> None:
        heard = Heard()
        anything = cast(Any, heard)
        stream = stream_of(clock, anything, lambda where: anything, gate=anything, allowance=given)
        await given.turns.charged(work)
        wanted = pb.ConsumeOpen(handle=1, topic_id=bytes(16), offset=END, credit_bytes=99)
        stream._open(wanted, "")
        sending = asyncio.create_task(stream._send())
        heard_at_ms = [0.0]
        while not heard.frames or not heard.frames[-1].pushes:
            heard.is_read.clear()
            await heard.is_read.wait()
            heard_at_ms.append(clock.monotonic_ms())
            if len(heard_at_ms) == 3:
                stream._refuse(9, 1, errors.InvalidRequest("no such partition"))
        assert max(late - soon for soon, late in pairwise(heard_at_ms)) <= SIGN_MS + 500
        assert clock.monotonic_ms() == pytest.approx(2 * SIGN_MS, abs=500), "an error does not wait"
        assert [push.handle for push in heard.frames[-1].pushes] == [9], "and brings nothing that does"
        await asyncio.sleep(30)
        assert [push.handle for push in heard.frames[-1].pushes] == [1]
        told = len(heard.frames)
        await asyncio.sleep(30)
        assert len(heard.frames) == told, "one that does not wait hears nothing without need"
        sending.cancel()

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


@pytest.mark.pure  # stand-ins
def test_a_consumer_that_does_not_read_its_signs_is_in_nobodys_way() -> None:
    loop = SimLoop(1)
    clock, pace = SimClock(loop), Pace(1)
    pace.enter(100, 0.0)

    class Deaf(Heard):
        async def send(self, frame: bytes) -> None:
            await asyncio.Event().wait()

    async def story() -> None:
        anything = cast(Any, Deaf())
        given = allowances(clock, NodeStats(), GivenPaces(pace)).to_consume(PRINCIPAL)
        stream = stream_of(clock, anything, lambda where: anything, gate=anything, allowance=given)
        anything.high_watermark = END + 1
        stream._open(pb.ConsumeOpen(handle=1, topic_id=bytes(16), offset=END, credit_bytes=99), "")
        sending = asyncio.create_task(stream._send())
        await asyncio.sleep(SIGN_MS * 0.9 / 1_000)
        assert len(pace.line) == 1
        await asyncio.sleep(SIGN_MS * 0.2 / 1_000)
        assert not pace.line
        sending.cancel()

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
