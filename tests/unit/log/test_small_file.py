"""Small files: whole or not at all (RL124)."""

import pytest

from data_plane.disk.port import FileMissing, SyncDirectory
from data_plane.log.small_file import (
    SmallFileCorrupt,
    SmallFileKind,
    pack_small_file,
    read_cache,
    read_whole,
    unpack_small_file,
    write_cache,
    write_small_file,
)
from data_plane.testkit.crash_states import explore_crashes
from data_plane.testkit.disk import DiskFaults, SimDisk
from data_plane.testkit.medium import Medium


def written(disk: SimDisk, path: str, data: bytes) -> None:
    for steps in write_small_file(disk, path, data):
        disk.sync_now(steps)


def test_the_body_reads_back() -> None:
    data = pack_small_file(SmallFileKind.EPOCHS, 3, b"body")
    assert unpack_small_file(SmallFileKind.EPOCHS, data) == (3, b"body")


def test_another_kind_is_refused() -> None:
    with pytest.raises(SmallFileCorrupt, match="kind"):
        unpack_small_file(SmallFileKind.EPOCHS, pack_small_file(SmallFileKind.PRODUCERS, 1, b"body"))


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    data = pack_small_file(SmallFileKind.EPOCHS, 1, b"some body")
    for position in range(len(data)):
        for bit in range(8):
            bad = bytearray(data)
            bad[position] ^= 1 << bit
            with pytest.raises(SmallFileCorrupt):
                unpack_small_file(SmallFileKind.EPOCHS, bytes(bad))
        with pytest.raises(SmallFileCorrupt):
            unpack_small_file(SmallFileKind.EPOCHS, data[:position])
    with pytest.raises(SmallFileCorrupt, match="behind its end"):
        unpack_small_file(SmallFileKind.EPOCHS, data + b"x")


def test_a_cut_leaves_the_old_content_or_the_new() -> None:
    disk = SimDisk(Medium())
    disk.make_directories("d")
    written(disk, "d/f", b"old")
    disk.sync_now([SyncDirectory("d"), SyncDirectory("")])
    allowed = [b"old", b"new"]

    def check(left: SimDisk, at: str) -> None:
        assert read_whole(left, "d/f") in allowed, at

    def operate() -> None:
        written(disk, "d/f", b"new")
        allowed[:] = [b"new"]

    assert explore_crashes(disk, operate, check).exhaustive


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileMissing, match="f"):
        read_whole(SimDisk(Medium()), "f")


def test_a_cache_is_none_when_missing_bad_or_of_another_version() -> None:
    disk = SimDisk(Medium())
    assert read_cache(disk, "f", SmallFileKind.EPOCHS, 1) is None
    write_cache(disk, "f", pack_small_file(SmallFileKind.EPOCHS, 1, b"body"))
    assert read_cache(disk, "f", SmallFileKind.EPOCHS, 1) == b"body"
    assert read_cache(disk, "f", SmallFileKind.EPOCHS, 2) is None
    disk.medium.flip("f", 17, 0)
    assert read_cache(disk, "f", SmallFileKind.EPOCHS, 1) is None


def test_a_cache_stays_as_it_was_on_a_full_disk() -> None:
    disk = SimDisk(Medium())
    write_cache(disk, "f", b"old")
    disk.faults = DiskFaults(capacity_bytes=disk.medium.used_bytes())
    write_cache(disk, "f", b"something longer")
    assert read_whole(disk, "f") == b"old"
    assert disk.list("") == ["f"]
