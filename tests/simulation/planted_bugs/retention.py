"""Wrong decisions about what may be deleted, and when."""

from collections.abc import Callable
from typing import Any

from data_plane.log.partition_log import PartitionLog
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.planted_bugs.replacements import told
from tests.unit.log import test_bounds, test_retention
from tests.unit.replication import test_in_sync_set


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
        wrong=told(guard_ms=-1),
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
)
