"""What the white-box checkers let pass of a replica that a fault has struck: the bytes of the fault, and no other."""

import pytest

from data_plane.log.layout import LOG_SUFFIX, STAMPS_SUFFIX
from data_plane.testkit.cluster import SimCluster
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.medium import Inode
from data_plane.testkit.scenario import READ_S_MAX, Scenario
from data_plane.testkit.standing import at_rest
from data_plane.testkit.stored_log import StoredLog
from penstock.contract.ids import TopicPartition
from tests.simulation.plans import plan_of

_VICTIM = 1


class Rested(Scenario):
    """Some messages on three replicas at rest; then `spoil` has its way with one of them, and all are judged."""

    async def _story(self) -> None:
        cluster = await self._booted()
        watcher = self.watcher
        assert watcher is not None
        self._start_workload(cluster)
        where = TopicPartition(cluster.topic_ids["orders"], 0)
        await self._require(READ_S_MAX, lambda: watcher.ledger(where).end > 60, Invariant.I20, str)
        for producer in self._producers:
            producer.stopping = True
        await self._require(READ_S_MAX, lambda: at_rest(cluster, watcher), Invariant.I9, str)
        watcher.check_at_rest()
        watcher.damaged = lambda broker, _: broker.broker_id == _VICTIM
        self.spoil(cluster, where)
        watcher.check_at_rest()

    def spoil(self, cluster: SimCluster, where: TopicPartition) -> None:
        """To be overridden."""


def _file(cluster: SimCluster, suffix: str) -> tuple[str, Inode]:
    """The first segment's file of the victim's replica."""
    return next(found for found in cluster.broker(_VICTIM).medium.files() if found[0].endswith(suffix))


class Flipped(Rested):
    """As the nemesis does."""

    def spoil(self, cluster: SimCluster, where: TopicPartition) -> None:
        for suffix, position in ((LOG_SUFFIX, 70), (STAMPS_SUFFIX, 64 + 3 * 64 + 9)):
            cluster.broker(_VICTIM).medium.flip(_file(cluster, suffix)[0], position, 2)
        harmed = [stored.harmed for stored in StoredLog(cluster.broker(_VICTIM).medium, where).batches(0, 60)]
        assert [at for at, one in enumerate(harmed) if one] == [0, 3]


class WrongBeside(Flipped):
    """And another byte is wrong that no fault has touched, as if the broker had written it so."""

    def spoil(self, cluster: SimCluster, where: TopicPartition) -> None:
        super().spoil(cluster, where)
        inode = _file(cluster, LOG_SUFFIX)[1]
        inode.data[len(inode.data) // 2] ^= 4


@pytest.mark.parametrize(("kind", "violated"), [(Flipped, ""), (WrongBeside, "I11")])
def test_a_fault_excuses_the_bytes_that_it_spoilt_and_no_other(kind: type[Rested], violated: str) -> None:
    result = kind(plan_of(0, (), ())).run()
    assert result.violated == violated, result.explanation
    assert not violated or f"b{_VICTIM} holds" in result.explanation
