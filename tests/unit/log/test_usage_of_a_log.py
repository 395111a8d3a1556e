"""Metering of a log: totals at its end, minutes that are over, and seals above an offset."""

from dataclasses import replace

from data_plane.log.minute_marks import MARKS_MAX, MinuteMarks
from penstock.records.usage import MINUTE_MS, OdometerMark
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import Miniature


def measured(minutes: int = 4, batches_a_minute: int = 2) -> Miniature:
    """Batches of two messages, some in each of the minutes; all but the last one are committed."""
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for _ in range(minutes):
        for _ in range(batches_a_minute):
            miniature.append(batch=made_batch(2, 400))
            miniature.commit()
        miniature.now_ms += MINUTE_MS
    return miniature


def test_the_mark_of_a_log_is_of_all_that_is_written() -> None:
    empty = Miniature()
    empty.create()
    assert empty.log.usage.last_accepted_ms == -1 and empty.log.usage.known
    miniature = measured()
    usage = miniature.log.usage
    mark = usage.mark()
    assert mark is not None and mark.end_offset == miniature.log.log_end_offset == 16
    assert usage.last_accepted_ms == miniature.now_ms - MINUTE_MS


def test_a_minute_is_due_once_a_batch_of_a_later_one_is_committed_and_until_it_was_read() -> None:
    miniature = measured()
    log, usage = miniature.log, miniature.log.usage

    def due(above: int, high_watermark: int) -> list[int]:
        return [mark.end_offset for mark in usage.minute_marks(above, high_watermark)]

    assert log.high_watermark == 14
    assert due(0, log.high_watermark) == [4, 8, 12]
    assert due(0, 13) == [4, 8], "the batch that ends the third minute is not committed"
    assert due(0, 6) == [4] and due(0, 5) == []
    assert due(4, 14) == [8, 12] and due(12, 14) == []
    assert usage.has_minute_marks
    usage.forget_minute_marks(7)
    assert due(0, 14) == [8, 12]
    usage.forget_minute_marks(12)
    assert due(0, 14) == [] and not usage.has_minute_marks


def test_marks_that_are_not_read_are_bounded_and_those_of_what_is_cut_go() -> None:
    marks = MinuteMarks()
    mark = measured(minutes=1).log.usage.mark()
    assert mark is not None

    def at(end_offset: int) -> OdometerMark:
        return replace(mark, end_offset=end_offset)

    for minute in range(MARKS_MAX + 3):
        marks.add(at(10 * minute), 10 * minute + 5)
        marks.add(at(10 * minute), 10 * minute + 5)
    assert len(marks) == MARKS_MAX
    ends = [due.end_offset for due in marks.due(-1, 10**6)]
    assert ends == [10 * minute for minute in range(3, MARKS_MAX + 3)], "the oldest go"
    marks.truncate(45)
    assert [due.end_offset for due in marks.due(-1, 10**6)] == [30, 40]
    marks.truncate(44)
    assert [due.end_offset for due in marks.due(-1, 10**6)] == [30]


def test_the_last_batch_before_a_time_is_found_over_all_segments() -> None:
    miniature = measured(minutes=12)
    log, usage = miniature.log, miniature.log.usage
    begin_ms = miniature.now_ms - 12 * MINUTE_MS
    assert log.segment_count > 2
    for minute in range(1, 12):
        assert usage.end_before(begin_ms + minute * MINUTE_MS) == 4 * minute
    assert usage.end_before(begin_ms) == 0
    assert usage.end_before(miniature.now_ms + 1) == log.log_end_offset


def test_seals_are_told_of_segments_that_end_above_an_offset() -> None:
    miniature = measured(minutes=24)
    usage = miniature.log.usage
    ends = [segment.end_offset for segment in miniature.log._segments.all[:-1]]
    assert usage.sealed_end_offset == ends[-1] and len(ends) > 2
    assert usage.seals_size > 0
    for above in range(miniature.log.log_end_offset):
        assert [seal.end_offset for seal in usage.seals_above(above)] == [end for end in ends if end > above]


def test_a_log_has_something_to_delete_once_it_begins_behind_a_whole_segment() -> None:
    miniature = measured(minutes=12)
    log = miniature.log
    miniature.catch_up()
    second = log._segments.all[1].base_offset
    for offset, deletable in ((second - 1, False), (second, True)):
        log.request_log_start(offset)
        miniature.commit(raise_watermark=False)
        log.move_log_start(offset)
        assert log.has_deletable is deletable
    log.delete_below(second)
    assert not log.has_deletable and log.stored_from == second
