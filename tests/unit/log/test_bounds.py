"""Truncation, moved log starts, starting over (RL24 to RL32, RL107, RL108)."""

import pytest

from data_plane.log.outcomes import Duplicate, JournalPiece, PieceKind
from penstock.contract.errors import OffsetOutOfRange
from penstock.contract.invariant import InvariantBroken
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.log.miniature import Miniature, reopened


def uncommitted(batches: int = 20, *, committed: int = 4) -> Miniature:
    """Two offsets a batch; epoch 1 to `committed`, then epoch 2, above the high watermark."""
    miniature = Miniature()
    miniature.create()
    for number in range(batches):
        batch = made_batch(2, 400, producer_id=9, epoch=0, sequence=2 * number)
        miniature.append(batch=batch, epoch=1 if number < committed else 2)
        miniature.commit(raise_watermark=False)
        if number < committed:
            miniature.catch_up()
    return miniature


def test_a_truncated_log_ends_at_the_cut_in_every_respect() -> None:
    miniature = uncommitted()
    log = miniature.log
    before = miniature.content()
    miniature.truncate(14)
    assert log.log_end_offset == log.durable_end_offset == 14
    assert log.epochs.pairs() == [(1, 0), (2, 8)]
    assert log.odometer is not None and log.odometer.end_offset == 14
    stamps, batches = miniature.content()
    assert before[0].startswith(stamps) and before[1].startswith(batches)
    assert log.high_watermark == 8, "nothing more is committed than before"
    with pytest.raises(OffsetOutOfRange, match="0 to 14 are stored"):
        miniature.read(15)
    with pytest.raises(OffsetOutOfRange, match="0 to 14 are stored"):
        log.read_stored(15, 40, 1)
    again = made_batch(2, 400, producer_id=9, epoch=0, sequence=12)
    assert log.check_sequence(with_header(again)[1]) == Duplicate(12, NOW_MS)
    assert log.check_sequence(with_header(made_batch(2, 400, producer_id=9, epoch=0, sequence=14))[1]) is None


def test_an_epoch_that_was_cut_away_is_forgotten() -> None:
    miniature = uncommitted()
    miniature.truncate(8)
    assert miniature.log.last_epoch == 1
    assert miniature.log.end_offset_for_epoch(2) == (1, 8)


def test_a_cut_within_a_batch_removes_the_whole_batch() -> None:
    miniature = uncommitted()
    miniature.truncate(15)
    assert miniature.log.log_end_offset == 14


def test_a_cut_at_the_end_changes_nothing() -> None:
    miniature = uncommitted()
    before = miniature.content()
    miniature.truncate(40)
    assert miniature.content() == before and miniature.log.log_end_offset == 40


def test_a_cut_at_a_segments_base_leaves_the_segment_before_active() -> None:
    miniature = uncommitted()
    base = miniature.log._segments.all[-1].base_offset
    miniature.truncate(base)
    assert miniature.log.segment_count == 2 and miniature.log.log_end_offset == base
    miniature.append(epoch=3)
    assert miniature.read(base).first_offset == base


def test_a_cut_below_the_high_watermark_breaks_an_invariant() -> None:
    miniature = uncommitted()
    with pytest.raises(InvariantBroken, match="truncated to 7 at or above its high watermark 8"):
        miniature.log.request_truncation(7)


def test_a_declared_cut_below_the_high_watermark_lowers_it() -> None:
    miniature = uncommitted()
    miniature.truncate(4, declared=True)
    assert miniature.log.high_watermark == miniature.log.log_end_offset == 4


def test_a_log_can_be_cut_to_nothing_and_begins_a_segment_again() -> None:
    miniature = uncommitted(committed=0)
    miniature.truncate(0)
    assert miniature.log.segment_count == 0 and miniature.log.log_end_offset == 0
    assert miniature.log.last_epoch == -1
    miniature.append(epoch=3)
    miniature.commit()
    again = reopened(miniature.disk)  # type: ignore[arg-type]
    assert again.content() == miniature.content()


def test_nothing_is_appended_between_request_and_cut() -> None:
    miniature = uncommitted()
    miniature.log.request_truncation(10)
    with pytest.raises(InvariantBroken, match="nothing is appended while its bounds change"):
        miniature.append(epoch=3)
    with pytest.raises(InvariantBroken, match="nothing is appended while its bounds change"):
        miniature.log.append_as_follower(memoryview(b""), memoryview(b""), 3)


def test_the_files_are_not_cut_before_the_record_was_taken() -> None:
    miniature = uncommitted()
    miniature.log.request_truncation(10)
    with pytest.raises(InvariantBroken, match="was asked for and made durable before"):
        miniature.log.truncate_to(10)
    with pytest.raises(InvariantBroken, match="was asked for and made durable before"):
        miniature.log.start_over(10)


def test_only_what_was_asked_for_is_cut() -> None:
    miniature = uncommitted()
    miniature.log.request_truncation(10)
    miniature.commit(raise_watermark=False)
    with pytest.raises(InvariantBroken, match="truncate to 10 was asked for"):
        miniature.log.truncate_to(12)


def test_one_change_of_bounds_at_a_time() -> None:
    miniature = uncommitted()
    miniature.log.request_truncation(10)
    with pytest.raises(InvariantBroken, match="one change of bounds at a time"):
        miniature.log.request_log_start(2)


def test_a_mark_taken_before_a_cut_does_not_make_later_batches_durable() -> None:
    miniature = uncommitted()
    log = miniature.log
    miniature.append(epoch=2)
    late = log.take_unsynced()
    assert late is not None
    miniature.truncate(10)
    for _ in range(50):
        miniature.append(epoch=3)
    assert log.mark_durable(late) == 10


def test_a_truncation_record_goes_behind_what_was_written_before_it() -> None:
    miniature = uncommitted()
    miniature.append(epoch=2)
    miniature.log.request_truncation(10)
    unsynced = miniature.log.take_unsynced()
    assert unsynced is not None
    assert [piece.kind for piece in unsynced.pieces] == [PieceKind.APPEND, PieceKind.TRUNCATE]


def test_a_moved_log_start_hides_what_lies_below_and_frees_whole_segments() -> None:
    miniature = uncommitted(committed=20)
    log = miniature.log
    third = log._segments.all[2].base_offset
    size = log.size_bytes
    freed = miniature.move_log_start(third)
    assert freed == size - log.size_bytes > 0
    assert log.log_start_offset == log.first_segment_offset == third
    assert log.epochs.pairs() == [(1, third)]
    with pytest.raises(OffsetOutOfRange):
        miniature.read(third - 1)


def test_a_log_start_within_a_segment_keeps_the_segment() -> None:
    miniature = uncommitted(committed=20)
    second = miniature.log._segments.all[1].base_offset
    assert miniature.move_log_start(second - 2) == 0
    assert miniature.log.first_segment_offset == 0
    with pytest.raises(OffsetOutOfRange):
        miniature.read(0)
    assert miniature.read(second - 2).first_offset == second - 2


def test_the_active_segment_is_never_removed() -> None:
    miniature = uncommitted(committed=20)
    miniature.move_log_start(40)
    assert miniature.log.segment_count == 1
    miniature.append(epoch=2)
    assert miniature.read(40).first_offset == 40


def test_the_log_start_does_not_pass_the_high_watermark() -> None:
    miniature = uncommitted()
    with pytest.raises(InvariantBroken, match="at most 8"):
        miniature.log.request_log_start(10)


def test_segments_are_removed_only_below_the_durable_log_start() -> None:
    miniature = uncommitted(committed=20)
    assert miniature.log.delete_below(40) == 0
    assert miniature.log.segment_count > 2


def test_starting_over_leaves_an_empty_log_at_the_offset() -> None:
    miniature = uncommitted()
    log = miniature.log
    miniature.start_over(100)
    bounds = (log.log_start_offset, log.log_end_offset, log.high_watermark, log.durable_end_offset)
    assert bounds == (100, 100, 100, 100)
    assert (log.segment_count, log.last_epoch, log.size_bytes) == (0, -1, 0)
    assert log.odometer is None
    stamp = miniature.append(epoch=7)
    assert stamp.base_offset == 100


def test_seals_outlive_a_log_that_starts_over() -> None:
    miniature = uncommitted(committed=20)
    sealed = miniature.log._seals.end_offset
    assert sealed > 0
    miniature.start_over(100)
    assert miniature.log._seals.end_offset == sealed


def test_totals_travel_with_a_replica_that_starts_above_zero() -> None:
    leader = uncommitted(committed=20)
    start = leader.log._segments.all[2].base_offset
    leader.move_log_start(start)
    follower = Miniature()
    follower.create()
    follower.start_over(start, state=leader.log.state_at_start())
    part = leader.read(start, max_bytes=1 << 20)
    while part.size:
        follower.log.append_as_follower(memoryview(part.stamps), memoryview(b"".join(part.batches)), 2)
        part = leader.read(part.next_offset)
    assert leader.log.odometer is not None and follower.log.odometer is not None
    assert follower.log.odometer.totals == leader.log.odometer.totals
    assert follower.log.odometer.minute_rows == leader.log.odometer.minute_rows


def test_totals_and_producers_below_the_start_are_known_after_a_crash() -> None:
    leader = uncommitted(committed=20)
    start = leader.log._segments.all[2].base_offset
    leader.move_log_start(start)
    known = leader.log.state_at_start()
    follower = Miniature()
    follower.create()
    follower.start_over(start, state=known)
    follower = reopened(follower.disk)  # type: ignore[arg-type]
    assert follower.log.state_at_start() == known
    assert follower.log.odometer is not None
    assert follower.log.odometer.encode(follower.log._segments.seed) == known.odometer
    assert follower.log._derived.last_accepted_ms == follower.log.odometer.last_accepted_ms > 0


def test_the_totals_at_the_start_of_a_whole_log_are_none_counted() -> None:
    miniature = uncommitted()
    assert miniature.log.state_at_start().odometer != b""


def test_a_piece_that_the_journal_did_not_take_has_no_sequence() -> None:
    miniature = uncommitted()
    assert miniature.log.unapplied_sequence is None
    miniature.log.request_truncation(10)
    assert miniature.log.unapplied_sequence is None
    miniature.commit(raise_watermark=False)
    assert miniature.log.unapplied_sequence == miniature.journal.next_sequence - 1
    miniature.log.truncate_to(10)
    assert miniature.log.unapplied_sequence is None
    assert JournalPiece(PieceKind.LOG_START, 1, 2).sequence == 0
