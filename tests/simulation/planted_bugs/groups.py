"""Wrong decisions about consumer groups: of their coordinator and of their members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.records import Member
from data_plane.groups.requests import Commit, CommitAnswer, Decision
from penstock.contract.ids import TopicPartition
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.planted_bugs.replacements import nothing
from tests.unit.client.groups import test_member
from tests.unit.groups import test_coordinator

_COORDINATOR = "data_plane.groups.coordinator"


def _without_fence(right: Any) -> Callable[..., Decision[CommitAnswer]]:
    """Whoever commits, commits."""

    def commit(core: Coordinator, request: Commit) -> Decision[CommitAnswer]:
        group = core._groups.get((request.tenant, request.group))
        return Decision(CommitAnswer(), core._offset_records(group, request))

    return commit


def _at_once(right: Any) -> Callable[..., Member]:
    """What the target says is given, whoever holds it."""

    def reconcile(
        member: Member, group_epoch: int, owned: Sequence[TopicPartition], held: Mapping[TopicPartition, str]
    ) -> Member:
        given: Member = right(member, group_epoch, owned, {})
        return given

    return reconcile


def _only_the_last_epoch(right: Any) -> Callable[..., Member]:
    def known(group: Any, request: Any) -> Member:
        member: Member = right(group, request)
        return member if request.epoch == member.epoch else right(group, replace(request, epoch=-9))

    return known


def _as_if_new(right: Any) -> Callable[..., Member]:
    """An older holder of the instance id is as welcome as the newest."""

    def joined(draft: Any, request: Any) -> Member:
        member: Member = right(draft, request)
        forgetful = replace(member, replaced=())
        draft.members[member.member_id] = forgetful
        return forgetful

    return joined


def _accusing(right: Any) -> Callable[..., Any]:
    """It never knows of a pause of its own."""

    def tick(core: Coordinator, topics: Any, now_ms: float) -> Any:
        core._ticked = now_ms
        return right(core, topics, now_ms)

    return tick


BUGS = (
    PlantedBug(
        name="a partition has two owners",
        rule="RL84",
        target="data_plane.groups.group:reconcile",
        wrong=_at_once,
        finders=(
            Check(
                test=test_coordinator.test_a_partition_goes_to_its_new_owner_only_when_the_old_one_no_longer_reports_it
            ),
        ),
    ),
    PlantedBug(
        name="a lost answer fences its member",
        rule="RL86",
        target=f"{_COORDINATOR}:_known",
        wrong=_only_the_last_epoch,
        finders=(Check(test=test_member.test_a_lost_answer_is_asked_for_again_and_nothing_moves),),
    ),
    PlantedBug(
        name="a commit without a fence",
        rule="RL87",
        target=f"{_COORDINATOR}:Coordinator.commit",
        wrong=_without_fence,
        finders=(
            Check(test=test_coordinator.test_a_commit_counts_from_the_epoch_its_partition_was_assigned_in),
        ),
    ),
    PlantedBug(
        name="timers go on after a fail-over",
        rule="RL89",
        target=f"{_COORDINATOR}:Coordinator.loaded",
        wrong=nothing,
        finders=(Check(test=test_coordinator.test_timers_start_in_full_after_a_fail_over),),
    ),
    PlantedBug(
        name="an older holder of an instance id returns",
        rule="RL90",
        target=f"{_COORDINATOR}:_joined",
        wrong=_as_if_new,
        finders=(Check(test=test_member.test_a_static_member_does_not_leave_and_a_newer_holder_ends_it),),
    ),
    PlantedBug(
        name="the coordinator's own pause fences members",
        rule="RL137",
        target=f"{_COORDINATOR}:Coordinator.tick",
        wrong=_accusing,
        finders=(Check(test=test_coordinator.test_a_pause_of_the_coordinators_own_accuses_no_member),),
    ),
    PlantedBug(
        name="what must be given up is handed out",
        rule="RL91",
        target="penstock.client.consuming.consumer:ConsumerCore.hold_partition",
        wrong=nothing,
        finders=(
            Check(
                test=test_member.test_what_must_be_given_up_is_no_longer_handed_out_then_committed_then_released
            ),
        ),
    ),
)
