"""What every Disk promises, as tests: run on the real disk and on the simulated one."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from data_plane.disk.port import (
    APPENDED_BLOCK_BYTES,
    DirectoryLocked,
    Disk,
    DiskFault,
    FileMissing,
    ReadAt,
    SyncDirectory,
    SyncFile,
    WriteFile,
)


class DiskWorld(ABC):
    """One empty log directory."""

    @abstractmethod
    def open(self) -> Disk:
        """The directory as one more process sees it."""

    @abstractmethod
    def leave(self, disk: Disk) -> None:
        """That process is gone."""

    @abstractmethod
    def run(self, scenario: Coroutine[Any, Any, None]) -> None: ...


class DiskContract:
    """Tests of the promise. A subclass gives the fixture `world`."""

    @pytest.fixture
    def disk(self, world: DiskWorld) -> Disk:
        return world.open()

    # -- files -----------------------------------------------------------------------------------------

    def test_buffers_are_written_one_after_the_other_at_the_position(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(3, [b"one", bytearray(b"two"), memoryview(b"three")[1:]])
        assert file.read_at(0, 100) == b"\0\0\0onetwohree"
        assert file.size() == 13

    def test_more_buffers_than_one_call_takes_are_all_written(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"%04d" % number for number in range(5_000)])
        assert file.size() == 20_000
        assert file.read_at(4 * 4_321, 4) == b"4321"

    def test_empty_buffers_write_nothing(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(5, [])
        file.write_at(5, [b"", memoryview(b"")])
        assert file.size() == 0

    def test_buffers_of_other_items_are_written_as_bytes(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"x", memoryview(b"abcd")])
        assert file.read_at(0, 9) == b"xabcd"

    def test_writing_over_the_middle_leaves_the_rest(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"abcdef"])
        file.write_at(2, [b"XY"])
        assert file.read_at(0, 6) == b"abXYef"

    def test_reading_beyond_the_end_gives_what_there_is(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"abc"])
        assert file.read_at(1, 10) == b"bc"
        assert file.read_at(3, 10) == b""
        assert file.read_at(99, 1) == b""

    def test_truncating_cuts_and_lengthens_with_zeros(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"abcdef"])
        file.truncate(2)
        file.truncate(4)
        assert file.read_at(0, 9) == b"ab\0\0"

    def test_two_openings_of_a_file_see_the_same_bytes(self, disk: Disk) -> None:
        one, other = disk.open("a", create=True), disk.open("a")
        one.write_at(0, [b"abc"])
        assert other.read_at(0, 3) == b"abc"

    def test_an_appended_file_holds_what_was_written_one_behind_the_other(self, disk: Disk) -> None:
        file = disk.open_appended("a", create=True)
        parts = [bytes([1 + number % 255]) * (number * 977 % 9_000) for number in range(40)]
        position = 0
        for part in parts:
            file.write_at(position, [part[: len(part) // 3], memoryview(part)[len(part) // 3 :]])
            position += len(part)
            assert file.size() % APPENDED_BLOCK_BYTES == 0 and file.size() - position < APPENDED_BLOCK_BYTES
        whole = b"".join(parts)
        assert disk.open("a").read_at(0, position + APPENDED_BLOCK_BYTES) == whole + bytes(
            file.size() - position
        )
        assert file.read_at(5_001, 20_003) == whole[5_001:25_004]
        assert file.read_at(file.size(), 1) == b""

    def test_an_appended_file_takes_more_than_goes_to_the_device_at_once(self, disk: Disk) -> None:
        file = disk.open_appended("a", create=True)
        large = bytes(range(256)) * 12_000
        file.write_at(100, [b"in front", large, b"behind"])
        assert file.read_at(0, 4_000_000).rstrip(b"\0") == bytes(100) + b"in front" + large + b"behind"

    def test_an_appended_file_goes_on_within_a_block_after_it_was_opened_again(self, disk: Disk) -> None:
        file = disk.open_appended("a", create=True)
        file.write_at(0, [b"x" * 5_000])
        file.close()
        again = disk.open_appended("a")
        again.write_at(5_000, [b"y" * 10])
        assert again.read_at(0, 5_020) == b"x" * 5_000 + b"y" * 10 + bytes(10)

    def test_an_appended_file_is_written_again_from_an_earlier_place(self, disk: Disk) -> None:
        file = disk.open_appended("a", create=True)
        file.write_at(0, [b"a" * 6_000])
        file.write_at(6_000, [b"b" * 6_000])
        file.write_at(6_000, [b"c" * 100])
        assert file.read_at(0, 6_200) == b"a" * 6_000 + b"c" * 100 + bytes(100)
        file.write_at(300, [b"d"])
        assert file.read_at(0, 302) == b"a" * 300 + b"d" + bytes(1)

    def test_what_stood_behind_a_write_to_an_appended_file_is_zeros_to_the_next_block(
        self, disk: Disk
    ) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"old" * 5_000])
        file.close()
        file = disk.open_appended("a")
        file.write_at(0, [b"new"])
        assert file.read_at(0, 15_000) == b"new" + bytes(4_093) + (b"old" * 5_000)[4_096:]

    def test_what_a_write_to_an_appended_file_leaves_out_is_zeros(self, disk: Disk) -> None:
        file = disk.open_appended("a", create=True)
        file.write_at(0, [b"x" * 100])
        file.write_at(200, [b"y" * 100])
        assert file.read_at(0, 400) == b"x" * 100 + bytes(100) + b"y" * 100 + bytes(100)

    def test_nothing_written_to_an_appended_file_changes_nothing(self, disk: Disk) -> None:
        file = disk.open_appended("a", create=True)
        file.write_at(10, [b"", memoryview(b"")])
        assert file.size() == 0

    def test_a_write_to_an_appended_file_and_its_sync_are_steps(self, disk: Disk) -> None:
        file = disk.open_appended("a", create=True)
        disk.sync_now([WriteFile(file, 0, [b"abc"]), SyncFile(file), SyncDirectory("")])
        assert file.read_at(0, 3) == b"abc"

    def test_a_missing_appended_file_is_missing(self, disk: Disk) -> None:
        with pytest.raises(FileMissing):
            disk.open_appended("a")

    def test_a_closed_file_cannot_be_used(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.close()
        file.close()
        with pytest.raises(ValueError, match="used after close"):
            file.read_at(0, 1)
        with pytest.raises(ValueError, match="used after close"):
            file.write_at(0, [b"x"])

    def test_creating_a_file_that_exists_keeps_it(self, disk: Disk) -> None:
        disk.open("a", create=True).write_at(0, [b"abc"])
        assert disk.open("a", create=True).size() == 3

    def test_a_missing_file_is_missing(self, disk: Disk) -> None:
        with pytest.raises(FileMissing):
            disk.open("a")
        with pytest.raises(FileMissing):
            disk.open("nowhere/a", create=True)
        assert disk.list("") == []

    def test_a_directory_is_no_file(self, disk: Disk) -> None:
        disk.make_directories("d")
        with pytest.raises(DiskFault):
            disk.open("d")
        with pytest.raises(DiskFault):
            disk.remove("d")

    # -- names -----------------------------------------------------------------------------------------

    def test_names_are_listed_in_order_and_a_missing_directory_is_empty(self, disk: Disk) -> None:
        disk.make_directories("topics/t-1")
        disk.make_directories("topics/t-1")
        for name in ("b", "a", "c"):
            disk.open(f"topics/{name}", create=True)
        assert disk.list("topics") == ["a", "b", "c", "t-1"]
        assert disk.list("") == ["topics"]
        assert disk.list("topics/none") == []
        assert disk.list("topics/a") == []

    def test_a_file_is_in_the_way_of_a_directory(self, disk: Disk) -> None:
        disk.open("a", create=True)
        with pytest.raises(DiskFault):
            disk.make_directories("a/b")
        with pytest.raises(DiskFault):
            disk.make_directories("a")

    def test_renaming_replaces_the_target(self, disk: Disk) -> None:
        disk.make_directories("d")
        disk.open("new", create=True).write_at(0, [b"new"])
        disk.open("d/old", create=True).write_at(0, [b"old"])
        disk.rename("new", "d/old")
        assert disk.open("d/old").read_at(0, 3) == b"new"
        assert not disk.exists("new")

    def test_an_open_file_follows_its_rename(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        disk.rename("a", "b")
        file.write_at(0, [b"x"])
        assert disk.open("b").size() == 1

    def test_a_directory_is_renamed_with_its_files(self, disk: Disk) -> None:
        disk.make_directories("t-0/x")
        disk.open("t-0/x/a", create=True).write_at(0, [b"x"])
        disk.rename("t-0", "t-0.stray")
        assert disk.list("") == ["t-0.stray"]
        assert disk.open("t-0.stray/x/a").size() == 1

    def test_renaming_onto_a_directory_or_from_nothing_fails(self, disk: Disk) -> None:
        disk.make_directories("d")
        disk.open("a", create=True)
        with pytest.raises(DiskFault):
            disk.rename("a", "d")
        with pytest.raises(FileMissing):
            disk.rename("none", "b")
        assert disk.list("") == ["a", "d"]

    def test_removing_what_is_not_there_is_no_error(self, disk: Disk) -> None:
        disk.remove("a")
        disk.remove_directory("d")
        disk.open("a", create=True)
        disk.remove("a")
        assert not disk.exists("a")

    def test_a_removed_file_can_be_read_by_whoever_has_it_open(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"abc"])
        disk.remove("a")
        assert file.read_at(0, 3) == b"abc"
        with pytest.raises(FileMissing):
            disk.open("a")

    def test_a_directory_is_removed_with_all_below_it(self, disk: Disk) -> None:
        disk.make_directories("d/e")
        disk.open("d/e/a", create=True)
        disk.open("d/b", create=True)
        disk.remove_directory("d")
        assert disk.list("") == []

    def test_usage_says_how_much_room_there_is(self, disk: Disk) -> None:
        usage = disk.usage()
        assert 0 < usage.free_bytes <= usage.total_bytes

    # -- lock ------------------------------------------------------------------------------------------

    def test_one_process_at_a_time_holds_the_directory(self, world: DiskWorld) -> None:
        one, other = world.open(), world.open()
        one.lock()
        one.lock()
        with pytest.raises(DirectoryLocked):
            other.lock()
        world.leave(one)
        other.lock()

    # -- sync ------------------------------------------------------------------------------------------

    def test_steps_are_performed_in_order(self, world: DiskWorld) -> None:
        async def scenario() -> None:
            disk = world.open()
            disk.make_directories("d")
            file = disk.open("d/a", create=True)
            await disk.sync(
                [
                    WriteFile(file, 0, [b"abc", b"def"]),
                    WriteFile(file, 1, [b"X"]),
                    SyncFile(file),
                    SyncDirectory("d"),
                    SyncDirectory(""),
                ]
            )
            assert file.read_at(0, 9) == b"aXcdef"
            await disk.sync([])

        world.run(scenario())

    def test_what_is_synced_before_serving_is_the_same(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        disk.sync_now([WriteFile(file, 0, [b"abc"]), SyncFile(file), SyncDirectory("")])
        assert file.read_at(0, 3) == b"abc"

    def test_a_sync_at_once_does_all_of_it_or_says_that_it_did_nothing(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        done = disk.sync_at_once([WriteFile(file, 0, [b"abc"]), SyncFile(file)])
        assert file.read_at(0, 3) == (b"abc" if done else b"")

    def test_syncing_a_directory_that_is_not_there_fails(self, disk: Disk) -> None:
        with pytest.raises(FileMissing):
            disk.sync_now([SyncDirectory("none")])

    def test_a_sync_goes_on_when_its_waiter_gives_up(self, world: DiskWorld) -> None:
        async def scenario() -> None:
            disk = world.open()
            file = disk.open("a", create=True)
            began = asyncio.Event()

            async def commit() -> None:
                began.set()
                await disk.sync([WriteFile(file, 0, [b"abc"]), SyncFile(file), WriteFile(file, 3, [b"def"])])

            waiter = asyncio.ensure_future(commit())
            await began.wait()
            waiter.cancel()
            while file.size() < 6:
                await disk.sync([SyncFile(file)])
            assert file.read_at(0, 6) == b"abcdef"

        world.run(scenario())

    def test_slow_reads_give_what_reads_give(self, world: DiskWorld) -> None:
        async def scenario() -> None:
            disk = world.open()
            file = disk.open("a", create=True)
            file.write_at(0, [b"abcdef"])
            assert await disk.read(file, 2, 2) == b"cd"
            assert await disk.read(file, 4, 100) == b"ef"
            assert await asyncio.gather(*(disk.read(file, n % 6, 1) for n in range(30))) == [
                b"abcdef"[n % 6 : n % 6 + 1] for n in range(30)
            ]

        world.run(scenario())

    def test_files_are_examined_off_the_loop_also_when_they_are_closed_meanwhile(
        self, world: DiskWorld
    ) -> None:
        async def scenario() -> None:
            disk = world.open()
            files = [disk.open(name, create=True) for name in "ab"]
            files[0].write_at(0, [b"abcdef"])
            files[1].write_at(0, [b"123"])
            examining = asyncio.ensure_future(
                disk.examine(files, lambda readers: readers[0](4, 10) + readers[1](0, 2))
            )
            await asyncio.sleep(0)
            for file in files:
                file.close()
            assert await examining == b"ef12"
            with pytest.raises(DiskFault, match="as told"):
                await disk.examine([], _fails)

        world.run(scenario())

    def test_a_reserved_file_has_its_size_and_takes_up_room(self, disk: Disk) -> None:
        disk.reserve("ballast", 1 << 20)
        assert disk.open("ballast").size() == 1 << 20
        disk.reserve("ballast", 1 << 16)
        assert disk.open("ballast").size() == 1 << 16


def _fails(readers: Sequence[ReadAt]) -> None:
    raise DiskFault("as told")
