"""A few short simulations of each kind, in this process: a bug in the ordinary way of a broker shows here at once."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.store_faults import StoreFaults
from data_plane.testkit.swarm import Plan, TopicPlan
from tests.simulation import plans
from tests.simulation.plans import PRODUCER, SETTINGS, plan_of


def metered_with_sdk(seed: int) -> Plan:
    """Brokers are killed and cut off under the SDK's clients, and what is counted is compared with what was read."""
    plan = plan_of(seed, (FaultKind.KILL, FaultKind.CUT), (Step.PRODUCE, Step.IDLE, Step.ELECTION))
    return replace(
        plan,
        topics=(TopicPlan(name="orders", partitions=2, settings=SETTINGS),),
        producers=(PRODUCER, replace(PRODUCER, sdk=True)),
        sdk_consumers=1,
        metered=True,
    )


def operated(seed: int) -> Plan:
    """Replicas and leaders are moved about while brokers fall and disks fill."""
    plan = plan_of(seed, (FaultKind.KILL, FaultKind.DISK_FULL), (Step.PRODUCE, Step.CATCH_UP, Step.ROLL))
    settings = replace(SETTINGS, retention_bytes=64 << 10)
    topics = (TopicPlan(name="orders", partitions=2, settings=settings),)
    return replace(plan, topics=topics, brokers=4, operated=True, store=StoreFaults(latency_ms=(0.1, 0.5)))


@pytest.mark.parametrize(
    "plan",
    [
        metered_with_sdk,
        operated,
        plans.leaders_come_and_go,
        plans.deposed_alive,
        plans.flipped_bits,
        plans.restarts,
    ],
)
def test_a_short_run_keeps_every_promise_and_heals(plan: Callable[[int], Plan]) -> None:
    result = Scenario(plan(3)).run()
    assert result.passed, f"{result.violated}: {result.explanation}"
