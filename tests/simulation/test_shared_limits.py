"""A tenant's rate in a simulated cluster: reached by one partition, kept by all brokers together, also without the
controller, and free of cost for tenants that send nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.leases.terms import LimitKey
from data_plane.node.leasing.pacing import FLOOR, PRODUCE_RATE
from data_plane.testkit.cluster import TENANT, SimBroker, SimCluster
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.swarm import TopicPlan
from penstock.contract.ids import TenantId, TopicPartition
from tests.simulation.bug import planted
from tests.simulation.plans import PRODUCER, SETTINGS, TIMINGS, plan_of

RATE = 40_000
PRODUCED = LimitKey(TenantId(TENANT), PRODUCE_RATE)
WANTS_S = 120.0
LARGE = replace(
    PRODUCER,
    batches_per_s=WANTS_S,
    value_bytes_max=1_000,
    records_per_batch_max=2,
    in_flight=5,
    repeats=False,
)
"""Some 100,000 bytes a second: more than the rate."""
BUSY, OTHERS = "busy", "others"


class Shared(Scenario):
    """One topic with one partition and one with six; a producer sends more than the rate to the first."""

    def __init__(self, story: Callable[["Shared"], Coroutine[Any, Any, None]], *, seed: int = 1) -> None:
        self._told = story
        topics = (
            TopicPlan(name=BUSY, partitions=1, settings=SETTINGS),
            TopicPlan(name=OTHERS, partitions=6, settings=SETTINGS),
        )
        timings = replace(TIMINGS, suspicion_ms=1_200, heartbeat_ms=300)
        plan = replace(plan_of(seed, (), ()), topics=topics, timings=timings, producers=(LARGE,) * 3)
        super().__init__(replace(plan, chaos_s=1.0))

    async def _story(self) -> None:
        await self._booted()
        await self._told(self)

    @property
    def running(self) -> SimCluster:
        assert self.cluster is not None
        return self.cluster

    async def paced(self, bytes_per_s: int) -> None:
        request = pb.PutTenantRequest(tenant=TENANT, quotas=pb.TenantQuotas(produce_bytes_per_s=bytes_per_s))
        await self.running.admin_call(methods.PUT_TENANT, request.SerializeToString())
        await self.until(
            lambda: all(
                node.view.image.tenants[TenantId(TENANT)].quotas.produce_bytes_per_s == bytes_per_s
                for node in self.nodes
            )
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        await self._require(30.0, holds, Invariant.I20, lambda: "what the story waits for")

    @property
    def nodes(self) -> list[Any]:
        return [broker.node for broker in self.running.brokers if broker.node is not None]

    @property
    def produced(self) -> int:
        """Bytes that all brokers took, the dead ones' as well while they are remembered."""
        return sum(node.stats.produced_bytes for node in self.nodes)

    def share(self, node: Any) -> int:
        pace = node.leasing.pacing.of(PRODUCED, self.loop.time() * 1000)
        return 0 if pace is None else int(pace.bytes_per_s)

    def controller(self) -> SimBroker:
        return next(b for b in self.running.brokers if b.node is not None and b.node.control.seat.seated)

    def leader(self) -> SimBroker:
        where = TopicPartition(self.running.topic_ids[BUSY], 0)
        return next(
            broker
            for broker in self.running.brokers
            if broker.node is not None
            and (replica := broker.node.replicas.by_partition.get(where)) is not None
            and replica.leading is not None
        )


def run(story: Callable[[Shared], Coroutine[Any, Any, None]], *, seed: int = 1) -> None:
    result = Shared(story, seed=seed).run()
    assert result.passed, result.explanation


@pytest.mark.parametrize("seed", [1, 2])
def test_one_partition_gets_the_whole_rate_within_two_seconds_and_not_more(seed: int) -> None:
    async def story(shared: Shared) -> None:
        await shared.paced(RATE)
        shared._start_workload(shared.running)
        await shared.until(lambda: shared.produced > 0)
        await asyncio.sleep(2.0)
        before = shared.produced
        await asyncio.sleep(10.0)
        passed = shared.produced - before
        assert 0.95 * RATE <= passed / 10 <= 1.05 * RATE, f"{passed / 10:,.0f} bytes a second"

    run(story, seed=seed)


def test_a_lost_controller_costs_no_one_their_lease_and_lets_no_one_above_it() -> None:
    async def story(shared: Shared) -> None:
        await shared.paced(RATE)
        shared._start_workload(shared.running)
        await shared.until(lambda: shared.produced > 0)
        await asyncio.sleep(2.0)
        leader = shared.leader()
        assert shared.controller() is not leader and leader.node is not None, "its loss is another story"
        produced = leader.node.stats.produced_bytes
        shared.running.kill(shared.controller())
        for _ in range(100):
            await asyncio.sleep(0.1)
            together = sum(shared.share(node) for node in shared.nodes)
            assert together <= RATE + RATE // FLOOR + 3
        passed = leader.node.stats.produced_bytes - produced
        assert 0.9 * RATE <= passed / 10 <= 1.05 * RATE, f"{passed / 10:,.0f} bytes a second"

    run(story, seed=5)


def test_a_tenant_that_sends_nothing_costs_no_request() -> None:
    async def story(shared: Shared) -> None:
        await shared.paced(RATE)
        await asyncio.sleep(15.0)
        asked = [node.stats.lease_requests for node in shared.nodes]
        streams = [node.stats.streams for node in shared.nodes]
        await asyncio.sleep(60.0)
        assert [node.stats.lease_requests for node in shared.nodes] == asked
        assert [node.stats.streams for node in shared.nodes] == streams
        assert not any(node.leasing.pacing.is_active for node in shared.nodes)

    run(story)


@pytest.mark.pure
def test_a_coordinator_that_forgets_what_others_hold_is_found() -> None:
    """A planted bug: each broker is granted what it wants, up to the limit."""

    def wrong(right: Any) -> Any:
        return lambda books, holder, key, holds, now_ms: books._limit(key)

    async def story(shared: Shared) -> None:
        await shared.paced(RATE)
        await asyncio.sleep(0.5)
        most = 0
        for _ in range(20):
            for node in shared.nodes:
                pace = node.leasing.pace(PRODUCED)
                assert pace is not None
                pace.enter(RATE, shared.loop.time() * 1000, may_refuse=False)
            await asyncio.sleep(0.1)
            most = max(most, sum(shared.share(node) for node in shared.nodes))
        assert most <= RATE + RATE // FLOOR + 3, f"{most} of {RATE}"

    run(story)
    with (
        planted("data_plane.leases.coordinator:LeaseCoordinator._granted", wrong),
        pytest.raises(AssertionError, match="of 40000"),
    ):
        run(story)
