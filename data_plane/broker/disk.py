"""The Disk port over a real log directory: the page cache on the loop, syncing and cold reads on threads."""

import asyncio
import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from data_plane.disk.port import (
    Buffer,
    DirectoryLocked,
    DiskFault,
    DiskFull,
    DiskUsage,
    File,
    FileMissing,
    SyncDirectory,
    SyncFile,
    SyncStep,
    WriteFile,
)
from penstock.contract.invariant import invariant

_IOV_MAX = 1024
"""Buffers that one pwritev takes on Linux."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ_THREADS = 4
_LOCK_FILE = "lock"


def _fault(error: OSError, path: str) -> DiskFault:
    if error.errno in _FULL:
        return DiskFull(f"{path}: no space left on the disk")
    if error.errno == errno.ENOENT:
        return FileMissing(f"{path}: no such file")
    return DiskFault(f"{path}: {error.strerror}")


def _write_all(fd: int, position: int, buffers: Sequence[Buffer]) -> None:
    """Every byte, over short writes and the limit on buffers (RL127)."""
    waiting: list[Buffer] = [buffer for buffer in buffers if len(buffer)]
    at = 0
    while at < len(waiting):
        written = os.pwritev(fd, waiting[at : at + _IOV_MAX], position)
        position += written
        while at < len(waiting) and written >= len(waiting[at]):
            written -= len(waiting[at])
            at += 1
        if written:
            waiting[at] = memoryview(waiting[at])[written:]


class RealFile:
    """One open file descriptor, kept from write to sync (RL126)."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd, self._path = fd, path

    @property
    def path(self) -> str:
        return self._path

    def fileno(self) -> int:
        return self._fd

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        try:
            _write_all(self._fd, position, buffers)
        except OSError as error:
            raise _fault(error, self._path) from error

    def read_at(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._fd, length, position)
            while len(data) < length:
                more = os.pread(self._fd, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _fault(error, self._path) from error
        return data

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise _fault(error, self._path) from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealDisk:
    """One log directory. One thread syncs (group commit, RL135); a few read what is cold."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)
        self._lock_fd = -1
        self._syncing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sync")
        self._reading = ThreadPoolExecutor(max_workers=_READ_THREADS, thread_name_prefix="read")

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path) if path else str(self._root)

    def lock(self) -> None:
        fd = os.open(self._full(_LOCK_FILE), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise DirectoryLocked(f"{self._root}: another broker process holds this log directory") from None
        self._lock_fd = fd

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return RealFile(os.open(self._full(path), flags, 0o600), path)
        except OSError as error:
            raise _fault(error, path) from error

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._full(path))

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._full(path)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _fault(error, path) from error

    def make_directories(self, path: str) -> None:
        try:
            os.makedirs(self._full(path), mode=0o700, exist_ok=True)
        except OSError as error:
            raise _fault(error, path) from error

    def rename(self, source: str, target: str) -> None:
        try:
            os.rename(self._full(source), self._full(target))
        except OSError as error:
            raise _fault(error, source) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._full(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _fault(error, path) from error

    def remove_directory(self, path: str) -> None:
        try:
            shutil.rmtree(self._full(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _fault(error, path) from error

    def usage(self) -> DiskUsage:
        stat = os.statvfs(self._root)
        return DiskUsage(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    async def sync(self, steps: Sequence[SyncStep]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._syncing, self.sync_now, steps)

    async def read(self, file: File, position: int, length: int) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._reading, file.read_at, position, length)

    def sync_now(self, steps: Sequence[SyncStep]) -> None:
        for step in steps:
            if isinstance(step, WriteFile):
                step.file.write_at(step.position, step.buffers)
            elif isinstance(step, SyncFile):
                self._sync_file(step.file)
            else:
                self._sync_directory(step)

    def _sync_file(self, file: File) -> None:
        invariant(isinstance(file, RealFile), "a file of this disk is synced")
        if isinstance(file, RealFile):
            try:
                os.fdatasync(file.fileno())
            except OSError as error:
                raise _fault(error, file.path) from error

    def _sync_directory(self, step: SyncDirectory) -> None:
        try:
            fd = os.open(self._full(step.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise _fault(error, step.path or ".") from error

    def close(self) -> None:
        """Stop the threads and let another process take the directory."""
        self._syncing.shutdown(wait=True)
        self._reading.shutdown(wait=False)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1
