"""Bugs in how a follower's log is made equal to its leader's."""

from typing import Any

from data_plane.replication.follower import FollowerState, Phase
from data_plane.replication.leader import Diverging, EpochLookup, Position
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.swarm import Plan
from tests.simulation.planting import PlantedBug, Seeds, directed

_LOSES = (Invariant.I1, Invariant.I3, Invariant.I10, Invariant.I11)


def _cut_at_watermark(
    self: FollowerState, *, epoch: int, end_offset: int, epoch_lookup: EpochLookup, log_end: int
) -> int:
    self.phase = Phase.IDLE
    return self.high_watermark


def _never_diverging(position: Position, *, epoch_lookup: EpochLookup, log_end: int) -> Diverging | None:
    return None


def _parted_leaders(seed: int, **changes: Any) -> Plan:
    """Leaders that fall with a tail nobody else has, one after the other."""
    return directed(
        seed,
        (FaultKind.KILL, Step.PRODUCE),
        (FaultKind.CUT, Step.PRODUCE),
        (FaultKind.KILL, Step.TRUNCATION),
        acks=(-1, 1, 1),
        chaos_s=20.0,
        **changes,
    )


BUGS = (
    PlantedBug(
        name="truncate to the watermark",
        rule="RL24",
        target="data_plane.replication.follower:FollowerState.diverging",
        replacement=_cut_at_watermark,
        breaks=_LOSES,
        finder=Seeds(plan=_parted_leaders, count=30),
    ),
    PlantedBug(
        name="a leader never finds a log diverging",
        rule="RL25",
        target="data_plane.replication.leader:divergence",
        replacement=_never_diverging,
        breaks=_LOSES,
        finder=Seeds(plan=_parted_leaders),
    ),
)
