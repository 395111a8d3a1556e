"""What only the real disk promises: errors of the operating system, descriptors, threads and other
processes."""

import asyncio
import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from data_plane.broker.appended_file import AlignedSpaces, AppendedFile, open_past_the_cache
from data_plane.broker.disk import RealDisk
from data_plane.broker.quick_syncs import STALL_MS
from data_plane.disk.port import (
    DirectoryLocked,
    DiskFault,
    DiskFull,
    SyncDirectory,
    SyncFile,
    SyncStep,
    WriteFile,
)
from penstock.contract import limits
from penstock.contract.invariant import InvariantBroken


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(tmp_path)
    yield disk
    disk.close()


def test_a_full_disk_is_told_apart_from_a_broken_one(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    file = disk.open("full")
    with pytest.raises(DiskFull, match="full: write at 10: No space left"):
        file.write_at(10, [b"x"])
    with pytest.raises(DiskFull):
        disk.sync_now([WriteFile(file, 0, [b"x"])])


def test_a_full_disk_does_not_take_the_directory_offline(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(DiskFull):
        disk.sync_now([WriteFile(disk.open("full"), 0, [b"x"])])
    disk.sync_now([SyncFile(disk.open("a", create=True))])


def test_an_appended_file_goes_through_the_page_cache_where_there_is_no_other_way(
    disk: RealDisk, tmp_path: Path
) -> None:
    (tmp_path / "full").symlink_to("/dev/full")  # which refuses to be opened past the page cache
    with pytest.raises(DiskFull, match="full: write at 0: No space left"):
        disk.open_appended("full").write_at(0, [b"x"])


def test_an_appended_file_goes_through_the_page_cache_when_the_device_refuses_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwritev

    def refuse_past_the_cache(fd: int, *rest: Any) -> int:
        """As a device does that wants larger blocks."""
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return write(fd, *rest)

    monkeypatch.setattr(os, "pwritev", refuse_past_the_cache)
    fd = open_past_the_cache(str(tmp_path / "a"), os.O_RDWR | os.O_CREAT)
    file = AppendedFile("a", fd, AlignedSpaces())
    file.write_at(0, [b"x" * 5_000])
    file.write_at(5_000, [b"y" * 100])
    assert file.read_at(4_990, 120) == b"x" * 10 + b"y" * 100 + bytes(10)
    assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT
    file.close()


def test_a_disk_with_space_for_a_part_of_a_block_is_full_and_not_broken(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open_appended("a", create=True)
    file.write_at(0, [b"x" * 5_000])
    with monkeypatch.context() as full, pytest.raises(DiskFull, match="took 1024 bytes, a block required"):
        full.setattr(os, "pwritev", lambda *_: 1_024)
        file.write_at(5_000, [b"y" * 9_000])
    file.write_at(5_000, [b"z" * 10])
    assert file.read_at(4_990, 20) == b"x" * 10 + b"z" * 10


def test_after_a_failed_sync_nothing_is_ever_said_to_be_durable_again(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "bad").symlink_to("/dev/null")  # which refuses to be synced
    bad, good = disk.open("bad"), disk.open("good", create=True)

    async def scenario() -> None:
        with pytest.raises(DiskFault, match="bad: sync failed"):
            await disk.sync([SyncFile(bad)])
        with pytest.raises(DiskFault, match="offline since a sync failed: bad"):
            await disk.sync([SyncFile(bad)])
        with pytest.raises(DiskFault, match="offline"):
            await disk.sync([SyncFile(good)])
        with pytest.raises(DiskFault, match="offline"):
            disk.sync_now([SyncDirectory("")])

    asyncio.run(scenario())


def test_steps_behind_a_failed_one_are_not_performed(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "bad").symlink_to("/dev/null")
    good = disk.open("good", create=True)
    with pytest.raises(DiskFault):
        disk.sync_now([SyncFile(disk.open("bad")), WriteFile(good, 0, [b"x"])])
    assert good.size() == 0


def test_a_file_closed_during_its_sync_keeps_its_descriptor_until_the_end(disk: RealDisk) -> None:
    """Else the thread would sync whatever file was opened next under the same number."""
    file = disk.open("a", create=True)
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)

    async def scenario() -> None:
        gate = threading.Event()
        blocked = [disk._syncing.submit(gate.wait, 10) for _ in range(2)]
        syncing = asyncio.ensure_future(disk.sync([WriteFile(file, 0, [b"abc"]), SyncFile(file)]))
        reading = asyncio.ensure_future(disk.read(file, 0, 1))
        await asyncio.sleep(0)
        file.close()
        other = disk.open("b", create=True)
        gate.set()
        await syncing
        await reading
        assert all(waiter.result() for waiter in blocked)
        assert other.size() == 0
        assert disk.open("a").read_at(0, 3) == b"abc"

    asyncio.run(scenario())
    reused = os.open(os.devnull, os.O_RDONLY)
    os.close(reused)


def test_a_closed_file_cannot_be_synced(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.close()
    with pytest.raises(ValueError, match="used after close"):
        disk.sync_now([SyncFile(file)])


def test_descriptors_are_given_back(disk: RealDisk) -> None:
    async def use() -> None:
        file = disk.open("a", create=True)
        await disk.sync([SyncFile(file), SyncDirectory("")])
        await disk.read(file, 0, 1)
        file.close()

    async def scenario() -> None:
        await use()
        before = psutil.Process().num_fds()
        for _ in range(20):
            await use()
        assert psutil.Process().num_fds() == before

    asyncio.run(scenario())


def test_a_path_cannot_leave_the_directory(disk: RealDisk) -> None:
    for path in ("../a", "a/../../b", "/etc/passwd"):
        with pytest.raises(InvariantBroken):
            disk.open(path)


def test_only_its_user_may_read_what_it_holds(disk: RealDisk, tmp_path: Path) -> None:
    disk.make_directories("d")
    disk.open("d/a", create=True)
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "d" / "a").stat().st_mode) == 0o600


@pytest.mark.processes
def test_a_killed_process_gives_the_directory_back(disk: RealDisk, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from data_plane.broker.disk import RealDisk;"
        "disk = RealDisk(pathlib.Path(sys.argv[1])); disk.lock(); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryLocked, match="another process holds"):
            disk.lock()
        holder.kill()
    disk.lock()


def test_durations_are_counted(disk: RealDisk) -> None:
    async def scenario() -> None:
        file = disk.open("a", create=True)
        await disk.sync([SyncFile(file), SyncFile(file)])

    asyncio.run(scenario())
    assert sum(disk.stats.fsync_ms.counts) == 2
    assert sum(disk.stats.fsync_return_ms.counts) == 1


def test_syncs_of_commit_and_checkpoint_do_not_queue_behind_each_other(disk: RealDisk) -> None:
    async def scenario() -> None:
        gate = threading.Event()
        checkpoint = disk._syncing.submit(gate.wait, 10)
        async with asyncio.timeout(5):
            await disk.sync([SyncFile(disk.open("a", create=True))])
        gate.set()
        assert checkpoint.result()

    asyncio.run(scenario())


def _commit(disk: RealDisk, size: int = 100) -> list[SyncStep]:
    """As the committer asks for it."""
    file = disk.open("journal", create=True)
    return [WriteFile(file, 0, [bytes(size - 1), b"x"]), SyncFile(file)]


def test_a_small_commit_is_done_at_once_and_counted(disk: RealDisk) -> None:
    assert disk.sync_at_once(_commit(disk, 64 * limits.KIB))
    assert disk.open("journal").size() == 64 * limits.KIB
    assert sum(disk.stats.fsync_ms.counts) == 1
    assert sum(disk.stats.fsync_return_ms.counts) == 0


def test_large_writes_and_other_steps_are_left_to_a_thread(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    others: tuple[list[SyncStep], ...] = (
        _commit(disk, 64 * limits.KIB + 1),
        [SyncFile(file)],
        [SyncFile(file), SyncFile(file)],
        [WriteFile(file, 0, [b"x"]), SyncDirectory("")],
        [*_commit(disk), SyncDirectory("")],
        [],
    )
    for steps in others:
        assert not disk.sync_at_once(steps)
    assert disk.open("journal").size() == file.size() == 0


def test_after_a_slow_sync_the_next_ones_are_left_to_a_thread(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fdatasync

    def slow(fd: int) -> None:
        threading.Event().wait(2 * STALL_MS / 1000)
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    assert disk.sync_at_once(_commit(disk))
    assert not disk.sync_at_once(_commit(disk))


def test_slow_syncs_in_a_thread_end_those_at_once(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fdatasync

    def slow(fd: int) -> None:
        threading.Event().wait(2 * STALL_MS / 1000)
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    asyncio.run(disk.sync(_commit(disk)))
    assert not disk.sync_at_once(_commit(disk))


def test_a_sync_at_once_that_fails_takes_the_directory_offline(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(DiskFault, match="journal: sync failed"):
        disk.sync_at_once(_commit(disk))
    monkeypatch.undo()
    for ask in (lambda: disk.sync_at_once(_commit(disk)), lambda: asyncio.run(disk.sync(_commit(disk)))):
        with pytest.raises(DiskFault, match="offline since a sync failed"):
            ask()


def test_a_full_disk_at_once_is_full_and_not_broken(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    full = disk.open("full")
    with pytest.raises(DiskFull):
        disk.sync_at_once([WriteFile(full, 0, [b"x"]), SyncFile(full)])
    assert disk.sync_at_once(_commit(disk))
