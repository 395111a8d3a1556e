"""The Disk port over a simulated medium: one process's view of its log directory, with faults and delays.

A `SimDisk` belongs to one life of a broker. `kill` ends that life: nothing it does afterwards reaches the
medium, not even the rest of the step that is running. The `Medium` lives on; `Medium.power_cut` takes from
it what was not synced.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from data_plane.disk.port import (
    APPENDED_BLOCK_BYTES,
    Buffer,
    DirectoryLocked,
    DiskFault,
    DiskFull,
    DiskUsage,
    File,
    FileMissing,
    ReadAt,
    SyncDirectory,
    SyncFile,
    SyncStep,
    WriteFile,
)
from data_plane.testkit.medium import SECTOR_BYTES, Change, Directory, Flush, Inode, Medium

T = TypeVar("T")
DISK_BYTES = 1 << 30


@dataclass(slots=True, kw_only=True)
class DiskTiming:
    """How long the medium takes, in ms."""

    sync_ms: float = 0.0
    """A sync takes this at least, and up to `sync_jitter_ms` more."""
    sync_jitter_ms: float = 0.0
    tail_chance: float = 0.0
    tail_ms: float = 0.0
    at_once_chance: float = 0.0
    """How often the disk answers sooner than a thread would."""
    read_ms: float = 0.0


@dataclass(slots=True, kw_only=True)
class DiskFaults:
    """What is wrong with the disk now. Counters go down by one each time the fault strikes."""

    capacity_bytes: int = DISK_BYTES
    """Growing files beyond this answers ENOSPC."""
    extra_sync_ms: float = 0.0
    failing_syncs: int = 0
    """That many syncs fail: some unsynced pages are lost, and later syncs succeed (RL126)."""
    failed_syncs: int = 0
    """How many did."""
    lying: bool = False
    """Syncs of files report success, and what they wrote stays in a cache that a power cut empties."""
    extra_read_ms: float = 0.0
    """Each read takes that much longer."""
    misdirected_writes: int = 0
    """That many writes land one sector too far."""
    misdirected: tuple[str, ...] = ("",)
    """How the paths of files end of which that may be."""


Hook = Callable[[str, str], None]
"""Called before each operation that changes the medium, with its kind and its path."""


class SimFile:
    """One open file."""

    __slots__ = ("_disk", "_open", "_path", "appended", "inode")

    def __init__(self, disk: "SimDisk", path: str, inode: Inode, *, appended: bool = False) -> None:
        self._disk = disk
        self._path = path
        self.inode = inode
        self.appended = appended
        self._open = True

    @property
    def path(self) -> str:
        return self._path

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._check_open()
        self._disk.write(self, position, buffers)

    def read_at(self, position: int, length: int) -> bytes:
        self._check_open()
        return self.read_at_any_time(position, length)

    def read_at_any_time(self, position: int, length: int) -> bytes:
        """Also behind `close`, for who began before it."""
        end = position + length
        if any(low < end and position < high for low, high in self.inode.bad):
            raise DiskFault(f"{self._path}: EIO reading bytes {position} to {end}")
        return bytes(self.inode.data[position:end])

    def size(self) -> int:
        self._check_open()
        return len(self.inode.data)

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.truncate(self, size)

    def close(self) -> None:
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise ValueError(f"{self._path}: used after close")


class SimDisk:
    """A log directory as one process sees it."""

    def __init__(
        self, medium: Medium, *, rng: random.Random | None = None, timing: DiskTiming | None = None,
        faults: DiskFaults | None = None,
    ) -> None:  # fmt: skip
        self.medium = medium
        self.timing = timing or DiskTiming()
        self.faults = faults or DiskFaults()
        self.hook: Hook | None = None
        self._rng = rng or random.Random(0)
        self._dead = False

    def kill(self) -> None:
        """The process is gone: nothing reaches the medium any more, and the lock is free."""
        self._dead = True
        if self.medium.holder is self:
            self.medium.holder = None

    def lock(self) -> None:
        if self.medium.holder not in (None, self):
            raise DirectoryLocked("another process holds the log directory")
        self.medium.holder = self

    # -- names ----------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimFile:
        return SimFile(self, path, self._found(path, create=create))

    def open_appended(self, path: str, *, create: bool = False) -> SimFile:
        return SimFile(self, path, self._found(path, create=create), appended=True)

    def _found(self, path: str, *, create: bool) -> Inode:
        found = self.medium.find(path)
        if isinstance(found, Directory):
            raise DiskFault(f"{path}: is a directory")
        if found is None:
            if not create:
                raise FileMissing(f"{path}: no such file")
            directory, name = self._parent(path)
            found = Inode()
            if self._may("create", path):
                self.medium.change(Change(directory, name, found))
        return found

    def exists(self, path: str) -> bool:
        return self.medium.find(path) is not None

    def list(self, path: str) -> list[str]:
        found = self.medium.find(path)
        return sorted(found.entries) if isinstance(found, Directory) else []

    def make_directories(self, path: str) -> None:
        made = ""
        for part in path.split("/"):
            made = f"{made}/{part}" if made else part
            found = self.medium.find(made)
            if isinstance(found, Inode):
                raise DiskFault(f"{made}: is a file")
            if found is None and part:
                directory, name = self._parent(made)
                if not self._may("make directory", made):
                    return
                self.medium.change(Change(directory, name, Directory()))

    def rename(self, source: str, target: str) -> None:
        entry = self.medium.find(source)
        if entry is None:
            raise FileMissing(f"{source}: no such file")
        if isinstance(self.medium.find(target), Directory):
            raise DiskFault(f"{target}: exists and is a directory")
        (old, old_name), (new, new_name) = self._parent(source), self._parent(target)
        if self._may("rename", f"{source} to {target}"):
            self.medium.change(Change(old, old_name, None), Change(new, new_name, entry))

    def remove(self, path: str) -> None:
        found = self.medium.find(path)
        if isinstance(found, Directory):
            raise DiskFault(f"{path}: is a directory")
        if found is not None and self._may("remove", path):
            directory, name = self._parent(path)
            self.medium.change(Change(directory, name, None))

    def remove_directory(self, path: str) -> None:
        found = self.medium.find(path)
        if found is None:
            return
        if not isinstance(found, Directory):
            raise DiskFault(f"{path}: is a file")
        for name in sorted(found.entries):
            if isinstance(found.entries[name], Directory):
                self.remove_directory(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        directory, name = self._parent(path)
        if self._may("remove directory", path):
            self.medium.change(Change(directory, name, None))

    def usage(self) -> DiskUsage:
        capacity = self.faults.capacity_bytes
        return DiskUsage(total_bytes=capacity, free_bytes=max(0, capacity - self.medium.used_bytes()))

    def reserve(self, path: str, size: int) -> None:
        file = self.open(path, create=True)
        if file.size() != size:
            file.truncate(0)
            file.write_at(0, [bytes(size)])

    # -- contents -------------------------------------------------------------------------------------

    def write(self, file: SimFile, position: int, buffers: Sequence[Buffer]) -> None:
        """What `File.write_at` does."""
        if not self._may("write", file.path):
            return
        content = b"".join(buffers)
        if file.appended and content:
            content += bytes(-(position + len(content)) % APPENDED_BLOCK_BYTES)
        away = 0
        if self.faults.misdirected_writes > 0 and file.path.endswith(self.faults.misdirected):
            self.faults.misdirected_writes -= 1
            away = SECTOR_BYTES
        growth = position + away + len(content) - len(file.inode.data)
        if growth > 0 and self.faults.capacity_bytes < DISK_BYTES:
            free = max(0, self.faults.capacity_bytes - self.medium.used_bytes())
            if growth > free:
                content = content[: max(0, len(content) - growth + free)]
                self._put(file.inode, position, away, content)
                raise DiskFull(f"{file.path}: no space for {growth} more bytes, {free} left")
        self._put(file.inode, position, away, content)

    def _put(self, inode: Inode, position: int, away: int, content: bytes) -> None:
        if away:
            inode.write_elsewhere(position, away, content)
        else:
            inode.write(position, content)

    def truncate(self, file: SimFile, size: int) -> None:
        """What `File.truncate` does."""
        if self._may("truncate", file.path):
            file.inode.resize(size)

    def sync_at_once(self, steps: Sequence[SyncStep]) -> bool:
        chance = self.timing.at_once_chance
        if not chance or self.faults.extra_sync_ms or self._rng.random() >= chance:
            return False
        self.sync_now(steps)
        return not self._dead

    async def sync(self, steps: Sequence[SyncStep]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._perform(list(steps), 0, done)
        await done

    def sync_now(self, steps: Sequence[SyncStep]) -> None:
        for step in steps:
            if isinstance(step, WriteFile):
                step.file.write_at(step.position, step.buffers)
            elif isinstance(step, SyncFile):
                file = _ours(step.file)
                if self._may("sync", file.path):
                    self._finish(file, file.inode.begin_flush())
            else:
                self._sync_directory(step)

    async def examine(self, files: Sequence[File], work: Callable[[Sequence[ReadAt]], T]) -> T:
        ours = [_ours(file) for file in files]
        await asyncio.sleep(self._read_s())
        return work([file.read_at_any_time for file in ours])

    async def read(self, file: File, position: int, length: int) -> bytes:
        await asyncio.sleep(self._read_s())
        return file.read_at(position, length)

    def _perform(self, steps: Sequence[SyncStep], at: int, done: asyncio.Future[None]) -> None:
        """Do step `at`, then the ones after it; goes on when the waiter is cancelled, as a thread would."""
        loop = asyncio.get_running_loop()
        if self._dead:
            return
        if at == len(steps):
            if not done.done():
                done.set_result(None)
            return
        step = steps[at]
        try:
            if isinstance(step, WriteFile):
                step.file.write_at(step.position, step.buffers)
                loop.call_soon(self._perform, steps, at + 1, done)
            elif isinstance(step, SyncFile):
                file = _ours(step.file)
                if self._may("sync", file.path):
                    flush = file.inode.begin_flush()
                    loop.call_later(self._sync_s(), self._flushed, file, flush, steps, at, done)
            else:
                self._sync_directory(step)
                loop.call_later(self._sync_s(), self._perform, steps, at + 1, done)
        except DiskFault as fault:
            if not done.done():
                done.set_exception(fault)

    def _flushed(
        self, file: SimFile, flush: Flush, steps: Sequence[SyncStep], at: int, done: asyncio.Future[None]
    ) -> None:
        if self._dead:
            return
        try:
            self._finish(file, flush)
        except DiskFault as fault:
            if not done.done():
                done.set_exception(fault)
            return
        self._perform(steps, at + 1, done)

    def _finish(self, file: SimFile, flush: Flush) -> None:
        if self.faults.failing_syncs > 0:
            self.faults.failing_syncs -= 1
            self.faults.failed_syncs += 1
            file.inode.fail_flush(flush, self._rng)
            raise DiskFault(f"{file.path}: EIO in fdatasync")
        if not self.faults.lying:
            file.inode.end_flush(flush)

    def _sync_directory(self, step: SyncDirectory) -> None:
        found = self.medium.find(step.path)
        if not isinstance(found, Directory):
            raise FileMissing(f"{step.path}: no such directory")
        if self._may("sync directory", step.path):
            self.medium.sync_directory(found)

    def _read_s(self) -> float:
        return (self.timing.read_ms * self._rng.random() + self.faults.extra_read_ms) / 1000

    def _sync_s(self) -> float:
        timing, rng = self.timing, self._rng
        ms = timing.sync_ms + timing.sync_jitter_ms * rng.random() + self.faults.extra_sync_ms
        if timing.tail_chance and rng.random() < timing.tail_chance:
            ms += timing.tail_ms * rng.random()
        return ms / 1000

    def _may(self, kind: str, path: str) -> bool:
        """Whether the operation reaches the medium: not once the process is gone (the hook may end it)."""
        if self.hook is not None and not self._dead:
            self.hook(kind, path)
        return not self._dead

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent = self.medium.parent(path)
        if parent is None:
            raise FileMissing(f"{path}: its directory does not exist")
        return parent


def _ours(file: File) -> SimFile:
    if not isinstance(file, SimFile):
        raise TypeError(f"{file.path}: not a file of this disk")
    return file
