"""What is refused when the disk is short of room, in which order (RL128)."""

from dataclasses import replace

from data_plane.disk.port import DiskFull
from data_plane.node.log_directory.disk_space import BALLAST_FILE, DiskSpace
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.testkit.disk import DiskFaults, SimDisk
from data_plane.testkit.medium import Medium
from tests.unit.node.storage import CONFIG, DAY_MS

KIB = 1_024
DISK = 10_000 * KIB


class Filled:
    """A disk of ten MiB and what is free on it."""

    def __init__(self, *, ballast: int = 100 * KIB, soft: int = DISK, hard: int = DISK) -> None:
        config = replace(CONFIG, disk_soft_free_bytes=soft, disk_hard_free_bytes=hard, ballast_bytes=ballast)
        self.disk = SimDisk(Medium(), faults=DiskFaults(capacity_bytes=DISK))
        self.space = DiskSpace(config, self.disk, Quarantine(self.disk, DAY_MS))
        self.due = 0
        self.asked = 0

    def look(self, free: int) -> DiskSpace:
        file = self.disk.open("filling", create=True)
        used_by_others = self.disk.medium.used_bytes() - file.size()
        file.truncate(0)
        file.truncate(DISK - free - used_by_others)
        self.space.look(self._delete_due)
        return self.space

    def _delete_due(self) -> int:
        self.asked += 1
        return self.due


def test_a_tenth_free_is_enough_and_less_is_refused() -> None:
    filled = Filled()
    assert not filled.look(1_001 * KIB).refuses_writes
    room = filled.look(999 * KIB)
    assert room.refuses_writes == f"the disk has {999 * KIB} bytes free, {1_000 * KIB} required for writes"
    assert not room.read_only
    assert not filled.look(1_001 * KIB).refuses_writes


def test_of_a_large_disk_less_than_a_tenth_is_demanded() -> None:
    filled = Filled(soft=200 * KIB)
    assert not filled.look(201 * KIB).refuses_writes
    assert filled.look(199 * KIB).refuses_writes


def test_below_three_percent_nothing_is_written() -> None:
    filled = Filled()
    assert not filled.look(301 * KIB).read_only
    assert filled.look(299 * KIB).read_only
    assert not filled.look(301 * KIB).read_only


def test_what_is_due_is_deleted_before_anything_is_refused() -> None:
    filled = Filled()
    filled.due = 3
    for _ in range(10):
        assert not filled.look(999 * KIB).refuses_writes
    assert filled.asked == 10
    assert filled.look(999 * KIB).refuses_writes, "deleting does not help"
    assert not filled.look(1_001 * KIB).refuses_writes
    assert not filled.look(999 * KIB).refuses_writes, "and is tried again the next time"


def test_nothing_waits_for_retention_below_the_hard_mark() -> None:
    filled = Filled()
    filled.due = 3
    assert filled.look(299 * KIB).refuses_writes
    assert filled.asked == 1


def test_the_ballast_is_laid_when_there_is_room_for_it_and_freed_once() -> None:
    filled = Filled()
    filled.look(1_199 * KIB)
    assert not filled.disk.exists(BALLAST_FILE)
    filled.look(1_201 * KIB)
    assert filled.disk.open(BALLAST_FILE).size() == 100 * KIB
    assert filled.space.free_ballast()
    assert not filled.disk.exists(BALLAST_FILE)
    assert not filled.space.free_ballast()
    filled.look(1_201 * KIB)
    assert filled.disk.exists(BALLAST_FILE)


def test_recovery_on_a_full_disk_gets_the_ballast_and_on_another_one_does_not() -> None:
    for free, kept in ((299 * KIB, False), (301 * KIB, True)):
        filled = Filled()
        filled.look(5_000 * KIB)
        filled.look(free)
        DiskSpace(CONFIG, filled.disk, Quarantine(filled.disk, DAY_MS)).before_recovery()
        assert filled.disk.exists(BALLAST_FILE) is kept


def test_a_write_that_found_no_room_makes_the_disk_full_until_there_is_more_or_it_is_time_to_try_again() -> (
    None
):
    filled = Filled(ballast=0)
    changes: list[bool] = []
    filled.look(5_000 * KIB)
    filled.space.listen(lambda: changes.append(bool(filled.space.full)))
    filled.space.lacked()
    assert filled.space.full == f"a write found no space on the disk, {5_000 * KIB} bytes free"
    assert filled.look(5_299 * KIB).full, "3 % of the disk is more"
    assert not filled.look(5_300 * KIB).full
    assert changes == [True, False]
    filled.space.lacked()
    filled.space.lacked()
    for _ in range(9):
        assert filled.look(5_300 * KIB).full
    assert not filled.look(5_300 * KIB).full
    assert changes == [True, False, True, False]


def test_it_is_told_once_when_a_disk_becomes_full_and_once_when_it_no_longer_is() -> None:
    filled = Filled()
    changes: list[bool] = []
    filled.space.listen(lambda: changes.append(bool(filled.space.full)))
    for free in (5_000, 299, 298, 999, 5_000):
        filled.look(free * KIB)
    assert changes == [True, False]


def test_a_ballast_that_found_no_room_is_laid_down_by_a_later_look() -> None:
    filled = Filled()
    reserve = filled.disk.reserve

    def full(path: str, size: int) -> None:
        reserve(path, size // 2)
        raise DiskFull(path)

    filled.disk.reserve = full  # type: ignore[method-assign]
    for _ in range(2):
        filled.look(5_000 * KIB)
        assert not filled.disk.exists(BALLAST_FILE), "half of it helps nobody"
    filled.disk.reserve = reserve  # type: ignore[method-assign]
    filled.look(5_000 * KIB)
    assert filled.disk.open(BALLAST_FILE).size() == 100 * KIB
    for count in (1, 2):
        assert filled.space.free_ballast()
        assert not filled.space.free_ballast()
        assert filled.space.ballast_freed == count
        filled.look(5_000 * KIB)
        assert filled.disk.exists(BALLAST_FILE)
