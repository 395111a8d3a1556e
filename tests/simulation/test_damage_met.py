"""Damage that a log meets by itself is acted upon at once: the replica gives itself up, fetches its copy anew and is in
sync again, though the scrubber of its broker reads back something else for ever.
"""

from dataclasses import replace

from data_plane.log.layout import STAMPS_SUFFIX
from data_plane.log.sidecar import stamp_at
from data_plane.node.replicas.replica import Replica
from data_plane.testkit.cluster import SimBroker
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.scenario import BOOT_S_MAX, Scenario
from data_plane.testkit.swarm import Plan
from penstock.contract.errors import CorruptLog
from penstock.contract.ids import TopicPartition
from tests.simulation.plans import TIMINGS, plan_of

_WRITING_S_MAX = 30.0
_NOTICED_S_MAX = 3.0
_REPAIRED_S_MAX = 10.0
_FOR_EVER_MS = 1e9


class MetByItself(Scenario):
    """One replica meets a bad stamp while it looks for a time, as metering does."""

    async def _story(self) -> None:
        cluster = await self._booted(watched=False)
        self._start_workload(cluster)
        where = TopicPartition(cluster.topic_ids["orders"], 0)
        await self._require(BOOT_S_MAX, lambda: self._follower(where) is not None, Invariant.I20, str)
        found = self._follower(where)
        assert found is not None
        broker, replica = found
        assert broker.disk is not None
        broker.disk.timing = replace(broker.disk.timing, read_ms=_FOR_EVER_MS)
        await self._require(
            _WRITING_S_MAX,
            lambda: len(replica.log.scrub.closed(replica.log.high_watermark)) >= 2,
            Invariant.I20,
            lambda: "no segment was closed",
        )
        self._meet(broker, replica)
        await self._require(
            _NOTICED_S_MAX, lambda: replica.repairs == 1, Invariant.I20, lambda: "it did not give itself up"
        )
        await self._require(
            _REPAIRED_S_MAX,
            lambda: self._in_sync(where, broker) and not replica.log.damage,
            Invariant.I20,
            lambda: f"not whole again: {replica.health} {replica.log.damage}",
        )

    def _follower(self, where: TopicPartition) -> tuple[SimBroker, Replica] | None:
        """A broker that follows, with its replica; None before anybody does."""
        assert self.cluster is not None
        for broker in self.cluster.brokers:
            replica = None if broker.node is None else broker.node.replicas.by_partition.get(where)
            if replica is not None and replica.following is not None:
                return broker, replica
        return None

    def _meet(self, broker: SimBroker, replica: Replica) -> None:
        closed = replica.log.scrub.closed(replica.log.high_watermark)[0]
        broker.medium.flip(closed.path(STAMPS_SUFFIX), stamp_at(closed.stamp_count // 2) + 1, 1)
        replica.log.usage.end_before(0)
        try:
            for accepted_ms in range(closed.first_accepted_ms + 1, closed.last_accepted_ms + 1):
                replica.log.usage.end_before(accepted_ms)
        except CorruptLog:
            return
        raise AssertionError("nothing was met")

    def _in_sync(self, where: TopicPartition, broker: SimBroker) -> bool:
        assert self.cluster is not None
        for other in self.cluster.brokers:
            if other is not broker and other.node is not None:
                record = other.node.view.image.partition(where)
                return record is not None and broker.broker_id in record.in_sync
        return False


def plan_met(seed: int) -> Plan:
    """No faults but the one of the story, and all closed segments due to be read back."""
    return replace(
        plan_of(seed, (), ()), timings=replace(TIMINGS, scrub_delay_ms=100, scrub_compare_ms=60_000)
    )


def test_what_a_log_meets_by_itself_does_not_wait_for_the_scrubber() -> None:
    result = MetByItself(plan_met(0)).run()
    assert result.passed, f"{result.violated}: {result.explanation}"
