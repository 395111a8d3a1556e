"""Bugs in what a consumer gets to see."""

from typing import Any

from data_plane.log.outcomes import ColdRead, Slice
from data_plane.node.consume import ConsumeStream
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.swarm import Plan
from tests.simulation.planting import PlantedBug, Seeds, directed


async def _reads_to_the_end(self: ConsumeStream, opened: Any, max_bytes: int) -> Slice | None:
    log = opened.replica.log
    if opened.offset >= log.log_end_offset:
        return None
    found = log.read(opened.offset, log.log_end_offset, max_bytes)
    if isinstance(found, ColdRead):
        data = await self._disk.read(found.file, found.position, found.length)
        found = log.slice_of(found, data)
    return found


def _ready_at_once(*, high_watermark: int, leader_epoch_start_offset: int) -> bool:
    return True


def _failovers(seed: int) -> Plan:
    return directed(
        seed,
        (FaultKind.CUT, Step.PRODUCE),
        (FaultKind.KILL, Step.PRODUCE),
        acks=(-1, 1),
        chaos_s=15.0,
        consumers=2,
    )


BUGS = (
    PlantedBug(
        name="consumers read above the watermark",
        rule="RL20",
        target="data_plane.node.consume:ConsumeStream._read",
        replacement=_reads_to_the_end,
        breaks=(Invariant.I1, Invariant.I2, Invariant.I3, Invariant.I13),
        finder=Seeds(plan=_failovers, count=30),
    ),
    PlantedBug(
        name="a new leader tells a stale end",
        rule="RL21",
        target="data_plane.replication.in_sync:leader_ready",
        replacement=_ready_at_once,
        breaks=(Invariant.I13,),
        finder=Seeds(plan=_failovers, count=30),
    ),
)
