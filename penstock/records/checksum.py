"""The checksum of stored formats: CRC-32C over the bytes before it, big-endian, 4 bytes.

A seed binds the bytes to something that is not among them, such as the partition (`stamp_seed`) or the record before.
"""

import struct

import crc32c

from penstock.records.batch import Buffer

_CRC = struct.Struct(">I")
CHECKSUM_BYTES = _CRC.size


def with_checksum(body: bytes, seed: int = 0) -> bytes:
    """The body with its checksum behind it."""
    return body + _CRC.pack(crc32c.crc32c(body, seed))


def checksum_holds(data: Buffer, begin: int, end: int, seed: int = 0) -> bool:
    """Whether the 4 bytes at `end` are the checksum of [begin, end). The caller has checked that they are there."""
    return bool(crc32c.crc32c(memoryview(data)[begin:end], seed) == stored_checksum(data, end))


def stored_checksum(data: Buffer, at: int) -> int:
    """The checksum that stands at byte `at`."""
    return int(_CRC.unpack_from(data, at)[0])
