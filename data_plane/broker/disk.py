"""The real disk: one log directory over the operating system's files, synced off the loop unless that takes longer
(RL119, RL126, RL127, RL135)."""

import asyncio
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from data_plane.broker.appended_file import AlignedSpaces, AppendedFile, open_past_the_cache
from data_plane.broker.quick_syncs import QuickSyncs
from data_plane.broker.real_file import RealFile, disk_fault
from data_plane.disk.port import (
    DirectoryLocked,
    DiskFault,
    DiskUsage,
    File,
    FileMissing,
    ReadAt,
    SyncDirectory,
    SyncFile,
    SyncStep,
    WriteFile,
)
from data_plane.node.stats import Histogram
from penstock.contract import limits
from penstock.contract.invariant import invariant

T = TypeVar("T")

SYNC_THREADS = 2
"""One for the commits and one for the checkpoint beside them, so that neither waits for the other."""
READ_THREADS = 4
_SMALL_BYTES = 64 * limits.KIB
"""A larger write is copied for longer than a hand-over takes."""


@dataclass(slots=True)
class DiskStats:
    """Durations, written by the disk's threads and the loop, read where metrics are made."""

    fsync_ms: Histogram = field(default_factory=Histogram)
    """Time of one fsync or fdatasync, the wait for the interpreter after it included."""
    fsync_return_ms: Histogram = field(default_factory=Histogram)
    """Time from the end of a sync in a thread until the event loop resumes the task that waits for it."""


class RealDisk:
    """See `data_plane.disk.port.Disk`. Makes `root`. After a failed sync every later sync is refused."""

    def __init__(self, root: Path, stats: DiskStats | None = None) -> None:
        self.stats = stats if stats is not None else DiskStats()
        self._root = os.fspath(root)
        try:
            os.makedirs(self._root, 0o700, exist_ok=True)
        except OSError as error:
            raise disk_fault(self._root, "make directory", error) from error
        self._lock_fd = -1
        self._failure = ""
        self._spaces = AlignedSpaces()
        self._quick_syncs = QuickSyncs()
        self._syncing = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="disk-sync")
        self._reading = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="disk-read")

    def lock(self) -> None:
        if self._lock_fd >= 0:
            return
        try:
            fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise disk_fault(self._root, "open", error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno == errno.EWOULDBLOCK:
                raise DirectoryLocked(f"{self._root}: another process holds the log directory") from None
            raise disk_fault(self._root, "lock", error) from error
        self._lock_fd = fd

    def close(self) -> None:
        """End the threads once their work is done and give the directory back."""
        self._syncing.shutdown(wait=True)
        self._reading.shutdown(wait=True)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # -- names -----------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(path, self._try(path, "open", lambda where: os.open(where, flags, 0o600)))

    def open_appended(self, path: str, *, create: bool = False) -> AppendedFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        fd = self._try(path, "open", lambda where: open_past_the_cache(where, flags))
        return AppendedFile(path, fd, self._spaces)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._where(path))

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._where(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise disk_fault(path, "list", error) from error

    def make_directories(self, path: str) -> None:
        self._try(path, "make directory", lambda where: os.makedirs(where, 0o700, exist_ok=True))

    def rename(self, source: str, target: str) -> None:
        onto = self._where(target)
        if os.path.isdir(onto):
            raise DiskFault(f"{target}: exists and is a directory")
        self._try(source, f"rename to {target}", lambda where: os.rename(where, onto))

    def remove(self, path: str) -> None:
        try:
            self._try(path, "remove", os.unlink)
        except FileMissing:
            pass

    def remove_directory(self, path: str) -> None:
        try:
            self._try(path, "remove directory", shutil.rmtree)
        except FileMissing:
            pass

    def usage(self) -> DiskUsage:
        found = self._try("", "statvfs", os.statvfs)
        return DiskUsage(
            total_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize
        )

    def reserve(self, path: str, size: int) -> None:
        file = self.open(path, create=True)
        try:
            if file.size() != size:
                file.truncate(0)
                file.allocate(size)
        finally:
            file.close()

    # -- durability and slow reads ---------------------------------------------------------------------------

    def sync_at_once(self, steps: Sequence[SyncStep]) -> bool:
        if not self._quick_syncs.at_once or not _is_small(steps):
            return False
        taken = self._take(steps)
        began = time.perf_counter()
        try:
            self._perform(steps, taken)
        finally:
            self._quick_syncs.took_at_once((time.perf_counter() - began) * 1000)
        return True

    async def sync(self, steps: Sequence[SyncStep]) -> None:
        """Goes on when the waiter is cancelled: what was begun is finished (RL19)."""
        taken = self._take(steps)
        began = time.perf_counter()
        ended = await _done_by(self._syncing, lambda: self._perform(steps, taken))
        now = time.perf_counter()
        self.stats.fsync_return_ms.observe((now - ended) * 1000)
        if _is_small(steps):
            self._quick_syncs.took_in_thread((now - began) * 1000)

    def sync_now(self, steps: Sequence[SyncStep]) -> None:
        self._perform(steps, self._take(steps))

    async def examine(self, files: Sequence[File], work: Callable[[Sequence[ReadAt]], T]) -> T:
        ours = [_ours(file) for file in files]
        for file in ours:
            file.pin()

        def examined() -> T:
            try:
                return work([file.read for file in ours])
            finally:
                for file in ours:
                    file.unpin()

        return await _done_by(self._reading, examined)

    async def read(self, file: File, position: int, length: int) -> bytes:
        ours = _ours(file)
        ours.pin()

        def work() -> bytes:
            try:
                return ours.read(position, length)
            finally:
                ours.unpin()

        return await _done_by(self._reading, work)

    def _take(self, steps: Sequence[SyncStep]) -> Sequence[RealFile]:
        """Pin every file of the steps; `_perform` lets go of them."""
        if self._failure:
            raise DiskFault(f"the log directory is offline since a sync failed: {self._failure}")
        taken = [_ours(step.file) for step in steps if not isinstance(step, SyncDirectory)]
        for file in taken:
            file.pin()
        return taken

    def _perform(self, steps: Sequence[SyncStep], taken: Sequence[RealFile]) -> float:
        """Do the steps in order; when the last had ended."""
        try:
            for step in steps:
                if isinstance(step, WriteFile):
                    _ours(step.file).write(step.position, step.buffers)
                else:
                    self._sync_one(step)
            return time.perf_counter()
        finally:
            for file in taken:
                file.unpin()

    def _sync_one(self, step: SyncFile | SyncDirectory) -> None:
        path = step.path if isinstance(step, SyncDirectory) else step.file.path
        began = time.perf_counter()
        try:
            if isinstance(step, SyncDirectory):
                self._sync_directory(step.path)
            else:
                _ours(step.file).sync()
        except OSError as error:
            # Whatever the reason: these pages may be marked clean and lost, and a second try would succeed.
            self._failure = f"{path}: {os.strerror(error.errno or 0)}"
            raise DiskFault(f"{path}: sync failed: {error.strerror}") from error
        self.stats.fsync_ms.observe((time.perf_counter() - began) * 1000)

    def _sync_directory(self, path: str) -> None:
        try:
            fd = os.open(self._where(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise FileMissing(f"{path}: no such directory") from None
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _where(self, path: str) -> str:
        invariant(
            not path.startswith("/") and ".." not in path.split("/"),
            f"{path!r} stays within the log directory",
        )
        return f"{self._root}/{path}" if path else self._root

    def _try(self, path: str, what: str, action: Callable[[str], T]) -> T:
        try:
            return action(self._where(path))
        except OSError as error:
            raise disk_fault(path, what, error) from error


def _is_small(steps: Sequence[SyncStep]) -> bool:
    """One small write and its sync, as most commits are."""
    if len(steps) != 2:
        return False
    write, sync = steps
    return (
        isinstance(write, WriteFile)
        and isinstance(sync, SyncFile)
        and sum(map(len, write.buffers)) <= _SMALL_BYTES
    )


def _done_by(threads: ThreadPoolExecutor, work: Callable[[], T]) -> "asyncio.Future[T]":
    """`work` done by one of the threads, whatever becomes of the future: one call into the loop completes it,
    where `asyncio.wrap_future` and `shield` take several."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            loop.call_soon_threadsafe(_fail, waiting, error)
        else:
            loop.call_soon_threadsafe(_succeed, waiting, result)

    threads.submit(run)
    return waiting


def _succeed(waiting: "asyncio.Future[T]", result: T) -> None:
    if not waiting.done():
        waiting.set_result(result)


def _fail(waiting: "asyncio.Future[T]", error: BaseException) -> None:
    if not waiting.done():
        waiting.set_exception(error)


def _ours(file: File) -> RealFile:
    if not isinstance(file, RealFile):
        raise TypeError(f"{file.path}: not a file of this disk")
    return file
