"""Requests at a tenant's rate: counted once each, in one line, refused with when it clears, let go with the limit."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from data_plane.leases.terms import LimitKey
from data_plane.node.leasing.pacing import REQUEST_RATE, REQUEST_UNITS
from data_plane.node.ports import CallFailed
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.node.stats import NodeStats
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.pacing import BURST_MS, Pace
from penstock.contract.errors import ErrorCode
from penstock.contract.limits import CALL_WAIT_MS_MAX
from tests.unit.authz.setup import ACME
from tests.unit.node.serving.delays import Delays


class Desk:
    """A tenant's requests on a loop's virtual clock."""

    def __init__(self, per_s: float) -> None:
        self.stats = NodeStats()
        self.delays = Delays()
        self._loop: SimLoop | None = None
        self.pace: Pace | None = Pace(int(per_s * REQUEST_UNITS))
        self.requests = RequestTurns(
            self._of, lambda tenant, key_id, name: None, self, self.stats, self.delays
        ).of(ACME, "k", 1)

    def _of(self, limit: LimitKey) -> Pace | None:
        assert limit == LimitKey(ACME, REQUEST_RATE)
        return self.pace

    def now_ms(self) -> int:
        return int(self.monotonic_ms())

    def monotonic_ms(self) -> float:
        return 0.0 if self._loop is None else self._loop.time() * 1000

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self._loop = SimLoop(1)
        try:
            self._loop.run_until_complete(story)
        finally:
            self._loop.close()


def test_frames_of_many_streams_come_to_the_rate_together_and_each_has_its_turn() -> None:
    desk, taken = Desk(20), [0] * 4

    async def stream(number: int) -> None:
        while True:
            await desk.requests.frame()
            taken[number] += 1

    async def story() -> None:
        streams = [asyncio.create_task(stream(number)) for number in range(4)]
        await asyncio.sleep(10.0)
        for each in streams:
            each.cancel()
        await asyncio.wait(streams)

    desk.run(story())
    assert 200 <= sum(taken) <= 20 * (10 + BURST_MS / 1000) + 1
    assert max(taken) - min(taken) <= 2 + 20 * BURST_MS / 1000
    assert desk.stats.requests_throttled > 100 and desk.stats.requests_throttled_ms > 30_000
    assert {(tenant, principal, topic) for tenant, principal, _, topic in desk.delays.told} == {(ACME, 1, "")}
    assert sum(told[2] for told in desk.delays.told) == desk.stats.requests_throttled_ms
    assert desk.pace is not None and not desk.pace.line, "who was ended waits no more"


def test_a_call_whose_turn_is_too_far_away_is_refused_with_the_limit_its_use_and_when_it_clears() -> None:
    desk, done, refused = Desk(10), list[float](), list[str]()

    async def call() -> None:
        try:
            await desk.requests.call()
            done.append(desk.monotonic_ms())
        except CallFailed as failed:
            assert failed.code == ErrorCode.THROTTLED
            refused.append(failed.message)

    async def story() -> None:
        await asyncio.gather(*(call() for _ in range(40)))

    desk.run(story())
    assert len(done) + len(refused) == 40 and max(done) <= CALL_WAIT_MS_MAX
    assert 10 <= len(done) <= 10 * (CALL_WAIT_MS_MAX + BURST_MS) / 1000 + 2
    said = (
        "requests_per_s: the tenant may use 10 a second over all brokers, and this broker's share now, 10, is all used;"
        " clears in "
    )
    assert all(message.startswith(said) for message in refused)
    clears_ms = int(refused[0].removeprefix(said).partition(" ms, or once an operator")[0])
    assert CALL_WAIT_MS_MAX < clears_ms < CALL_WAIT_MS_MAX + 150
    assert desk.stats.limit_refusals.of(ACME, REQUEST_RATE) == len(refused) == desk.stats.requests_refused


def test_calls_and_streams_go_in_turn() -> None:
    desk, order = Desk(10), list[str]()

    async def ask(name: str, call: bool) -> None:
        await (desk.requests.call() if call else desk.requests.frame())
        order.append(name)

    async def story() -> None:
        while desk.requests.passes():
            pass
        names = ["frame", "other frame", "last frame", "call", "other call"]
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(ask(name, "call" in name)))
            await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)
        assert order == ["call", "frame", "other call", "other frame", "last frame"]

    desk.run(story())


def test_a_call_is_answered_however_many_streams_wait_and_knows_what_goes_before_it() -> None:
    desk, waited_ms, refused = Desk(10), list[int](), list[float]()

    async def stream() -> None:
        while True:
            await desk.requests.frame()

    async def call() -> None:
        try:
            waited_ms.append(await desk.requests.call())
        except CallFailed:
            refused.append(desk.monotonic_ms())

    async def story() -> None:
        streams = [asyncio.create_task(stream()) for _ in range(50)]
        await asyncio.sleep(2.0)
        for _ in range(20):
            await call()
        assert not refused and max(waited_ms) <= 300
        waited_ms.clear()
        came_ms = desk.monotonic_ms()
        await asyncio.gather(*(call() for _ in range(20)))
        assert max(refused) - came_ms < 1, "who would wait too long hears it at once"
        assert len(waited_ms) == CALL_WAIT_MS_MAX / 1000 * 10 / 2
        assert max(waited_ms) <= CALL_WAIT_MS_MAX
        for each in streams:
            each.cancel()
        await asyncio.wait(streams)

    desk.run(story())


def test_a_call_that_waits_while_the_rate_becomes_a_lower_one_is_refused_in_time_and_not_counted() -> None:
    desk = Desk(10)

    async def story() -> None:
        pace = desk.pace
        assert pace is not None
        pace.enter(8 * REQUEST_UNITS, 0.0, may_refuse=False)
        came_ms, let_in = desk.monotonic_ms(), pace.let_in
        waiting = asyncio.create_task(desk.requests.call())
        await asyncio.sleep(0.1)
        pace.change(REQUEST_UNITS, desk.monotonic_ms())
        with pytest.raises(CallFailed, match=r"this broker's share now, 1, is all used; clears in \d{4} ms"):
            await waiting
        assert desk.monotonic_ms() - came_ms == pytest.approx(CALL_WAIT_MS_MAX, abs=1)
        assert pace.let_in == let_in and not pace.line
        assert (pace.refused, desk.stats.requests_refused) == (1, 1)

    desk.run(story())


def test_a_call_that_waits_goes_on_when_the_limit_ends() -> None:
    desk = Desk(10)

    async def story() -> None:
        before = desk.pace
        assert before is not None
        before.enter(8 * REQUEST_UNITS, 0.0, may_refuse=False)
        waiting = asyncio.create_task(desk.requests.call())
        await asyncio.sleep(0.1)
        desk.pace = None
        before.line.wake_first()
        assert await waiting == pytest.approx(100, abs=1)

    desk.run(story())


@pytest.mark.parametrize(("per_s", "counted"), [(20, 6), (1, 0)])
def test_a_sign_of_life_counts_as_far_as_a_call_that_comes_then_still_has_its_turn(
    per_s: int, counted: int
) -> None:
    desk = Desk(per_s)
    assert desk.pace is not None
    for _ in range(100):
        desk.requests.beat()
    assert desk.pace.let_in == counted * REQUEST_UNITS
    assert desk.pace.clears_in_ms(0.0) <= 1_000 / 20


def test_a_sign_of_life_takes_no_turn_of_those_who_wait() -> None:
    desk = Desk(100)
    assert desk.pace is not None
    desk.pace.line.join(lambda: None, 0.0)
    desk.requests.beat()
    assert desk.pace.let_in == 0


@pytest.mark.parametrize("per_s", [0.4, 1, 10, 100])
def test_frames_and_calls_go_on_however_many_signs_of_life_there_are(per_s: float) -> None:
    """More of them than the rate allows, all the time."""
    desk, taken, answered = Desk(per_s), 0, 0
    seconds = 20 / min(per_s, 10)

    async def beats() -> None:
        while True:
            desk.requests.beat()
            await asyncio.sleep(0.2 / per_s)

    async def frames() -> None:
        nonlocal taken
        while True:
            await desk.requests.frame()
            taken += 1

    async def calls() -> None:
        nonlocal answered
        while True:
            await asyncio.sleep(1.1 / per_s)
            await desk.requests.call()
            answered += 1

    async def story() -> None:
        beating = asyncio.create_task(beats())
        await asyncio.sleep(2.0)
        for _ in range(5):
            calling = asyncio.create_task(calls())
            await asyncio.sleep(seconds / 5)
            assert not calling.done(), "no call is refused"
            calling.cancel()
        assert answered >= 0.4 * seconds * per_s
        asking = asyncio.create_task(frames())
        await asyncio.sleep(seconds)
        assert taken >= 0.9 * seconds * per_s
        for each in (beating, asking):
            each.cancel()
        await asyncio.sleep(0)

    desk.run(story())


def test_all_that_waits_goes_on_at_once_when_the_limit_ends_and_at_another_pace_when_it_is_another() -> None:
    desk, done = Desk(0.01), list[float]()

    async def frame() -> None:
        await desk.requests.frame()
        done.append(desk.monotonic_ms())

    async def story() -> None:
        tasks = [asyncio.create_task(frame()) for _ in range(6)]
        await asyncio.sleep(1.0)
        assert len(done) == 1 and desk.pace is not None
        before, desk.pace = desk.pace, Pace(10_000 * REQUEST_UNITS)
        before.line.wake_first()
        await asyncio.sleep(0.1)
        assert len(done) == 6 and not before.line
        desk.pace = Pace(10)
        tasks += [asyncio.create_task(frame()) for _ in range(3)]
        await asyncio.sleep(1.0)
        assert len(done) == 7
        before, desk.pace = desk.pace, None
        before.line.wake_first()
        await asyncio.wait_for(asyncio.gather(*tasks), 0.1)

    desk.run(story())


def test_a_tenant_without_the_limit_is_never_counted() -> None:
    desk = Desk(1)
    desk.pace = None
    assert all(desk.requests.passes() for _ in range(1_000))
    desk.requests.beat()

    async def story() -> None:
        assert await desk.requests.call() == 0

    desk.run(story())
    assert desk.stats.requests_throttled == 0


@pytest.mark.parametrize(("per_s", "said"), [(25, "25"), (2, "2"), (0.4, "0.4")])
def test_a_part_of_a_request_a_second_is_said_as_one(per_s: float, said: str) -> None:
    desk = Desk(per_s)

    async def story() -> None:
        with pytest.raises(CallFailed, match=f"share now, {said}, is all used"):
            assert desk.pace is not None
            desk.pace.enter(100 * REQUEST_UNITS, 0.0, may_refuse=False)
            await desk.requests.call()

    desk.run(story())


def test_what_streams_took_while_no_call_came_is_forgotten_but_for_one() -> None:
    desk, order = Desk(100), list[str]()

    async def ask(name: str) -> None:
        await (desk.requests.call() if name == "call" else desk.requests.frame())
        order.append(name)

    async def story() -> None:
        while desk.requests.passes():
            pass
        await asyncio.gather(*(ask("frame") for _ in range(50)))
        order.clear()
        await asyncio.gather(*(ask(name) for name in ("frame", "call") for _ in range(8)))
        assert order[:6] == ["call", "call", "frame", "call", "frame", "call"]

    desk.run(story())


def test_a_time_out_that_is_not_the_calls_own_is_not_taken_for_it() -> None:
    desk = Desk(10)

    async def story() -> None:
        assert desk.pace is not None
        desk.pace.enter(5 * REQUEST_UNITS, 0.0, may_refuse=False)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await desk.requests.call()
        assert not desk.pace.line and desk.stats.requests_refused == 0

    desk.run(story())
