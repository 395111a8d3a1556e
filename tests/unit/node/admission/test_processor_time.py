"""A tenant's limit of processor time: above it its work waits, and neighbours feel no more than what it has used."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from data_plane.metadata.model import TenantQuotas
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.pace_lines import SIGN_MS
from data_plane.node.admission.processor_time import AHEAD_MS_MAX, OWED_MS_MAX, PROCESSOR_RATE, Work
from data_plane.node.ports import CallFailed, ConnectionLost
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.pacing import BURST_MS
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from penstock.contract.limits import CALL_WAIT_MS_MAX
from tests.unit.node.admission.test_fairness import GREEDY, MODEST, OVER_SHARE_MS

STREAMS = 50
PIECE_MS, EVERY_MS = 0.15, 15.0
"""Of each stream: together half of a processor, which no share bounds."""
STEPS, STEP_MS = 10, 0.05
"""Rounds that a neighbour's message takes: it is read, appended, made durable, copied and answered."""
LIMIT = 100


class Wire:
    """A connection, as far as who waits looks at it."""

    peer = "client"

    def __init__(self) -> None:
        self.is_gone = False
        self._wake: Callable[[], None] | None = None

    def when_gone(self, wake: Callable[[], None] | None) -> None:
        self._wake = wake

    def go(self) -> None:
        self.is_gone = True
        if self._wake is not None:
            self._wake()


class Broker:
    """Its event loop, whose time goes on with the work that is done on it."""

    def __init__(self, ms_per_s: int) -> None:
        self.loop = SimLoop(1)
        self.clock, self.stats = SimClock(self.loop), NodeStats()
        self.quotas = {GREEDY: TenantQuotas(broker_processor_ms_per_s=ms_per_s)}
        self.fair = Fairness(self.clock, self.stats, lambda tenant: self.quotas.get(tenant, TenantQuotas()))
        self.worked_ms = dict.fromkeys((GREEDY, MODEST), 0.0)
        self.waited_ms = dict.fromkeys((GREEDY, MODEST), 0)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        try:
            self.loop.run_until_complete(story)
        finally:
            self.loop.close()

    async def work(self, milliseconds: float) -> None:
        self.loop.work(milliseconds / 1_000)

    async def piece(self, tenant: TenantId, milliseconds: float) -> None:
        """One frame, in its turn."""
        turns = self.fair.of(tenant)
        waited_ms = await turns.turn()
        self.waited_ms[tenant] += waited_ms
        await turns.charged(lambda: self.work(milliseconds))
        self.worked_ms[tenant] += milliseconds

    async def stream(
        self, tenant: TenantId, milliseconds: float = PIECE_MS, every_ms: float = EVERY_MS
    ) -> None:
        """A client that sends the next frame a while after the broker has taken one."""
        while True:
            await self.piece(tenant, milliseconds)
            await asyncio.sleep(every_ms / 1_000)

    async def messages_ms(self, count: int = 200) -> list[float]:
        """How long each message of the modest tenant took, the shortest first."""
        took_ms = []
        for _ in range(count):
            await asyncio.sleep(0.01)
            began_ms = self.clock.monotonic_ms()
            for _ in range(STEPS):
                await self.piece(MODEST, STEP_MS)
                await asyncio.sleep(0.0001)
            took_ms.append(self.clock.monotonic_ms() - began_ms)
        return sorted(took_ms)


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def beside_streams(ms_per_s: int) -> tuple[list[float], Broker]:
    """Messages of the modest tenant beside the greedy one's streams."""
    broker, took_ms = Broker(ms_per_s), list[float]()

    async def story() -> None:
        streams = [asyncio.create_task(broker.stream(GREEDY)) for _ in range(STREAMS)]
        await asyncio.sleep(1.0)
        took_ms.extend(await broker.messages_ms())
        await ended(streams)

    broker.run(story())
    return took_ms, broker


def beside_work_without_calls(per_s: float) -> list[float]:
    """The same beside something that takes as many milliseconds a second of the processor, a piece at a time."""
    broker, took_ms = Broker(0), list[float]()

    async def others() -> None:
        while True:
            broker.loop.work(PIECE_MS / 1_000)
            await asyncio.sleep(PIECE_MS / per_s)

    async def story() -> None:
        working = asyncio.create_task(others())
        took_ms.extend(await broker.messages_ms())
        await ended([working])

    broker.run(story())
    return took_ms


def test_fifty_streams_above_the_limit_cost_a_neighbour_what_the_same_load_without_calls_does() -> None:
    beside_calls, broker = beside_streams(LIMIT)
    without = beside_work_without_calls(LIMIT)
    p50, p99 = len(without) // 2, len(without) * 99 // 100
    assert beside_calls[p50] <= without[p50] * 1.1
    assert beside_calls[p99] <= without[p99] + 2 * PIECE_MS
    assert broker.waited_ms[GREEDY] > 0 and broker.waited_ms[MODEST] == 0
    unlimited, _ = beside_streams(0)
    assert unlimited[p99] > 2 * beside_calls[p99], "it is the limit that helps"


def test_a_tenant_above_its_limit_gets_all_of_it_and_no_more_than_its_burst_and_a_piece_above() -> None:
    broker = Broker(LIMIT)

    async def story() -> None:
        streams = [asyncio.create_task(broker.stream(GREEDY)) for _ in range(STREAMS)]
        await asyncio.sleep(10.0)
        await ended(streams)

    broker.run(story())
    assert 10 * LIMIT * 0.97 <= broker.worked_ms[GREEDY] <= LIMIT * (10 + BURST_MS / 1_000) + PIECE_MS
    assert broker.stats.processor_throttled > 100
    assert broker.stats.processor_throttled_ms == pytest.approx(broker.waited_ms[GREEDY], rel=0.05)


def test_a_tenant_below_its_limit_is_never_delayed() -> None:
    broker = Broker(LIMIT)

    async def story() -> None:
        streams = [asyncio.create_task(broker.stream(GREEDY, every_ms=100.0)) for _ in range(STREAMS)]
        await asyncio.sleep(10.0)
        await ended(streams)

    broker.run(story())
    assert broker.worked_ms[GREEDY] > 0.5 * 10 * LIMIT
    assert broker.stats.processor_throttled == 0


def test_a_higher_limit_counts_for_what_waits_and_none_lets_all_go() -> None:
    broker = Broker(1)

    async def story() -> None:
        await broker.piece(GREEDY, 5.0)
        waiting = [asyncio.create_task(broker.piece(GREEDY, 1.0)) for _ in range(3)]
        await asyncio.sleep(1.0)
        assert not any(task.done() for task in waiting)
        broker.quotas[GREEDY] = TenantQuotas(broker_processor_ms_per_s=1_000)
        await asyncio.wait_for(waiting[0], 0.3)
        broker.quotas[GREEDY] = TenantQuotas(broker_processor_ms_per_s=1)
        await asyncio.sleep(0.3)
        broker.quotas[GREEDY] = TenantQuotas()
        await asyncio.wait_for(asyncio.gather(*waiting), 0.6)

    broker.run(story())


def test_each_step_of_a_piece_counts_though_the_tenant_is_ahead_already() -> None:
    broker = Broker(LIMIT)

    async def steps() -> None:
        for _ in range(20):
            await broker.work(5.0)
            await asyncio.sleep(0)

    async def story() -> None:
        await broker.fair.of(GREEDY).charged(steps)
        ahead_ms = (20 * 5.0 - LIMIT * BURST_MS / 1_000) * 1_000 / LIMIT
        # The steps took time, too.
        assert await broker.fair.turn(GREEDY) == pytest.approx(ahead_ms - 100, abs=5)

    broker.run(story())


def test_signs_of_life_count() -> None:
    broker = Broker(1)

    async def story() -> None:
        await broker.fair.answered(GREEDY, lambda: broker.work(2.0), Work.BEAT)
        assert await broker.fair.turn(GREEDY) > 1_000

    broker.run(story())


def test_a_flood_of_signs_of_life_gets_what_the_limit_gives_and_the_rest_is_refused() -> None:
    """And signs of life of a member that sends what members send go on."""
    broker = Broker(LIMIT)
    heard = {"flood": 0, "refused": 0}

    async def beat() -> None:
        await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX, beat=True)
        await broker.fair.answered(GREEDY, lambda: broker.work(1.0), Work.BEAT)

    async def flood() -> None:
        while True:
            try:
                await beat()
                heard["flood"] += 1
            except CallFailed as failed:
                assert failed.code == ErrorCode.THROTTLED
                heard["refused"] += 1
            await asyncio.sleep(0.001)

    async def story() -> None:
        for _ in range(60):
            await asyncio.sleep(1.0)
            await asyncio.wait_for(beat(), 0.1)
        assert broker.stats.processor_throttled == 0
        floods = [asyncio.create_task(flood()) for _ in range(10 * STREAMS)]
        await asyncio.sleep(20.0)
        heard["flood"] = 0
        await asyncio.sleep(20.0)
        await ended(floods)

    broker.run(story())
    assert heard["flood"] <= 20 * LIMIT * 1.1
    assert heard["refused"] > 100


def test_a_newcomer_stands_behind_who_waits_also_when_the_limit_is_raised() -> None:
    broker, order = Broker(1), list[str]()

    async def goes(name: str) -> None:
        await broker.fair.turn(GREEDY)
        order.append(name)

    async def story() -> None:
        await broker.piece(GREEDY, 5.0)
        waiting = []
        for name in ("first", "second"):
            waiting.append(asyncio.create_task(goes(name)))
            await asyncio.sleep(0.01)
        broker.quotas[GREEDY] = TenantQuotas(broker_processor_ms_per_s=10_000)
        assert broker.fair.processor_pace(GREEDY) is not None
        # The limit is clear before who waits has had a turn of the loop.
        broker.loop.work(0.001)
        await goes("newcomer")
        await asyncio.gather(*waiting)

    broker.run(story())
    assert order == ["first", "second", "newcomer"]


def test_what_is_owed_is_not_forgotten_while_a_tenant_works_or_waits() -> None:
    """Tenants without work for a minute are forgotten when another one begins."""
    broker = Broker(1)

    async def others_begin(after_s: float) -> None:
        await asyncio.sleep(after_s)
        newcomer = TenantId(f"newcomer-{after_s}")
        broker.quotas[newcomer] = TenantQuotas(broker_processor_ms_per_s=LIMIT)
        await broker.fair.turn(newcomer)

    async def story() -> None:
        await broker.piece(GREEDY, 0.1)
        await asyncio.sleep(59.0)
        await broker.piece(GREEDY, 9.0)
        await others_begin(2.0)
        assert await broker.fair.turn(GREEDY) > 6_000, "its last work is a moment ago"
        await broker.piece(GREEDY, 130.0)
        beginning = [asyncio.create_task(others_begin(after_s)) for after_s in (50.0, 61.0, 122.0)]
        assert await broker.fair.turn(GREEDY) > 128_000, "it waits"
        await asyncio.gather(*beginning)

    broker.run(story())


def test_what_is_charged_makes_nobody_wait_longer_than_streams_are_kept() -> None:
    broker = Broker(1)

    async def story() -> None:
        for _ in range(3):
            await broker.fair.of(GREEDY).charged(lambda: broker.work(9.0))
        waited_ms = await broker.fair.turn(GREEDY)
        assert OWED_MS_MAX * 0.8 <= waited_ms <= OWED_MS_MAX + 9_000

    broker.run(story())


def test_a_lower_limit_makes_nobody_wait_longer_for_what_was_used_at_the_higher_one() -> None:
    broker = Broker(1_000)

    async def story() -> None:
        for _ in range(3):
            await broker.fair.of(GREEDY).charged(lambda: broker.work(500.0))
        broker.quotas[GREEDY] = TenantQuotas(broker_processor_ms_per_s=1)
        assert await broker.fair.turn(GREEDY) == pytest.approx(OWED_MS_MAX, abs=5)

    broker.run(story())


def test_a_stream_that_waits_gives_signs_and_leaves_the_line_when_its_client_is_gone() -> None:
    broker, wire, signs = Broker(1), Wire(), list[float]()

    async def story() -> None:
        await broker.piece(GREEDY, 9.0)
        turns = broker.fair.of(GREEDY)
        first = asyncio.create_task(turns.turn(wire, lambda: signs.append(broker.loop.time())))  # type: ignore[arg-type]
        await asyncio.sleep(SIGN_MS * 1.2 / 1_000)
        assert len(signs) == 1
        second = asyncio.create_task(turns.turn())
        await asyncio.sleep(0.01)
        wire.go()
        with pytest.raises(ConnectionLost):
            await first
        assert await second > 0

    broker.run(story())


def test_a_call_that_has_waited_too_long_is_refused_with_the_limit_its_use_and_when_it_clears() -> None:
    broker = Broker(1)

    async def story() -> None:
        await broker.piece(GREEDY, 9.0)
        began_ms = broker.clock.monotonic_ms()
        with pytest.raises(CallFailed) as refused:
            await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX)
        assert broker.clock.monotonic_ms() - began_ms == pytest.approx(CALL_WAIT_MS_MAX, abs=5)
        assert refused.value.code == ErrorCode.THROTTLED
        said = f"{PROCESSOR_RATE}: the tenant may use 1 ms a second at this broker, all used, and 0 calls and"
        assert str(refused.value).startswith(f"{said} 0 streams wait; clears in ")
        assert await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX, beat=True) == 0, (
            "a sign of life does not wait"
        )

    broker.run(story())
    assert broker.stats.processor_refused == broker.stats.limit_refusals.of(GREEDY, PROCESSOR_RATE) == 1


def test_a_call_waits_no_longer_than_another_limit_has_left_it() -> None:
    broker = Broker(1)

    async def story() -> None:
        await broker.piece(GREEDY, 9.0)
        began_ms = broker.clock.monotonic_ms()
        with pytest.raises(CallFailed, match=PROCESSOR_RATE):
            await broker.fair.turn_of_call(GREEDY, 300)
        assert broker.clock.monotonic_ms() - began_ms == pytest.approx(300, abs=5)

    broker.run(story())


@pytest.mark.parametrize(
    ("streams", "calls", "limit", "frame_ms", "call_ms"),
    [
        (STREAMS, 1, 250, 10.0, 10.0),
        (1, 2 * STREAMS, 250, 10.0, 10.0),
        (STREAMS, 30, 250, 30.0, 30.0),
        (10, 30, 100, 20.0, 20.0),
        (STREAMS, 20, 250, 1.0, 10.0),
        (STREAMS, 20, 250, 0.5, 50.0),
        (STREAMS, 20, 250, 30.0, 1.0),
    ],
)
def test_calls_and_streams_of_a_tenant_at_its_limit_each_get_half_of_it(
    streams: int, calls: int, limit: int, frame_ms: float, call_ms: float
) -> None:
    """So a call is answered however many streams wait, and a flood of calls stops no stream: whatever each costs."""
    seconds = 30
    broker, refused = Broker(limit), 0
    used_ms = {"streams": 0.0, "calls": 0.0}

    async def frames() -> None:
        while True:
            await broker.piece(GREEDY, frame_ms)
            used_ms["streams"] += frame_ms

    async def asking() -> None:
        nonlocal refused
        while True:
            try:
                await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX)
            except CallFailed:
                refused += 1
                await asyncio.sleep(0.1)
                continue
            await broker.fair.answered(GREEDY, lambda: broker.work(call_ms))
            used_ms["calls"] += call_ms

    async def story() -> None:
        tasks = [
            asyncio.create_task(work())
            for work, count in ((frames, streams), (asking, calls))
            for _ in range(count)
        ]
        await asyncio.sleep(seconds)
        await ended(tasks)

    broker.run(story())
    half = limit * seconds / 2
    assert used_ms["calls"] == pytest.approx(half, rel=0.1)
    assert used_ms["streams"] == pytest.approx(half, rel=0.1)
    assert calls > 4 or not refused


@pytest.mark.parametrize(("piece_ms", "answered_min"), [(300.0, 60), (400.0, 40), (500.0, 30)])
def test_a_call_that_comes_again_is_answered_beside_a_stream_whose_pieces_take_longer_than_it_may_wait(
    piece_ms: float, answered_min: int
) -> None:
    broker, answered = Broker(250), 0

    async def stream() -> None:
        while True:
            await broker.piece(GREEDY, piece_ms)

    async def story() -> None:
        nonlocal answered
        streaming = asyncio.create_task(stream())
        for _ in range(200):
            try:
                await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX)
            except CallFailed:
                await asyncio.sleep(0.3)
                continue
            await broker.fair.answered(GREEDY, lambda: broker.work(1.0))
            answered += 1
        await ended([streaming])

    broker.run(story())
    assert answered >= answered_min


@pytest.mark.parametrize("alone", [Work.CALL, Work.STREAM])
@pytest.mark.parametrize("burst_ms", [0, 60_000])
def test_what_one_kind_used_alone_keeps_it_waiting_for_no_longer_than_a_call_may_wait(
    alone: Work, burst_ms: int
) -> None:
    broker = Broker(250)
    broker.quotas[GREEDY] = replace(broker.quotas[GREEDY], rate_burst_ms=burst_ms)
    done_ms: dict[Work, list[float]] = {Work.CALL: [], Work.STREAM: []}

    async def one(kind: Work) -> None:
        if kind is Work.CALL:
            await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX)
            await broker.fair.answered(GREEDY, lambda: broker.work(10.0))
        else:
            await broker.piece(GREEDY, 10.0)
        done_ms[kind].append(broker.clock.monotonic_ms())

    async def again(kind: Work) -> None:
        while True:
            await one(kind)

    async def story() -> None:
        for _ in range(1_000):
            await one(alone)
        while (pace := broker.fair.processor_pace(GREEDY)) is not None and not pace.clears_in_ms(
            broker.clock.monotonic_ms()
        ):
            await broker.fair.answered(GREEDY, lambda: broker.work(5.0), Work.BEAT)
        began_ms = broker.clock.monotonic_ms()
        tasks = [asyncio.create_task(again(kind)) for kind in done_ms for _ in range(4)]
        await asyncio.sleep(3.0)
        assert not any(task.done() for task in tasks), "no call is refused"
        for times in done_ms.values():
            assert next(time for time in times if time > began_ms) - began_ms <= AHEAD_MS_MAX + 200
        await ended(tasks)

    broker.run(story())


def test_heartbeats_take_no_turn_from_calls() -> None:
    broker, answered = Broker(LIMIT), 0

    async def beats() -> None:
        while True:
            await asyncio.sleep(0.1)
            await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX, beat=True)
            await broker.fair.answered(GREEDY, lambda: broker.work(6.0), Work.BEAT)

    async def calls() -> None:
        nonlocal answered
        while True:
            await broker.fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX)
            await broker.fair.answered(GREEDY, lambda: broker.work(1.0))
            answered += 1
            await asyncio.sleep(0.2)

    async def story() -> None:
        tasks = [asyncio.create_task(broker.stream(GREEDY, 2.0, 1.0)) for _ in range(10)]
        tasks += [asyncio.create_task(beats()), asyncio.create_task(calls())]
        await asyncio.sleep(20.0)
        await ended(tasks)

    broker.run(story())
    assert answered > 40


def test_a_push_of_a_watch_waits_however_long_its_tenants_limit_takes() -> None:
    broker, done_ms = Broker(1), list[float]()

    async def ask() -> None:
        began_ms = broker.clock.monotonic_ms()
        await broker.fair.of(GREEDY).asked(lambda: broker.work(0.1))
        done_ms.append(broker.clock.monotonic_ms() - began_ms)

    async def story() -> None:
        await broker.piece(GREEDY, 5.0)
        await ask()
        await broker.piece(GREEDY, 5.0)
        with pytest.raises(CallFailed, match=PROCESSOR_RATE):
            await broker.fair.of(GREEDY).asked(lambda: broker.work(0.1), CALL_WAIT_MS_MAX)

    broker.run(story())
    assert done_ms[0] > 4 * CALL_WAIT_MS_MAX


@pytest.mark.parametrize("are_pushes", [False, True])
def test_what_waited_for_its_share_is_within_the_limit_too(are_pushes: bool) -> None:
    limit, burst_ms, piece_ms, seconds = 200, 5_000, 20.0, 3.0
    broker = Broker(limit)
    broker.quotas[GREEDY] = replace(broker.quotas[GREEDY], rate_burst_ms=burst_ms)

    async def piece() -> None:
        if are_pushes:
            await broker.fair.turn_of_push(GREEDY)
            await broker.fair.answered(GREEDY, lambda: broker.work(piece_ms))
        else:
            await broker.fair.turn(GREEDY)
            await broker.fair.of(GREEDY).charged(lambda: broker.work(piece_ms))
        broker.worked_ms[GREEDY] += piece_ms

    async def story() -> None:
        await broker.fair.of(GREEDY).charged(lambda: broker.work(OVER_SHARE_MS))
        pieces = [asyncio.create_task(piece()) for _ in range(200)]
        await asyncio.sleep(seconds)
        allowed_ms = limit * (burst_ms / 1_000 + seconds) + piece_ms - OVER_SHARE_MS
        assert allowed_ms * 0.9 < broker.worked_ms[GREEDY] <= allowed_ms
        await ended(pieces)

    broker.run(story())
    assert broker.stats.fairness_waits > 0


def test_the_burst_of_a_tenant_counts_here_too() -> None:
    broker = Broker(LIMIT)
    broker.quotas[GREEDY] = replace(broker.quotas[GREEDY], rate_burst_ms=5_000)

    async def story() -> None:
        for _ in range(49):
            await broker.piece(GREEDY, 10.0)
        assert broker.waited_ms[GREEDY] == 0
        for _ in range(20):
            await broker.piece(GREEDY, 10.0)

    broker.run(story())
    assert broker.waited_ms[GREEDY] > 0


def test_a_burst_that_is_set_later_counts_from_then_on() -> None:
    broker = Broker(LIMIT)

    async def story() -> None:
        await broker.piece(GREEDY, 1.0)
        broker.quotas[GREEDY] = replace(broker.quotas[GREEDY], rate_burst_ms=5_000)
        await broker.piece(GREEDY, 1.0)
        await asyncio.sleep(5.0)
        for _ in range(49):
            await broker.piece(GREEDY, 10.0)

    broker.run(story())
    assert broker.waited_ms[GREEDY] == 0
