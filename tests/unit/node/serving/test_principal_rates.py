"""Rates of one principal beside its tenant's: what it waits for takes no place of others, and refusals say whose."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from data_plane.leases.terms import LimitKey
from data_plane.node.leasing.pacing import PRODUCE_RATE, REQUEST_UNITS
from data_plane.node.ports import CallFailed
from data_plane.node.serving.batch_turns import Waiting
from data_plane.node.serving.produce_stream import ProduceStream
from data_plane.node.serving.read_turns import ReadTurns
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.node.stats import NodeStats
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.pacing import HOLD_MS_MAX, Pace
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameError
from penstock.contract.ids import TenantId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import BATCH_HEADER_BYTES
from tests.unit.authz.setup import ACME
from tests.unit.node.serving.allowances import GivenPaces, allowance
from tests.unit.node.serving.delays import Delays
from tests.unit.node.serving.test_produce_stream import Slow, Wire, stream_of

ROBOT = "service_account:sa_robot"


def own_of(per_s: int) -> Pace:
    pace = Pace(per_s)
    pace.principal = ROBOT
    return pace


class Desk:
    """A tenant's requests and reads, where the key `robot` has a rate of its own."""

    def __init__(self, *, tenants: int, own: int) -> None:
        self.stats = NodeStats()
        self._loop: SimLoop | None = None
        self.pace = Pace(tenants)
        self.own = own_of(own)
        self.requests = RequestTurns(self._of, self._own_of, self, self.stats, Delays())

    def _of(self, limit: LimitKey) -> Pace | None:
        return self.pace

    def _own_of(self, tenant: TenantId, key_id: str, name: str) -> Pace | None:
        return self.own if key_id == "robot" else None

    def reads(self, paces: GivenPaces) -> ReadTurns:
        return ReadTurns(allowance(self, self.stats, paces), lambda: None, self, self.stats)

    def now_ms(self) -> int:
        return int(self.monotonic_ms())

    def processor_ms(self) -> float:
        return 0.0

    def monotonic_ms(self) -> float:
        return 0.0 if self._loop is None else self._loop.time() * 1000

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self._loop = SimLoop(1)
        try:
            self._loop.run_until_complete(story)
        finally:
            self._loop.close()


def test_a_bounded_principal_gets_its_rate_and_others_all_that_is_left() -> None:
    desk, taken = Desk(tenants=100 * REQUEST_UNITS, own=20 * REQUEST_UNITS), {"robot": 0, "other": 0}

    async def stream(key_id: str) -> None:
        requests = desk.requests.of(ACME, key_id, 1)
        while True:
            await requests.frame()
            taken[key_id] += 1

    async def story() -> None:
        tasks = [asyncio.create_task(stream(key_id)) for key_id in ("robot",) * 5 + ("other",)]
        await asyncio.sleep(10.0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    desk.run(story())
    assert 190 <= taken["robot"] <= 206 and 790 <= taken["other"] <= 826, taken
    assert not desk.own.line and not desk.pace.line, "who was ended waits no more"


def test_a_call_of_a_bounded_principal_is_refused_with_whose_limit_it_is_and_counted_apart() -> None:
    desk = Desk(tenants=1_000 * REQUEST_UNITS, own=REQUEST_UNITS)

    async def story() -> None:
        robot, other = desk.requests.of(ACME, "robot", 1), desk.requests.of(ACME, "other", 2)
        others = [asyncio.create_task(work()) for work in (robot.frame, robot.frame, robot.call)]
        await asyncio.sleep(0.01)
        with pytest.raises(
            CallFailed,
            match=r"principal sa_robot may use 1 .*clears in .* an owner or admin of the tenant",
        ):
            await robot.call()
        await other.call()
        assert desk.stats.limit_refusals.of(ACME, "principal:requests_per_s") == 1
        assert desk.stats.limit_refusals.of(ACME, "requests_per_s") == 0
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    desk.run(story())


def test_what_the_tenant_has_no_place_for_is_not_counted_for_the_principal() -> None:
    desk = Desk(tenants=REQUEST_UNITS, own=1_000 * REQUEST_UNITS)
    robot = desk.requests.of(ACME, "robot", 1)
    while robot.passes():
        pass
    assert desk.own.let_in == desk.pace.let_in


def test_reads_of_a_bounded_principal_wait_without_a_place_in_the_tenants_line() -> None:
    desk = Desk(tenants=100_000, own=1_000)
    robot = desk.reads(GivenPaces(desk.pace, desk.own))
    assert robot.wait_ms(batches=True) == 0
    assert robot.begin(1_000) == 50, "as much as passes at the smaller rate"
    robot.end(2_000)
    assert (desk.own.let_in, desk.pace.let_in) == (2_000, 2_000), "both count what was read"
    assert (
        robot.wait_ms(batches=True) == pytest.approx(250) and len(desk.own.line) == 1 and not desk.pace.line
    )
    other = desk.reads(GivenPaces(desk.pace))
    assert other.wait_ms(batches=True) == 0
    robot.leave()
    assert not desk.own.line


def wanted(number: int, size: int) -> pb.ProduceBatch:
    return pb.ProduceBatch(id=number, topic_id=bytes(16), partition=0, size=size)


def arrive(
    stream: ProduceStream, number: int, size: int, now_ms: float = 0.0, topics: Sequence[Pace] = ()
) -> None:
    stream._batch_turns.look()
    waiting = Waiting(-1, wanted(number, size), memoryview(bytes(size)), now_ms, topics)
    if stream._batch_turns.take(waiting, now_ms):
        stream._hold()


def test_batches_delayed_by_their_principals_rate_enter_the_tenants_pace_when_their_turn_comes() -> None:
    size = 4 * BATCH_HEADER_BYTES

    async def story() -> None:
        slow = Slow()
        own, pace = own_of(size), Pace(100 * size)
        stream = stream_of(slow, paces=GivenPaces(pace, own))
        while own.clears_in_ms(0.0) < 4_000:
            arrive(stream, 1, size)
        assert len(stream._batch_turns._own) >= 3 and pace.let_in <= 2 * size, (
            "others find the tenant's pace free"
        )
        arrive(stream, 7, size)
        refused = [result for result in stream._results if result.id == 7]
        if not refused:
            arrive(stream, 7, size)
            refused = [result for result in stream._results if result.id == 7]
        assert "produce_bytes_per_s: principal sa_robot may use" in refused[0].message
        assert refused[0].retry_after_ms > 0
        assert slow.stats.limit_refusals.of(ACME, f"principal:{PRODUCE_RATE}") == 1
        assert slow.stats.limit_refusals.of(ACME, PRODUCE_RATE) == 0
        assert stream._releaser is not None
        stream._releaser.cancel()

    asyncio.run(story())


def test_what_the_tenants_pace_refuses_takes_nothing_of_the_principals() -> None:
    size = 4 * BATCH_HEADER_BYTES

    async def story() -> None:
        slow = Slow()
        own, pace = own_of(100 * size), Pace(size)
        while pace.enter(size, 0.0) is not None:
            pass
        stream = stream_of(slow, paces=GivenPaces(pace, own))
        arrive(stream, 1, size)
        assert "the tenant may use" in stream._results[0].message and own.let_in == 0
        assert stream._releaser is not None
        stream._releaser.cancel()

    asyncio.run(story())


class Timed(Slow):
    """Its clock is the loop's, and it finds nothing at once."""

    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def find(self, where: TopicPartition) -> None:
        return None


def test_ten_accounts_with_more_than_all_of_the_rate_keep_the_bound_and_another_gets_in() -> None:
    size = 4 * BATCH_HEADER_BYTES
    broker, pace = Timed(), Pace(100 * size)
    owns = [own_of(50 * size) for _ in range(10)]
    let_in, waits = dict.fromkeys(range(11), 0), [0]

    async def sends(name: int, stream: ProduceStream) -> None:
        while True:
            arrive(stream, name, size, broker.monotonic_ms())
            wait_ms = 1.0
            for result in stream._results:
                if result.error == ErrorCode.THROTTLED:
                    wait_ms = result.retry_after_ms
                else:
                    let_in[name] += 1
                    waits.append(result.throttled_ms)
            stream._results.clear()
            await asyncio.sleep(wait_ms / 1000)

    async def story() -> None:
        streams = [stream_of(broker, paces=GivenPaces(pace, own)) for own in [*owns, None]]
        tasks = [asyncio.create_task(sends(name, stream)) for name, stream in enumerate(streams)]
        await asyncio.sleep(30.0)
        for task in tasks:
            task.cancel()
        for stream in streams:
            if stream._releaser is not None:
                stream._releaser.cancel()
        await asyncio.wait(tasks)

    loop = SimLoop(1)
    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
    assert max(waits) <= 2 * HOLD_MS_MAX + 100, "the principal's and the tenant's, no more"
    assert sum(let_in.values()) > 0.9 * 100 * 25 and let_in[10] > 100, let_in


def test_a_stream_that_ends_leaves_nothing_coming_to_its_tenants_pace() -> None:
    size = 4 * BATCH_HEADER_BYTES

    async def story() -> None:
        own, pace = own_of(size), Pace(100 * size)
        stream = stream_of(Timed(), Wire(b"no frame"), paces=GivenPaces(pace, own))
        for number in range(4):
            arrive(stream, number, size)
        assert pace.coming == sum(one.waiting.size for one in stream._batch_turns._own) > 0
        with pytest.raises(FrameError):
            await stream.serve()
        assert pace.coming == 0 and not stream._batch_turns._own

    asyncio.run(story())


def test_a_call_is_judged_by_its_tenants_line_once_more_when_its_principals_turn_has_come() -> None:
    desk = Desk(tenants=10 * REQUEST_UNITS, own=5 * REQUEST_UNITS)

    async def story() -> None:
        robot, other = desk.requests.of(ACME, "robot", 1), desk.requests.of(ACME, "other", 2)
        while robot.passes():
            pass
        call = asyncio.create_task(robot.call())
        await asyncio.sleep(0.01)
        assert len(desk.own.line) == 1 and not desk.pace.line
        others = [asyncio.create_task(work()) for _ in range(10) for work in (other.call, other.frame)]
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(CallFailed, match="requests_per_s: the tenant may use"):
            await call
        assert asyncio.get_running_loop().time() - began_s < 1.0
        assert desk.own.let_in == 2 * REQUEST_UNITS, "what is refused is not counted for the principal"
        assert not desk.own.line
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    desk.run(story())


def test_a_call_that_has_waited_too_long_for_its_principals_rate_is_refused_in_its_name() -> None:
    desk = Desk(tenants=1_000 * REQUEST_UNITS, own=5 * REQUEST_UNITS)

    async def story() -> None:
        robot = desk.requests.of(ACME, "robot", 1)
        while robot.passes():
            pass
        waiting = asyncio.create_task(robot.call())
        await asyncio.sleep(0.01)
        desk.own.change(REQUEST_UNITS // 10, desk.monotonic_ms())
        with pytest.raises(CallFailed, match=r"principal sa_robot may use .* share now, 0\.1, is all used"):
            await waiting
        assert not desk.own.line

    desk.run(story())
