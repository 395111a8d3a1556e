"""Beyond what is promised: every broker of a relaxed topic loses power at once. What was acknowledged may be gone; then
the loss was declared, nothing else is gone, and all goes on by itself. Replication 1 to 5 holds what it promises.
"""

import asyncio
import os
from dataclasses import replace
from functools import partial

import pytest

from data_plane.metadata.losses import LossKind, LossRecord
from data_plane.testkit.checkers import Evidence
from data_plane.testkit.cluster import SimCluster
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.forks import run_forked
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.scenario import IN_SYNC_S_MAX, READ_S_MAX, Scenario
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.swarm import Plan, TopicPlan
from penstock.contract.ids import NO_BROKER, TopicPartition
from penstock.contract.topic_settings import Durability
from tests.simulation.plans import PRODUCER, SETTINGS, plan_of

pytestmark = pytest.mark.slow

SEEDS = range(30 if os.environ.get("FULL") else 2)
FACTOR_SEEDS = range(20 if os.environ.get("FULL") else 1)
WALL_S_MAX = 200.0


def relaxed_plan(seed: int) -> Plan:
    """One relaxed topic, two producers with a promise, no faults but those of the story below."""
    settings = replace(SETTINGS, durability=Durability.REPLICATED, flush_ms=400 + 300 * (seed % 3))
    return replace(
        plan_of(seed, (), ()),
        topics=(TopicPlan(name="orders", partitions=1, settings=settings),),
        producers=(PRODUCER, PRODUCER),
    )


class AllLosePower(Scenario):
    """Twice, all brokers at once. `lost` and `losses` tell what became of it."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.lost = 0
        self.losses: list[LossRecord] = []

    async def _story(self) -> None:
        cluster = await self._booted(watched=False)
        await asyncio.sleep(1.0)
        self._start_workload(cluster)
        for _ in range(2):
            await asyncio.sleep(2.5)
            for broker in cluster.brokers:
                cluster.power_cut(broker)
            await asyncio.sleep(0.5)
            cut_s = self.loop.time()
            for broker in cluster.brokers:
                cluster.start(broker)
            await self._require(
                IN_SYNC_S_MAX,
                partial(self._written_since, cut_s),
                Invariant.I20,
                lambda: "no acknowledged write after all came back",
            )
        for producer in self._producers:
            producer.stopping = True
        await self._require(
            READ_S_MAX,
            lambda: all(producer.idle for producer in self._producers) and self._whole(cluster),
            Invariant.I9,
            self._pending,
        )
        evidence = Evidence(history=self.history, final={}, log_starts={})
        await self._read_all(cluster, self.plan.topics[0], evidence)
        self._judge_losses(cluster, evidence)

    def _written_since(self, since_s: float) -> bool:
        return any(batch.promised and batch.ended_s > since_s for batch in self.history.sent)

    def _whole(self, cluster: SimCluster) -> bool:
        """Led, all in sync, and every replica ends alike."""
        where = TopicPartition(cluster.topic_ids["orders"], 0)
        ends: dict[int, None] = {}
        for broker in cluster.brokers:
            node = broker.node
            record = None if node is None else node.view.image.partition(where)
            if node is None or record is None or record.leader == NO_BROKER or len(record.in_sync) < 3:
                return False
            log = node.replicas.by_partition[where].log
            ends[log.log_end_offset] = ends[log.high_watermark] = None
        return len(ends) == 1

    def _judge_losses(self, cluster: SimCluster, evidence: Evidence) -> None:
        where = TopicPartition(cluster.topic_ids["orders"], 0)
        node = cluster.brokers[0].node
        assert node is not None
        record = node.view.image.partition(where)
        declared = node.view.image.losses.get(where, {})
        assert record is not None
        if [*declared] != [*range(2, record.log_generation + 1)] or record.log_generation != 3:
            raise InvariantViolated(
                Invariant.I1, f"generation {record.log_generation}, declared are {sorted(declared)}"
            )
        self.losses = [declared[generation] for generation in sorted(declared)]
        final = evidence.final[where]
        for batch in self.history.sent:
            if not batch.promised:
                continue
            kept = [final.get(batch.offset + index) == value for index, value in enumerate(batch.values)]
            if all(kept):
                continue
            if not any(loss.offset <= batch.offset for loss in self.losses):
                raise InvariantViolated(
                    Invariant.I1, f"acknowledged at {batch.offset}, gone, and no loss was declared below"
                )
            self.lost += 1


def run_lossy(seed: int) -> tuple[SeedResult, int, list[LossKind]]:
    """One seed, in a process of its own: what became of it, how many batches are gone, and the kinds of losses."""
    scenario = AllLosePower(relaxed_plan(seed))
    return scenario.run(), scenario.lost, [loss.kind for loss in scenario.losses]


def test_what_relaxed_replicas_lose_together_is_declared_and_they_go_on() -> None:
    lost = 0
    for answer in run_forked(run_lossy, SEEDS, jobs=2, wall_s_max=WALL_S_MAX):
        assert answer.result is not None, answer.ending
        result, gone, kinds = answer.result
        assert result.passed, f"seed {result.seed}: {result.violated}: {result.explanation}"
        assert kinds == [LossKind.LONGEST] * 2
        lost += gone
    assert lost > 0, "no seed lost anything: the faults are too weak"


def factors_plan(seed: int) -> Plan:
    """Five brokers, a topic of each replication, kills and silences that each of them stands."""
    plan = plan_of(
        seed, (FaultKind.KILL, FaultKind.PAUSE, FaultKind.CUT), (Step.PRODUCE, Step.ELECTION, Step.BOOT)
    )
    topics = tuple(
        TopicPlan(
            name=f"factor-{factor}",
            partitions=1,
            settings=replace(SETTINGS, replication=factor, min_insync_replicas=(factor + 1) // 2),
        )
        for factor in (1, 2, 3, 5)
    )
    producers = tuple(replace(PRODUCER, topic=number) for number in range(len(topics)))
    return replace(plan, brokers=5, topics=topics, producers=producers, consumers=4, chaos_s=4.0)


def run_factors(seed: int) -> SeedResult:
    """One seed, in a process of its own."""
    return Scenario(factors_plan(seed)).run()


def test_every_replication_from_one_to_five_holds_what_it_promises() -> None:
    for answer in run_forked(run_factors, FACTOR_SEEDS, jobs=2, wall_s_max=WALL_S_MAX):
        assert answer.result is not None, answer.ending
        result = answer.result
        assert result.passed, f"seed {result.seed}: {result.violated}: {result.explanation}"
