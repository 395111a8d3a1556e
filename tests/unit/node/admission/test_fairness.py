"""What a tenant's work costs is charged to it step by step, and its work begins in order when it has to wait."""

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

import pytest

from data_plane.metadata.model import TenantQuotas
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.processor_time import Work
from data_plane.node.stats import NodeStats
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.shares import WAIT_MS_MAX
from data_plane.throttling.spare import ALWAYS, LOOK_MS
from data_plane.throttling.use import WINDOW_MS
from penstock.contract.ids import TenantId
from penstock.contract.limits import CALL_WAIT_MS_MAX

GREEDY, MODEST = TenantId("greedy"), TenantId("modest")


class Hands:
    """A clock that goes on only when somebody works."""

    def __init__(self) -> None:
        self.at_ms = 0.0
        self.waited_ms = 0.0
        """Of that time, for a processor that others had."""

    def monotonic_ms(self) -> float:
        return self.at_ms

    def processor_ms(self) -> float:
        return self.at_ms - self.waited_ms

    def now_ms(self) -> int:
        return int(self.at_ms)


class WorkingHands(Hands):
    """A clock that goes on with a loop's virtual time, and when somebody works."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop

    def monotonic_ms(self) -> float:
        return self.at_ms + self._loop.time() * 1_000


OVER_SHARE_MS = 900.0
"""Of use at once: more than a tenant's share, also of one that works alone, so that it waits."""


def no_quotas(tenant: TenantId) -> TenantQuotas:
    """No tenant has a limit."""
    return TenantQuotas()


def fairness() -> tuple[Fairness, Hands]:
    """By a clock that stands while nobody works."""
    hands = Hands()
    return Fairness(hands, NodeStats(), no_quotas), hands


def _used_ms(fair: Fairness, hands: Hands) -> float:
    return fair._use.of(GREEDY, hands.monotonic_ms())


def _run(story: Coroutine[Any, Any, None], loop: SimLoop) -> None:
    try:
        loop.run_until_complete(story)
        assert not loop.failures
    finally:
        loop.close()


def test_each_step_is_charged_and_what_lies_between_is_not() -> None:
    fair, hands = fairness()

    async def work() -> str:
        hands.at_ms += 3
        await asyncio.sleep(0)
        hands.at_ms += 4
        return "done"

    async def other() -> None:
        hands.at_ms += 100

    async def story() -> None:
        task = asyncio.create_task(fair.of(GREEDY).asked(work))
        await asyncio.create_task(other())
        assert await task == "done"

    asyncio.run(story())
    faded = math.exp(-104 / WINDOW_MS)
    assert _used_ms(fair, hands) == pytest.approx(3 * faded + 4), "each step at its end"


def test_a_step_that_waits_for_a_processor_is_charged_for_what_it_uses_of_one() -> None:
    fair, hands = fairness()

    async def work() -> None:
        hands.at_ms += 5
        hands.waited_ms += 3

    asyncio.run(fair.of(GREEDY).charged(work))
    assert _used_ms(fair, hands) == 2


def test_a_step_that_fails_is_charged_too_and_its_error_is_raised() -> None:
    fair, hands = fairness()

    async def work() -> None:
        hands.at_ms += 5
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        asyncio.run(fair.of(GREEDY).asked(work))
    assert _used_ms(fair, hands) == 5


def test_a_cancelled_piece_of_work_learns_of_it_and_is_charged_for_what_it_does_then() -> None:
    fair, hands = fairness()
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            hands.at_ms += 7
            ends.append("cancelled")
            raise

    async def story() -> None:
        task = asyncio.create_task(fair.of(GREEDY).asked(work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert ends == ["cancelled"]
    assert _used_ms(fair, hands) == 7


def test_what_is_cancelled_before_its_task_began_is_not_begun_at_all() -> None:
    fair, _ = fairness()
    begun: list[str] = []

    async def work() -> None:
        """Never awaited, it would be a warning on the broker's log."""

    def begin() -> Coroutine[Any, Any, None]:
        begun.append("begun")
        return work()

    async def story() -> None:
        task = asyncio.create_task(fair.of(GREEDY).charged(begin))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert begun == []


def test_who_waits_begins_in_the_order_it_came_and_holds_up_nobody_else() -> None:
    loop = SimLoop(1)
    hands = WorkingHands(loop)
    fair = Fairness(hands, NodeStats(), no_quotas)
    began: dict[str, float] = {}

    async def work() -> None:
        hands.at_ms += 100

    async def piece(tenant: TenantId, name: str) -> None:
        await fair.of(tenant).turn()
        began[name] = loop.time()
        if name == "greedy 0":
            await fair.of(tenant).turn()
            began["greedy 0 again"] = loop.time()
        elif tenant == GREEDY:
            await fair.of(tenant).charged(work)

    async def story() -> None:
        fair._use.charge(GREEDY, OVER_SHARE_MS, hands.monotonic_ms())
        pieces: list[asyncio.Task[None]] = []
        for number in range(3):
            pieces.append(asyncio.create_task(piece(GREEDY, f"greedy {number}")))
            await asyncio.sleep(0.005)
        await asyncio.gather(*pieces, piece(MODEST, "modest"))

    _run(story(), loop)
    assert list(began) == ["modest", "greedy 0", "greedy 1", "greedy 2", "greedy 0 again"]
    assert began["modest"] < 0.03, "at once"
    assert began["greedy 2"] - began["greedy 1"] > 0.01, "one waits for the other's work"
    assert not fair._work.queues


def test_nobody_waits_for_ever() -> None:
    loop = SimLoop(1, time_limit_s=60)
    fair, hands = fairness()

    async def story() -> None:
        fair._use.charge(GREEDY, 1e9, hands.monotonic_ms())
        await fair.of(GREEDY).turn()
        assert fair._shares.wait_ms(GREEDY, hands.monotonic_ms()) == WAIT_MS_MAX, "nothing has faded"
        assert WAIT_MS_MAX < loop.time() * 1_000 < 20 * WAIT_MS_MAX

    _run(story(), loop)


def test_a_question_pauses_where_it_lets_others_run_while_there_is_no_room_for_it() -> None:
    loop = SimLoop(1)
    fair, hands = fairness()
    ends: list[str] = []

    async def question() -> None:
        hands.at_ms += OVER_SHARE_MS
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        ends.append("went on")

    async def story() -> None:
        asked = asyncio.create_task(fair.of(GREEDY).asked(question))
        await asyncio.sleep(0.1)
        assert ends == []
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    _run(story(), loop)
    assert ends == ["cancelled"]
    assert _used_ms(fair, hands) == OVER_SHARE_MS


def test_a_question_goes_on_after_its_pause_and_what_is_paid_for_does_not_pause() -> None:
    loop = SimLoop(1)
    hands = WorkingHands(loop)
    fair = Fairness(hands, NodeStats(), no_quotas)

    async def work() -> str:
        hands.at_ms += OVER_SHARE_MS
        await asyncio.sleep(0)
        return "done"

    async def story() -> None:
        assert await fair.of(GREEDY).asked(work) == "done"
        paused_s = loop.time()
        assert paused_s > 0.1
        assert await fair.of(GREEDY).charged(work) == "done"
        assert loop.time() - paused_s < 0.01

    _run(story(), loop)


def test_many_questions_at_once_get_no_more_of_the_processor_than_one() -> None:
    loop = SimLoop(1)
    hands = WorkingHands(loop)
    fair = Fairness(hands, NodeStats(), no_quotas)
    answered: list[str] = []
    asked_ms = 0.0

    async def question() -> None:
        nonlocal asked_ms
        for _ in range(200):
            hands.at_ms += 2
            asked_ms += 2
            await asyncio.sleep(0)

    async def short_question() -> None:
        hands.at_ms += 0.2
        answered.append("short")

    async def neighbour() -> None:
        while True:
            fair._use.charge(MODEST, 20, hands.monotonic_ms())
            await asyncio.sleep(0.1)

    async def story() -> None:
        nonlocal asked_ms
        beside = asyncio.create_task(neighbour())
        questions = [asyncio.create_task(fair.of(GREEDY).asked(question)) for _ in range(100)]
        await asyncio.sleep(0.1)
        fair._spare.part = ALWAYS
        await asyncio.sleep(5)
        began_ms, asked_ms = hands.monotonic_ms(), 0.0
        short = asyncio.create_task(fair.of(GREEDY).asked(short_question))
        await asyncio.sleep(10)
        took_ms = hands.monotonic_ms() - began_ms
        assert ALWAYS / 2 < asked_ms / took_ms < 1.2 * ALWAYS
        assert answered == ["short"], "what has not begun does not wait for all that has"
        for task in (beside, short, *questions):
            task.cancel()
        await asyncio.gather(beside, short, *questions, return_exceptions=True)

    _run(story(), loop)
    assert not fair._questions.queues
    assert not fair._paused.queues


def test_members_show_in_time_that_they_live_while_their_tenant_asks_for_much() -> None:
    """A hundred members join, 18 ms each; each beats every two seconds and is fenced after ten."""
    loop = SimLoop(1)
    hands = WorkingHands(loop)
    fair = Fairness(hands, NodeStats(), no_quotas)
    waited_ms: list[float] = []
    joined = 0

    async def costs(ms: float) -> None:
        hands.at_ms += ms

    async def neighbour() -> None:
        while True:
            fair._use.charge(MODEST, 20, hands.monotonic_ms())
            await asyncio.sleep(0.1)

    async def member() -> None:
        nonlocal joined
        await fair.of(GREEDY).asked(lambda: costs(18))
        joined += 1
        while True:
            await asyncio.sleep(2)
            began_ms = hands.monotonic_ms()
            await fair.turn_of_call(GREEDY, CALL_WAIT_MS_MAX, beat=True)
            await fair.answered(GREEDY, lambda: costs(0.3), Work.BEAT)
            waited_ms.append(hands.monotonic_ms() - began_ms)

    async def story() -> None:
        fair._spare.part = ALWAYS
        fair._spare.asked.charge(GREEDY, 60, hands.monotonic_ms())
        fair._use.charge(GREEDY, 60, hands.monotonic_ms())
        tasks = [asyncio.create_task(neighbour()), *(asyncio.create_task(member()) for _ in range(100))]
        await asyncio.sleep(15)
        assert 20 < joined < 100, "joins wait"
        assert len(waited_ms) > 100
        assert max(waited_ms) < 2_000
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    _run(story(), loop)


def test_how_late_timers_fire_is_looked_at_while_somebody_asks() -> None:
    loop = SimLoop(1)
    hands = WorkingHands(loop)
    fair = Fairness(hands, NodeStats(), no_quotas)

    async def question() -> None:
        hands.at_ms += 50

    async def busy() -> None:
        while True:
            await asyncio.sleep(LOOK_MS / 1_000)
            hands.at_ms += 5

    async def story() -> None:
        looking = asyncio.create_task(fair.run())
        fair._spare.part = ALWAYS
        await asyncio.sleep(1)
        assert fair._spare.part == ALWAYS, "nobody asks"
        await fair.of(GREEDY).asked(question)
        await asyncio.sleep(1)
        in_time = fair._spare.part
        assert in_time > ALWAYS, "timers fire in time"
        beside = asyncio.create_task(busy())
        await asyncio.sleep(1)
        late = fair._spare.part
        assert late < in_time, "and late beside other work"
        hands.at_ms += 60_000  # the question has faded
        await asyncio.sleep(10 * LOOK_MS / 1_000)
        beside.cancel()
        fair._spare.part = in_time
        await asyncio.sleep(1)
        assert fair._spare.part == in_time, "nobody asks any more"
        looking.cancel()
        await asyncio.wait([looking, beside])

    _run(story(), loop)
    assert not fair._somebody_asked.is_set()
