"""Reads: whole batches, bounds, tail and files alike, times, and what fails its checks."""

import pytest

from data_plane.disk.port import DiskFault
from data_plane.log.outcomes import Slice
from data_plane.log.reading import ColdRead
from data_plane.log.tail import Tail, TailBudget
from data_plane.testkit.disk import DiskFaults, SimDisk
from penstock.contract.errors import CorruptLog, DiskFull, OffsetOutOfRange, OutOfOrderSequence
from penstock.contract.topic_settings import TopicSettings
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.log.miniature import SMALL, Miniature


def stored(*, cold: bool, batches: int = 40, settings: TopicSettings = SMALL) -> Miniature:
    """Batches of three messages, offsets 0, 3, 6, ..., over several segments."""
    miniature = Miniature(settings=settings, tail_bytes=0 if cold else 1 << 20)
    miniature.create()
    for number in range(batches):
        miniature.append(batch=made_batch(3, 300, fill=number, timestamp_ms=NOW_MS + 10 * number))
        miniature.commit()
    return miniature


BOTH = pytest.mark.parametrize("cold", [False, True], ids=["tail", "files"])


@BOTH
def test_a_read_begins_with_the_batch_that_holds_the_offset(cold: bool) -> None:
    miniature = stored(cold=cold)
    for offset in range(120):
        part = miniature.read(offset, max_bytes=1)
        assert part.first_offset == offset - offset % 3
        assert part.next_offset == part.first_offset + 3
        assert part.size == 361 == len(b"".join(part.batches)) and len(part.stamps) == 64


@BOTH
def test_a_read_takes_what_fits_and_at_least_one_batch(cold: bool) -> None:
    miniature = stored(cold=cold)
    assert miniature.read(0, max_bytes=361 * 3).next_offset == 9
    assert miniature.read(0, max_bytes=361 * 3 - 1).next_offset == 6
    assert miniature.read(0, max_bytes=0).next_offset == 3


@BOTH
def test_no_batch_beyond_the_end_asked_for_is_read(cold: bool) -> None:
    miniature = stored(cold=cold)
    assert miniature.read(0, 9).next_offset == 9
    assert miniature.read(0, 8).next_offset == 6
    part = miniature.read(0, 2)
    assert (part.size, part.stamps, part.next_offset) == (0, b"", 0)


@BOTH
def test_a_read_at_the_end_is_empty(cold: bool) -> None:
    part = stored(cold=cold).read(120)
    assert (part.first_offset, part.next_offset, part.size) == (120, 120, 0)


def test_a_read_outside_the_log_names_what_is_held() -> None:
    miniature = stored(cold=True)
    with pytest.raises(OffsetOutOfRange, match="offset 121, 0 to 120 are stored"):
        miniature.read(121)
    miniature.move_log_start(miniature.log._segments.all[1].base_offset)
    with pytest.raises(OffsetOutOfRange):
        miniature.read(0)


def test_tail_and_files_give_the_same() -> None:
    assert stored(cold=True).content() == stored(cold=False).content()


def test_a_tail_bounded_over_all_logs_drops_the_oldest_first() -> None:
    miniature = Miniature(tail_bytes=2_000)
    for number in (0, 1):
        miniature.create(number)
    for _ in range(10):
        for number in (0, 1):
            miniature.append(number, batch=made_batch(1, 100))
    assert miniature.tail.bytes_used <= 2_000
    assert isinstance(miniature.logs[0].read(9, 10, 1), Slice)
    assert isinstance(miniature.logs[1].read(9, 10, 1), Slice)
    found = miniature.logs[0].read(0, 10, 1)
    assert isinstance(found, ColdRead)
    miniature.logs[0].forget(found)


def test_an_emptied_tail_gives_its_budget_back_once() -> None:
    budget = TailBudget(10_000)
    one, other = Tail(budget), Tail(budget)
    for number in range(5):
        one.add(number, number + 1, 100, b"", (b"",))
        other.add(number, number + 1, 100, b"", (b"",))
    used_before = budget.bytes_used
    one.clear()
    assert budget.bytes_used == used_before // 2
    for number in range(5, 100):
        other.add(number, number + 1, 100, b"", (b"",))
    assert 0 < budget.bytes_used <= 10_000
    other.clear()
    assert budget.bytes_used == 0


def test_a_long_tail_forgets_its_oldest_without_growing() -> None:
    budget = TailBudget(5_000)
    tail = Tail(budget)
    for number in range(5_000):
        tail.add(number, number + 1, 100, b"", (b"x",))
    assert len(tail) <= 10
    assert len(tail._bases) < 3_000
    found = tail.read(4_999, 5_000, 1)
    assert found is not None and found.next_offset == 5_000
    assert tail.read(10, 5_000, 1) is None


def test_a_time_is_found_at_its_batch() -> None:
    miniature = stored(cold=True)
    log = miniature.log
    for number in (0, 1, 17, 39):
        assert log.offset_for_time(NOW_MS + 10 * number, 120) == 3 * number
        assert log.offset_for_time(NOW_MS + 10 * number - 5, 120) == 3 * number
    assert log.offset_for_time(NOW_MS + 391, 120) == 120
    assert log.offset_for_time(NOW_MS + 390, 60) == 60


def test_a_time_out_of_order_is_found_where_it_is_first_reached() -> None:
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for stamp in (50, 10, 90, 20, 95):
        miniature.append(batch=made_batch(1, 10, timestamp_ms=stamp))
    assert [miniature.log.offset_for_time(time, 5) for time in (5, 50, 51, 91, 96)] == [0, 0, 2, 4, 5]


def test_a_time_below_the_log_start_is_the_log_start() -> None:
    miniature = stored(cold=True)
    start = miniature.log._segments.all[2].base_offset
    miniature.move_log_start(start)
    assert miniature.log.offset_for_time(0, 120) == start


def flip(miniature: Miniature, suffix: str, position: int, segment: int = 0) -> None:
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.medium.flip(miniature.log._segments.all[segment].path(suffix), position, 3)


def test_a_bad_batch_is_named_and_the_good_ones_before_it_are_served() -> None:
    miniature = stored(cold=True)
    flip(miniature, ".log", 361 * 2 + 100)
    assert miniature.read(0).next_offset == 6
    with pytest.raises(CorruptLog, match="offsets 6 to 9"):
        miniature.read(6)
    assert [(one.first_offset, one.end_offset) for one in miniature.log.damage] == [(6, 9)]
    with pytest.raises(CorruptLog, match="offsets 6 to 9"):
        miniature.read(8)
    assert miniature.read(0).next_offset == 6
    assert miniature.read(9).first_offset == 9


def test_what_was_found_bad_ends_every_read_before_it_though_it_reads_well_again() -> None:
    miniature = stored(cold=True)
    for base in (3, 9):
        flip(miniature, ".log", 361 * base // 3 + 100)
        with pytest.raises(CorruptLog, match=f"offsets {base} to {base + 3}"):
            miniature.read(base)
        flip(miniature, ".log", 361 * base // 3 + 100)
    for offset, next_offset in ((0, 3), (2, 3), (6, 9), (8, 9)):
        assert miniature.read(offset).next_offset == next_offset
    for offset in (3, 5, 9, 11):
        with pytest.raises(CorruptLog):
            miniature.read(offset)
    assert miniature.read(0, 2).next_offset <= 3 and miniature.read(12).next_offset > 15


def test_every_refusal_names_the_log_as_it_is_called_now() -> None:
    miniature = stored(cold=True)
    log, disk = miniature.log, miniature.disk
    assert isinstance(disk, SimDisk)
    log.name = "acme/orders-0"
    miniature.append(batch=made_batch(producer_id=9, epoch=0, sequence=0))
    with pytest.raises(OutOfOrderSequence, match="acme/orders-0: "):
        log.check_sequence(with_header(made_batch(producer_id=9, epoch=0, sequence=5))[1])
    for read in (log.read, log.read_stored):
        with pytest.raises(OffsetOutOfRange, match="acme/orders-0: "):
            read(log.log_end_offset + 1, log.log_end_offset + 1, 1)
    flip(miniature, ".log", 100)
    with pytest.raises(CorruptLog, match="acme/orders-0: "):
        miniature.read(0)
    disk.faults = DiskFaults(capacity_bytes=disk.medium.used_bytes())
    with pytest.raises(DiskFull, match="acme/orders-0: "):
        miniature.append()


def test_a_bad_header_field_outside_the_batch_checksum_is_found_by_the_stamp() -> None:
    for position in (0, 8, 12):
        miniature = stored(cold=True)
        flip(miniature, ".log", position)
        with pytest.raises(CorruptLog, match="offsets 0 to 3"):
            miniature.read(0)


def test_a_bad_stamp_is_named_by_the_good_ones_around_it() -> None:
    miniature = stored(cold=True)
    flip(miniature, ".stamps", 64 + 64 * 2 + 20)
    assert miniature.read(0).next_offset == 6
    with pytest.raises(CorruptLog, match="offsets 6 to 9"):
        miniature.read(7)
    assert miniature.read(9).first_offset == 9


def test_a_medium_error_is_named_and_other_segments_stay_readable() -> None:
    miniature = stored(cold=True)
    assert isinstance(miniature.disk, SimDisk)
    first = miniature.log._segments.all[0]
    miniature.disk.medium.spoil(first.path(".log"), 0, 4096)
    cold = miniature.log.read(0, 120, 1_000)
    assert isinstance(cold, ColdRead)
    with pytest.raises(DiskFault) as fault:
        cold.file.read_at(cold.position, cold.length)
    error = miniature.log.read_failed(cold, fault.value)
    assert isinstance(error, CorruptLog) and "offsets 0 to 6" in error.message
    miniature.disk.medium.spoil(first.path(".stamps"), 0, 4096)
    with pytest.raises(CorruptLog):
        miniature.log.read(9, 120, 1)
    assert miniature.read(first.end_offset).first_offset == first.end_offset


def test_a_closed_segments_index_is_a_cache() -> None:
    miniature = stored(cold=True)
    assert isinstance(miniature.disk, SimDisk)
    content = miniature.content()
    miniature.checkpoint()
    for segment in miniature.log._segments.all[:-1]:
        miniature.log.release_files()
        segment.forget_index()
        assert segment._index is None
    flip(miniature, ".index", 40, 0)
    miniature.disk.remove(miniature.log._segments.all[1].path(".index"))
    assert miniature.content() == content
    assert miniature.log.offset_for_time(NOW_MS + 30, 120) == 9


def test_a_cold_read_survives_the_removal_of_its_segment() -> None:
    miniature = stored(cold=True)
    log = miniature.log
    cold = log.read(0, 120, 1_000)
    assert isinstance(cold, ColdRead)
    miniature.move_log_start(log._segments.all[2].base_offset)
    log.release_files()
    assert log.slice_of(cold, cold.file.read_at(cold.position, cold.length)).next_offset == 6


def test_files_of_a_removed_segment_are_closed_when_the_last_reader_has_gone() -> None:
    miniature = stored(cold=True)
    log = miniature.log
    first = log._segments.all[0]
    readers = [log.read(0, 120, 1_000), log.read(3, 120, 1_000)]
    miniature.move_log_start(log._segments.all[2].base_offset)
    assert first._data is not None
    for cold in readers:
        assert isinstance(cold, ColdRead)
        log.forget(cold)
    assert first._data is None and first._stamps is None
