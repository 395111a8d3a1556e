"""The journal: what stands after a crash, what is torn, what is damage; rotation and reuse of files."""

import pytest

from data_plane.disk.port import APPENDED_BLOCK_BYTES, Buffer, DiskFull, SyncDirectory, SyncFile, WriteFile
from data_plane.log import layout
from data_plane.log.journal import Journal, JournalSettings
from data_plane.log.journal_record import HEADER_BYTES, MAGIC, file_seed, unpack_head
from data_plane.log.journal_replay import Replay, journal_file, journal_numbers, read_journal
from data_plane.log.outcomes import JournalPiece, PieceKind, Unsynced
from data_plane.testkit.disk import DiskFaults, SimDisk
from data_plane.testkit.medium import Medium
from penstock.contract.invariant import InvariantBroken
from penstock.records.batch import placed
from penstock.records.stamp import Stamp, StampFlag, pack_stamp, stamp_seed
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import IDENTITY, where

SETTINGS = JournalSettings(file_bytes=2_000, checkpoint_bytes=4_000, spare_files_max=2)


def run_of(offset: int, batches: int = 1, *, body_bytes: int = 100, partition: int = 0) -> JournalPiece:
    """A run of batches of one offset each, at the bytes where they would stand in a segment that begins at 0."""
    seed = stamp_seed(where(partition))
    size = 61 + body_bytes
    piece = JournalPiece(PieceKind.APPEND, offset, offset + batches, 0, offset * size, offset)
    for at in range(offset, offset + batches):
        stamp = Stamp(at, 1, 1, size, 1, 5, 0, -1, -1, int(StampFlag.NONE), at * size, -1)
        piece.stamps.append(pack_stamp(stamp, seed))
        piece.batches += placed(made_batch(1, body_bytes, fill=at % 256), at, 1)
    piece.stamps_bytes, piece.batches_bytes = 64 * batches, size * batches
    return piece


def unsynced(*pieces: JournalPiece, partition: int = 0, high_watermark: int = 3) -> Unsynced:
    return Unsynced(where(partition), 1, high_watermark, pieces[-1].end_offset, (), pieces, 0, False)


def opened(disk: SimDisk, first_sequence: int = 1) -> tuple[Journal, Replay]:
    return Journal.open(disk, IDENTITY, first_sequence, SETTINGS)


def started() -> tuple[SimDisk, Journal]:
    disk = SimDisk(Medium())
    journal, _ = opened(disk)
    return disk, journal


def write(disk: SimDisk, journal: Journal, *all_unsynced: Unsynced) -> None:
    disk.sync_now(journal.append_steps(all_unsynced))


def offsets(replay: Replay, partition: int = 0) -> list[tuple[int, int]]:
    return [(record.head.offset, record.head.end_offset) for record in replay.of(where(partition))]


def test_an_empty_directory_has_an_empty_journal() -> None:
    _, replay = opened(SimDisk(Medium()))
    assert (replay.records, replay.last_sequence, replay.unknown_loss, replay.torn_records) == (
        {},
        0,
        False,
        0,
    )


def test_records_read_back_in_order_with_all_they_carry() -> None:
    disk, journal = started()
    first, second = run_of(0, 2), run_of(2, 1)
    write(disk, journal, unsynced(first))
    write(
        disk,
        journal,
        unsynced(JournalPiece(PieceKind.TRUNCATE, 1, 2, 0, 161, 1)),
        unsynced(second, high_watermark=2),
    )
    _, replay = opened(disk)
    records = replay.of(where())
    assert [record.head.sequence for record in records] == [1, 2, 3]
    assert [record.head.kind for record in records] == [
        PieceKind.APPEND,
        PieceKind.TRUNCATE,
        PieceKind.APPEND,
    ]
    assert [record.head.high_watermark for record in records] == [3, 3, 2]
    assert (records[1].head.segment_base, records[1].head.position, records[1].head.stamp_index) == (
        0,
        161,
        1,
    )
    assert records[0].payload() == (b"".join(first.stamps), b"".join(first.batches))
    assert records[1].payload() == (b"", b"")
    assert all(record.intact and record.head.replica_generation == 1 for record in records)


def test_one_call_is_one_write_and_one_sync() -> None:
    disk, journal = started()
    steps = journal.append_steps([unsynced(run_of(0)), unsynced(run_of(0, partition=1), partition=1)])
    assert [type(step) for step in steps] == [SyncDirectory, WriteFile, SyncFile]
    disk.sync_now(steps)
    steps = journal.append_steps([unsynced(run_of(1))])
    assert [type(step) for step in steps] == [WriteFile, SyncFile]


def test_small_records_are_one_buffer_and_large_batches_are_not_copied() -> None:
    _, journal = started()
    large = run_of(2, body_bytes=100_000)
    written = [
        step
        for step in journal.append_steps(
            [unsynced(run_of(0)), unsynced(run_of(1), large), unsynced(run_of(3))]
        )
        if isinstance(step, WriteFile)
    ]
    handed: list[Buffer] = list(written[0].buffers)
    assert len(handed) == 4
    assert handed[1] is large.batches[0] and handed[2] is large.batches[1]


def test_nothing_to_journal_needs_no_write() -> None:
    _, journal = started()
    empty = Unsynced(where(), 1, 0, 0, (), (), 0, False)
    assert journal.append_steps([empty]) == [] and journal.append_steps([]) == []


def test_records_of_several_partitions_are_told_apart() -> None:
    disk, journal = started()
    write(
        disk,
        journal,
        unsynced(run_of(0)),
        unsynced(run_of(0, 3, partition=1), partition=1),
        unsynced(run_of(1)),
    )
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (1, 2)] and offsets(replay, 1) == [(0, 3)]


def test_records_before_the_checkpoint_are_not_replayed() -> None:
    disk, journal = started()
    for at in range(5):
        write(disk, journal, unsynced(run_of(at)))
    assert offsets(read_journal(disk, IDENTITY, 4)) == [(3, 4), (4, 5)]


def test_a_full_file_is_followed_by_another_one_numbered_by_its_first_record() -> None:
    disk, journal = started()
    for at in range(20):
        write(disk, journal, unsynced(run_of(at)))
    numbers = journal_numbers(disk)
    assert numbers[0] == 1 and len(numbers) > 2
    _, replay = opened(disk)
    assert offsets(replay) == [(at, at + 1) for at in range(20)]
    assert replay.last_sequence == 20 and not replay.unknown_loss


def test_a_record_larger_than_a_file_stands_all_the_same() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    write(disk, journal, unsynced(run_of(1, body_bytes=10_000)))
    write(disk, journal, unsynced(run_of(2)))
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (1, 2), (2, 3)]


def test_after_a_boot_the_journal_goes_on_in_a_file_that_skips_a_number() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    again, _ = opened(disk)
    assert again.next_sequence == 3
    write(disk, again, unsynced(run_of(1)))
    assert journal_numbers(disk) == [1, 3]
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (1, 2)] and not replay.unknown_loss


def last_file(disk: SimDisk) -> str:
    return f"{layout.JOURNAL}/{journal_numbers(disk)[-1]:020d}.journal"


def test_a_torn_last_record_is_cut_and_nothing_is_said_to_be_lost() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    write(disk, journal, unsynced(run_of(1)), unsynced(run_of(2)))
    size = HEADER_BYTES + 64 + 161
    disk.medium.flip(last_file(disk), size + HEADER_BYTES + 70, 2)
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1)]
    assert not replay.unknown_loss and replay.torn_records == 2


def test_remains_of_a_torn_group_never_continue_a_later_record() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    write(disk, journal, unsynced(run_of(1)), unsynced(run_of(2)))
    size = HEADER_BYTES + 64 + 161
    disk.medium.flip(last_file(disk), size + 5, 2)
    again, _ = opened(disk)
    write(disk, again, unsynced(run_of(1)))
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (1, 2)] and not replay.unknown_loss


@pytest.mark.parametrize("bad", [0, 1])
def test_a_bad_payload_below_the_durable_mark_is_named(bad: int) -> None:
    disk, journal = started()
    for at in range(3):
        write(disk, journal, unsynced(run_of(at)))
    size = HEADER_BYTES + 64 + 161
    disk.medium.flip(last_file(disk), bad * size + HEADER_BYTES + 100, 2)
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (1, 2), (2, 3)]
    assert [record.intact for record in replay.of(where())] == [at != bad for at in range(3)]
    assert not replay.unknown_loss


@pytest.mark.parametrize("bad", [0, 1])
def test_a_bad_header_below_the_durable_mark_is_a_loss_of_nobody_knows_whom(bad: int) -> None:
    disk, journal = started()
    for at in range(3):
        write(disk, journal, unsynced(run_of(at)))
    disk.medium.flip(last_file(disk), bad * (HEADER_BYTES + 64 + 161) + 20, 2)
    _, replay = opened(disk)
    assert offsets(replay) == [(at, at + 1) for at in range(3) if at != bad]
    assert replay.unknown_loss


def test_a_file_missing_in_the_middle_is_a_loss() -> None:
    disk, journal = started()
    for at in range(20):
        write(disk, journal, unsynced(run_of(at)))
    numbers = journal_numbers(disk)
    disk.remove(f"{layout.JOURNAL}/{numbers[1]:020d}.journal")
    _, replay = opened(disk)
    assert replay.unknown_loss


def test_a_missing_first_file_is_a_loss() -> None:
    disk, journal = started()
    for at in range(20):
        write(disk, journal, unsynced(run_of(at)))
    disk.remove(f"{layout.JOURNAL}/{journal_numbers(disk)[0]:020d}.journal")
    _, replay = opened(disk)
    assert replay.unknown_loss


def test_zeros_are_the_end() -> None:
    disk, journal = started()
    for steps in journal.prepare_steps():
        disk.sync_now(steps)
    write(disk, journal, unsynced(run_of(0)))
    assert disk.list(layout.JOURNAL) == [journal_file(1)], "the file that was made ready is used"
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1)] and replay.torn_records == 0


def test_a_record_of_another_directory_or_file_is_none() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    data = disk.open(last_file(disk)).read_at(0, 10_000)
    assert unpack_head(data, 0, file_seed(IDENTITY, 1)) is not None
    assert unpack_head(data, 0, file_seed(IDENTITY, 2)) is None
    assert unpack_head(data, 0, file_seed(b"another directory", 1)) is None


def test_a_record_within_a_message_is_not_taken_for_one() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    copied = disk.open(last_file(disk)).read_at(0, HEADER_BYTES)
    unfinished = MAGIC * 10
    holding = run_of(1, body_bytes=HEADER_BYTES + len(unfinished))
    batch = made_batch(1, body=copied + unfinished)
    holding.batches = placed(batch, 1, 1)
    write(disk, journal, unsynced(holding))
    write(disk, journal, unsynced(run_of(2)))
    disk.medium.flip(last_file(disk), HEADER_BYTES + 64 + 161 + 20, 2)
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (2, 3)]


def checkpointed(disk: SimDisk, journal: Journal) -> None:
    journal.begin_checkpoint()
    for steps in journal.give_back(journal.next_sequence):
        disk.sync_now(steps)


def test_a_checkpoint_gives_files_back_for_reuse_up_to_a_bound() -> None:
    disk, journal = started()
    for at in range(30):
        write(disk, journal, unsynced(run_of(at)))
    assert journal.checkpoint_due
    before = journal_numbers(disk)
    checkpointed(disk, journal)
    assert not journal.checkpoint_due
    assert journal_numbers(disk) == before[-1:]
    spares = [name for name in disk.list(layout.JOURNAL) if name.startswith("spare-")]
    assert len(spares) == SETTINGS.spare_files_max


def test_a_reused_file_shows_nothing_of_what_it_held_before() -> None:
    disk, journal = started()
    for at in range(30):
        write(disk, journal, unsynced(run_of(at)))
    checkpointed(disk, journal)
    first = journal.next_sequence
    for at in range(30, 45):
        write(disk, journal, unsynced(run_of(at)))
    _, replay = opened(disk, first)
    assert offsets(replay) == [(at, at + 1) for at in range(30, 45)] and not replay.unknown_loss


def test_records_that_a_checkpoint_still_needs_are_kept() -> None:
    disk, journal = started()
    for at in range(30):
        write(disk, journal, unsynced(run_of(at)))
    for steps in journal.give_back(7):
        disk.sync_now(steps)
    assert offsets(read_journal(disk, IDENTITY, 7))[0] == (6, 7)


def test_after_a_boot_a_checkpoint_gives_all_old_files_back() -> None:
    disk, journal = started()
    for at in range(12):
        write(disk, journal, unsynced(run_of(at)))
    again, _ = opened(disk)
    first = again.next_sequence
    checkpointed(disk, again)
    assert journal_numbers(disk) == []
    write(disk, again, unsynced(run_of(12)))
    _, replay = opened(disk, first)
    assert offsets(replay) == [(12, 13)] and not replay.unknown_loss


def test_one_spare_file_is_prepared_ahead() -> None:
    disk, journal = started()
    assert journal.preparation_due
    for steps in journal.prepare_steps():
        disk.sync_now(steps)
    assert not journal.preparation_due
    assert list(journal.prepare_steps()) == []
    write(disk, journal, unsynced(run_of(0)))
    assert disk.list(layout.JOURNAL) == [f"{1:020d}.journal"]


def test_a_preparation_that_was_given_up_can_be_begun_again() -> None:
    disk, journal = started()
    protocol = journal.prepare_steps()
    disk.sync_now(next(protocol))
    assert not journal.preparation_due
    protocol.close()  # type: ignore[attr-defined]
    assert journal.preparation_due
    for steps in journal.prepare_steps():
        disk.sync_now(steps)
    assert [name for name in disk.list(layout.JOURNAL) if name.startswith("spare-")] == ["spare-1"]


def test_what_did_not_fit_on_the_disk_is_taken_back_and_asked_for_again() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    disk.faults = DiskFaults(capacity_bytes=disk.medium.used_bytes() + 150)
    second = unsynced(run_of(1, body_bytes=2 * APPENDED_BLOCK_BYTES))
    with pytest.raises(DiskFull):
        write(disk, journal, second)
    journal.take_back()
    disk.faults = DiskFaults()
    write(disk, journal, second, unsynced(run_of(2)))
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (1, 2), (2, 3)]
    assert [record.head.sequence for record in replay.of(where())] == [1, 2, 3]


def test_what_was_taken_back_does_not_stand_where_the_journal_went_on_in_another_file() -> None:
    disk, journal = started()
    write(disk, journal, unsynced(run_of(0)))
    second = unsynced(run_of(1))
    disk.sync_now(journal.append_steps([second])[:-1])  # whole in the file, and its sync failed
    journal.take_back()
    write(disk, journal, second, unsynced(run_of(2, body_bytes=SETTINGS.file_bytes)))
    assert journal_numbers(disk) == [1, 2]
    _, replay = opened(disk)
    assert offsets(replay) == [(0, 1), (1, 2), (2, 3)]
    assert replay.torn_records == 1 and not replay.unknown_loss


def test_only_the_last_call_can_be_taken_back() -> None:
    disk, journal = started()
    with pytest.raises(InvariantBroken):
        journal.take_back()
    write(disk, journal, unsynced(run_of(0)))
    journal.take_back()
    with pytest.raises(InvariantBroken):
        journal.take_back()
