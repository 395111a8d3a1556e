"""Disks that lie, hang, come back empty or belong to another broker: each alone, with nothing but it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from data_plane.disk.port import Disk
from data_plane.metadata.model import PartitionRecord
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory import directory
from data_plane.node.log_directory.directory import Directory
from data_plane.node.ports import Rng
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.nemesis import Nemesis
from data_plane.testkit.scenario import IN_SYNC_S_MAX, Scenario
from data_plane.testkit.swarm import Plan
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import TopicPartition
from tests.simulation.bug import planted
from tests.simulation.plans import plan_of

pytestmark = pytest.mark.slow


def one_fault(fault: FaultKind, seed: int) -> Plan:
    """Again and again, with time between for the replicas to come in sync."""
    return replace(plan_of(seed, (fault,), (Step.PRODUCE, Step.IDLE)), fault_gap_s=1.0, chaos_s=10.0)


class LiarBesideOneThatIsCutOff(Scenario):
    """One broker is parted from the others and leaves the in-sync set, then another one loses what its disk had lied
    about. What is alone in sync then stays until the liar is whole again, or (`third_leaves`) leaves before.
    """

    third_leaves = False
    was_eligible = False

    async def _chaos(self, nemesis: Nemesis) -> None:
        cluster, watcher = self.cluster, self.watcher
        assert cluster is not None and watcher is not None
        liar, parted, third = cluster.brokers

        async def until(what: str, holds: Callable[[PartitionRecord], bool]) -> None:
            await self._require(
                IN_SYNC_S_MAX, lambda: all(map(holds, watcher.records.values())), Invariant.I20, lambda: what
            )

        cluster.isolate(parted)
        await until("two in sync", lambda record: {*record.in_sync} == {liar.broker_id, third.broker_id})
        liar.faults.lying = True
        before = {where: watcher.ledger(where).end for where in watcher.records}
        await until("records meanwhile", lambda record: _grown(watcher, before))
        nemesis.promise.note_lost(liar, list(watcher.records))
        cluster.power_cut(liar)
        liar.faults.lying = False
        await until("one in sync", lambda record: record.in_sync == (third.broker_id,))
        self.was_eligible = all(liar.broker_id in record.eligible for record in watcher.records.values())
        if self.third_leaves:
            cluster.kill(third)
        cluster.start(liar)
        await until("the liar in sync", lambda record: liar.broker_id in record.in_sync)


class AllLeaveBesideTheLiar(LiarBesideOneThatIsCutOff):
    """Beyond what is promised: nothing that is left shows the liar's loss, and it is elected."""

    third_leaves = True


def _grown(watcher: Watcher, before: Mapping[TopicPartition, int]) -> bool:
    return all(watcher.ledger(where).end > end + 20 for where, end in before.items())


@pytest.mark.parametrize("seed", [1, 2])
def test_a_liar_beside_one_that_is_cut_off_loses_nothing_while_the_third_stays(seed: int) -> None:
    story = LiarBesideOneThatIsCutOff(plan_of(seed, (), ()))
    result = story.run()
    assert result.passed, f"{result.violated}: {result.explanation}"
    assert story.was_eligible


def test_a_liar_that_is_elected_because_all_others_left_loses_what_it_hid() -> None:
    story = AllLeaveBesideTheLiar(plan_of(10, (), ()))  # a seed under which the cut takes what the disk hid
    result = story.run()
    assert story.was_eligible
    assert result.violated == "I10", f"{result.violated}: {result.explanation}"


@pytest.mark.parametrize(
    "fault",
    [
        FaultKind.LYING_SYNC,
        FaultKind.STUCK_READ,
        FaultKind.SLOW_LINK,
        FaultKind.EMPTIED_DIRECTORY,
        FaultKind.SWAPPED_DIRECTORY,
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_outlives_a_bad_disk_or_link(fault: FaultKind, seed: int) -> None:
    result = Scenario(one_fault(fault, seed)).run()
    assert result.passed, f"{result.violated}: {result.explanation}"
    assert sum(result.reached.values()) > 1
    if fault is FaultKind.SWAPPED_DIRECTORY:
        assert result.counts["wrong directories refused"] > 0
    if fault is FaultKind.LYING_SYNC:
        assert result.counts["lies met by a power cut"] > 0


def _whosever_it_is(right: Callable[[Disk, NodeConfig, Rng], Directory]) -> Any:
    def opened(disk: Disk, config: NodeConfig, rng: Rng) -> Directory:
        identity = directory._read_identity(disk)
        whose = config.broker_id if identity is None else identity["broker_id"]
        return right(disk, replace(config, broker_id=whose), rng)

    return opened


@pytest.mark.pure
def test_a_broker_that_takes_anothers_log_directory_is_found() -> None:
    with planted("data_plane.node.log_directory.directory:open_directory", _whosever_it_is):
        result = Scenario(one_fault(FaultKind.SWAPPED_DIRECTORY, 1)).run()
    assert result.violated in ("I10", "I11", "I19"), f"{result.violated}: {result.explanation}"
