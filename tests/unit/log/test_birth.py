"""A log whose directory is made with its first record: beside checkpoints, and once for all who make it durable."""

from pathlib import Path

from data_plane.broker.disk import RealDisk
from data_plane.disk.port import SyncDirectory
from data_plane.log import layout
from data_plane.log.checkpoint import take_checkpoint
from data_plane.testkit.disk import SimDisk, SimFile
from data_plane.testkit.medium import CutChoice, Medium
from tests.unit.log.miniature import Miniature, reopened, where

DIRECTORY = layout.partition_directory(where())


def unborn() -> tuple[SimDisk, Miniature]:
    miniature = Miniature()
    miniature.create(born=False)
    assert isinstance(miniature.disk, SimDisk)
    return miniature.disk, miniature


def test_the_round_of_the_first_batch_ends_the_birth_and_later_rounds_sync_no_directory() -> None:
    _, miniature = unborn()
    miniature.append()
    assert not miniature.log.born
    miniature.commit()
    assert miniature.log.born
    miniature.append()
    unsynced = miniature.log.take_unsynced()
    assert unsynced is not None and not any(isinstance(step, SyncDirectory) for step in unsynced.first)


def test_a_checkpoint_that_makes_the_directory_durable_ends_the_birth() -> None:
    _, miniature = unborn()
    miniature.append()
    miniature.checkpoint()
    assert miniature.log.born
    assert miniature.log.creation_steps() == ()


def test_who_made_the_directory_durable_first_leaves_the_others_their_steps(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    log = Miniature(disk).create(born=False)
    first, second = log.creation_steps(), log.creation_steps()
    disk.sync_now(first)
    log.end_creation()
    assert log.born
    disk.sync_now(second)
    log.end_creation()
    disk.close()


def test_a_checkpoint_beside_the_first_change_of_a_log_keeps_the_changes_record() -> None:
    """The record is on its way to the journal when the checkpoint begins, and what follows it builds on it."""
    disk, miniature = unborn()
    miniature.log.request_start_over(1000)
    unsynced = miniature.log.take_unsynced()
    assert unsynced is not None
    steps = miniature.journal.append_steps([unsynced])
    miniature.checkpoint()
    miniature.sync(steps)
    miniature.log.mark_durable(unsynced)
    miniature.log.start_over(1000)
    miniature.append()
    miniature.commit()
    again = reopened(disk)
    assert again.reports[0].damage == ()
    assert (again.log.log_start_offset, again.log.log_end_offset) == (1000, miniature.log.log_end_offset)


def test_what_a_checkpoint_knows_of_an_earlier_generation_makes_no_new_directory_durable() -> None:
    disk, miniature = unborn()
    miniature.fill(1)
    miniature.checkpoint()
    miniature.log.close(clean=False)
    disk.remove_directory(DIRECTORY)
    miniature.create(generation=2, born=False).make_directory()
    again = reopened(disk)
    assert again.log.replica_generation == 2 and not again.log.born
    again.fill(1)
    left = Miniature(SimDisk(again.disk.medium.after_cut(CutChoice())))  # type: ignore[attr-defined]
    assert left.log.log_end_offset == again.log.log_end_offset


class _NotedDisk(SimDisk):
    """Notes which identities are open."""

    def __init__(self) -> None:
        super().__init__(Medium())
        self.identities: list[SimFile] = []

    def open(self, path: str, *, create: bool = False) -> SimFile:
        file = super().open(path, create=create)
        if path.endswith(layout.PARTITION_FILE):
            self.identities.append(file)
        return file

    @property
    def open_identities(self) -> int:
        return sum(file._open for file in self.identities)


def test_a_directory_that_is_durable_holds_no_file_open() -> None:
    disk = _NotedDisk()
    miniature = Miniature(disk)
    miniature.create(born=False)
    miniature.append()
    assert disk.open_identities == 1
    miniature.commit()
    assert disk.open_identities == 0


def test_a_checkpoint_that_a_full_disk_ended_holds_the_identity_open_until_the_next_one_alone() -> None:
    disk = _NotedDisk()
    miniature = Miniature(disk)
    miniature.create(born=False)
    miniature.append()
    given_up = take_checkpoint(disk, miniature.journal, list(miniature.logs.values()))
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]
    miniature.commit()
    assert miniature.log.born and disk.open_identities == 1
    miniature.checkpoint()
    assert disk.open_identities == 0
