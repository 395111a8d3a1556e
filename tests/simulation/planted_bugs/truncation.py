"""Wrong decisions about where logs part and where they are truncated."""

from collections.abc import Callable
from functools import partial
from typing import Any

from data_plane.log.epochs import LeaderEpochs
from data_plane.node.replicas.follower_stream import FollowerStream
from data_plane.replication.follower import FollowerState, Phase
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameKind
from tests.properties.replication import test_partition_model
from tests.simulation import plans
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import CrashStates, Model, Seeds
from tests.simulation.planted_bugs.replacements import always, answers, asked_about, nothing
from tests.unit.log import test_appending, test_crash_states, test_epochs
from tests.unit.log.miniature import SMALL
from tests.unit.node.replicas import test_carrying_out, test_coming_back, test_follower_stream
from tests.unit.replication import test_follower, test_opening

_MANY_EPOCHS = test_partition_model.run


def _at_the_watermark(right: Any) -> Callable[..., int]:
    def diverging(follower: FollowerState, *, high_watermark: int, **_: object) -> int:
        follower.phase = Phase.IDLE
        return high_watermark

    return diverging


def _never(right: Any) -> Callable[..., None]:
    return lambda position, *, epoch_lookup, log_end: None


def _leaders_end_alone(right: Any) -> Callable[..., int]:
    return lambda *, epoch_lookup, log_end, divergence_epoch, divergence_end: min(log_end, divergence_end)


def _at_the_tail(right: Any) -> Callable[..., bool]:
    """The new epoch is noted behind entries that it contradicts."""

    def begin(epochs: LeaderEpochs, epoch: int, start: int) -> bool:
        if epoch in epochs._epochs:
            return False
        epochs._epochs.append(epoch)
        epochs._starts.append(start)
        return True

    return begin


def _at_the_logs_start(right: Any) -> Callable[..., tuple[int, int]]:
    """Below the first entry it answers as if nothing were known."""

    def end_offset_for(epochs: LeaderEpochs, epoch: int, log_start: int, log_end: int) -> tuple[int, int]:
        found: tuple[int, int] = right(epochs, epoch, log_start, log_end)
        return (-1, log_start) if epochs.pairs() and epoch < epochs.pairs()[0][0] else found

    return end_offset_for


def _only_whole_and_later(right: Any) -> Callable[..., object]:
    """Where a push begins is not looked at."""

    def push_objection(*, base_offset: int | None, log_end: int, **named: Any) -> object:
        return right(base_offset=None if base_offset is None else log_end, log_end=log_end, **named)

    return push_objection


def _damaged_whatever_it_is(right: Any) -> Callable[..., None]:
    """That something cannot be read for a follower is damage, even if only the follower is behind the log's start."""

    def _failed(stream: FollowerStream, pushed: Any, failure: PenstockError) -> None:
        stream._refuse(pushed, ErrorCode.CORRUPT_LOG, failure.message)
        pushed.replica.found_damage(failure.message)

    return _failed


def _at_once(right: Any) -> Callable[..., Any]:
    async def at_rest(replica: object) -> None:
        """Nobody waits."""

    return at_rest


BUGS = (
    PlantedBug(
        name="truncate to the watermark",
        rule="RL24",
        target="data_plane.replication.follower:FollowerState.diverging",
        wrong=_at_the_watermark,
        finders=(
            Model(run=_MANY_EPOCHS, first=0, by=("I10",), tries=600),
            Seeds(plan=plans.left_with_a_tail, first=3, by=("I10",)),
        ),
    ),
    PlantedBug(
        name="no divergence seen",
        rule="RL25",
        target="data_plane.replication.opening:divergence",
        wrong=_never,
        finders=(Model(run=_MANY_EPOCHS, first=0, by=("I10", "I11")),),
    ),
    PlantedBug(
        name="own epoch's end ignored when truncating",
        rule="RL26",
        target="data_plane.replication.follower:truncation_point",
        wrong=_leaders_end_alone,
        finders=(Model(run=_MANY_EPOCHS, first=570, by=("I20",)),),
    ),
    PlantedBug(
        name="a new leader does not note its epoch",
        rule="RL27",
        target="data_plane.log.partition_log:PartitionLog.start_epoch",
        wrong=nothing,
        finders=(
            Check(test=test_appending.test_a_leader_notes_its_epoch_before_it_writes_anything),
            Check(test=test_carrying_out.test_a_leader_epoch_is_in_the_log_when_the_role_is_told),
        ),
    ),
    PlantedBug(
        name="epochs in conflict stay",
        rule="RL28",
        target="data_plane.log.epochs:LeaderEpochs.begin",
        wrong=_at_the_tail,
        finders=(Check(test=test_epochs.test_a_conflicting_start_removes_the_tail),),
    ),
    PlantedBug(
        name="epochs outlive what was truncated",
        rule="RL28",
        target="data_plane.log.epochs:LeaderEpochs.truncate_end",
        wrong=answers(False),
        finders=(Check(test=test_epochs.test_truncation_forgets_what_began_at_or_above_the_cut),),
    ),
    PlantedBug(
        name="below the first epoch nothing is known",
        rule="RL28",
        target="data_plane.log.epochs:LeaderEpochs.end_offset_for",
        wrong=_at_the_logs_start,
        finders=(Check(test=test_epochs.test_below_the_first_epoch_the_answer_is_where_it_begins),),
    ),
    PlantedBug(
        name="an answer to an earlier open counts",
        rule="RL29",
        target="data_plane.replication.follower:FollowerState.answers",
        wrong=always,
        finders=(Check(test=test_follower.test_an_answer_counts_only_for_the_open_that_waits),),
    ),
    PlantedBug(
        name="a push for an earlier handle is taken",
        rule="RL29",
        target="data_plane.replication.follower:push_objection",
        wrong=nothing,
        finders=(
            Check(
                test=partial(
                    test_follower.test_a_push_of_another_handle_or_epoch_is_ignored, changes={"handle": 2}
                )
            ),
        ),
    ),
    PlantedBug(
        name="a journaled truncation is not replayed",
        rule="RL30",
        target="data_plane.log.replaying:_truncate_bounds",
        wrong=nothing,
        finders=(
            CrashStates(
                explore=partial(
                    test_crash_states.test_a_truncation_happens_wholly_or_not_at_all,
                    settings=SMALL,
                    rolled=False,
                )
            ),
        ),
    ),
    PlantedBug(
        name="truncation below the own watermark",
        rule="RL31",
        target="data_plane.replication.follower:checked_truncation",
        wrong=lambda right: lambda *, offset, high_watermark: offset,
        finders=(Check(test=test_follower.test_a_truncation_below_the_own_watermark_stops_the_replica),),
    ),
    PlantedBug(
        name="a follower before the log's start is let in",
        rule="RL32",
        target="data_plane.replication.leader:LeaderState.follower_opened",
        wrong=asked_about(stored_from=0),
        finders=(Check(test=test_opening.test_a_follower_before_the_log_start_starts_over_there),),
    ),
    PlantedBug(
        name="a follower starts over within a segment",
        rule="RL32",
        target="data_plane.log.partition_log:PartitionLog.stored_from",
        wrong=lambda right: property(lambda log: log.log_start_offset),
        finders=(
            Check(
                test=test_follower_stream.test_a_follower_whom_the_logs_start_has_passed_starts_over_and_its_leader_takes_no_harm
            ),
        ),
    ),
    PlantedBug(
        name="a follower behind the log's start is taken for damage",
        rule="RL32",
        target="data_plane.node.replicas.follower_stream:FollowerStream._failed",
        wrong=_damaged_whatever_it_is,
        finders=(
            Check(
                test=test_follower_stream.test_a_follower_whom_the_logs_start_has_passed_starts_over_and_its_leader_takes_no_harm
            ),
        ),
    ),
    PlantedBug(
        name="what a busy replica hears is left out",
        rule="RL29",
        target="data_plane.node.replicas.replica:Replica.at_rest",
        wrong=_at_once,
        finders=(
            Check(
                test=partial(
                    test_coming_back.test_an_answer_to_a_busy_replica_counts_when_it_is_at_rest,
                    error=ErrorCode.OK,
                    said=FrameKind.REPLICA_HELD,
                )
            ),
        ),
    ),
    PlantedBug(
        name="a push that begins below the end is taken",
        rule="RL33",
        target="data_plane.replication.follower:push_objection",
        wrong=_only_whole_and_later,
        finders=(
            Check(test=partial(test_follower.test_a_push_that_does_not_fit_is_broken, base=89, changes={})),
        ),
    ),
    PlantedBug(
        name="a follower's watermark passes its log",
        rule="RL20",
        target="data_plane.replication.follower:follower_watermark",
        wrong=lambda right: lambda *, own, leaders, log_end: max(own, leaders),
        finders=(
            Check(
                test=test_follower.test_the_followers_watermark_is_the_leaders_within_its_own_log_and_never_goes_back
            ),
        ),
    ),
)
