"""Damage that a log meets by itself, at a cut or while it is counted: named as a reader would, and never its end
(RL122, RL130)."""

from dataclasses import replace
from functools import partial

import pytest

from data_plane.log import segment as segment_module
from data_plane.log.layout import STAMPS_SUFFIX
from data_plane.log.outcomes import DamagedRange, ReplicaRejected
from data_plane.log.sidecar import stamp_at
from data_plane.testkit.disk import SimDisk
from penstock.contract.errors import CorruptLog
from penstock.records.stamp import STAMP_BYTES
from tests.unit.log.batches import NOW_MS, made_batch
from tests.unit.log.miniature import SMALL, Miniature, reopened

_SEGMENT = 8
"""Base offset of the second segment; each segment holds four batches of two offsets."""


def twenty_batches(*, committed: int = 4) -> Miniature:
    """Two offsets a batch, four batches a segment; all but the first `committed` above the high watermark."""
    miniature = Miniature()
    miniature.create()
    for number in range(20):
        miniature.now_ms = NOW_MS + number
        miniature.append(batch=made_batch(2, 900, fill=number))
        miniature.commit(raise_watermark=False)
        if number < committed:
            miniature.catch_up()
    assert [segment.base_offset for segment in miniature.log._segments.all] == list(range(0, 40, _SEGMENT))
    return miniature


def stamps_path(miniature: Miniature, base: int) -> str:
    return next(one for one in miniature.log._segments.all if one.base_offset == base).path(STAMPS_SUFFIX)


def flip_stamp(miniature: Miniature, base: int, number: int) -> None:
    """One bit of one stamp of the segment at `base`."""
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.medium.flip(stamps_path(miniature, base), stamp_at(number) + STAMP_BYTES - 1, 3)


def spoil_stamps(miniature: Miniature, base: int, number: int = 0) -> None:
    """All stamps of the segment at `base`, whatever the number."""
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.medium.spoil(stamps_path(miniature, base), 0, 1 << 20)


def ranges(miniature: Miniature) -> list[tuple[int, int]]:
    return [(one.first_offset, one.end_offset) for one in miniature.log.damage]


def repaired(miniature: Miniature) -> None:
    """What the node does: cut where the damaged segment begins, and take the rest anew."""
    miniature.truncate(miniature.log.scrub.refetch_from(), declared=True)
    assert not miniature.log.damage
    end = miniature.log.log_end_offset
    miniature.append(batch=made_batch(2, 900))
    miniature.commit()
    assert miniature.log.log_end_offset == end + 2 and miniature.read(end).next_offset == end + 2


@pytest.mark.parametrize("bad", range(8))
def test_a_read_before_stamps_that_the_medium_refuses_goes_on_or_says_so(bad: int) -> None:
    """One that answered with nothing would be asked again for ever."""
    settings = replace(SMALL, index_interval_bytes=64, segment_bytes=1 << 20)
    miniature = Miniature(settings=settings, tail_bytes=0)
    miniature.create()
    for number in range(8):
        miniature.append(batch=made_batch(2, 900, fill=number))
        miniature.commit()
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.medium.spoil(stamps_path(miniature, 0), stamp_at(bad), STAMP_BYTES)
    for number in range(bad):
        assert miniature.read(2 * number).next_offset == 2 * number + 2
    with pytest.raises(CorruptLog):
        miniature.read(2 * bad)
    assert ranges(miniature)[0][0] <= 2 * bad < ranges(miniature)[0][1]


def test_a_cut_is_carried_out_over_damage_that_came_after_it_was_asked_for() -> None:
    miniature = twenty_batches()
    log = miniature.log
    log.request_truncation(14)
    miniature.commit(raise_watermark=False)
    flip_stamp(miniature, _SEGMENT, 2)
    try:
        log.truncate_to(14)
    except Exception as error:
        pytest.fail(f"the cut ended in {error!r}")
    assert log.log_end_offset == log.durable_end_offset == 14 and ranges(miniature) == [(12, 14)]
    assert miniature.read(0).next_offset == 8 and miniature.read(8).next_offset == 12
    with pytest.raises(CorruptLog):
        miniature.read(12)
    repaired(miniature)


def test_a_cut_into_a_segment_that_the_medium_refuses_whole_is_carried_out() -> None:
    miniature = twenty_batches()
    log = miniature.log
    log.request_truncation(14)
    miniature.commit(raise_watermark=False)
    spoil_stamps(miniature, _SEGMENT)
    log.truncate_to(14)
    assert log.log_end_offset == 14 and ranges(miniature) == [(8, 14)]
    assert log._segments.all[-1].first_accepted_ms == NOW_MS + 4
    repaired(miniature)


def test_what_a_cut_over_damage_left_is_recovered_after_a_kill() -> None:
    miniature = twenty_batches()
    miniature.checkpoint()
    miniature.log.request_truncation(14)
    miniature.commit(raise_watermark=False)
    flip_stamp(miniature, _SEGMENT, 2)
    miniature.log.truncate_to(14)
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk)
    assert (again.log.log_end_offset, again.log.durable_end_offset) == (12, 12)
    assert ranges(again) == [(12, 14)]  # beyond its end: acknowledged, and missing
    repaired(again)


def test_a_cut_whose_place_is_hidden_by_damage_is_refused_and_nothing_is_cut() -> None:
    miniature = twenty_batches(committed=7)
    flip_stamp(miniature, _SEGMENT, 3)
    before = miniature.log.high_watermark
    assert before == 14
    with pytest.raises(CorruptLog):
        miniature.log.request_truncation(14)
    assert miniature.log.log_end_offset == 40 and ranges(miniature) == [(14, 16)]
    miniature.append(batch=made_batch(2, 900))
    miniature.commit()
    repaired(miniature)


def test_a_declared_cut_goes_before_damage_that_hides_its_place() -> None:
    miniature = twenty_batches()
    flip_stamp(miniature, _SEGMENT, 2)
    miniature.truncate(13, declared=True)
    assert miniature.log.log_end_offset == 12 and not miniature.log.damage


def test_damage_that_metering_meets_is_named() -> None:
    miniature = twenty_batches(committed=20)
    for base in range(0, 40, _SEGMENT):
        flip_stamp(miniature, base, 1)
    with pytest.raises(CorruptLog):
        miniature.log.usage.end_before(NOW_MS + 6)
    assert ranges(miniature) == [(10, 12)]
    with pytest.raises(CorruptLog):
        list(miniature.log.usage.fold_to(4))
    assert ranges(miniature) == [(2, 4), (10, 12)]


def _read_or_refused(miniature: Miniature, offset: int) -> bytes | None:
    """The batch at `offset`; None where the log names damage."""
    try:
        return b"".join(miniature.read(offset, max_bytes=1).batches)
    except CorruptLog:
        assert any(low <= offset < high for low, high in ranges(miniature))
        return None


@pytest.mark.parametrize("met", ["when it is asked for", "when it is carried out"])
@pytest.mark.parametrize("whole_file", [False, True], ids=["a flipped bit", "a file that cannot be read"])
def test_wherever_damage_is_and_wherever_a_log_is_cut_it_is_never_wrong_and_can_be_repaired(
    met: str, whole_file: bool
) -> None:
    for bad in range(8):
        for cut in range(4, 18, 2):
            miniature = twenty_batches(committed=2)
            log, before = miniature.log, [miniature.read(at, max_bytes=1) for at in range(0, 40, 2)]
            strike = partial(
                spoil_stamps if whole_file else flip_stamp, miniature, bad // 4 * _SEGMENT, bad % 4
            )
            if met == "when it is asked for":
                strike()
            try:
                log.request_truncation(cut)
            except CorruptLog:
                assert met == "when it is asked for" and log.log_end_offset == 40 and log.damage
            else:
                miniature.commit(raise_watermark=False)
                if met == "when it is carried out":
                    strike()
                log.truncate_to(cut)
                assert log.log_end_offset == log.durable_end_offset == cut >= log.high_watermark
            for at in range(0, log.log_end_offset, 2):
                assert _read_or_refused(miniature, at) in (None, b"".join(before[at // 2].batches))
            if log.damage:
                repaired(miniature)


def test_a_log_is_written_on_behind_damage_at_its_end_and_not_where_acknowledged_records_are_missing() -> (
    None
):
    miniature = twenty_batches()
    log = miniature.log
    log.scrub.found_damage(DamagedRange(38, 40, "flipped"))
    miniature.append(batch=made_batch(2, 100))
    miniature.commit()
    assert log.log_end_offset == 42
    log.scrub.found_damage(DamagedRange(42, 44, "missing"))
    for _ in range(2):
        with pytest.raises(CorruptLog, match="an operator's repair required"):
            miniature.append(batch=made_batch(2, 100))
        with pytest.raises(ReplicaRejected, match="a truncation required"):
            log.append_as_follower(memoryview(b""), memoryview(b""), 1)
    assert log.log_end_offset == 42


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_good_stamps_are_told_with_their_numbers_over_a_bad_one(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(segment_module, "_STAMPS_PER_SCAN", at_once)
    miniature = twenty_batches()
    second = miniature.log._segments.all[1]
    flip_stamp(miniature, _SEGMENT, 1)
    good = [(0, 8), (2, 12), (3, 14)]
    assert [(number, stamp.base_offset) for number, stamp in second.good_stamps(0)] == good
    assert [(number, stamp.base_offset) for number, stamp in second.intact_stamps(0)] == good
    assert [number for number, _ in second.good_stamps(2)] == [2, 3]
    assert [number for number, _ in second.good_stamps(0, 3)] == [0, 2]


def test_what_a_cut_over_damage_left_is_read_batch_by_batch() -> None:
    miniature = Miniature(settings=replace(SMALL, segment_bytes=1 << 20), tail_bytes=0)
    miniature.create()
    for number in range(10):
        miniature.append(batch=made_batch(2, 900, fill=number))
        miniature.commit(raise_watermark=number < 2)
    miniature.log.request_truncation(16)
    miniature.commit(raise_watermark=False)
    flip_stamp(miniature, 0, 7)
    miniature.log.truncate_to(16)
    assert ranges(miniature) == [(14, 16)]
    for offset in range(0, 14, 2):
        found = miniature.read(offset, max_bytes=1)
        assert (found.first_offset, found.next_offset) == (offset, offset + 2)
