"""Bugs in what a log makes durable, and in what it takes for granted after a crash."""

from data_plane.disk.port import DiskFault, SyncStep
from data_plane.log.partition_log import PartitionLog
from data_plane.node.committer import Committer
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.swarm import Plan
from tests.simulation.planting import PlantedBug, Seeds, directed

_LOSES = (Invariant.I1, Invariant.I3, Invariant.I10, Invariant.I11, Invariant.I13)
_append_as_follower = PartitionLog.append_as_follower


def _always_torn(offset: int, durable_end: int) -> bool:
    return True


def _forgetful_follower(
    self: PartitionLog, stamps: memoryview, batches: memoryview, leader_epoch: int
) -> int:
    known = self._derived.producers.copy()
    end = _append_as_follower(self, stamps, batches, leader_epoch)
    self._derived.producers = known
    return end


async def _sync_and_hope(self: Committer, steps: list[SyncStep]) -> None:
    try:
        await self._disk.sync(steps)
    except DiskFault:
        return


def _flips_and_cuts(seed: int) -> Plan:
    """A flipped bit somewhere, then all the power is gone."""
    return directed(
        seed,
        (FaultKind.BIT_FLIP, Step.PRODUCE),
        (FaultKind.ALL_POWER_CUT, Step.PRODUCE),
        (FaultKind.ALL_POWER_CUT, Step.IDLE),
        chaos_s=20.0,
    )


def _failing_syncs(seed: int) -> Plan:
    """A sync fails, then all the power is gone."""
    return directed(
        seed,
        (FaultKind.SYNC_ERROR, Step.PRODUCE),
        (FaultKind.ALL_POWER_CUT, Step.PRODUCE),
        chaos_s=15.0,
    )


def _failovers(seed: int) -> Plan:
    return directed(seed, (FaultKind.KILL, Step.PRODUCE), (FaultKind.PAUSE, Step.PRODUCE))


BUGS = (
    PlantedBug(
        name="damage below the durable mark cut as a torn tail",
        rule="RL122",
        target="data_plane.log.recovery:is_torn",
        replacement=_always_torn,
        breaks=_LOSES,
        finder=Seeds(plan=_flips_and_cuts, count=40),
    ),
    PlantedBug(
        name="a failed sync is taken for a good one",
        rule="RL126",
        target="data_plane.node.committer:Committer._sync",
        replacement=_sync_and_hope,
        breaks=_LOSES,
        finder=Seeds(plan=_failing_syncs, count=30),
    ),
    PlantedBug(
        name="duplicate table not kept by followers",
        rule="RL65",
        target="data_plane.log.partition_log:PartitionLog.append_as_follower",
        replacement=_forgetful_follower,
        breaks=(Invariant.I4,),
        finder=Seeds(plan=_failovers),
    ),
)
