"""A broker that steps aside for its disk is wholly back in sync once that is well, also where nothing is written."""

import asyncio
from dataclasses import replace

from data_plane.log.outcomes import DamagedRange
from data_plane.metadata.model import PartitionRecord
from data_plane.testkit.cluster import SimBroker, SimCluster
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.scenario import IN_SYNC_S_MAX, Scenario
from data_plane.testkit.swarm import TopicPlan
from penstock.contract.ids import TopicPartition
from tests.simulation.plans import SETTINGS, TIMINGS, plan_of

SLOW_SYNC_MS = 1_000
BUSY, IDLE = "busy", "idle"


class SlowForAWhile(Scenario):
    """One broker's syncs take seconds; it leads nothing, and the writes go to one of two topics. `spoilt`: it finds
    damage in what it holds while it is out of sync."""

    def __init__(self, *, spoilt: bool = False) -> None:
        self._spoilt = spoilt
        topics = tuple(TopicPlan(name=name, partitions=1, settings=SETTINGS) for name in (BUSY, IDLE))
        timings = replace(TIMINGS, slow_sync_ms=SLOW_SYNC_MS, replica_lag_ms_max=5 * SLOW_SYNC_MS)
        super().__init__(replace(plan_of(1, (), ()), topics=topics, timings=timings, chaos_s=1.0))

    async def _story(self) -> None:
        cluster = await self._booted()
        await asyncio.sleep(1.0)
        self._start_workload(cluster)
        slow = self._leads_nothing(cluster)
        slow.faults.extra_sync_ms = 4.0 * SLOW_SYNC_MS
        await self._require(
            IN_SYNC_S_MAX, lambda: not self._anywhere(slow), Invariant.I20, lambda: "it never stepped aside"
        )
        if self._spoilt:
            self._spoil(slow, TopicPartition(cluster.topic_ids[BUSY], 0))
        slow.faults.extra_sync_ms = 0.0
        await self._require(
            IN_SYNC_S_MAX, self._whole, Invariant.I20, lambda: f"not wholly in sync: {self.records}"
        )

    @property
    def records(self) -> dict[str, PartitionRecord]:
        assert self.watcher is not None
        return {self.watcher.name_of(where): record for where, record in self.watcher.records.items()}

    def _spoil(self, broker: SimBroker, where: TopicPartition) -> None:
        assert broker.node is not None
        replica = broker.node.replicas.by_partition[where]
        damage = DamagedRange(0, 1, "spoilt")
        replica.log.scrub.found_damage(damage)
        replica.found_damage(str(damage))
        assert replica.stopped

    def _leads_nothing(self, cluster: SimCluster) -> SimBroker:
        leaders = [record.leader for record in self.records.values()]
        return next(broker for broker in cluster.brokers if broker.broker_id not in leaders)

    def _anywhere(self, broker: SimBroker) -> bool:
        return any(broker.broker_id in record.in_sync for record in self.records.values())

    def _whole(self) -> bool:
        return all(len(record.in_sync) == len(record.replicas) for record in self.records.values())


def test_a_broker_slow_for_a_while_leaves_and_joins_once_even_where_nothing_is_written() -> None:
    story = SlowForAWhile()
    result = story.run()
    assert result.passed, f"{result.violated}: {result.explanation}"
    made_left_joined = 3
    assert {name: record.partition_epoch for name, record in story.records.items()} == {
        f"{BUSY}-0": made_left_joined,
        f"{IDLE}-0": made_left_joined,
    }


def test_a_replica_that_finds_damage_in_itself_while_it_is_out_of_sync_is_fetched_anew_and_joins() -> None:
    result = SlowForAWhile(spoilt=True).run()
    assert result.passed, f"{result.violated}: {result.explanation}"
