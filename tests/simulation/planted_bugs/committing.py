"""Bugs in what counts as committed, and in who may be in sync."""

from collections.abc import Sequence
from dataclasses import replace

from data_plane.node.config import Timings
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.network import LinkTiming, NetworkSettings
from data_plane.testkit.store import StoreFaults
from data_plane.testkit.swarm import Plan
from penstock.contract.ids import BrokerId
from penstock.contract.topic_settings import Durability
from tests.simulation.planting import PlantedBug, Seeds, directed

_IN_SYNC = "data_plane.replication.in_sync"
_LOSES = (Invariant.I1, Invariant.I3, Invariant.I10, Invariant.I11, Invariant.I13)


def _committed_with_too_few(
    *, high_watermark: int, in_sync_count: int, min_insync: int, ends: Sequence[int]
) -> int:
    return max(high_watermark, min(ends))


def _only_committed_set(
    committed: tuple[BrokerId, ...], proposed: tuple[BrokerId, ...]
) -> tuple[BrokerId, ...]:
    return committed


def _written_counts(*, strict: bool, written_end: int, durable_end: int) -> int:
    return written_end


def _epoch_start_forgotten(*, end: int, leader_epoch_start_offset: int) -> bool:
    return True


def _any_registration(*, seen_epoch: int, registered_epoch: int) -> bool:
    return True


def _pauses(seed: int) -> Plan:
    return directed(seed, (FaultKind.PAUSE, Step.PRODUCE), (FaultKind.KILL, Step.PRODUCE))


def _changing_sets(seed: int) -> Plan:
    """In-sync sets that change all the time, and leaders that fall while they do."""
    return directed(
        seed,
        (FaultKind.PAUSE, Step.PRODUCE),
        (FaultKind.PAUSE, Step.IN_SYNC_CHANGE),
        (FaultKind.CUT, Step.IN_SYNC_CHANGE),
        (FaultKind.KILL, Step.IN_SYNC_CHANGE),
        chaos_s=20.0,
    )


def _stale_watermarks(seed: int) -> Plan:
    """Leaders that fall while a third replica catches up batch by batch, over a slow network."""
    plan = directed(
        seed,
        (FaultKind.PAUSE, Step.CATCH_UP),
        (FaultKind.KILL, Step.CATCH_UP),
        chaos_s=25.0,
        network=NetworkSettings(timing=LinkTiming(base_ms=8.0, jitter_ms=4.0), cancel_chance=0.0),
        timings=Timings(replica_lag_ms_max=1_000, in_sync_check_ms=100),
        store=StoreFaults(),
    )
    return replace(plan, sizes=replace(plan.sizes, push_bytes_max=256))


def _silent_returns(seed: int) -> Plan:
    """Followers that lose their power and are back, with less, before their old connections are known to be gone."""
    return directed(
        seed,
        (FaultKind.POWER_CUT, Step.IDLE),
        (FaultKind.POWER_CUT, Step.CATCH_UP),
        topic={"durability": Durability.REPLICATED, "flush_ms": 2_000},
        chaos_s=25.0,
        network=NetworkSettings(timing=LinkTiming(base_ms=60.0, jitter_ms=120.0), cancel_chance=0.0),
        timings=Timings(replica_lag_ms_max=1_000, in_sync_check_ms=100),
        store=StoreFaults(),
    )


BUGS = (
    PlantedBug(
        name="watermark below min in-sync",
        rule="RL13",
        target=f"{_IN_SYNC}:committed_offset",
        replacement=_committed_with_too_few,
        breaks=_LOSES,
        finder=Seeds(plan=_pauses),
    ),
    PlantedBug(
        name="no maximal in-sync set",
        rule="RL15",
        target=f"{_IN_SYNC}:maximal_in_sync",
        replacement=_only_committed_set,
        breaks=_LOSES,
        finder=Seeds(plan=_changing_sets, count=30),
    ),
    PlantedBug(
        name="acknowledged before the leader's sync",
        rule="RL14",
        target=f"{_IN_SYNC}:counted_end",
        replacement=_written_counts,
        breaks=_LOSES,
        finder=Seeds(plan=_pauses),
    ),
    PlantedBug(
        name="join without reaching the leader-epoch start",
        rule="RL34",
        target=f"{_IN_SYNC}:reached_epoch_start",
        replacement=_epoch_start_forgotten,
        breaks=_LOSES,
        finder=Seeds(plan=_stale_watermarks, count=30),
    ),
    PlantedBug(
        name="previous broker epoch accepted at join",
        rule="RL34",
        target=f"{_IN_SYNC}:same_registration",
        replacement=_any_registration,
        breaks=_LOSES,
        finder=Seeds(plan=_silent_returns, count=30),
    ),
)
