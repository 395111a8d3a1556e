"""Segment files with damage are kept aside for days, or until room is short (RL122, RL128)."""

import asyncio
from dataclasses import replace

from data_plane.log import layout
from data_plane.log.retention import GUARD_MS
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.testkit.disk import DiskFaults, SimDisk
from data_plane.testkit.medium import Medium
from tests.unit.log.batches import NOW_MS
from tests.unit.node.storage import CONFIG, DAY_MS, where

HOUR_MS = 3_600_000
HERE = layout.partition_directory(where(1))
LOG, STAMPS = f"{HERE}/{0:020d}.log.damaged", f"{HERE}/{0:020d}.stamps.damaged"


def disk_with(*paths: str, disk: SimDisk | None = None) -> SimDisk:
    """Each file of 1,000 bytes."""
    disk = disk or SimDisk(Medium())
    for path in paths:
        disk.make_directories(layout.parent(path))
        file = disk.open(path, create=True)
        file.write_at(0, [bytes(1_000)])
        file.close()
    return disk


def look(
    quarantine: Quarantine, at_ms: int, *, running_ms: float = GUARD_MS, trusted: bool = True
) -> list[str]:
    return asyncio.run(quarantine.look(at_ms, running_ms, clock_trusted=trusted))


def begun(disk: SimDisk) -> Quarantine:
    """It has been looked at once, by a broker that had just started."""
    quarantine = Quarantine(disk, 2 * DAY_MS)
    assert look(quarantine, NOW_MS, running_ms=0) == []
    return quarantine


def test_they_are_counted_with_their_bytes_and_nothing_else_is() -> None:
    disk = disk_with(LOG, STAMPS, f"{HERE}/{0:020d}.log", f"{HERE}.stray/{0:020d}.log.damaged")
    quarantine = begun(disk)
    assert (quarantine.count, quarantine.size_bytes) == (2, 2_000)


def test_they_go_after_their_days_and_not_before_also_over_restarts() -> None:
    disk = disk_with(LOG, STAMPS)
    begun(disk)
    again = Quarantine(disk, 2 * DAY_MS)
    assert look(again, NOW_MS + HOUR_MS, running_ms=0) == []
    assert look(again, NOW_MS + 2 * DAY_MS - 1) == []
    disk_with(f"{HERE}/{9:020d}.log.damaged", disk=disk)
    again.look_in(HERE, NOW_MS + 2 * DAY_MS - 1)
    assert again.count == 3
    assert look(again, NOW_MS + 2 * DAY_MS) == [LOG, STAMPS]
    assert (again.count, again.size_bytes) == (1, 1_000)
    assert not disk.exists(LOG) and disk.exists(f"{HERE}/{9:020d}.log.damaged")


def test_no_clock_that_nobody_trusts_and_none_that_just_began_lets_them_go() -> None:
    disk = disk_with(LOG)
    quarantine = begun(disk)
    assert look(quarantine, NOW_MS + 3 * DAY_MS, trusted=False) == []
    assert look(quarantine, NOW_MS + 3 * DAY_MS, running_ms=GUARD_MS - 1) == []
    assert look(quarantine, NOW_MS + 3 * DAY_MS) == [LOG]


def test_notes_that_are_lost_begin_their_time_anew() -> None:
    disk = disk_with(LOG)
    begun(disk)
    disk.remove("damaged.seen")
    again = Quarantine(disk, 2 * DAY_MS)
    assert look(again, NOW_MS + DAY_MS, running_ms=0) == []
    assert look(again, NOW_MS + 2 * DAY_MS) == []
    assert look(again, NOW_MS + 3 * DAY_MS) == [LOG]


def test_when_room_is_short_they_go_before_anything_else() -> None:
    disk = disk_with(LOG, STAMPS, disk=SimDisk(Medium(), faults=DiskFaults(capacity_bytes=20_000)))
    quarantine = begun(disk)
    room = DiskSpace(replace(CONFIG, ballast_bytes=100_000), disk, quarantine)
    asked: list[None] = []

    def delete_due() -> int:
        asked.append(None)
        return 0

    filling = disk.open("filling", create=True)
    filling.truncate(disk.usage().free_bytes - 1_999)
    room.look(delete_due)
    assert not disk.exists(LOG) and not disk.exists(STAMPS)
    assert (quarantine.count, quarantine.size_bytes) == (0, 0)
    assert not asked and not room.refuses_writes
    filling.truncate(filling.size() + 3_000)
    room.look(delete_due)
    assert asked and room.refuses_writes
