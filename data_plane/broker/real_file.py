"""One open file of the real disk (RL126, RL127)."""

import errno
import os
import threading
from collections.abc import Sequence

from data_plane.disk.port import Buffer, DiskFault, DiskFull, FileMissing

_IOV_MAX = os.sysconf("SC_IOV_MAX")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class RealFile:
    """One open file. A file that is closed while a thread still syncs or reads it is closed when that has
    ended: its descriptor's number must not name another file meanwhile.
    """

    __slots__ = ("_closed", "_fd", "_path", "_users", "_users_lock")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._closed = False
        self._users = 0
        self._users_lock = threading.Lock()

    @property
    def path(self) -> str:
        return self._path

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._check_open()
        self.write(position, buffers)

    def read_at(self, position: int, length: int) -> bytes:
        self._check_open()
        return self.read(position, length)

    def size(self) -> int:
        self._check_open()
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise disk_fault(self._path, "fstat", error) from error

    def truncate(self, size: int) -> None:
        self._check_open()
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise disk_fault(self._path, "truncate", error) from error

    def allocate(self, size: int) -> None:
        """Take up `size` bytes of the disk."""
        self._check_open()
        try:
            os.posix_fallocate(self._fd, 0, size)
        except OSError as error:
            raise disk_fault(self._path, f"allocate {size} bytes", error) from error

    def close(self) -> None:
        with self._users_lock:
            last = not self._closed and self._users == 0
            self._closed = True
        if last:
            os.close(self._fd)

    # -- for the disk that opened it; a pinned file may be used after `close` --------------------------------

    def pin(self) -> None:
        """Keep the descriptor until `unpin`."""
        self._check_open()
        with self._users_lock:
            self._users += 1

    def unpin(self) -> None:
        with self._users_lock:
            self._users -= 1
            last = self._closed and self._users == 0
        if last:
            os.close(self._fd)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Short writes are continued (RL127)."""
        for first in range(0, len(buffers), _IOV_MAX):
            some = buffers[first : first + _IOV_MAX]
            size = sum(map(len, some))
            written = self._write_some(position, some)
            if written != size:
                self._write_rest(position, some, written)
            position += size

    def _write_some(self, position: int, buffers: Sequence[Buffer]) -> int:
        try:
            return os.pwritev(self._fd, buffers, position)
        except OSError as error:
            raise disk_fault(self._path, f"write at {position}", error) from error

    def _write_rest(self, position: int, buffers: Sequence[Buffer], written: int) -> None:
        """What is left of `buffers` when the first `written` bytes stand at `position`."""
        left = [memoryview(buffer).cast("B") for buffer in buffers]
        while True:
            position += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if not left:
                return
            left[0] = left[0][written:]
            written = self._write_some(position, left)
            if written == 0:
                raise DiskFault(f"{self._path}: write at {position} took nothing")

    def read(self, position: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            try:
                part = os.pread(self._fd, length, position)
            except OSError as error:
                raise disk_fault(self._path, f"read at {position}", error) from error
            if not part:
                break
            parts.append(part)
            position += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self._path}: used after close")


def disk_fault(path: str, what: str, error: OSError) -> DiskFault:
    """What the port says of an error of the operating system."""
    message = f"{path}: {what}: {error.strerror}"
    if error.errno in _NO_SPACE:
        return DiskFull(message)
    if error.errno == errno.ENOENT:
        return FileMissing(message)
    return DiskFault(message)
