"""Retention by size and time, and clocks that jump (RL107)."""

import pytest

from data_plane.log.retention import GUARD_MS, ClockGuard, Closed, retention_end
from data_plane.testkit.disk import SimDisk
from penstock.contract.topic_settings import RetentionBasis, TopicSettings
from tests.unit.log.batches import NOW_MS, made_batch
from tests.unit.log.miniature import Miniature, reopened

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS


def settings(**values: object) -> TopicSettings:
    base: dict[str, object] = {"replication": 1, "min_insync_replicas": 1, "segment_bytes": 4096}
    return TopicSettings(**(base | values))  # type: ignore[arg-type]


def closed(*accepted_ms: int, age_ms: float = DAY_MS, timestamp: int = -1) -> list[Closed]:
    """Segments of 100 offsets and 1,000 bytes."""
    return [Closed(100 * (at + 1), 1_000, when, timestamp, age_ms) for at, when in enumerate(accepted_ms)]


def test_segments_go_while_enough_bytes_stay_without_them() -> None:
    rule = settings(retention_bytes=2_500, retention_ms=-1)
    assert retention_end(closed(1, 1, 1, 1), 4_500, rule, 5) == 200
    assert retention_end(closed(1, 1, 1, 1), 4_499, rule, 5) == 100
    assert retention_end(closed(1, 1), 3_400, rule, 5) is None


def test_segments_go_when_their_newest_batch_is_too_old() -> None:
    rule = settings(retention_ms=2 * HOUR_MS)
    now = NOW_MS
    ages = closed(now - 3 * HOUR_MS, now - 2 * HOUR_MS - 1, now - 2 * HOUR_MS)
    assert retention_end(ages, 3_000, rule, now) == 200


def test_an_old_segment_behind_a_young_one_stays() -> None:
    rule = settings(retention_ms=2 * HOUR_MS)
    assert retention_end(closed(NOW_MS, NOW_MS - DAY_MS), 2_000, rule, NOW_MS) is None


def test_retention_goes_no_further_than_what_is_committed_where_totals_are_not_known() -> None:
    """Elsewhere seals, which are made of what is committed, hold it up."""
    miniature = Miniature(settings=settings(retention_bytes=1))
    miniature.create()
    miniature.start_over(100)
    assert miniature.log.odometer is None
    for _ in range(30):
        miniature.append(batch=made_batch(2, 400))
        miniature.commit(raise_watermark=False)
    first, second, *_ = (segment.end_offset for segment in miniature.log._segments.all)
    miniature.log.set_high_watermark(second - 2)
    assert miniature.log.retention_end(miniature.now_ms, 0.0) == first


def test_unlimited_retention_keeps_everything() -> None:
    rule = settings(retention_ms=-1)
    assert retention_end(closed(1, 1), 1 << 40, rule, NOW_MS) is None


def test_time_removes_nothing_that_was_closed_or_seen_less_than_an_hour_ago() -> None:
    rule = settings(retention_ms=2 * HOUR_MS)
    assert retention_end(closed(0, age_ms=GUARD_MS - 1), 1_000, rule, NOW_MS) is None
    assert retention_end(closed(0, age_ms=GUARD_MS), 1_000, rule, NOW_MS) == 100


def test_event_time_counts_when_the_topic_says_so() -> None:
    rule = settings(retention_ms=2 * HOUR_MS, retention_basis=RetentionBasis.EVENT)
    assert retention_end(closed(NOW_MS, timestamp=NOW_MS - DAY_MS), 1_000, rule, NOW_MS) == 100
    assert retention_end(closed(NOW_MS - DAY_MS, timestamp=NOW_MS), 1_000, rule, NOW_MS) is None
    assert retention_end(closed(NOW_MS - DAY_MS, timestamp=-1), 1_000, rule, NOW_MS) == 100


def test_a_clock_that_runs_is_believed() -> None:
    guard = ClockGuard()
    for minute in range(0, 600, 10):
        assert guard.believed_ms(NOW_MS + minute * 60_000, minute * 60_000.0) == NOW_MS + minute * 60_000


def test_a_jump_forward_is_believed_after_an_hour() -> None:
    guard = ClockGuard()
    guard.believed_ms(NOW_MS, 0)
    for minute in range(1, 61):
        now = guard.believed_ms(NOW_MS + YEAR_MS + minute * 60_000, minute * 60_000.0)
        assert now == NOW_MS + minute * 60_000
    assert guard.believed_ms(NOW_MS + YEAR_MS + 61 * 60_000, 61 * 60_000.0) == NOW_MS + YEAR_MS + 61 * 60_000


def test_a_jump_that_is_taken_back_is_never_believed() -> None:
    guard = ClockGuard()
    guard.believed_ms(NOW_MS, 0)
    guard.believed_ms(NOW_MS + YEAR_MS, 60_000)
    assert guard.believed_ms(NOW_MS + 120_000, 120_000) == NOW_MS + 120_000
    assert guard.believed_ms(NOW_MS + YEAR_MS + HOUR_MS, HOUR_MS + 120_000) < NOW_MS + DAY_MS


def test_a_jump_back_is_believed_at_once() -> None:
    guard = ClockGuard()
    guard.believed_ms(NOW_MS, 0)
    assert guard.believed_ms(NOW_MS - YEAR_MS, 60_000) == NOW_MS - YEAR_MS


def test_every_jump_has_its_own_hour() -> None:
    guard = ClockGuard()
    guard.believed_ms(NOW_MS, 0)
    for step in range(1, 200):
        monotonic = step * 600_000.0
        assert guard.believed_ms(NOW_MS + step * YEAR_MS, monotonic) == NOW_MS + int(monotonic)


def filled(rule: TopicSettings, batches: int = 60) -> Miniature:
    """One batch of 961 bytes a minute, four a segment."""
    miniature = Miniature(settings=rule)
    miniature.create()
    for _ in range(batches):
        miniature.append(batch=made_batch(2, 900, timestamp_ms=miniature.now_ms))
        miniature.commit()
        miniature.now_ms += 60_000
    return miniature


def test_a_log_over_its_size_loses_its_oldest_segments() -> None:
    miniature = filled(settings(retention_bytes=10_000, retention_ms=-1))
    end = miniature.log.retention_end(miniature.now_ms, 0)
    miniature.move_log_start(end)
    assert 10_000 <= miniature.log.size_bytes < 10_000 + 4096
    assert miniature.log.retention_end(miniature.now_ms, 0) == end


def test_a_log_that_is_too_old_loses_all_but_its_active_segment() -> None:
    miniature = filled(settings(retention_ms=HOUR_MS))
    log = miniature.log
    assert log.retention_end(miniature.now_ms + DAY_MS, 0) == 0
    assert log.retention_end(miniature.now_ms + DAY_MS + HOUR_MS, HOUR_MS) == log._segments.active.base_offset  # type: ignore[union-attr]


def test_a_clock_jump_of_a_year_deletes_nothing_within_the_hour() -> None:
    miniature = filled(settings(retention_ms=12 * HOUR_MS))
    log = miniature.log
    begun = miniature.now_ms
    for minute in range(300):
        log.retention_end(begun + minute * 60_000, minute * 60_000.0)
    for minute in range(300, 360):
        assert log.retention_end(begun + YEAR_MS + minute * 60_000, minute * 60_000.0) == 0
    assert log.retention_end(begun + YEAR_MS + 361 * 60_000, 361 * 60_000.0) > 0


def test_nothing_above_the_high_watermark_goes() -> None:
    miniature = Miniature(settings=settings(retention_bytes=1, retention_ms=-1))
    miniature.create()
    for _ in range(20):
        miniature.append(batch=made_batch(2, 900))
    miniature.commit(raise_watermark=False)
    assert miniature.log.retention_end(NOW_MS, 0) == 0
    miniature.log.set_high_watermark(9)
    assert miniature.log.retention_end(NOW_MS, 0) == 0
    miniature.log.set_high_watermark(10)
    assert miniature.log.retention_end(NOW_MS, 0) == 8


def test_nothing_goes_before_its_seal_is_made() -> None:
    miniature = Miniature(settings=settings(retention_bytes=1, retention_ms=-1))
    miniature.create()
    for _ in range(20):
        miniature.append(batch=made_batch(2, 900))
    miniature.commit()
    miniature.log._seals.truncate(8)
    assert miniature.log.retention_end(NOW_MS, 0) == 8


def test_a_replica_without_totals_is_not_kept_from_deleting() -> None:
    miniature = Miniature(settings=settings(retention_bytes=1, retention_ms=-1))
    miniature.create()
    miniature.start_over(100)
    miniature.fill(20, body_bytes=900)
    assert miniature.log.retention_end(NOW_MS, 0) > 100


@pytest.mark.parametrize("restarts", [1, 3])
def test_deleting_goes_on_after_restarts(restarts: int) -> None:
    rule = settings(retention_bytes=10_000, retention_ms=-1)
    miniature = filled(rule)
    for _ in range(restarts):
        assert isinstance(miniature.disk, SimDisk)
        miniature = reopened(miniature.disk, settings=rule)
        miniature.log.set_high_watermark(miniature.log.log_end_offset)
        miniature.move_log_start(miniature.log.retention_end(miniature.now_ms, 0))
        miniature.fill(10, body_bytes=900)
        miniature.checkpoint()
    assert miniature.log.size_bytes < 10_000 + 4096 + 10 * 961
