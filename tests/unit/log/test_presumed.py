"""A checkpoint that is lost: whatever the files tell below their last good stamp was durable once (RL54)."""

import pytest

from data_plane.log import layout
from data_plane.log.outcomes import DamagedRange
from data_plane.log.partition_log import PartitionLog
from data_plane.log.presumed import holds_segments
from data_plane.log.sidecar import HEADER_BYTES
from data_plane.testkit.disk import SimDisk
from penstock.records.stamp import STAMP_BYTES
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import SMALL, Miniature, where

DIRECTORY = layout.partition_directory(where())


def written(batches: int = 30, log_start: int = 0) -> tuple[Miniature, SimDisk]:
    """Batches of two messages over several segments, all of them synced."""
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for number in range(batches):
        miniature.append(batch=made_batch(2, 400, fill=number))
        miniature.commit()
    miniature.catch_up()
    if log_start:
        miniature.move_log_start(log_start)
    miniature.checkpoint()
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.kill()
    return miniature, SimDisk(miniature.disk.medium)


def recovered(disk: SimDisk) -> tuple[PartitionLog, int, tuple[DamagedRange, ...]]:
    log, report = PartitionLog.recover(
        disk, DIRECTORY, SMALL, checkpoint_entry=None, replay=(), clean=False, checkpoint_lost=True
    )
    return log, report.durable_end_offset, report.damage


def bases(miniature: Miniature) -> list[int]:
    return [segment.base_offset for segment in miniature.log._segments.all]


def test_all_good_stamps_count_as_durable_and_the_log_begins_with_its_first_segment() -> None:
    miniature, disk = written()
    log, durable_end, damage = recovered(disk)
    assert (log.log_start_offset, log.log_end_offset, durable_end, damage) == (0, 60, 60, ())
    miniature, disk = written(log_start=20)
    first = bases(miniature)[0]
    assert 0 < first <= 20
    log, durable_end, damage = recovered(disk)
    assert (log.log_start_offset, log.log_end_offset, durable_end) == (first, 60, 60)


def test_a_log_without_segments_begins_where_its_directory_says() -> None:
    _, disk = written(batches=0)
    log, durable_end, damage = recovered(disk)
    assert (log.log_start_offset, log.log_end_offset, durable_end, damage) == (0, 0, 0, ())


def test_a_bad_batch_below_the_last_good_stamp_is_damage_and_no_torn_tail() -> None:
    miniature, disk = written()
    last = bases(miniature)[-1]
    disk.medium.flip(f"{DIRECTORY}/{last:020d}.log", 100, 1)
    _, durable_end, damage = recovered(disk)
    assert durable_end == 60
    assert [(lost.first_offset, lost.end_offset) for lost in damage] == [(last, last + 2)]


@pytest.mark.parametrize("bad", [1, 2])
def test_stamps_behind_the_last_good_one_were_never_durable(bad: int) -> None:
    miniature, disk = written()
    last, count = bases(miniature)[-1], miniature.log._segments.all[-1].stamp_count
    assert count > bad
    for number in range(count - bad, count):
        disk.medium.flip(f"{DIRECTORY}/{last:020d}.stamps", HEADER_BYTES + STAMP_BYTES * number + 20, 1)
    log, durable_end, damage = recovered(disk)
    assert (log.log_end_offset, durable_end, damage) == (60 - 2 * bad, 60 - 2 * bad, ())


def test_a_last_segment_without_a_good_stamp_leaves_the_end_to_the_one_before() -> None:
    miniature, disk = written()
    last, count = bases(miniature)[-1], miniature.log._segments.all[-1].stamp_count
    for number in range(count):
        disk.medium.flip(f"{DIRECTORY}/{last:020d}.stamps", HEADER_BYTES + STAMP_BYTES * number + 20, 1)
    log, durable_end, damage = recovered(disk)
    assert (log.log_end_offset, durable_end, damage) == (last, last, ())


def test_a_directory_holds_segments_once_one_partition_has_some() -> None:
    medium = Miniature().disk
    assert isinstance(medium, SimDisk)
    disk = SimDisk(medium.medium)
    disk.make_directories(f"{layout.TOPICS}/no partition")
    disk.open(f"{layout.TOPICS}/no partition/{0:020d}.log", create=True).close()
    disk.make_directories(DIRECTORY)
    disk.open(f"{DIRECTORY}/partition.json", create=True).close()
    assert not holds_segments(disk)
    for suffix in (layout.LOG_SUFFIX, layout.STAMPS_SUFFIX):
        path = f"{DIRECTORY}/{0:020d}{suffix}"
        disk.open(path, create=True).close()
        assert holds_segments(disk)
        disk.remove(path)
