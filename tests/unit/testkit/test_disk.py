"""The simulated disk: what survives a killed process, what survives a power cut, and how it fails."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from data_plane.disk.port import (
    DirectoryLocked,
    DiskFault,
    DiskFull,
    FileMissing,
    SyncDirectory,
    SyncFile,
    SyncStep,
    WriteFile,
)
from data_plane.testkit.disk import DiskFaults, DiskTiming, SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import Inode, Medium

CUTS = 60


def _run(work: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop(1)
    loop.run_until_complete(work)
    loop.close()


def _content(medium: Medium, path: str) -> bytes | None:
    found = medium.find(path)
    return bytes(found.data) if isinstance(found, Inode) else None


def _cuts(medium: Medium) -> list[Medium]:
    """Many possible outcomes of one cut."""
    rng = random.Random(5)
    return [medium.after_cut(medium.random_choice(rng)) for _ in range(CUTS)]


def _settled_file(content: bytes) -> SimDisk:
    disk = SimDisk(Medium())
    file = disk.open("f", create=True)
    file.write_at(0, [content])
    disk.sync_now([SyncFile(file), SyncDirectory("")])
    return disk


def test_written_bytes_are_read_back_and_reads_stop_at_the_end() -> None:
    disk = SimDisk(Medium())
    file = disk.open("f", create=True)
    file.write_at(3, [b"abc", memoryview(b"def")])
    assert file.read_at(0, 100) == b"\0\0\0abcdef"
    assert file.read_at(4, 2) == b"bc"
    assert file.read_at(100, 5) == b""
    file.truncate(5)
    assert (file.size(), file.read_at(3, 9)) == (5, b"ab")
    file.truncate(7)
    assert file.read_at(3, 9) == b"ab\0\0"


def test_names_behave_as_in_a_file_system() -> None:
    disk = SimDisk(Medium())
    disk.make_directories("topics/a-0")
    with pytest.raises(FileMissing):
        disk.open("topics/a-0/x")
    with pytest.raises(FileMissing):
        disk.open("nowhere/x", create=True)
    file = disk.open("topics/a-0/x", create=True)
    file.write_at(0, [b"1"])
    disk.open("topics/a-0/y", create=True)
    assert (
        disk.list("topics") == ["a-0"] and disk.list("topics/a-0") == ["x", "y"] and disk.list("none") == []
    )
    disk.rename("topics/a-0/x", "topics/a-0/y")
    assert disk.list("topics/a-0") == ["y"]
    assert disk.open("topics/a-0/y").read_at(0, 9) == b"1"
    disk.rename("topics/a-0", "topics/a-0.stray")
    assert disk.exists("topics/a-0.stray/y") and not disk.exists("topics/a-0")
    disk.remove("topics/a-0.stray/none")
    disk.remove_directory("topics/a-0.stray")
    disk.remove_directory("topics/none")
    assert disk.list("topics") == []
    assert file.read_at(0, 9) == b"1"


def test_a_directory_is_locked_by_one_living_process() -> None:
    medium = Medium()
    first, second = SimDisk(medium), SimDisk(medium)
    first.lock()
    first.lock()
    with pytest.raises(DirectoryLocked):
        second.lock()
    first.kill()
    second.lock()


def test_a_killed_process_leaves_all_it_wrote_and_writes_no_more() -> None:
    medium = Medium()
    disk = SimDisk(medium)
    file = disk.open("f", create=True)
    file.write_at(0, [b"written"])
    disk.kill()
    file.write_at(0, [b"too late"])
    file.truncate(0)
    disk.remove("f")
    disk.open("g", create=True)
    assert SimDisk(medium).open("f").read_at(0, 20) == b"written"
    assert not SimDisk(medium).exists("g")


def test_a_cut_keeps_what_was_synced_whatever_was_written_after() -> None:
    disk = _settled_file(b"a" * 3000)
    disk.open("f").write_at(2900, [b"b" * 3000])
    outcomes = {_content(medium, "f") for medium in _cuts(disk.medium)}
    assert all(content is not None and content[:2560] == b"a" * 2560 for content in outcomes)
    assert any(content == b"a" * 3000 for content in outcomes)
    assert any(content == b"a" * 2900 + b"b" * 3000 for content in outcomes)
    assert len(outcomes) > 10


def test_a_cut_may_tear_a_write_but_never_inside_a_sector() -> None:
    disk = _settled_file(b"a" * 2048)
    disk.open("f").write_at(0, [b"b" * 2048])
    for medium in _cuts(disk.medium):
        content = _content(medium, "f")
        assert content is not None
        for sector in range(4):
            assert content[sector * 512 : sector * 512 + 512] in (b"a" * 512, b"b" * 512)


def test_an_unsynced_truncation_may_be_lost_or_kept() -> None:
    disk = _settled_file(b"a" * 3000)
    disk.open("f").truncate(100)
    assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {b"a" * 3000, b"a" * 100}


def test_after_a_synced_truncation_old_bytes_never_come_back() -> None:
    disk = _settled_file(b"a" * 3000)
    file = disk.open("f")
    file.truncate(100)
    disk.sync_now([SyncFile(file)])
    file.write_at(2000, [b"b" * 100])
    for medium in _cuts(disk.medium):
        content = _content(medium, "f")
        assert content is not None and content[:100] == b"a" * 100
        assert set(content[100:2000]) <= {0} and set(content[2000:]) <= {0, ord("b")}


def test_a_file_without_its_directory_synced_may_be_gone() -> None:
    disk = SimDisk(Medium())
    file = disk.open("f", create=True)
    file.write_at(0, [b"abc"])
    disk.sync_now([SyncFile(file)])
    assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {None, b"abc"}
    disk.sync_now([SyncDirectory("")])
    assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {b"abc"}


def test_a_rename_survives_whole_or_not_at_all_and_never_overtakes_an_earlier_change_of_its_names() -> None:
    disk = _settled_file(b"old")
    file = disk.open("f.tmp", create=True)
    file.write_at(0, [b"new"])
    disk.sync_now([SyncFile(file)])
    disk.rename("f.tmp", "f")
    disk.open("f.tmp", create=True)
    outcomes = {(_content(medium, "f"), _content(medium, "f.tmp")) for medium in _cuts(disk.medium)}
    assert outcomes == {(b"old", None), (b"old", b"new"), (b"new", None), (b"new", b"")}


def test_a_directory_lost_by_a_cut_takes_its_files_along() -> None:
    disk = SimDisk(Medium())
    disk.make_directories("d")
    file = disk.open("d/f", create=True)
    disk.sync_now([SyncFile(file), SyncDirectory("d")])
    assert {_content(medium, "d/f") for medium in _cuts(disk.medium)} == {None, b""}


def test_a_power_cut_ends_what_open_files_could_do() -> None:
    disk = _settled_file(b"old")
    file = disk.open("f")
    disk.kill()
    disk.medium.power_cut(random.Random(1))
    file.write_at(0, [b"ghost"])
    assert _content(disk.medium, "f") == b"old"


def test_a_sync_makes_durable_what_was_written_before_it_began() -> None:
    async def story() -> None:
        disk = SimDisk(Medium(), timing=DiskTiming(sync_ms=5))
        file = disk.open("f", create=True)
        disk.sync_now([SyncDirectory("")])
        file.write_at(0, [b"a" * 600])
        sync = asyncio.create_task(disk.sync([SyncFile(file)]))
        await asyncio.sleep(0.002)
        file.write_at(100, [b"b" * 1000])
        assert b"" in {_content(medium, "f") for medium in _cuts(disk.medium)}
        await sync
        outcomes = {_content(medium, "f") for medium in _cuts(disk.medium)}
        assert all(content is not None and content[:100] == b"a" * 100 for content in outcomes)
        assert b"a" * 600 in outcomes and b"a" * 100 + b"b" * 1000 in outcomes

    _run(story())


def test_an_older_sync_that_ends_later_takes_nothing_back() -> None:
    inode = Inode()
    inode.write(0, b"old")
    older = inode.begin_flush()
    inode.write(0, b"new")
    inode.end_flush(inode.begin_flush())
    inode.end_flush(older)
    assert inode.durable == b"new" and inode.settled


def test_steps_of_a_sync_are_performed_in_order_and_go_on_when_the_waiter_is_cancelled() -> None:
    async def story() -> None:
        disk = SimDisk(Medium(), timing=DiskTiming(sync_ms=5))
        file = disk.open("f", create=True)
        steps: list[SyncStep] = [
            WriteFile(file, 0, [b"abc"]),
            SyncFile(file),
            SyncDirectory(""),
            WriteFile(file, 0, [b"x"]),
        ]
        waiting = asyncio.create_task(disk.sync(steps))
        await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.sleep(0.05)
        assert waiting.cancelled()
        assert _content(disk.medium, "f") == b"xbc"
        assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {b"abc", b"xbc"}

    _run(story())


def test_a_process_killed_during_a_sync_makes_nothing_more_durable() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        disk = SimDisk(Medium(), timing=DiskTiming(sync_ms=5))
        file = disk.open("f", create=True)
        process = loop.process("p")
        loop.spawn(process, disk.sync([SyncFile(file), WriteFile(file, 0, [b"never"])]))
        await asyncio.sleep(0.001)
        disk.kill()
        loop.crash(process)
        await asyncio.sleep(1)
        assert _content(disk.medium, "f") == b""

    _run(story())


def test_after_a_failed_sync_pages_are_lost_though_the_next_sync_succeeds() -> None:
    lost = False
    for seed in range(20):
        disk = SimDisk(Medium(), rng=random.Random(seed), faults=DiskFaults())
        file = disk.open("f", create=True)
        disk.sync_now([SyncFile(file), SyncDirectory("")])
        file.write_at(0, [b"a" * 2048])
        disk.faults.failing_syncs = 1
        with pytest.raises(DiskFault):
            disk.sync_now([SyncFile(file)])
        disk.sync_now([SyncFile(file)])
        assert file.read_at(0, 2048) == b"a" * 2048
        lost |= all(_content(medium, "f") != b"a" * 2048 for medium in _cuts(disk.medium))
    assert lost


def test_a_cut_whose_sync_failed_holds_once_a_later_sync_succeeds() -> None:
    disk = _settled_file(b"a" * 2048)
    file = disk.open("f")
    file.truncate(512)
    disk.faults.failing_syncs = 1
    with pytest.raises(DiskFault):
        disk.sync_now([SyncFile(file)])
    disk.sync_now([SyncFile(file)])
    assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {b"a" * 512}


def test_a_sync_that_lies_may_lose_the_data_at_the_cut_until_the_disk_is_honest_again() -> None:
    disk = _settled_file(b"old")
    file = disk.open("f")
    file.write_at(0, [b"new"])
    disk.faults.lying = True
    disk.sync_now([SyncFile(file)])
    assert file.read_at(0, 3) == b"new"
    assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {b"old", b"new"}
    disk.medium.flush()
    assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {b"new"}


def test_a_misdirected_write_lands_a_sector_off() -> None:
    disk = _settled_file(bytes(1024))
    disk.faults.misdirected_writes = 1
    disk.open("f").write_at(0, [b"abc"])
    content = _content(disk.medium, "f")
    assert content is not None and content[:3] == b"\0\0\0" and content[512:515] == b"abc"


def _harmed(medium: Medium, path: str) -> list[tuple[int, int]]:
    inode = medium.find(path)
    assert isinstance(inode, Inode)
    return inode.harmed


def test_what_is_not_as_it_was_written_is_known_to_the_byte_until_it_is_written_again() -> None:
    disk = _settled_file(bytes(2048))
    disk.faults.misdirected_writes = 1
    file = disk.open("f")
    file.write_at(100, [b"abc"])
    disk.medium.flip("f", 2000, 3)
    assert _harmed(disk.medium, "f") == [(100, 615), (2000, 2001)]
    file.write_at(200, [b"d" * 50])
    assert _harmed(disk.medium, "f") == [(100, 200), (250, 615), (2000, 2001)]
    file.truncate(300)
    assert _harmed(disk.medium, "f") == [(100, 200), (250, 300)]
    file.write_at(0, [b"e" * 300])
    assert _harmed(disk.medium, "f") == []


def test_harm_outlives_a_power_cut_as_far_as_the_file_does() -> None:
    disk = _settled_file(bytes(1024))
    disk.faults.misdirected_writes = 1
    disk.open("f").write_at(1000, [b"abc"])
    for medium in _cuts(disk.medium):
        content = _content(medium, "f")
        assert content is not None and _harmed(medium, "f") == [(1000, len(content))]


def test_a_full_disk_takes_what_fits_and_lets_existing_bytes_be_rewritten() -> None:
    disk = _settled_file(b"a" * 1000)
    disk.faults.capacity_bytes = 1100
    file = disk.open("f")
    assert disk.usage().free_bytes == 100
    with pytest.raises(DiskFull):
        file.write_at(1000, [b"b" * 200])
    assert file.read_at(1000, 500) == b"b" * 100
    file.truncate(1000)
    file.write_at(0, [b"c" * 1000])
    file.write_at(1000, [b"d" * 100])


def test_a_bad_sector_answers_an_error_until_written_again() -> None:
    disk = _settled_file(b"a" * 2000)
    disk.medium.spoil("f", 512, 512)
    file = disk.open("f")
    assert file.read_at(0, 512) == b"a" * 512
    with pytest.raises(DiskFault):
        file.read_at(500, 100)
    file.write_at(512, [b"b" * 512])
    assert file.read_at(500, 100)


def test_a_flipped_bit_is_seen_by_all_later_readers() -> None:
    disk = _settled_file(b"abc")
    disk.medium.flip("f", 1, 0)
    assert disk.open("f").read_at(0, 3) == b"acc"
    disk.medium.power_cut(random.Random(1))
    assert SimDisk(disk.medium).open("f").read_at(0, 3) == b"acc"


def test_the_hook_may_kill_the_process_before_the_operation_happens() -> None:
    medium = Medium()
    disk = SimDisk(medium)
    file = disk.open("f", create=True)
    seen: list[tuple[str, str]] = []

    def hook(kind: str, path: str) -> None:
        seen.append((kind, path))
        if kind == "truncate":
            disk.kill()

    disk.hook = hook
    file.write_at(0, [b"abc"])
    file.truncate(0)
    file.write_at(0, [b"x"])
    assert seen == [("write", "f"), ("truncate", "f")]
    assert _content(medium, "f") == b"abc"


def test_a_closed_file_is_not_used_again() -> None:
    file = SimDisk(Medium()).open("f", create=True)
    file.close()
    with pytest.raises(ValueError):
        file.read_at(0, 1)


def test_a_slow_disk_delays_the_sync_by_as_much() -> None:
    async def story() -> None:
        disk = SimDisk(Medium(), faults=DiskFaults(extra_sync_ms=700))
        file = disk.open("f", create=True)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await disk.sync([SyncFile(file)])
        assert 0.7 <= loop.time() - began < 0.71
        assert await disk.read(file, 0, 10) == b""

    _run(story())


def test_the_page_cache_may_drop_what_a_failed_sync_left_in_it() -> None:
    disk = _settled_file(b"a" * 2048)
    file = disk.open("f")
    file.write_at(0, [b"b" * 2048])
    disk.faults.failing_syncs = 1
    with pytest.raises(DiskFault):
        disk.sync_now([SyncFile(file)])
    file.write_at(0, [b"c" * 512])
    assert file.read_at(512, 1536) == b"b" * 1536
    disk.medium.evict()
    content = file.read_at(0, 2048)
    assert content[:512] == b"c" * 512 and b"a" * 512 in content


def test_a_sync_at_once_survives_every_cut() -> None:
    disk = _settled_file(b"before")
    disk.timing = DiskTiming(at_once_chance=1.0)
    file = disk.open("f")
    assert disk.sync_at_once([WriteFile(file, 0, [b"behind"]), SyncFile(file)])
    assert {_content(medium, "f") for medium in _cuts(disk.medium)} == {b"behind"}


def test_a_disk_that_is_slow_or_dead_does_nothing_at_once() -> None:
    disk = _settled_file(b"before")
    steps: list[SyncStep] = [WriteFile(disk.open("f"), 0, [b"behind"]), SyncFile(disk.open("f"))]
    assert not disk.sync_at_once(steps)
    disk.timing = DiskTiming(at_once_chance=1.0)
    disk.faults.extra_sync_ms = 5.0
    assert not disk.sync_at_once(steps)
    disk.faults.extra_sync_ms = 0.0
    disk.kill()
    assert not disk.sync_at_once(steps)
    assert _content(disk.medium, "f") == b"before"
