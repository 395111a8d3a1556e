"""The metadata store is restored from an old backup: no broker acts on it, and nothing is lost (RL55)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.metadata import broker_records
from data_plane.node.membership.trusted_store import WRITE_MS, StoreWitness
from data_plane.testkit.checkers import Evidence, check_history
from data_plane.testkit.cluster import SimBroker, SimCluster
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.scenario import IN_SYNC_S_MAX, READ_S_MAX, Scenario
from data_plane.testkit.standing import at_rest
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import TopicPartition
from tests.simulation.bug import planted
from tests.simulation.plans import PRODUCER, plan_of

pytestmark = pytest.mark.slow

_WRITTEN_S = 2 * WRITE_MS / 1000
"""By then each broker has written down what it has seen; it forgets what is newer when it is killed."""
_NOTICED_S = 5.0
"""More than a session: each broker has asked the store by then."""


class FromBackup(Scenario):
    """A leader falls and a follower leaves and comes back after the backup was made, so that the backup is wrong about
    both. Brokers meet it running, one of them booting; then the newest store is there again and all are restarted.
    """

    acted: int
    """Revisions of the old store that changed who leads or is in sync."""
    served: list[str]
    """Brokers that went on as if nothing had happened."""
    acknowledged: int
    """Messages that were acknowledged when everybody must have noticed."""

    async def _story(self) -> None:
        cluster = await self._booted()
        watcher = self.watcher
        assert watcher is not None
        await asyncio.sleep(1.0)
        self._start_workload(cluster)
        await asyncio.sleep(2.0)
        backup = cluster.store.revision
        await self._change_leader_and_set(cluster, watcher)
        await asyncio.sleep(_WRITTEN_S)
        await self._go_back(cluster, backup)
        cluster.store.come_forward()
        watcher.attach()
        for broker in cluster.brokers:
            cluster.kill(broker)
            cluster.start(broker)
        await self._check_liveness(cluster, watcher)
        await self._require(READ_S_MAX, lambda: at_rest(cluster, watcher), Invariant.I9, str)
        evidence = Evidence(history=self.history, final={}, log_starts={})
        await self._read_all(cluster, self.plan.topics[0], evidence)
        check_history(evidence)
        watcher.check_at_rest()
        self._no_failures()

    async def _change_leader_and_set(self, cluster: SimCluster, watcher: Watcher) -> None:
        """Two brokers fall, one after the other and the leader first, and come back."""
        where = TopicPartition(cluster.topic_ids["orders"], 0)
        leader = watcher.records[where].leader
        for number in (leader, (leader + 1) % len(cluster.brokers)):
            broker = cluster.broker(number)
            cluster.kill(broker)
            await self._in_sync(watcher, where, len(cluster.brokers) - 1)
            cluster.start(broker)
            await self._in_sync(watcher, where, len(cluster.brokers))

    async def _in_sync(self, watcher: Watcher, where: TopicPartition, count: int) -> None:
        await self._require(
            IN_SYNC_S_MAX, lambda: len(watcher.records[where].in_sync) == count, Invariant.I20, str
        )

    async def _go_back(self, cluster: SimCluster, backup: int) -> None:
        store = cluster.store
        cluster.loop.on_step = None  # the watcher would take the old store's word for the truth
        store.go_back(backup)
        booting = cluster.brokers[0]
        cluster.kill(booting)
        cluster.start(booting)
        await asyncio.sleep(_NOTICED_S)
        noticed_s = self.loop.time()
        await asyncio.sleep(2.0)
        keys = [event.key for batch in store.history[backup:] for event in batch.events]
        self.acted = sum(key.startswith(("/partitions/", broker_records.CONTROLLER_KEY)) for key in keys)
        self.served = [broker.host for broker in cluster.brokers if _serves(broker)]
        self.acknowledged = sum(
            batch.promised and batch.began_s > noticed_s and batch.ended_s > 0 for batch in self.history.sent
        )


def _serves(broker: SimBroker) -> bool:
    node = broker.node
    return node is not None and (node.ready or not node.store_witness.refused)


def story(seed: int) -> FromBackup:
    plan = plan_of(seed, (), ())
    return FromBackup(replace(plan, producers=(PRODUCER, PRODUCER)))


@pytest.mark.parametrize("seed", range(3))
def test_nobody_acts_on_a_store_from_a_backup_and_nothing_is_lost(seed: int) -> None:
    told = story(seed)
    result = told.run()
    assert result.passed, f"{result.violated}: {result.explanation}"
    assert (told.acted, told.served, told.acknowledged) == (0, [], 0)


def _believed(right: Callable[..., Any]) -> Callable[..., Any]:
    def went_back(self: StoreWitness, reason: str) -> None:
        """It is taken for a hiccup."""

    return went_back


@pytest.mark.pure
def test_brokers_that_believe_the_old_store_are_found() -> None:
    told = story(0)
    with planted("data_plane.node.membership.trusted_store:StoreWitness.went_back", _believed):
        result = told.run()
    assert result.violated or told.served
