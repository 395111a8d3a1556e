"""A round of the event loop has a part for each tenant: many streams of one make no neighbour wait for all of them."""

import asyncio
import random
from collections import Counter

import pytest

from data_plane.node.admission.fairness import Fairness
from data_plane.node.stats import NodeStats
from penstock.contract.ids import TenantId
from tests.unit.node.admission.test_fairness import GREEDY, MODEST, Hands

STREAMS = 50
PIECE_MS = 0.1
STEPS = 10
"""Rounds that a message takes: read, appended, made durable, copied, answered."""


class World:
    """One broker's loop, whose clock goes on with the work that is done."""

    def __init__(self) -> None:
        self.hands = Hands()
        self.stats = NodeStats()
        self.fair = Fairness(self.hands, self.stats)
        self.done: Counter[str] = Counter()
        """Pieces of work, by stream."""
        self.begun = 0

    async def work(self) -> None:
        self.hands.at_ms += PIECE_MS

    async def stream(self, tenant: TenantId, name: str) -> None:
        """Frames without an end."""
        turns = self.fair.of(tenant)
        while True:
            await turns.round()
            await turns.charged(self.work)
            self.done[name] += 1
            await asyncio.sleep(0)

    def begin(self, count: int = STREAMS) -> list[asyncio.Task[None]]:
        self.begun += count
        names = range(self.begun - count, self.begun)
        return [asyncio.create_task(self.stream(GREEDY, f"{name}")) for name in names]

    async def modest_works(self) -> None:
        """More than a tenant does that rests."""
        for _ in range(40):
            await self.fair.of(MODEST).charged(self.work)
        self.hands.at_ms += 200

    async def message(self) -> float:
        """Milliseconds that one message of the modest tenant takes through all of its steps."""
        began_ms, turns = self.hands.monotonic_ms(), self.fair.of(MODEST)
        for _ in range(STEPS):
            await turns.round()
            await turns.charged(self.work)
            await asyncio.sleep(0)
        return self.hands.monotonic_ms() - began_ms


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_neighbours_message_waits_for_a_part_of_each_round_and_not_for_every_stream_of_a_tenant() -> None:
    world = World()

    async def story() -> None:
        streams = world.begin()
        await world.modest_works()
        took_ms = [await world.message() for _ in range(20)]
        await ended(streams)
        assert max(took_ms[5:]) <= 15.0, "50 streams would take 50 ms"
        assert world.stats.fairness_rounds > 0

    asyncio.run(story())


def test_streams_of_one_tenant_go_on_in_turns_and_none_is_forgotten() -> None:
    world = World()

    async def story() -> None:
        streams = world.begin()
        await world.modest_works()
        world.done.clear()
        for _ in range(40):
            await world.message()
        await ended(streams)
        assert len(world.done) == STREAMS
        assert max(world.done.values()) - min(world.done.values()) <= 2

    asyncio.run(story())


def test_a_tenant_that_works_alone_does_all_that_is_ready_in_each_round() -> None:
    world = World()

    async def story() -> None:
        streams = world.begin()
        for _ in range(10):
            await asyncio.sleep(0)
        await ended(streams)
        assert world.stats.fairness_rounds == 0
        assert min(world.done.values()) >= 4

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(10))
def test_streams_that_end_in_any_order_while_they_wait_leave_no_other_waiting(seed: int) -> None:
    world, rng = World(), random.Random(seed)

    async def story() -> None:
        streams = world.begin()
        await world.modest_works()
        rng.shuffle(streams)
        while len(streams) > 3:
            await world.message()
            gone = [streams.pop() for _ in range(rng.randrange(1, 4))]
            for task in gone:
                task.cancel()
            if rng.random() < 0.5:
                streams += world.begin(1)
            rng.shuffle(streams)
        world.done.clear()
        for _ in range(20):
            await world.message()
        assert sum(count > 0 for count in world.done.values()) >= len(streams) > 0
        await ended(streams)
        assert await world.message() <= STEPS * 2 * PIECE_MS

    asyncio.run(story())
