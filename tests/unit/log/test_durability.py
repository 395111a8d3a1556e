"""What is durable when: the journal for `fsync`, flushes for `replicated`, the change between them, and full disks
(RL14, RL127)."""

import pytest

from data_plane.disk.port import SyncDirectory, SyncFile, WriteFile
from data_plane.log import layout
from data_plane.log.outcomes import PieceKind
from data_plane.log.partition_log import PartitionLog
from data_plane.testkit.disk import DiskFaults, SimDisk
from data_plane.testkit.medium import Medium
from penstock.contract.errors import DiskFull
from penstock.contract.topic_settings import Durability, TopicSettings
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import SMALL, Miniature, reopened, where

RELAXED = TopicSettings(replication=3, durability=Durability.REPLICATED, segment_bytes=4096)


def started(settings: TopicSettings = SMALL) -> Miniature:
    miniature = Miniature(settings=settings)
    miniature.create()
    return miniature


def kinds(miniature: Miniature) -> tuple[list[PieceKind], list[type]]:
    """Kinds of the pieces handed out, and of the steps that go first; then made durable."""
    unsynced = miniature.log.take_unsynced()
    assert unsynced is not None
    miniature.sync(miniature.journal.append_steps([unsynced]))
    miniature.log.mark_durable(unsynced)
    return [piece.kind for piece in unsynced.pieces], [type(step) for step in unsynced.first]


def test_nothing_written_is_nothing_to_sync() -> None:
    assert started().log.take_unsynced() is None


def test_an_append_is_durable_only_when_it_is_marked() -> None:
    miniature = started()
    miniature.append(batch=made_batch(3))
    log = miniature.log
    assert (log.log_end_offset, log.durable_end_offset) == (3, 0)
    unsynced = log.take_unsynced()
    assert unsynced is not None and unsynced.end_offset == 3
    miniature.append(batch=made_batch(2))
    assert log.mark_durable(unsynced) == 3
    assert log.durable_end_offset == 3


def test_many_appends_to_a_segment_are_one_journal_record() -> None:
    miniature = started()
    for _ in range(5):
        miniature.append()
    assert kinds(miniature) == ([PieceKind.APPEND], [])


def test_a_roll_begins_another_record() -> None:
    miniature = started()
    while miniature.log.segment_count < 2:
        miniature.append(batch=made_batch(1, 900))
    assert kinds(miniature) == ([PieceKind.APPEND, PieceKind.APPEND], [])


def test_a_large_batch_is_journaled_without_a_copy() -> None:
    miniature = started()
    batch = made_batch(1, 100_000)
    miniature.append(batch=batch)
    unsynced = miniature.log.take_unsynced()
    assert unsynced is not None
    body = unsynced.pieces[0].batches[1]
    assert isinstance(body, memoryview) and body.obj is batch


def test_a_replicated_topic_skips_the_journal_and_syncs_its_files() -> None:
    miniature = started(RELAXED)
    miniature.append()
    pieces, first = kinds(miniature)
    assert pieces == [PieceKind.FLUSHED]
    assert first == [SyncFile, SyncFile, SyncDirectory]
    assert miniature.log.durable_end_offset == 1
    miniature.append()
    assert kinds(miniature) == ([PieceKind.FLUSHED], [SyncFile, SyncFile])


def test_what_a_replicated_topic_has_flushed_is_known_to_be_durable_though_it_is_not_committed() -> None:
    miniature = started(RELAXED)
    miniature.append()
    miniature.commit(raise_watermark=False)
    assert (miniature.log.durable_end_offset, miniature.log.high_watermark) == (1, 0)
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk, settings=RELAXED)
    assert again.reports[0].durable_end_offset == 1


def test_a_topic_that_becomes_strict_flushes_before_it_journals() -> None:
    miniature = started(RELAXED)
    miniature.append()
    miniature.log.settings = SMALL
    miniature.append()
    pieces, first = kinds(miniature)
    assert pieces == [PieceKind.FLUSHED] and first != []
    miniature.append()
    assert kinds(miniature) == ([PieceKind.APPEND], [])


def test_a_replicated_topic_owes_a_sync_of_what_is_written_though_nothing_of_it_is_committed() -> None:
    for settings, owes in ((RELAXED, True), (SMALL, False)):
        miniature = started(settings)
        assert not miniature.log.owes_a_sync
        miniature.append()
        assert miniature.log.owes_a_sync == owes
        miniature.commit(raise_watermark=False)
        assert not miniature.log.owes_a_sync


def test_a_truncation_of_a_replicated_topic_is_journaled_behind_its_flush() -> None:
    miniature = started(RELAXED)
    miniature.fill(2)
    miniature.append()
    miniature.log.request_truncation(4)
    assert kinds(miniature)[0] == [PieceKind.FLUSHED, PieceKind.TRUNCATE]


def test_a_seal_is_durable_before_its_segment_may_go() -> None:
    miniature = started()
    miniature.fill(40)
    assert miniature.log._seals.to_sync
    miniature.log.request_log_start(miniature.log._segments.all[1].base_offset)
    assert kinds(miniature) == ([PieceKind.LOG_START], [SyncFile])
    assert not miniature.log._seals.to_sync


def test_the_watermark_comes_back_after_a_crash_with_the_last_record() -> None:
    miniature = started()
    miniature.fill(3)
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk)
    assert again.log.high_watermark == 2
    again.log.set_high_watermark(4)
    again.checkpoint()
    assert isinstance(again.disk, SimDisk)
    assert reopened(again.disk).log.high_watermark == 4


def test_the_watermark_never_goes_back_and_never_passes_the_end() -> None:
    log = started().log
    miniature = started()
    miniature.append()
    miniature.log.set_high_watermark(50)
    assert miniature.log.high_watermark == 1
    miniature.log.set_high_watermark(0)
    assert miniature.log.high_watermark == 1
    assert log.high_watermark == 0


def test_what_the_page_cache_kept_is_kept_and_made_durable_at_boot() -> None:
    miniature = started()
    miniature.fill(2)
    miniature.append()
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk)
    assert again.reports[0].durable_end_offset == 4
    assert again.reports[0].log_end_offset == 5
    assert again.log.durable_end_offset == 5
    assert isinstance(again.disk, SimDisk)
    left = Miniature(SimDisk(again.disk.medium.after_cut(again.disk.medium.random_choice(again.disk._rng))))
    assert left.log.log_end_offset == 5


def test_a_new_directory_is_synced_up_to_the_root() -> None:
    miniature = Miniature()
    log = PartitionLog.create(miniature.disk, layout.partition_directory(where()), where(), 1, SMALL)
    paths = [step.path for step in log.creation_steps() if isinstance(step, SyncDirectory)]
    assert paths == [layout.partition_directory(where()), layout.TOPICS, ""]


def full(miniature: Miniature, spare_bytes: int) -> None:
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.faults = DiskFaults(capacity_bytes=disk.medium.used_bytes() + spare_bytes)


@pytest.mark.parametrize("spare_bytes", [0, 1, 60, 100, 101, 102, 130, 164])
def test_a_batch_that_does_not_fit_leaves_the_log_as_it_was(spare_bytes: int) -> None:
    miniature = started()
    miniature.fill(2)
    before = miniature.content()
    size = [inode.data for _, inode in miniature.disk.medium.files()]  # type: ignore[attr-defined]
    sizes = [len(data) for data in size]
    full(miniature, spare_bytes)
    with pytest.raises(DiskFull, match="nothing was written, free space required"):
        miniature.append(batch=made_batch())
    assert [len(data) for data in size] == sizes
    assert miniature.content() == before
    assert miniature.log.take_unsynced() is None
    miniature.disk.faults = DiskFaults()  # type: ignore[attr-defined]
    miniature.append()
    miniature.commit()
    assert isinstance(miniature.disk, SimDisk)
    assert reopened(miniature.disk).content() == miniature.content()


def test_a_roll_that_does_not_fit_leaves_no_new_segment() -> None:
    miniature = started()
    miniature.fill(10, body_bytes=300)
    names = miniature.disk.list(miniature.log._segments.directory)
    full(miniature, 100)
    with pytest.raises(DiskFull):
        miniature.append(batch=made_batch(1, 3_900))
    assert miniature.disk.list(miniature.log._segments.directory) == names
    assert miniature.log.segment_count == 1
    miniature.disk.faults = DiskFaults()  # type: ignore[attr-defined]
    miniature.append(batch=made_batch(1, 3_900))
    assert miniature.log.segment_count == 2


@pytest.mark.parametrize("spare_bytes", [500, 3_000, 5_000, 9_000])
def test_a_push_that_does_not_fit_is_taken_whole_or_not_at_all(spare_bytes: int) -> None:
    leader = started()
    leader.fill(40)
    part = leader.read(0)
    follower = started()
    before = follower.disk.list(follower.log._segments.directory)
    full(follower, spare_bytes)
    with pytest.raises(DiskFull):
        follower.log.append_as_follower(memoryview(part.stamps), memoryview(b"".join(part.batches)), 1)
    assert follower.log.log_end_offset == 0 and follower.log.segment_count == 0
    left = follower.disk.list(follower.log._segments.directory)
    assert [name for name in left if name.endswith((".log", ".stamps"))] == [
        name for name in before if name.endswith((".log", ".stamps"))
    ]
    follower.disk.faults = DiskFaults()  # type: ignore[attr-defined]
    follower.log.append_as_follower(memoryview(part.stamps), memoryview(b"".join(part.batches)), 1)
    assert follower.log.log_end_offset == leader.log.log_end_offset


def test_reads_go_on_while_the_disk_is_full() -> None:
    miniature = started()
    miniature.fill(40)
    full(miniature, 0)
    with pytest.raises(DiskFull):
        miniature.append()
    assert len(miniature.content()[0]) == 40 * 64


def test_recovery_succeeds_on_a_full_disk() -> None:
    miniature = started()
    miniature.fill(20)
    miniature.checkpoint()
    miniature.fill(5)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    again = SimDisk(disk.medium, faults=DiskFaults(capacity_bytes=disk.medium.used_bytes()))
    assert Miniature(again).content() == miniature.content()


def test_a_checkpoint_holds_what_was_written_and_not_marked_yet() -> None:
    miniature = started()
    miniature.append()
    miniature.checkpoint()
    assert miniature.log.durable_end_offset == 1
    assert isinstance(miniature.disk, SimDisk)
    cut = Medium()
    cut.root = miniature.disk.medium.after_cut(miniature.disk.medium.random_choice(miniature.disk._rng)).root
    assert Miniature(SimDisk(cut)).log.log_end_offset == 1


def test_the_journal_is_one_write_for_all_logs() -> None:
    miniature = Miniature()
    for number in range(20):
        miniature.create(number)
        miniature.append(number)
    taken = [log.take_unsynced() for log in miniature.logs.values()]
    steps = miniature.journal.append_steps([unsynced for unsynced in taken if unsynced is not None])
    assert [type(step) for step in steps] == [SyncDirectory, WriteFile, SyncFile]
