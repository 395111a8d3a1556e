"""Wrong decisions about what is committed and who is in sync."""

from collections.abc import Callable
from typing import Any

from data_plane.metadata.model import PartitionRecord
from data_plane.replication.leader import LeaderState
from penstock.contract.ids import BrokerId
from tests.properties.replication import test_leader_model, test_partition_model
from tests.simulation import plans
from tests.simulation.bug import PlantedBug
from tests.simulation.finders import Model, Seeds

_IN_SYNC = "data_plane.replication.in_sync"
_LEADER = "data_plane.replication.leader:LeaderState"
_ONE_EPOCH = test_leader_model.run
_MANY_EPOCHS = test_partition_model.run


def _below_minimum(right: Any) -> Callable[..., int]:
    def committed_offset(*, high_watermark: int, in_sync_count: int, min_insync: int, ends: list[int]) -> int:
        return max(high_watermark, min(ends))

    return committed_offset


def _fastest(right: Any) -> Callable[..., int]:
    def committed_offset(*, high_watermark: int, in_sync_count: int, min_insync: int, ends: list[int]) -> int:
        return high_watermark if in_sync_count < min_insync else max(high_watermark, *ends)

    return committed_offset


def _only_committed(right: Any) -> Callable[..., tuple[BrokerId, ...]]:
    return lambda committed, proposed: committed


def _own_written_end(right: Any) -> property:
    return property(lambda leader: leader.log_end)


def _written(right: Any) -> Callable[..., int]:
    return lambda *, strict, written_end, durable_end: written_end


def _always(right: Any) -> Callable[..., bool]:
    return lambda **_: True


def _whatever_it_holds(right: Any) -> Callable[..., bool]:
    def may_join(*, following: bool, active: bool, seen_epoch: int, registered_epoch: int, **_: int) -> bool:
        return following and active and seen_epoch == registered_epoch

    return may_join


def _forgotten(right: Any) -> Callable[..., None]:
    def proposal_unknown(leader: LeaderState) -> None:
        leader._pending, leader._unresolved = None, False

    return proposal_unknown


def _eligible_for_ever(right: Any) -> Callable[..., object]:
    def eligible_after(
        record: PartitionRecord, in_sync: tuple[BrokerId, ...], min_insync: int
    ) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
        left = (
            b for b in record.replicas if (b in record.in_sync or b in record.eligible) and b not in in_sync
        )
        return tuple(left), ()

    return eligible_after


BUGS = (
    PlantedBug(
        name="watermark below min in-sync",
        rule="RL13",
        target=f"{_IN_SYNC}:committed_offset",
        wrong=_below_minimum,
        finders=(
            Model(run=_ONE_EPOCH, first=0, by=("I10",)),
            Seeds(plan=plans.too_few_in_sync, first=1, by=("I10",)),
        ),
    ),
    PlantedBug(
        name="watermark follows the fastest",
        rule="RL13",
        target=f"{_IN_SYNC}:committed_offset",
        wrong=_fastest,
        finders=(Model(run=_ONE_EPOCH, first=0, by=("I10",)),),
    ),
    PlantedBug(
        name="no maximal set",
        rule="RL15",
        target=f"{_IN_SYNC}:maximal_in_sync",
        wrong=_only_committed,
        finders=(
            Model(run=_ONE_EPOCH, first=310, by=("I10",)),
            Seeds(plan=plans.slow_answers, first=0, by=("I10",)),
        ),
    ),
    PlantedBug(
        name="acknowledged before the leader's sync",
        rule="RL14",
        target=f"{_LEADER}._leader_end",
        wrong=_own_written_end,
        finders=(
            Model(run=_ONE_EPOCH, first=0, by=("I10",)),
            Seeds(plan=plans.leaders_come_and_go, first=0, by=("I10",)),
        ),
    ),
    PlantedBug(
        name="written counts as durable",
        rule="RL14",
        target=f"{_IN_SYNC}:counted_end",
        wrong=_written,
        finders=(Model(run=_ONE_EPOCH, first=0, by=("I10",)),),
    ),
    PlantedBug(
        name="join without reaching the leader-epoch start",
        rule="RL34",
        target=f"{_IN_SYNC}:reached_epoch_start",
        wrong=_always,
        finders=(Model(run=_ONE_EPOCH, first=0, by=("I10",), tries=3_000),),
    ),
    PlantedBug(
        name="previous broker epoch accepted at join",
        rule="RL34",
        target=f"{_IN_SYNC}:same_registration",
        wrong=_always,
        finders=(
            Model(run=_ONE_EPOCH, first=0, by=("I10",), tries=3_000),
            Seeds(plan=plans.restarts, first=2, by=("I10",)),
        ),
    ),
    PlantedBug(
        name="join whatever it holds",
        rule="RL34",
        target=f"{_IN_SYNC}:may_join",
        wrong=_whatever_it_holds,
        finders=(Model(run=_ONE_EPOCH, first=0, by=("I10",)),),
    ),
    PlantedBug(
        name="unknown outcome taken as refused",
        rule="RL36",
        target=f"{_LEADER}.proposal_unknown",
        wrong=_forgotten,
        finders=(Model(run=_ONE_EPOCH, first=0, by=("I10",), tries=3_000),),
    ),
    PlantedBug(
        name="eligible though the watermark moved on",
        rule="RL43",
        target="data_plane.replication.eligibility:eligible_after",
        wrong=_eligible_for_ever,
        finders=(Model(run=_ONE_EPOCH, first=0, by=("I10",)),),
    ),
    PlantedBug(
        name="latest offset told before the epoch start",
        rule="RL21",
        target=f"{_IN_SYNC}:leader_ready",
        wrong=_always,
        finders=(Model(run=_MANY_EPOCHS, first=0, by=("I13",)),),
    ),
)
