"""Rates of requests and of what is consumed in a simulated cluster: reached at one broker, and kept by all together
while no coordinator answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.node.leasing.pacing import CONSUME_RATE, REQUEST_RATE
from data_plane.node.serving.read_turns import ReadTurns
from data_plane.testkit.cluster import TENANT
from penstock.contract.ids import TenantId
from tests.simulation.bug import planted
from tests.simulation.test_shared_limits import Shared, run
from tests.unit.node.serving.allowances import principal

REQUESTS, CONSUMED = 200, 40_000
FLOOR_PERCENT, BURST_MS = 10, 3_000
STREAMS = 5


class Used:
    """What the streams of a tenant take at each broker, as much as they are given."""

    def __init__(self, shared: Shared, limit: str) -> None:
        self.shared = shared
        self.limit = limit
        self.total = 0
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, node: Any) -> None:
        one = self._requests if self.limit == REQUEST_RATE else self._reads
        self.tasks += [asyncio.create_task(one(node)) for _ in range(STREAMS)]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()

    async def during(self, seconds: float) -> float:
        """How much a second is taken in this time."""
        before = self.total
        await asyncio.sleep(seconds)
        assert not any(task.done() for task in self.tasks)
        return (self.total - before) / seconds

    async def _requests(self, node: Any) -> None:
        turns = node.allowances.requests.of(TenantId(TENANT), "k", 1)
        while True:
            await turns.frame()
            self.total += 1

    async def _reads(self, node: Any) -> None:
        woken, allowance = asyncio.Event(), node.allowances.to_consume(principal(TenantId(TENANT), "k"))
        turns = ReadTurns(allowance, woken.set, node.leasing._clock, node.stats)
        try:
            while True:
                woken.clear()
                wait_ms = turns.wait_ms(batches=True)
                if wait_ms == 0:
                    self.total += (size := turns.begin(1_000))
                    turns.end(size)
                    continue
                try:
                    async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                        await woken.wait()
                except TimeoutError:
                    pass
        finally:
            turns.leave()


async def limited(shared: Shared, **quotas: int) -> None:
    request = pb.PutTenantRequest(tenant=TENANT, quotas=pb.TenantQuotas(**quotas))
    await shared.running.admin_call(methods.PUT_TENANT, request.SerializeToString())
    name, value = next(iter(quotas.items()))
    tenant = TenantId(TENANT)
    await shared.until(
        lambda: all(getattr(node.view.image.quotas_of(tenant), name) == value for node in shared.nodes)
    )


def silent_office() -> Any:
    """No coordinator answers while this lasts."""
    return planted(
        "data_plane.leases.coordinator:LeaseCoordinator.asked",
        lambda right: lambda coordinator, request, registered, now_ms: None,
    )


def used(limit: str) -> Callable[[Callable[[Shared, Used], Awaitable[None]], int], None]:
    def running(story: Callable[[Shared, Used], Awaitable[None]], seed: int) -> None:
        async def whole(shared: Shared) -> None:
            taken = Used(shared, limit)
            try:
                await story(shared, taken)
            finally:
                await taken.end()

        run(whole, seed=seed)

    return running


@pytest.mark.parametrize(("limit", "rate"), [(REQUEST_RATE, REQUESTS), (CONSUME_RATE, CONSUMED)])
def test_all_load_at_one_broker_gets_the_whole_rate_within_two_seconds_and_not_more(
    limit: str, rate: int
) -> None:
    async def story(shared: Shared, taken: Used) -> None:
        await limited(shared, **{limit: rate})
        taken.begin(shared.nodes[1])
        await asyncio.sleep(2.0)
        per_s = await taken.during(10.0)
        assert 0.95 * rate <= per_s <= 1.05 * rate, f"{per_s:,.0f} a second"

    used(limit)(story, 1)


@pytest.mark.pure
@pytest.mark.parametrize("leased", [1, 3])
@pytest.mark.parametrize(("limit", "rate"), [(REQUEST_RATE, REQUESTS), (CONSUME_RATE, CONSUMED)])
def test_no_tenant_is_above_the_limit_by_more_than_a_tenth_while_the_coordinator_is_away(
    limit: str, rate: int, leased: int
) -> None:
    """At the highest floor that can be set. Brokers that were given leases keep them to their end, then have the floor,
    then their safe shares; those that were given none have their floors all the time."""

    async def story(shared: Shared, taken: Used) -> None:
        await limited(shared, **{limit: rate, "rate_floor_percent": FLOOR_PERCENT})
        for node in shared.nodes[:leased]:
            taken.begin(node)
        await asyncio.sleep(4.0)
        with silent_office():
            for node in shared.nodes[leased:]:
                taken.begin(node)
            seconds = [await taken.during(5.0) for _ in range(8)]
        assert max(seconds[1:]) <= 1.10 * rate, seconds
        assert seconds[0] <= 1.15 * rate, f"with the bursts that brokers had stored: {seconds}"
        assert min(seconds) >= FLOOR_PERCENT / 100 * 0.9 * rate, f"the floor is always there: {seconds}"
        assert leased == 1 or seconds[-1] >= 0.95 * rate, f"safe shares are together all of it: {seconds}"
        await asyncio.sleep(5.0)
        per_s = await taken.during(5.0)
        assert 0.95 * rate <= per_s <= 1.05 * rate, "and leases come back"

    used(limit)(story, 2)


def test_a_tenant_that_rested_gets_its_burst_once_and_the_rate_over_the_time_after_it() -> None:
    async def story(shared: Shared, taken: Used) -> None:
        await limited(shared, requests_per_s=REQUESTS, rate_burst_ms=BURST_MS)
        stored = REQUESTS * BURST_MS / 1000
        for _ in range(2):
            before = taken.total
            for node in shared.nodes:
                taken.begin(node)
            await asyncio.sleep(0.25)
            assert taken.total - before >= 0.9 * stored, "at once, at all brokers together"
            await asyncio.sleep(1.75)
            assert taken.total - before <= stored + 2.0 * REQUESTS * 1.1
            per_s = await taken.during(5.0)
            assert 0.95 * REQUESTS <= per_s <= 1.05 * REQUESTS, f"{per_s:,.0f} a second"
            await taken.end()
            await asyncio.sleep(BURST_MS / 1000 * 2 + 2.0)
        asked = [node.stats.lease_requests for node in shared.nodes]
        await asyncio.sleep(20.0)
        assert [node.stats.lease_requests for node in shared.nodes] == asked, (
            "a stored burst costs no request"
        )

    used(REQUEST_RATE)(story, 3)
