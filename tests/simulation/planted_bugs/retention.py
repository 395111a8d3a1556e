"""Wrong decisions about what may be deleted, and when."""

from collections.abc import Callable
from functools import partial
from typing import Any

from data_plane.log.partition_log import PartitionLog
from tests.properties.replication import test_partition_model
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import Model
from tests.simulation.planted_bugs.replacements import answers_property, asked_about
from tests.unit.controller import test_losses
from tests.unit.log import test_bounds, test_retention
from tests.unit.node.replicas import test_log_start as test_replica_log_start
from tests.unit.replication import test_in_sync_set, test_log_start

_LOG_START = "data_plane.replication.log_start"
_DELETING = test_partition_model.run_deleting


def _whatever_is_committed(right: Any) -> Callable[..., int]:
    def retention_end(log: PartitionLog, now_ms: int, monotonic_ms: float, **named: Any) -> int:
        end = log._retention.end(
            log._segments, log.settings, log.log_end_offset, now_ms, monotonic_ms, **named
        )
        return log.log_start_offset if end is None else max(end, log.log_start_offset)

    return retention_end


def _up_to_the_watermark(right: Any) -> Callable[..., int]:
    """Nobody waits for seals."""

    def retention_end(log: PartitionLog, now_ms: int, monotonic_ms: float, **named: Any) -> int:
        end = log._retention.end(
            log._segments, log.settings, log.high_watermark, now_ms, monotonic_ms, **named
        )
        return log.log_start_offset if end is None else max(end, log.log_start_offset)

    return retention_end


def _anywhere(right: Any) -> Callable[..., None]:
    """The watermark is no bound for the log's start."""

    def request_log_start(log: PartitionLog, offset: int) -> None:
        mark, log.high_watermark = log.high_watermark, log.log_end_offset
        try:
            right(log, offset)
        finally:
            log.high_watermark = mark

    return request_log_start


BUGS = (
    PlantedBug(
        name="a wall clock is believed at once",
        rule="RL107",
        target="data_plane.log.retention:ClockGuard.believed_ms",
        wrong=lambda right: lambda guard, now_ms, monotonic_ms: now_ms,
        finders=(Check(test=test_retention.test_a_jump_that_is_taken_back_is_never_believed),),
    ),
    PlantedBug(
        name="time removes what was just closed",
        rule="RL107",
        target="data_plane.log.retention:retention_end",
        wrong=asked_about(guard_ms=-1),
        finders=(
            Check(
                test=test_retention.test_time_removes_nothing_that_was_closed_or_seen_less_than_an_hour_ago
            ),
        ),
    ),
    PlantedBug(
        name="what is not committed is deleted",
        rule="RL107",
        target="data_plane.log.partition_log:PartitionLog.retention_end",
        wrong=_whatever_is_committed,
        finders=(Check(test=test_retention.test_nothing_above_the_high_watermark_goes),),
    ),
    PlantedBug(
        name="a segment goes before its seal is made",
        rule="RL107",
        target="data_plane.log.partition_log:PartitionLog.retention_end",
        wrong=_up_to_the_watermark,
        finders=(Check(test=test_retention.test_nothing_goes_before_its_seal_is_made),),
    ),
    PlantedBug(
        name="the log begins above what is committed",
        rule="RL108",
        target="data_plane.log.partition_log:PartitionLog.request_log_start",
        wrong=_anywhere,
        finders=(Check(test=test_bounds.test_the_log_start_does_not_pass_the_high_watermark),),
    ),
    PlantedBug(
        name="the log begins where an eligible replica's does not",
        rule="RL108",
        target="data_plane.replication.leader:LeaderState.electable",
        wrong=lambda right: property(lambda leader: leader.maximal),
        finders=(
            Check(test=test_in_sync_set.test_whoever_may_lead_next_is_in_sync_or_perhaps_so_or_eligible),
        ),
    ),
    PlantedBug(
        name="a log start is reported before all that may lead next have reached it",
        rule="RL108",
        target=f"{_LOG_START}:reached_by_all",
        wrong=lambda right: lambda wanted, *, recorded, starts: wanted,
        finders=(
            Check(test=test_log_start.test_a_new_leader_tells_no_log_start_that_another_may_not_hold_to),
            Model(run=_DELETING, first=0, by=("I13",)),
        ),
    ),
    PlantedBug(
        name="a replica joins and the record does not say where the log begins",
        rule="RL108",
        target=f"{_LOG_START}:with_log_start",
        wrong=lambda right: lambda record, log_start: record,
        finders=(
            Check(
                test=test_log_start.test_whoever_joins_may_begin_earlier_and_the_record_says_where_it_shall
            ),
            Model(run=_DELETING, first=1_815, by=("I13",)),
        ),
    ),
    PlantedBug(
        name="a new leader's log begins where its own does, whatever the record says",
        rule="RL108",
        target=f"{_LOG_START}:beginning",
        wrong=lambda right: lambda record, log_start: log_start,
        finders=(
            Check(
                test=test_log_start.test_a_new_leader_begins_where_the_record_says_and_tells_nothing_before
            ),
            Model(run=_DELETING, first=180, by=("I20",)),
        ),
    ),
    PlantedBug(
        name="a new leader reports its own log start before it is where the record says",
        rule="RL108",
        target=f"{_LOG_START}:may_be_reported",
        wrong=lambda right: lambda begins, *, agreed, recorded: agreed >= begins,
        finders=(
            Check(
                test=test_log_start.test_a_new_leader_begins_where_the_record_says_and_tells_nothing_before
            ),
            Model(run=_DELETING, first=180, by=("I13",)),
        ),
    ),
    PlantedBug(
        name="a log start that a replica does not confirm is waited for without end",
        rule="RL108",
        target=f"{_LOG_START}:AgreedStart.is_due",
        wrong=lambda right: lambda start, now_ms: False,
        finders=(
            Check(
                test=test_log_start.test_a_log_start_that_somebody_does_not_confirm_goes_into_the_record_after_a_while
            ),
        ),
    ),
    PlantedBug(
        name="a new leader tells a client where its log begins at once",
        rule="RL108",
        target="data_plane.node.replicas.replica:Replica.log_start_known",
        wrong=answers_property(True),
        finders=(
            Check(
                test=test_replica_log_start.test_a_new_leader_tells_no_start_that_an_eligible_replica_does_not_hold_to
            ),
        ),
    ),
    PlantedBug(
        name="a new leader does what the leader before wanted of its log start",
        rule="RL108",
        target="data_plane.node.replicas.replica:Replica.log_start_within",
        wrong=lambda right: lambda replica, asked: min(asked, replica.log.high_watermark),
        finders=(
            Check(
                test=test_replica_log_start.test_what_the_leader_before_wanted_does_not_move_a_leaders_log_start
            ),
        ),
    ),
    PlantedBug(
        name="after a loss the log begins beyond what is left",
        rule="RL108",
        target="data_plane.controller.losses:start_after_loss",
        wrong=lambda right: lambda record, end_offset: record.log_start,
        finders=(
            Check(
                test=partial(
                    test_losses.test_after_a_loss_the_log_begins_no_earlier_than_told_and_no_later_than_what_is_left_ends,
                    100,
                    80,
                )
            ),
        ),
    ),
)
