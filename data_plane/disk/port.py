"""The Disk port: what a broker demands of a disk.

Reading, writing and renaming are synchronous (they touch the page cache); making durable is asynchronous
and happens off the event loop, but for small syncs on a disk that answers sooner than a thread would.
Paths are relative to the log directory, with `/` between parts. After any `DiskFault` from a sync the durability
of the named file is unknown permanently (RL126): the caller must not retry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview
APPENDED_BLOCK_BYTES = 4096
"""What a write to a file of `Disk.open_appended` rounds its end up to."""
ReadAt = Callable[[int, int], bytes]
"""(position, length) -> at most `length` bytes, fewer only at the end of the file."""


class DiskFault(Exception):
    """The disk answered with an error (EIO and the like)."""


class DiskFull(DiskFault):
    """No space (ENOSPC, EDQUOT). Nothing of the write may be relied on; the caller truncates back (RL127)."""


class FileMissing(DiskFault):
    """No file of that name."""


class DirectoryLocked(DiskFault):
    """Another process holds the log directory (RL119)."""


class File(Protocol):
    """One open file. Kept open from write to sync (RL126)."""

    @property
    def path(self) -> str: ...

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other at `position`; short writes are continued.

        Raises `DiskFull`, `DiskFault`.
        """

    def read_at(self, position: int, length: int) -> bytes:
        """At most `length` bytes; fewer only at the end of the file. Raises `DiskFault`."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SyncFile:
    """fdatasync of one open file."""

    file: File


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    """fsync of one directory: makes creations, renames and removals in it durable (RL124)."""

    path: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """A write that only matters with the sync behind it (journal records): done off the loop as well."""

    file: File
    position: int
    buffers: Sequence[Buffer]


SyncStep = SyncFile | SyncDirectory | WriteFile


@dataclass(frozen=True, slots=True)
class DiskUsage:
    total_bytes: int
    free_bytes: int


class Disk(Protocol):
    """One log directory."""

    def lock(self) -> None:
        """Take the directory for this process, or raise `DirectoryLocked` (RL119)."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Without `create` a missing file raises `FileMissing`."""

    def open_appended(self, path: str, *, create: bool = False) -> File:
        """As `open`, for a file that is written front to back and hardly read: where possible past the page cache.

        From the end of each write to the next multiple of `APPENDED_BLOCK_BYTES` the file then holds zeros. One task
        at a time uses it.
        """

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; a missing directory is empty."""

    def make_directories(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is no error."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its files; a missing one is no error."""

    def usage(self) -> DiskUsage: ...

    def reserve(self, path: str, size: int) -> None:
        """Make a file that takes up `size` bytes, in place of one of another size; nothing of it is written or
        durable. Raises `DiskFull`."""

    def sync_at_once(self, steps: Sequence[SyncStep]) -> bool:
        """As `sync`, blocking, where that is known to take less than a hand-over to a thread. False when nothing was
        done: then `sync` is to do it."""

    async def sync(self, steps: Sequence[SyncStep]) -> None:
        """Perform the steps in order, off the loop. Returning means durable.

        Raises `DiskFault`, `DiskFull`.
        """

    async def examine(self, files: Sequence[File], work: Callable[[Sequence[ReadAt]], T]) -> T:
        """What `work` makes of the files, off the loop. It gets one reader a file, good until it returns even if the
        file is closed meanwhile; each raises `DiskFault` as `File.read_at` does. `work` must touch nothing else that
        others use."""

    async def read(self, file: File, position: int, length: int) -> bytes:
        """As `File.read_at`, off the loop, for reads that may have to wait for the medium."""

    def sync_now(self, steps: Sequence[SyncStep]) -> None:
        """As `sync`, blocking: only while the broker does not serve yet, or no longer."""
