"""Crash-state enumeration finds what a careless storage protocol leaves behind, and passes a careful one."""

import pytest

from data_plane.disk.port import SyncDirectory, SyncFile
from data_plane.testkit.crash_states import explore_crashes
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Medium

OLD, NEW = b"old" * 300, b"new" * 300


def _replace(disk: SimDisk, *, sync_file: bool, sync_directory: bool) -> None:
    file = disk.open("f.tmp", create=True)
    file.write_at(0, [NEW])
    if sync_file:
        disk.sync_now([SyncFile(file)])
    disk.rename("f.tmp", "f")
    if sync_directory:
        disk.sync_now([SyncDirectory("")])


def _outcomes(*, sync_file: bool, sync_directory: bool) -> tuple[set[bytes], set[bytes]]:
    """Contents of `f` that a crash may leave: anywhere, and at the end."""
    disk = SimDisk(Medium())
    file = disk.open("f", create=True)
    file.write_at(0, [OLD])
    disk.sync_now([SyncFile(file), SyncDirectory("")])
    anywhere: set[bytes] = set()
    at_the_end: set[bytes] = set()

    def check(left: SimDisk, where: str) -> None:
        content = left.open("f").read_at(0, 10_000)
        anywhere.add(content)
        if where == "at the end":
            at_the_end.add(content)

    explored = explore_crashes(
        disk, lambda: _replace(disk, sync_file=sync_file, sync_directory=sync_directory), check
    )
    assert explored.exhaustive and explored.states >= explored.points > 2
    return anywhere, at_the_end


def test_write_sync_rename_sync_is_atomic_and_durable() -> None:
    assert _outcomes(sync_file=True, sync_directory=True) == ({OLD, NEW}, {NEW})


def test_without_the_file_sync_a_torn_file_is_found() -> None:
    anywhere, _ = _outcomes(sync_file=False, sync_directory=True)
    assert b"" in anywhere and NEW[:512] in anywhere


def test_without_the_directory_sync_the_old_file_may_come_back() -> None:
    assert _outcomes(sync_file=True, sync_directory=False) == ({OLD, NEW}, {OLD, NEW})


def test_too_many_states_are_sampled_and_said_to_be() -> None:
    disk = SimDisk(Medium())

    def operate() -> None:
        for number in range(12):
            disk.open(f"f{number}", create=True).write_at(0, [b"x" * 5000])

    states: list[tuple[str, ...]] = []
    explored = explore_crashes(
        disk, operate, lambda left, _: states.append(tuple(left.list(""))), states_per_point_max=64
    )
    assert not explored.exhaustive
    assert explored.states <= 64 * explored.points
    assert () in states and len(set(states)) > 50


def test_a_failing_check_names_nothing_but_its_own_error() -> None:
    disk = SimDisk(Medium())

    def check(left: SimDisk, where: str) -> None:
        assert not left.exists("f"), where

    with pytest.raises(AssertionError, match="at the end"):
        explore_crashes(disk, lambda: disk.open("f", create=True).close(), check)
