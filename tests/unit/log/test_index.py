"""The sparse index of a segment."""

import pytest

from data_plane.log.index import SAMPLES_MAX, SegmentIndex, SegmentSummary, pack_index, unpack_index
from data_plane.log.small_file import SmallFileCorrupt

SUMMARY = SegmentSummary(
    base_offset=5, end_offset=105, size=10_000, stamp_count=100, first_accepted_ms=1, last_accepted_ms=9,
    max_timestamp=77, first_epoch=2, last_epoch=3, last_checksum=0xDEADBEEF,
)  # fmt: skip


def filled(batches: int, interval_bytes: int = 300) -> SegmentIndex:
    """Batches of one offset and 100 bytes; each stamped its number."""
    index = SegmentIndex(interval_bytes)
    for number in range(batches):
        index.note(5 + number, number, 100 * number, number)
    return index


def test_a_sample_is_taken_every_interval() -> None:
    assert list(filled(10).numbers) == [0, 3, 6, 9]


def test_an_offset_lies_between_its_samples() -> None:
    index = filled(10)
    assert index.numbers_around(5, 10) == (0, 3)
    assert index.numbers_around(9, 10) == (3, 6)
    assert index.numbers_around(11, 10) == (6, 9)
    assert index.numbers_around(99, 10) == (9, 10)


def test_a_time_lies_behind_the_last_sample_below_it() -> None:
    index = filled(10)
    assert index.numbers_reaching(0, 10) == (0, 1)
    assert index.numbers_reaching(4, 10) == (4, 7)
    assert index.numbers_reaching(6, 10) == (4, 7)
    assert index.numbers_reaching(50, 10) == (10, 10)


def test_an_empty_index_leads_everywhere() -> None:
    assert SegmentIndex(10).numbers_around(3, 7) == (0, 7)


def test_samples_are_bounded_by_widening_the_interval() -> None:
    index = filled(5 * SAMPLES_MAX, interval_bytes=1)
    assert len(index.numbers) <= SAMPLES_MAX
    assert index.numbers[0] == 0
    for offset in (5, 4_321, 5 * SAMPLES_MAX):
        first, end = index.numbers_around(offset, 5 * SAMPLES_MAX)
        assert first <= offset - 5 < end


def test_a_cut_forgets_the_samples_behind_it() -> None:
    index = filled(10)
    index.truncate(6)
    assert list(index.numbers) == [0, 3]
    index.note(11, 6, 600, 6)
    assert list(index.numbers) == [0, 3, 6]


def test_a_cut_to_nothing_samples_the_next_batch() -> None:
    index = filled(10)
    index.truncate(0)
    index.note(5, 0, 0, 1)
    assert list(index.numbers) == [0]


def test_the_file_reads_back() -> None:
    index = filled(50)
    summary, read = unpack_index(pack_index(SUMMARY, index))
    assert summary == SUMMARY
    assert list(read.offsets) == list(index.offsets)
    assert list(read.positions) == list(index.positions)
    assert list(read.numbers) == list(index.numbers)
    assert list(read.max_timestamps) == list(index.max_timestamps)
    read.note(55, 50, 5000, 50)
    index.note(55, 50, 5000, 50)
    assert list(read.numbers) == list(index.numbers)


def test_a_file_that_was_cut_is_corrupt() -> None:
    with pytest.raises(SmallFileCorrupt):
        unpack_index(pack_index(SUMMARY, filled(50))[:-1])
