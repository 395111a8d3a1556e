"""What a tenant's work costs is charged to it step by step, and its work begins in order when it has to wait."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from data_plane.node.admission.fairness import Fairness
from data_plane.node.stats import NodeStats
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.spare import ALWAYS, LOOK_MS
from penstock.contract.ids import TenantId
from tests.waiting import PATIENCE_S

GREEDY, MODEST = TenantId("greedy"), TenantId("modest")


class Hands:
    """A clock that goes on only when somebody works."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.at_ms

    def now_ms(self) -> int:
        return int(self.at_ms)


class Charges:
    """In place of `Use` and `Shares`: what was charged, and a wait of one look for each name in `waits`."""

    def __init__(self) -> None:
        self.charged: list[tuple[str, float]] = []
        self.waits: dict[str, int] = {}
        self.wait = 0.001

    def charge(self, tenant: str, spent_ms: float, now_ms: float) -> None:
        self.charged.append((tenant, spent_ms))

    def wait_ms(self, tenant: str, now_ms: float) -> float:
        left = self.waits.get(tenant, 0)
        self.waits[tenant] = max(0, left - 1)
        return self.wait if left else 0.0


def fairness() -> tuple[Fairness, Hands, Charges]:
    hands, charges = Hands(), Charges()
    made = Fairness(hands, NodeStats())
    made._use = made._shares = cast(Any, charges)
    return made, hands, charges


@pytest.mark.pure
def test_each_step_is_charged_and_what_lies_between_is_not() -> None:
    fair, hands, charges = fairness()

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
    assert charges.charged == [(GREEDY, 3.0), (GREEDY, 4.0)]


@pytest.mark.pure
def test_a_step_that_fails_is_charged_too_and_its_error_is_raised() -> None:
    fair, hands, charges = fairness()

    async def work() -> None:
        hands.at_ms += 5
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        asyncio.run(fair.of(GREEDY).asked(work))
    assert charges.charged == [(GREEDY, 5.0)]


@pytest.mark.pure
def test_a_cancelled_piece_of_work_learns_of_it_and_is_charged_for_what_it_does_then() -> None:
    fair, hands, charges = fairness()
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
    assert charges.charged == [(GREEDY, 0.0), (GREEDY, 7.0)]


@pytest.mark.pure
def test_what_is_cancelled_before_its_task_began_is_not_begun_at_all() -> None:
    fair, _, _ = fairness()
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


@pytest.mark.pure
def test_who_waits_begins_in_the_order_it_came_and_holds_up_nobody_else() -> None:
    fair, _, charges = fairness()
    began: list[str] = []
    charges.waits[GREEDY] = 3

    async def piece(tenant: TenantId, name: str) -> None:
        await fair.of(tenant).turn()
        began.append(name)

    async def story() -> None:
        await asyncio.gather(*(piece(GREEDY, f"greedy {n}") for n in range(3)), piece(MODEST, "modest"))

    asyncio.run(story())
    assert began == ["modest", "greedy 0", "greedy 1", "greedy 2"]
    assert not fair._work.queues


@pytest.mark.pure
def test_nobody_waits_for_ever() -> None:
    fair, _, charges = fairness()
    charges.waits[GREEDY] = 1_000_000

    asyncio.run(asyncio.wait_for(fair.of(GREEDY).turn(), PATIENCE_S))


@pytest.mark.pure
def test_a_question_pauses_where_it_lets_others_run_while_there_is_no_room_for_it() -> None:
    fair, hands, charges = fairness()
    charges.wait = 60_000.0
    ends: list[str] = []

    async def question() -> None:
        hands.at_ms += 2
        charges.waits[GREEDY] = 2
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        ends.append("went on")

    async def story() -> None:
        asked = asyncio.create_task(fair.of(GREEDY).asked(question))
        for _ in range(10):
            await asyncio.sleep(0)
        assert ends == []
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(story())
    assert ends == ["cancelled"]
    assert charges.charged == [(GREEDY, 2.0), (GREEDY, 0.0)]


@pytest.mark.pure
def test_a_question_goes_on_after_its_pause_and_what_is_paid_for_does_not_pause() -> None:
    fair, _, charges = fairness()

    async def work() -> str:
        charges.waits[GREEDY] = 1
        await asyncio.sleep(0)
        return "done"

    assert asyncio.run(fair.of(GREEDY).asked(work)) == "done"
    assert charges.waits[GREEDY] == 0, "it paused"
    assert asyncio.run(fair.of(GREEDY).charged(work)) == "done"
    assert charges.waits[GREEDY] == 1, "it did not"


class WorkingHands(Hands):
    """A clock that goes on with a loop's virtual time, and when somebody works."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop

    def monotonic_ms(self) -> float:
        return self.at_ms + self._loop.time() * 1_000


def test_many_questions_at_once_get_no_more_of_the_processor_than_one() -> None:
    loop = SimLoop(1)
    hands = WorkingHands(loop)
    fair = Fairness(hands, NodeStats())
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

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
    assert not fair._questions.queues
    assert not fair._paused.queues


def test_members_show_in_time_that_they_live_while_their_tenant_asks_for_much() -> None:
    """A hundred members join, 18 ms each; each beats every two seconds and is fenced after ten."""
    loop = SimLoop(1)
    hands = WorkingHands(loop)
    fair = Fairness(hands, NodeStats())
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
            await fair.turn_of_question(GREEDY, beat=True)
            await fair.answered(GREEDY, lambda: costs(0.3), beat=True)
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

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


@pytest.mark.pure
def test_how_late_timers_fire_is_looked_at_while_somebody_asks() -> None:
    fair, hands, _ = fairness()
    fair._spare.observe = lambda late_ms: seen.append(late_ms)  # type: ignore[method-assign]
    seen: list[float] = []

    async def question() -> None:
        hands.at_ms += 50

    async def story() -> None:
        looking = asyncio.create_task(fair.run())
        await asyncio.sleep(3 * LOOK_MS / 1000)
        assert seen == []
        await fair.of(GREEDY).asked(question)
        for _ in range(500):
            if seen:
                break
            await asyncio.sleep(LOOK_MS / 1000)
        assert seen == [-LOOK_MS], "by a clock that stands still"
        hands.at_ms += 60_000  # the question has faded
        seen.clear()
        await asyncio.sleep(10 * LOOK_MS / 1000)
        assert len(seen) <= 1
        looking.cancel()

    asyncio.run(story())
    assert not fair._somebody_asked.is_set()
