"""Upkeep of a running cluster: a tenant's produce rate is set and lifted, brokers are stopped cleanly."""

import asyncio
import random
from collections import Counter

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.testkit.activities import Activity, wait_unless
from data_plane.testkit.clean_stop import check_clean_stop
from data_plane.testkit.cluster import TENANT, SimBroker, SimCluster
from data_plane.testkit.invariants import InvariantViolated
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import TopicPartition

_RATES = (2_000, 10_000, 40_000)


class Throttler:
    """Gives the tenant a produce rate for a moment, again and again; none in the end."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._rng = random.Random(f"{cluster.plan.seed}/throttler")
        self._generation = 0
        """Rises with each rate, so that a call that travelled for long changes nothing any more."""
        self.reached: Counter[Activity] = Counter()
        self.over = asyncio.Event()

    async def run(self) -> None:
        while not self.over.is_set():
            await wait_unless(self.over, self._rng.uniform(0.5, 4.0))
            before = self._throttled()
            await self._set_rate(self._rng.choice(_RATES))
            await wait_unless(self.over, self._rng.uniform(1.0, 4.0))
            self.reached[Activity.THROTTLED] += max(0, self._throttled() - before)
            await self._set_rate(0)

    async def _set_rate(self, bytes_per_s: int) -> None:
        self._generation += 1
        quotas = pb.TenantQuotas(produce_bytes_per_s=bytes_per_s)
        request = pb.PutTenantRequest(tenant=TENANT, generation=self._generation, quotas=quotas)
        self._cluster.timeline.note("operator", "produce rate", f"{bytes_per_s} bytes a second")
        await self._cluster.admin_call(methods.PUT_TENANT, request.SerializeToString())

    def _throttled(self) -> int:
        """Batches held or refused for the rate, by the brokers that run."""
        nodes = [broker.node for broker in self._cluster.brokers if broker.node is not None]
        return sum(node.stats.throttled_batches + node.stats.throttle_refusals for node in nodes)


class Stopper:
    """Stops one broker cleanly after the other, whatever else befalls them meanwhile."""

    def __init__(self, cluster: SimCluster, watcher: Watcher) -> None:
        self._cluster = cluster
        self._watcher = watcher
        self._rng = random.Random(f"{cluster.plan.seed}/stopper")
        self.reached: Counter[Activity] = Counter()
        self.over = asyncio.Event()
        self._ends: dict[SimBroker, dict[TopicPartition, int]] = {}
        """Where the replicas of each broker ended when it was asked to stop."""
        cluster.stopped_cleanly = self._stopped

    async def run(self) -> None:
        while not self.over.is_set():
            await wait_unless(self.over, self._rng.uniform(0.2, 3.0))
            ready = [broker for broker in self._cluster.brokers if broker.ready]
            if (
                ready
                and not self.over.is_set()
                and not any(broker.draining for broker in self._cluster.brokers)
            ):
                broker = self._rng.choice(ready)
                if broker.node is not None:
                    replicas = broker.node.replicas.by_partition.items()
                    self._ends[broker] = {where: replica.log.log_end_offset for where, replica in replicas}
                self._cluster.drain(broker)

    def _stopped(self, broker: SimBroker) -> None:
        try:
            self.reached[Activity.STOPPED] += check_clean_stop(broker, self._watcher, self._ends[broker])
        except InvariantViolated as violation:
            self._cluster.loop.stop_with(violation)
