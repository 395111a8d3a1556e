"""Seals: one a closed segment, when the next one's first batch is committed, alike whenever they are made."""

from dataclasses import replace
from itertools import pairwise

import pytest

from data_plane.log import sealing
from data_plane.log.sealing import SealFile
from data_plane.log.segment import Segment
from data_plane.testkit.crash_states import explore_crashes
from data_plane.testkit.disk import DiskFaults, SimDisk
from penstock.contract.topic_settings import Durability
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.records.seal import Seal, SegmentDigest, pack_seal
from penstock.records.stamp import STAMP_BYTES, stamp_seed, unpack_stamp
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import SMALL, Miniature, reopened, where


def seals(miniature: Miniature) -> list[Seal]:
    found, good = miniature.log._seals.read_all()
    assert good
    return found


def check_one_seal_a_closed_segment(disk: SimDisk, at: str = "") -> None:
    """Opened from `disk` and written on, the log has the seals that it gets when all of them are made again."""
    found = Miniature(disk)
    found.fill(30, epoch=9)
    made = seals(found)
    bases = [segment.base_offset for segment in found.log._segments.all]
    assert [(seal.base_offset, seal.end_offset) for seal in made] == list(pairwise(bases)), at
    disk.kill()
    SimDisk(disk.medium).remove(f"{found.log._segments.directory}/seals")
    again = Miniature(SimDisk(disk.medium))
    again.log.set_high_watermark(again.log.log_end_offset)
    assert seals(again) == made, at


def filled(batches: int = 30) -> Miniature:
    miniature = Miniature()
    miniature.create()
    for number in range(batches):
        miniature.now_ms += 9_000
        miniature.append(batch=made_batch(2, 400, fill=number), principal=number % 3)
        miniature.commit()
    return miniature


@pytest.mark.pure  # wraps a method
def test_what_is_appended_is_sealed_without_being_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    read_back: list[int] = []
    header_bytes = Segment.header_bytes

    def noting(segment: Segment, position: int) -> bytes:
        read_back.append(position)
        return header_bytes(segment, position)

    monkeypatch.setattr(Segment, "header_bytes", noting)
    miniature = filled()
    before = len(seals(miniature))
    assert before > 2 and read_back == []
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk)
    assert len(read_back) == again.log._segments.all[-1].stamp_count > 0, "once, when the log is opened"
    read_back.clear()
    again.fill(20, epoch=2)
    assert len(seals(again)) > before and read_back == []


def test_a_moved_log_start_makes_no_seal_of_what_is_not_committed() -> None:
    miniature = Miniature()
    miniature.create()
    for number in range(30):
        miniature.append(batch=made_batch(2, 400, fill=number))
        miniature.commit(raise_watermark=False)
    committed = miniature.log._segments.all[1].base_offset
    miniature.log.set_high_watermark(committed)
    miniature.log.request_log_start(committed)
    assert seals(miniature) == [], "the first batch of the next segment is not committed"
    miniature.log.set_high_watermark(committed + 2)
    assert [seal.end_offset for seal in seals(miniature)] == [committed]


def test_a_seal_is_made_when_the_next_segments_first_batch_is_committed() -> None:
    miniature = Miniature()
    miniature.create()
    while miniature.log.segment_count < 2:
        miniature.append(batch=made_batch(2, 400))
    first_end = miniature.log.log_end_offset
    miniature.log.set_high_watermark(first_end - 2)
    assert seals(miniature) == []
    miniature.log.set_high_watermark(first_end)
    assert [seal.end_offset for seal in seals(miniature)] == [first_end - 2]


def test_seals_join_without_a_gap_and_add_up() -> None:
    miniature = filled()
    found = seals(miniature)
    assert len(found) == miniature.log.segment_count - 1
    assert [seal.base_offset for seal in found] == [
        segment.base_offset for segment in miniature.log._segments.all[:-1]
    ]
    assert all(later.before == earlier.totals for earlier, later in pairwise(found))
    assert found[-1].totals.committed_messages == found[-1].end_offset


def test_the_digest_is_of_headers_and_stamps_as_stored() -> None:
    miniature = filled()
    stamps, batches = miniature.content()
    seal = seals(miniature)[1]
    digest = SegmentDigest(where(), seal.base_offset)
    at = 0
    for number in range(len(stamps) // STAMP_BYTES):
        stamp = unpack_stamp(stamps, stamp_seed(where()), number * STAMP_BYTES)
        if seal.base_offset <= stamp.base_offset < seal.end_offset:
            digest.add(
                batches[at : at + BATCH_HEADER_BYTES],
                stamps[number * STAMP_BYTES : (number + 1) * STAMP_BYTES],
            )
        at += stamp.size
    assert seal.digest == digest.digest()


@pytest.mark.parametrize("catch_up", [1, 2_000])
def test_seals_made_after_a_restart_are_the_same(catch_up: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = seals(filled())
    miniature = Miniature()
    miniature.create()
    for number in range(30):
        miniature.now_ms += 9_000
        miniature.append(batch=made_batch(2, 400, fill=number), principal=number % 3)
        miniature.commit(raise_watermark=False)
    assert seals(miniature) == []
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk)
    monkeypatch.setattr(sealing, "CATCH_UP_BATCHES", catch_up)
    for _ in range(40):
        again.log._advance_seals(catch_up)
        again.log.set_high_watermark(again.log.log_end_offset)
    assert seals(again) == expected


def test_seals_made_after_a_truncation_are_those_of_a_log_that_was_never_cut() -> None:
    miniature = filled()
    miniature.catch_up()
    end = miniature.log.high_watermark
    for number in range(10):
        miniature.append(batch=made_batch(2, 400, fill=200 + number))
    miniature.truncate(end)
    other = filled()
    for each in (miniature, other):
        for number in range(10):
            each.append(batch=made_batch(2, 400, fill=100 + number), epoch=4)
            each.commit()
    assert seals(miniature) == seals(other)


def test_a_lost_seal_file_is_made_again_for_the_segments_that_are_there() -> None:
    miniature = filled()
    expected = seals(miniature)
    miniature.checkpoint()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    SimDisk(disk.medium).remove(f"{miniature.log._segments.directory}/seals")
    again = Miniature(SimDisk(disk.medium))
    again.log.set_high_watermark(again.log.log_end_offset)
    assert seals(again) == expected


def test_a_bad_seal_and_those_behind_it_are_made_again() -> None:
    miniature = filled()
    expected = seals(miniature)
    miniature.checkpoint()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    path = f"{miniature.log._segments.directory}/seals"
    disk.medium.flip(path, SimDisk(disk.medium).open(path).size() // 2, 1)
    again = Miniature(SimDisk(disk.medium))
    assert "seals" in again.reports[0].rebuilt
    again.log.set_high_watermark(again.log.log_end_offset)
    assert seals(again) == expected


def test_a_declared_loss_below_a_seal_removes_it() -> None:
    miniature = filled()
    found = seals(miniature)
    miniature.truncate(found[1].base_offset + 2, declared=True)
    assert seals(miniature) == found[:1]
    miniature.fill(30, epoch=5)
    assert len(seals(miniature)) == miniature.log.segment_count - 1


def test_a_segment_that_is_active_again_after_a_loss_at_its_end_loses_its_seal() -> None:
    miniature = filled()
    found = seals(miniature)
    miniature.truncate(found[2].end_offset, declared=True)
    assert seals(miniature) == found[:2]
    miniature.append(batch=made_batch(2, 10), epoch=5)
    miniature.fill(30, epoch=5)
    bases = [segment.base_offset for segment in miniature.log._segments.all]
    assert [(seal.base_offset, seal.end_offset) for seal in seals(miniature)] == list(pairwise(bases))
    assert seals(miniature)[2].end_offset > found[2].end_offset


def test_seals_above_the_offset_where_a_log_starts_over_go() -> None:
    miniature = filled()
    found = seals(miniature)
    other = Miniature()
    other.create()
    other.now_ms = miniature.now_ms
    other.fill(30)
    assert seals(other)[0].end_offset != found[0].end_offset
    miniature.start_over(0)
    miniature.fill(30)
    assert seals(miniature) == seals(other)


@pytest.mark.parametrize("change", ["loss at a segment's end", "loss within a segment", "start over"])
def test_a_crash_at_any_point_of_a_cut_and_of_what_follows_leaves_no_seal_of_what_was_cut(
    change: str,
) -> None:
    miniature = filled(20)
    miniature.checkpoint()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    second = seals(miniature)[1]

    def operate() -> None:
        if change == "start over":
            miniature.start_over(0)
        else:
            within = 0 if change == "loss at a segment's end" else 2
            miniature.truncate(second.end_offset - within, declared=True)
        miniature.append(batch=made_batch(2, 10), epoch=5)
        miniature.fill(14, epoch=5, body_bytes=600)
        assert len(seals(miniature)) >= 2

    explored = explore_crashes(disk, operate, check_one_seal_a_closed_segment, states_per_point_max=4)
    assert explored.states > explored.points > 1


def test_a_crash_that_takes_what_stood_behind_a_sealed_segment_takes_its_seal() -> None:
    miniature = Miniature(settings=replace(SMALL, replication=2, durability=Durability.REPLICATED))
    miniature.create()
    miniature.fill(12, body_bytes=400)
    miniature.checkpoint()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        for _ in range(16):  # committed by replicas in memory
            miniature.append(batch=made_batch(2, 400))
            miniature.log.set_high_watermark(miniature.log.log_end_offset)

    explored = explore_crashes(disk, operate, check_one_seal_a_closed_segment, states_per_point_max=12)
    assert explored.states > explored.points


def test_on_a_full_disk_the_seal_waits() -> None:
    miniature = filled(2)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    while miniature.log.segment_count < 2:
        miniature.append(batch=made_batch(2, 400))
    disk.faults = DiskFaults(capacity_bytes=disk.medium.used_bytes())
    miniature.log.set_high_watermark(miniature.log.log_end_offset)
    assert seals(miniature) == []
    disk.faults = DiskFaults()
    miniature.log.set_high_watermark(miniature.log.log_end_offset)
    assert len(seals(miniature)) == 1


def test_a_damaged_segment_gets_no_seal_and_its_damage_is_named() -> None:
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for number in range(30):
        miniature.append(batch=made_batch(2, 400, fill=number))
        miniature.commit(raise_watermark=False)
    miniature.checkpoint()
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk)
    assert isinstance(again.disk, SimDisk)
    again.disk.medium.flip(again.log._segments.all[1].path(".stamps"), 64 + 64 + 3, 1)
    again.log.set_high_watermark(again.log.log_end_offset)
    again.log.set_high_watermark(again.log.log_end_offset)
    assert len(seals(again)) <= 1
    assert again.log.damage


def test_seals_of_another_partition_are_not_taken() -> None:
    miniature = filled()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    file = SealFile(disk, miniature.log._segments.directory, where(1))
    assert file.read_all() == ([], False)


def test_packed_seals_are_those_of_the_file_from_an_offset_on_and_bounded() -> None:
    miniature = filled()
    found, file = seals(miniature), miniature.log._seals
    assert len(found) >= 3
    packed = [pack_seal(seal) for seal in found]
    assert file.packed_above(-1, 1 << 20) == (b"".join(packed), False)
    assert file.packed_above(found[1].end_offset - 1, 1 << 20) == (b"".join(packed[1:]), False)
    assert file.packed_above(found[0].end_offset, len(packed[1])) == (packed[1], True)
    assert file.packed_above(found[0].end_offset, 1) == (packed[1], True), "one at least"
    assert file.packed_above(found[-1].end_offset, 1 << 20) == (b"", False)
    assert file.packed_above(2**62, 1) == (b"", False)


def test_a_log_without_a_seal_has_none_to_give_and_no_file() -> None:
    miniature = Miniature()
    miniature.create()
    assert [miniature.log._seals.packed_above(offset, 1) for offset in (-(2**63), -1, 0, 5)] == [
        (b"", False)
    ] * 4
