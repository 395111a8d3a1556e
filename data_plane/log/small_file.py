"""Small files that change as a whole, with a checksum over all: written beside, synced, renamed, directory synced
(RL124)."""

import struct
from collections.abc import Iterator
from enum import IntEnum, unique

import crc32c

from data_plane.disk.port import Disk, DiskFull, FileMissing, SyncDirectory, SyncFile, SyncStep
from data_plane.log import layout
from data_plane.log.readable import read_or_zeros

Protocol = Iterator[list[SyncStep]]
"""Work in stages. Each list must be durable before the next is asked for:
`for steps in protocol: await disk.sync(steps)`, or at boot `sync_now`. A crash between any two is recovered from."""

_FRAME = struct.Struct(">4sHHI")
_CRC = struct.Struct(">I")
_MAGIC = b"PNSF"
_BODY_AT = _FRAME.size + _CRC.size


@unique
class SmallFileKind(IntEnum):
    """Stored; never reused."""

    CHECKPOINT = 1
    EPOCHS = 2
    PRODUCERS = 3
    ODOMETER = 4
    INDEX = 5
    SEAL = 6
    START = 7
    SCRUBBED = 8
    DAMAGED_SEEN = 9
    WITNESS = 10


class SmallFileCorrupt(Exception):
    """The bytes are not a whole file of this kind."""


def pack_small_file(kind: SmallFileKind, version: int, body: bytes) -> bytes:
    """magic 4s | kind H | version H | body length I | CRC-32C I over the 12 bytes before it and the body | body."""
    frame = _FRAME.pack(_MAGIC, kind, version, len(body))
    return b"".join((frame, _CRC.pack(crc32c.crc32c(body, crc32c.crc32c(frame))), body))


def unpack_small_file(kind: SmallFileKind, data: bytes) -> tuple[int, bytes]:
    """(version, body). Raises `SmallFileCorrupt`."""
    version, body, end = unpack_framed(kind, data, 0)
    if end != len(data):
        raise SmallFileCorrupt(f"{kind.name.lower()}: {len(data) - end} bytes behind its end, none allowed")
    return version, body


def unpack_framed(kind: SmallFileKind, data: bytes, at: int) -> tuple[int, bytes, int]:
    """(version, body, end) of one frame that begins at byte `at`. Raises `SmallFileCorrupt`."""
    name = kind.name.lower()
    if len(data) - at < _BODY_AT:
        raise SmallFileCorrupt(f"{name}: {len(data) - at} bytes, {_BODY_AT} required for its head")
    magic, found, version, length = _FRAME.unpack_from(data, at)
    if magic != _MAGIC or found != kind:
        raise SmallFileCorrupt(f"{name}: begins with {magic!r} kind {found}, {_MAGIC!r} kind {kind} required")
    end = at + _BODY_AT + length
    if end > len(data):
        raise SmallFileCorrupt(f"{name}: body of {len(data) - at - _BODY_AT} bytes, {length} required")
    body = data[at + _BODY_AT : end]
    crc = crc32c.crc32c(body, crc32c.crc32c(data[at : at + _FRAME.size]))
    if crc != _CRC.unpack_from(data, at + _FRAME.size)[0]:
        raise SmallFileCorrupt(f"{name}: its checksum does not hold")
    return version, body, end


def write_small_file(disk: Disk, path: str, data: bytes) -> Protocol:
    """Replace `path` by `data`; durable when the protocol ends, the old content stands until then."""
    temporary = path + layout.TEMPORARY_SUFFIX
    disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.write_at(0, [data])
        yield [SyncFile(file)]
    finally:
        file.close()
    disk.rename(temporary, path)
    yield [SyncDirectory(layout.parent(path))]


def write_cache(disk: Disk, path: str, data: bytes) -> None:
    """Replace `path` by `data` without making it durable: for what is checked when read and rebuilt when bad (RL123).

    On a full disk the file stays as it was.
    """
    temporary = path + layout.TEMPORARY_SUFFIX
    disk.remove(temporary)
    try:
        file = disk.open(temporary, create=True)
        try:
            file.write_at(0, [data])
        finally:
            file.close()
    except DiskFull:
        disk.remove(temporary)
        return
    disk.rename(temporary, path)


def read_whole(disk: Disk, path: str) -> bytes:
    """All bytes of a file, zeros for those that the medium refuses. Raises `FileMissing`."""
    file = disk.open(path)
    try:
        return read_or_zeros(file, 0, file.size())[0]
    finally:
        file.close()


def read_cache(disk: Disk, path: str, kind: SmallFileKind, version: int) -> bytes | None:
    """The body of a cache; None when it is missing, bad or of another version."""
    try:
        found, body = unpack_small_file(kind, read_whole(disk, path))
    except (FileMissing, SmallFileCorrupt):
        return None
    return body if found == version else None
