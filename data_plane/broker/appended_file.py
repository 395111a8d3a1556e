"""A file that is written front to back and synced all the time, past the page cache (`O_DIRECT`).

The journal is such a file. Through the page cache each of its bytes would take up fresh memory that is not read
again, and each sync would look for the pages to write. Past it the device takes whole blocks from aligned memory: each
write is copied into such a space, which is used again and again and therefore stays in the processor's cache.

A write that begins within a block writes the block's front again, as the page cache would. Where the file system has
no such access, the same writes go through the page cache.
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Sequence

from data_plane.broker.real_file import RealFile, disk_fault
from data_plane.disk.port import APPENDED_BLOCK_BYTES, Buffer, DiskFull

_SPACE_BYTES = 1 << 20
"""What goes to the device at once: enough to keep it busy, and little enough for a processor's cache."""
_PADDING = bytes(APPENDED_BLOCK_BYTES)


class AlignedSpaces:
    """Memory that begins at a block's boundary. There are as many spaces as writes ran at the same time."""

    __slots__ = ("_idle",)

    def __init__(self) -> None:
        self._idle: list[memoryview] = []

    def take(self) -> memoryview:
        try:
            return self._idle.pop()
        except IndexError:
            memory = bytearray(_SPACE_BYTES + APPENDED_BLOCK_BYTES)
            begin = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % APPENDED_BLOCK_BYTES
            return memoryview(memory)[begin : begin + _SPACE_BYTES]

    def give_back(self, space: memoryview) -> None:
        self._idle.append(space)


def open_past_the_cache(where: str, flags: int) -> int:
    """A descriptor that writes past the page cache if this file system has that, else one that does not."""
    try:
        return os.open(where, flags | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(where, flags, 0o600)


class AppendedFile(RealFile):
    """See `data_plane.disk.port.Disk.open_appended`. One thread at a time writes or reads it."""

    __slots__ = ("_last_block", "_last_block_at", "_spaces")

    def __init__(self, path: str, fd: int, spaces: AlignedSpaces) -> None:
        super().__init__(path, fd)
        self._spaces = spaces
        self._last_block = b""
        """What was written of the block at `_last_block_at`, which is -1 when that is not known."""
        self._last_block_at = -1

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Short writes are continued (RL127)."""
        if not any(map(len, buffers)):
            return
        space = self._spaces.take()
        try:
            self._write_through(space, position, buffers)
        finally:
            self._spaces.give_back(space)

    def _write_through(self, space: memoryview, position: int, buffers: Sequence[Buffer]) -> None:
        filled = position % APPENDED_BLOCK_BYTES
        at = position - filled
        if filled:
            self._take_up(space, at, filled)
        self._last_block_at = -1
        for buffer in buffers:
            left = memoryview(buffer).cast("B")
            while len(left):
                some = left[: _SPACE_BYTES - filled]
                space[filled : filled + len(some)] = some
                filled += len(some)
                left = left[len(some) :]
                if filled == _SPACE_BYTES:
                    self._write_blocks(space, at)
                    at += filled
                    filled = 0
        behind = filled % APPENDED_BLOCK_BYTES
        if filled:
            end = filled + -behind % APPENDED_BLOCK_BYTES
            space[filled:end] = _PADDING[: end - filled]
            self._write_blocks(space[:end], at)
        self._last_block = bytes(space[filled - behind : filled])
        self._last_block_at = at + filled - behind

    def _take_up(self, space: memoryview, at: int, length: int) -> None:
        """The first `length` bytes of the block at `at`, as the file has them, stand at the front of the space."""
        if at == self._last_block_at and length <= len(self._last_block):
            space[:length] = self._last_block[:length]
            return
        found = self._read_blocks(space[:APPENDED_BLOCK_BYTES], at)
        if found < length:
            space[found:length] = _PADDING[: length - found]

    def _write_blocks(self, blocks: memoryview, at: int) -> None:
        while len(blocks):
            written = self._write_some(at, [blocks])
            whole = written - written % APPENDED_BLOCK_BYTES
            if not whole:
                # A file system whose blocks are smaller, with no space for all of this one.
                raise DiskFull(f"{self.path}: write at {at} took {written} bytes, a block required")
            blocks = blocks[whole:]
            at += whole

    def _write_some(self, position: int, buffers: Sequence[Buffer]) -> int:
        try:
            return os.pwritev(self._fd, buffers, position)
        except OSError as error:
            if error.errno != errno.EINVAL or not self._leave_the_cache_in():
                raise disk_fault(self.path, f"write at {position}", error) from error
        return super()._write_some(position, buffers)

    def _leave_the_cache_in(self) -> bool:
        """This device wants larger blocks: go on through the page cache. False when it does already."""
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        fcntl.fcntl(self._fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        return bool(flags & os.O_DIRECT)

    def read(self, position: int, length: int) -> bytes:
        parts: list[bytes] = []
        space = self._spaces.take()
        try:
            while length > 0:
                skipped = position % APPENDED_BLOCK_BYTES
                found = self._read_blocks(space, position - skipped)
                part = bytes(space[skipped : min(found, skipped + length)])
                if not part:
                    break
                parts.append(part)
                position += len(part)
                length -= len(part)
        finally:
            self._spaces.give_back(space)
        return b"".join(parts)

    def _read_blocks(self, space: memoryview, at: int) -> int:
        """Bytes read to the front of the space; fewer than fit only at the end of the file."""
        try:
            return os.preadv(self._fd, [space], at)
        except OSError as error:
            if error.errno != errno.EINVAL or not self._leave_the_cache_in():
                raise disk_fault(self.path, f"read at {at}", error) from error
        return self._read_blocks(space, at)
