"""Wrong decisions about what is committed and who is in sync."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from data_plane.metadata.model import PartitionRecord
from data_plane.replication.in_sync_change import Proposal, Settled
from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import OpenAnswer
from data_plane.replication.progress import FollowerProgress
from penstock.contract.ids import BrokerId
from tests.properties.replication import test_leader_model, test_partition_model
from tests.simulation import plans
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import Model, Seeds
from tests.simulation.planted_bugs.replacements import answers_property, nothing
from tests.unit.node.replicas import test_follower_stream
from tests.unit.replication import test_in_sync_set, test_watermark

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


def _whichever_comes_last(right: Any) -> Callable[..., bool]:
    def opens(follower: FollowerProgress, broker_epoch: int, handle: int) -> bool:
        follower.broker_epoch, follower.handle, follower.following = broker_epoch, handle, False
        return True

    return opens


def _with_any_record(right: Any) -> Callable[..., OpenAnswer]:
    def follower_opened(leader: LeaderState, *position: Any, **terms: Any) -> OpenAnswer:
        answer: OpenAnswer = right(
            leader, *position, **terms | {"partition_epoch": leader.record.partition_epoch}
        )
        return answer

    return follower_opened


def _whatever_it_holds(right: Any) -> Callable[..., bool]:
    def may_join(*, following: bool, active: bool, seen_epoch: int, registered_epoch: int, **_: int) -> bool:
        return following and active and seen_epoch == registered_epoch

    return may_join


def _forgotten(right: Any) -> Callable[..., None]:
    def proposal_unknown(leader: LeaderState) -> None:
        leader._change = Settled()

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


def _the_leader_alone(right: Any) -> Callable[..., object]:
    """The proposal compares no follower's registration."""

    def propose(leader: LeaderState, now_ms: float, brokers: Any) -> Proposal | None:
        proposal: Proposal | None = right(leader, now_ms, brokers)
        if proposal is None:
            return None
        mine = tuple(member for member in proposal.members if member[0] == leader.me)
        return replace(proposal, members=mine)

    return propose


def _by_count(right: Any) -> Callable[..., bool]:
    def lags_too_long(*, end: int, leader_end: int, **_: object) -> bool:
        return leader_end - end > 4

    return lags_too_long


def _as_long_as_it_leads(right: Any) -> Callable[..., None]:
    """Its own later epoch does not end this one."""

    def decide(leader: LeaderState, record: PartitionRecord, **terms: Any) -> None:
        mine = record.leader == leader.me
        right(leader, replace(record, leader_epoch=leader.leader_epoch) if mine else record, **terms)

    return decide


def _as_they_were(right: Any) -> Callable[..., object]:
    return lambda followers, before, after, **named: followers


BUGS = (
    PlantedBug(
        name="watermark below min in-sync",
        rule="RL13",
        target=f"{_IN_SYNC}:committed_offset",
        wrong=_below_minimum,
        finders=(
            Model(run=_ONE_EPOCH, first=0, by=("I10",)),
            Seeds(plan=plans.too_few_in_sync, first=1, by=("I10", "I12")),
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
            Seeds(plan=plans.slow_answers, first=0, by=("I10", "I12")),
        ),
    ),
    PlantedBug(
        name="acknowledged before the leader's sync",
        rule="RL14",
        target=f"{_LEADER}._leader_end",
        wrong=_own_written_end,
        finders=(
            Model(run=_ONE_EPOCH, first=0, by=("I10",)),
            Seeds(plan=plans.leaders_come_and_go, first=0, by=("I10", "I12")),
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
            Seeds(plan=plans.restarts, first=2, by=("I10", "I12")),
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
        name="an open that arrives after a newer one counts",
        rule="RL29",
        target="data_plane.replication.progress:FollowerProgress.opens",
        wrong=_whichever_comes_last,
        finders=(
            Check(
                test=test_follower_stream.test_an_open_that_comes_late_on_an_old_stream_leaves_the_newer_stream_as_it_is
            ),
        ),
    ),
    PlantedBug(
        name="what a replica said before it gave itself up counts",
        rule="RL34",
        target=f"{_LEADER}._outdate_followers",
        wrong=nothing,
        finders=(Model(run=_ONE_EPOCH, first=0, by=("I10",)),),
    ),
    PlantedBug(
        name="an open from before a replica gave itself up counts",
        rule="RL34",
        target=f"{_LEADER}.follower_opened",
        wrong=_with_any_record,
        finders=(
            Check(
                test=test_in_sync_set.test_what_a_replica_out_of_sync_said_before_another_writer_changed_the_record_counts_no_more
            ),
        ),
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
        name="latest offset reported before the epoch start",
        rule="RL21",
        target=f"{_IN_SYNC}:leader_ready",
        wrong=_always,
        finders=(Model(run=_MANY_EPOCHS, first=0, by=("I13",)),),
    ),
    PlantedBug(
        name="acks=all taken with too few in sync",
        rule="RL16",
        target=f"{_LEADER}.enough_in_sync",
        wrong=answers_property(True),
        finders=(Check(test=test_watermark.test_watermark_stands_still_below_min_in_sync),),
    ),
    PlantedBug(
        name="a proposal compares the leader alone",
        rule="RL35",
        target=f"{_LEADER}.propose",
        wrong=_the_leader_alone,
        finders=(
            Check(test=test_in_sync_set.test_a_follower_that_caught_up_is_proposed),
            Model(run=_ONE_EPOCH, first=0, by=("I10",), tries=3_000),
        ),
    ),
    PlantedBug(
        name="a follower leaves by count",
        rule="RL37",
        target=f"{_IN_SYNC}:lags_too_long",
        wrong=_by_count,
        finders=(Check(test=test_in_sync_set.test_a_follower_far_behind_but_recently_even_stays),),
    ),
    PlantedBug(
        name="an epoch goes on in the next one",
        rule="RL38",
        target=f"{_LEADER}._resolve_change",
        wrong=_as_long_as_it_leads,
        finders=(Check(test=test_watermark.test_my_own_reelection_deposes_the_earlier_epoch_too),),
    ),
    PlantedBug(
        name="a new replica counts as before",
        rule="RL39",
        target="data_plane.replication.progress:adopted",
        wrong=_as_they_were,
        finders=(Check(test=test_in_sync_set.test_a_replica_with_a_new_generation_is_a_new_replica),),
    ),
)
