"""Checkpoints: what they hold, what they free, and that a change under way is not lost by one."""

import pytest

from data_plane.disk.port import FileMissing, SyncDirectory, SyncStep
from data_plane.log import layout
from data_plane.log.checkpoint import (
    Checkpoint,
    CheckpointEntry,
    pack_checkpoint,
    read_checkpoint,
    take_checkpoint,
    unpack_checkpoint,
)
from data_plane.log.outcomes import DamagedRange
from data_plane.log.small_file import SmallFileCorrupt, SmallFileKind, pack_small_file
from data_plane.testkit.disk import DiskFaults, SimDisk
from data_plane.testkit.medium import Medium
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import Miniature, reopened, where


def entry(partition: int, **values: object) -> CheckpointEntry:
    base: dict[str, object] = {
        "where": where(partition), "replica_generation": 3, "recovery_point": 10, "high_watermark": 9,
        "log_start_offset": 4, "first_sequence": 77,
    }  # fmt: skip
    return CheckpointEntry(**(base | values))  # type: ignore[arg-type]


def test_a_checkpoint_reads_back() -> None:
    damaged = entry(2, damage=(DamagedRange(1, 5), DamagedRange(7, 8)))
    checkpoint = Checkpoint(first_sequence=42, entries={one.where: one for one in (entry(1), damaged)})
    assert unpack_checkpoint(pack_checkpoint(checkpoint)) == checkpoint


def test_an_empty_checkpoint_reads_back() -> None:
    assert unpack_checkpoint(pack_checkpoint(Checkpoint(first_sequence=1, entries={}))).entries == {}


@pytest.mark.parametrize("body", [b"", b"x" * 11, b"\0" * 8 + b"\0\0\0\1", b"\0" * 12 + b"x"])
def test_a_body_that_is_no_checkpoint_is_refused(body: bytes) -> None:
    with pytest.raises(SmallFileCorrupt):
        unpack_checkpoint(pack_small_file(SmallFileKind.CHECKPOINT, 1, body))


def test_a_later_version_is_refused() -> None:
    with pytest.raises(SmallFileCorrupt, match="version 2, 1 known"):
        unpack_checkpoint(pack_small_file(SmallFileKind.CHECKPOINT, 2, b"\0" * 12))


def test_a_new_directory_has_none() -> None:
    with pytest.raises(FileMissing):
        read_checkpoint(SimDisk(Medium()))


def started(partitions: int = 2) -> Miniature:
    miniature = Miniature(journal_bytes=2_000)
    for number in range(partitions):
        miniature.create(number)
        miniature.fill(10, number)
    return miniature


def test_a_checkpoint_says_where_every_log_stands() -> None:
    miniature = started()
    miniature.checkpoint()
    read = read_checkpoint(miniature.disk)
    assert read.first_sequence == miniature.journal.next_sequence
    for number in (0, 1):
        found = read.entries[where(number)]
        assert (found.recovery_point, found.high_watermark, found.log_start_offset) == (20, 18, 0)
        assert found.replica_generation == 1


def test_a_checkpoint_writes_totals_and_producers_once_all_that_they_count_is_committed() -> None:
    """What is not committed may still be cut."""
    miniature = started(partitions=1)
    miniature.log._derived.keep_snapshot(even_if_small=True)
    files = [f"{layout.partition_directory(where())}/{name}" for name in ("odometer", "producers")]
    miniature.checkpoint()
    assert not any(miniature.disk.exists(path) for path in files)
    miniature.log.close(clean=True)
    assert not any(miniature.disk.exists(path) for path in files)
    assert isinstance(miniature.disk, SimDisk)
    miniature = reopened(miniature.disk, clean=True)
    miniature.log._derived.keep_snapshot(even_if_small=True)
    miniature.catch_up()
    miniature.checkpoint()
    assert all(miniature.disk.exists(path) for path in files)


def test_after_a_checkpoint_nothing_is_replayed() -> None:
    miniature = started()
    content = miniature.content(1)
    miniature.checkpoint()
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk, tail_bytes=0)
    assert again.replay.records == {} and again.content(1) == content


def test_an_unchanged_log_needs_no_sync() -> None:
    miniature = started()
    miniature.checkpoint()
    miniature.fill(1, 0)
    stages = list(take_checkpoint(miniature.disk, miniature.journal, list(miniature.logs.values())))
    synced = [getattr(step, "file", None) for step in stages[0]]
    assert {file.path.split("/")[1] for file in synced if file is not None} == {
        layout.partition_directory(where(0))[7:]
    }


@pytest.mark.parametrize(
    ("left", "synced"),
    [("cleanly", False), ("with nothing written since", False), ("with more in the journal", True)],
)
def test_the_directory_of_a_log_is_synced_once_more_only_where_a_kill_may_have_left_files_without_a_name(
    left: str, synced: bool
) -> None:
    miniature = started(partitions=1)
    miniature.checkpoint()
    if left == "with more in the journal":
        miniature.fill(1)
    if left == "cleanly":
        miniature.close()
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk, clean=left == "cleanly")
    assert bool(again.replay.records) is synced
    first = next(take_checkpoint(again.disk, again.journal, list(again.logs.values())))
    assert (SyncDirectory(layout.partition_directory(where())) in first) is synced


def test_many_logs_are_synced_in_stages() -> None:
    miniature = started(partitions=70)
    stages = take_checkpoint(miniature.disk, miniature.journal, list(miniature.logs.values()))
    lengths = []
    for steps in stages:
        lengths.append(len(steps))
        miniature.sync(steps)
    assert lengths[:3] == [32 * 3, 32 * 3, 6 * 3]


def stages_of(miniature: Miniature) -> list[list[SyncStep]]:
    """How many stages a checkpoint has now."""
    stages = []
    for steps in take_checkpoint(miniature.disk, miniature.journal, list(miniature.logs.values())):
        stages.append(steps)
        miniature.sync(steps)
    return stages


@pytest.mark.parametrize("stage", range(4))
def test_work_between_any_two_stages_is_not_lost(stage: int) -> None:
    miniature = started()
    protocol = take_checkpoint(miniature.disk, miniature.journal, list(miniature.logs.values()))
    for number, steps in enumerate(protocol):
        miniature.sync(steps)
        if number == stage:
            for log in (0, 1):
                miniature.append(log, batch=made_batch(2, 900))
                miniature.append(log, batch=made_batch(2, 3_000))
                miniature.commit(raise_watermark=False)
            miniature.truncate(22, 0)
            miniature.append(0, epoch=2)
            miniature.commit()
            miniature.catch_up()
            miniature.move_log_start(20, 1)
    contents = [miniature.content(number) for number in (0, 1)]
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk, tail_bytes=0)
    assert [again.content(number) for number in (0, 1)] == contents
    assert not any(report.damage for report in again.reports.values())
    assert again.logs[1].log_start_offset == 20


def test_a_change_under_way_keeps_its_journal_record() -> None:
    miniature = started()
    miniature.append(0)
    miniature.commit(raise_watermark=False)
    miniature.logs[0].request_truncation(20)
    miniature.commit(raise_watermark=False)
    sequence = miniature.logs[0].unapplied_sequence
    miniature.checkpoint()
    read = read_checkpoint(miniature.disk)
    assert read.first_sequence == sequence
    assert read.entries[where(0)].first_sequence == sequence
    assert read.entries[where(1)].first_sequence == miniature.journal.next_sequence
    assert isinstance(miniature.disk, SimDisk)
    assert reopened(miniature.disk).logs[0].log_end_offset == 20


def test_a_full_disk_leaves_the_old_checkpoint() -> None:
    miniature = started()
    miniature.checkpoint()
    before = read_checkpoint(miniature.disk)
    miniature.fill(3, 0)
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.faults = DiskFaults(capacity_bytes=miniature.disk.medium.used_bytes())
    with pytest.raises(Exception, match="no space"):
        miniature.checkpoint()
    assert read_checkpoint(miniature.disk) == before
    miniature.disk.faults = DiskFaults()
    miniature.checkpoint()
    assert read_checkpoint(miniature.disk).entries[where(0)].recovery_point == 26


def test_a_checkpoint_frees_the_journal() -> None:
    miniature = started()
    many = len(miniature.disk.list(layout.JOURNAL))
    for _ in range(3):
        miniature.fill(30, 0)
        miniature.checkpoint()
        assert len(miniature.disk.list(layout.JOURNAL)) <= many + 6
    assert len(stages_of(miniature)) >= 4


def test_a_checkpoint_that_found_no_room_is_simply_taken_again() -> None:
    miniature = started()
    protocol = take_checkpoint(miniature.disk, miniature.journal, list(miniature.logs.values()))
    next(protocol)
    protocol.close()  # type: ignore[attr-defined]
    miniature.checkpoint()
    assert all(segment.holds == 0 for log in miniature.logs.values() for segment in log._segments.all)
    assert all(not segment.dirty for log in miniature.logs.values() for segment in log._segments.all)
