"""One receipts file, held by one producer: records are appended, and now and then it is rewritten, smaller.

    appended --write failed--> torn: the next append first removes what the failed one left
             --sync failed---> doubtful: it is not known what the disk has of it; the next sync rewrites the file

What a rewrite writes is held in memory. Where gaps are many that is bounded: what stands before a *seal* is left as it
is, copied along, and forgotten.

A new file is complete and synced before it takes the old one's name, so a crash at any point leaves one or the other,
whole. Its lock is taken before, so the name always leads to a locked file. Where the process is killed meanwhile, the
new file stays beside the old one under its own name, `.penstock-receipts-<random>.new`.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from typing import Protocol

from penstock.contract.errors import ConfigurationError
from penstock.receipts.format import FILE_ID_BYTES, HEADER_BYTES, goes_on, pack_header, pack_records, unpack
from penstock.receipts.spans import Spans

COMPACT_BYTES = 256 * 1024
"""What may be appended before the file is rewritten, or as much as can be made smaller, if that is more."""
COPY_SHARE = 16
"""A sealed part is copied at each rewrite, so this share of it must be appended between two of them."""
SPANS_MAX = 50_000
"""Spans in memory; some 10 MB."""
UNSEALED_BYTES_MAX = 1024 * 1024
"""A longer file is sealed when it is opened."""
TORN_BYTES_MAX = 64 * 1024
"""A longer rest that is no whole record is not taken for a write that a crash interrupted."""
FILE_MODE = 0o600
_COPY_BYTES = 1 << 20
_log = logging.getLogger("penstock")
_OPEN_ATTEMPTS = 100
"""A writer that rewrites its file at this moment lets another one meet the old file once."""


class Disk(Protocol):
    """What is done to the disk: a test may fail it at any step."""

    def write_at(self, fd: int, data: bytes | memoryview, at: int) -> int: ...
    def truncate(self, fd: int, size: int) -> None: ...
    def sync(self, fd: int) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def sync_folder(self, path: str) -> None: ...


class RealDisk:
    """The operating system's. All raise `OSError`."""

    def write_at(self, fd: int, data: bytes | memoryview, at: int) -> int:
        return os.pwrite(fd, data, at)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class ReceiptsFile:
    """Not safe between threads. Opening it makes it, or goes on with what it holds."""

    def __init__(self, path: str | os.PathLike[str], disk: Disk | None = None) -> None:
        """Raises `ConfigurationError`: another producer writes it, it is no receipts file, it cannot be opened."""
        self.path = os.path.realpath(os.fspath(path))
        self._disk = disk or RealDisk()
        self._torn = self._doubtful = self._renamed = False
        try:
            self._fd = _open_locked(self.path)
        except OSError as error:
            raise ConfigurationError(f"receipts: {self.path} cannot be written: {error.strerror}") from error
        try:
            self._begin()
        except OSError as error:
            os.close(self._fd)
            raise ConfigurationError(f"receipts: {self.path} cannot be written: {error.strerror}") from error
        except BaseException:
            os.close(self._fd)
            raise

    def _begin(self) -> None:
        os.fchmod(self._fd, FILE_MODE)
        data = _read_all(self._fd)
        content = unpack(data, self.path, with_spans=len(data) <= UNSEALED_BYTES_MAX)
        self._file_id = content.file_id
        self._numbers = {topic_id: number for number, topic_id in enumerate(content.topics)}
        self._names = content.topics
        self._spans = content.spans
        self._end = content.end
        self._crc = content.crc
        self._seal = HEADER_BYTES
        self._seal_crc = 0
        self._sealed_topics = 0
        if not data:
            self._file_id = os.urandom(FILE_ID_BYTES)
            self._rewrite()
        elif self._end < len(data):
            self._cut_off(data)
        if len(data) > UNSEALED_BYTES_MAX or self._spans.count > SPANS_MAX:
            self._disk.sync(self._fd)
            self._seal_all()
        self._plan()

    def _cut_off(self, data: bytes) -> None:
        """The rest of `data`, which is no whole record, or more than a crash leaves: then it is kept beside."""
        rest = data[self._end :]
        kept = ""
        if len(rest) > TORN_BYTES_MAX or goes_on(data, self._end, self._crc):
            kept = f"; the file is damaged there, and they are kept in {self._set_aside(rest)}"
        self._disk.truncate(self._fd, self._end)
        _log.warning(
            "penstock: receipts: %s: %d bytes at its end are no whole record and were removed%s",
            self.path, len(rest), kept,
        )  # fmt: skip

    def _set_aside(self, rest: bytes) -> str:
        """Write it to a new file beside, durably; its path."""
        number = 1
        while os.path.lexists(path := f"{self.path}.damaged.{number}"):
            number += 1
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            self._write(fd, rest, 0)
            self._disk.sync(fd)
        except OSError:
            _remove(path)
            raise
        finally:
            os.close(fd)
        self._disk.sync_folder(os.path.dirname(path))
        return path

    @property
    def size(self) -> int:
        """Bytes of whole records."""
        return self._end

    def append(self, spans: Spans, names: dict[bytes, str]) -> None:
        """Write `spans`, of topics with these names, without waiting for the disk.

        Raises `OSError`; then the file holds nothing of them.
        """
        if self._torn:
            self._disk.truncate(self._fd, self._end)
            self._torn = False
        numbers = dict(self._numbers)
        new: list[tuple[int, bytes, str]] = []
        for key, _ in spans:
            if key.topic_id not in numbers:
                numbers[key.topic_id] = len(numbers)
                new.append((numbers[key.topic_id], key.topic_id, names[key.topic_id]))
        data, crc = pack_records(spans, numbers, new, self._crc)
        self._torn = True
        self._write(self._fd, data, self._end)
        self._torn = False
        self._end += len(data)
        self._crc = crc
        self._numbers = numbers
        self._names.update((topic_id, name) for _, topic_id, name in new)
        self._spans.merge(spans)

    def sync(self) -> None:
        """Until it returns, what was appended may be lost when the machine stops. Compacts where that is due.

        Raises `OSError`; what was appended is not lost to the next attempt.
        """
        if self._doubtful:
            self._rewrite()
        elif self._end >= self._compact_at:
            self._compact()
        if self._renamed:
            self._disk.sync_folder(os.path.dirname(self.path))
            self._renamed = False
        try:
            self._disk.sync(self._fd)
        except OSError:
            # The kernel may have dropped what it could not write, and say so only once.
            self._doubtful = True
            raise
        if self._spans.count > SPANS_MAX:
            self._seal_all()

    def close(self) -> None:
        """Give the lock back. Writes nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _compact(self) -> None:
        """Without space for a second file the present one goes on, only longer."""
        try:
            self._rewrite()
        except OSError:
            self._compact_at = self._end + COMPACT_BYTES

    def _rewrite(self) -> None:
        header, first_crc = pack_header(self._file_id)
        if self._seal == HEADER_BYTES:
            self._seal_crc = first_crc
        topics = [
            (number, topic_id, self._names[topic_id])
            for topic_id, number in self._numbers.items()
            if number >= self._sealed_topics
        ]
        records, crc = pack_records(self._spans, self._numbers, topics, self._seal_crc)
        # A name of its own: any fixed one may be the file of another producer.
        new_path = os.path.join(os.path.dirname(self.path), f".penstock-receipts-{os.urandom(8).hex()}.new")
        fd = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(fd, FILE_MODE)
            self._write(fd, header, 0)
            self._copy(fd)
            self._write(fd, records, self._seal)
            self._disk.sync(fd)
            self._disk.rename(new_path, self.path)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, Exception | KeyboardInterrupt):
                _remove(new_path)
            raise
        os.close(self._fd)
        self._fd = fd
        self._renamed = True
        self._end = self._seal + len(records)
        self._crc = crc
        self._torn = self._doubtful = False
        self._plan()

    def _copy(self, fd: int) -> None:
        """What is sealed, as it is."""
        at = HEADER_BYTES
        while at < self._seal:
            part = os.pread(self._fd, min(_COPY_BYTES, self._seal - at), at)
            if not part:
                raise OSError(errno.EIO, f"{self.path} is shorter than it was")
            self._write(fd, part, at)
            at += len(part)

    def _seal_all(self) -> None:
        """Forget what is held; it stays as it was appended. Only what is synced may be sealed."""
        self._spans = Spans()
        self._seal, self._seal_crc, self._sealed_topics = self._end, self._crc, len(self._numbers)

    def _plan(self) -> None:
        """When to rewrite next."""
        grown = max(COMPACT_BYTES, self._end - self._seal, self._seal // COPY_SHARE)
        self._compact_at = self._end + grown

    def _write(self, fd: int, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            written = self._disk.write_at(fd, view, at)
            view, at = view[written:], at + written


def _open_locked(path: str) -> int:
    """The file of this name, locked. Raises `OSError`, `ConfigurationError` when another one holds it."""
    for _ in range(_OPEN_ATTEMPTS):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours, named = os.fstat(fd), os.stat(path)
            if not stat.S_ISREG(ours.st_mode):
                raise ConfigurationError(f"receipts: {path} is no ordinary file")
            if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino):
                return fd
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(fd)
            raise ConfigurationError(
                f"receipts: {path} is being written by another producer; each needs a file of its own"
            ) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # it was rewritten between the two steps
    raise ConfigurationError(f"receipts: {path} is replaced again and again")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it does no harm: each attempt has a name of its own


def _read_all(fd: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    while part := os.pread(fd, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
