"""The stamps file of a segment: a 64-byte header, then one 64-byte stamp a batch.

Header, big-endian: magic 4s | format version H | 0 H | encryption key id I (0 = none) | topic id 16s | partition I
| base_offset q | 20 zero bytes | CRC-32C I over the 60 bytes before it.
"""

import struct
from dataclasses import dataclass

from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.checksum import CHECKSUM_BYTES, checksum_holds, stored_checksum, with_checksum
from penstock.records.stamp import STAMP_BYTES

_HEADER = struct.Struct(">4sHHI16sIq20x")
_BRIEF = struct.Struct(">qiii")
HEADER_BYTES = _HEADER.size + CHECKSUM_BYTES
MAGIC = b"PNST"
FORMAT_VERSION = 1
NO_KEY = 0
_COVERED = STAMP_BYTES - CHECKSUM_BYTES
_POSITION_AT = 48
"""Byte of `position` within a stamp."""
_POSITION = struct.Struct(">I")


class SidecarCorrupt(Exception):
    """The header of a stamps file is bad."""


class SidecarUnknown(Exception):
    """The header of a stamps file is good, but of another partition, version or key than this code can read."""


@dataclass(frozen=True, slots=True)
class BriefStamp:
    """What finding and truncating need of a stamp. Offsets in records, size and position in bytes."""

    base_offset: int
    end_offset: int
    size: int
    position: int


def pack_header(where: TopicPartition, base_offset: int) -> bytes:
    body = _HEADER.pack(MAGIC, FORMAT_VERSION, 0, NO_KEY, where.topic_id, where.partition, base_offset)
    return with_checksum(body)


def check_header(data: bytes, where: TopicPartition, base_offset: int) -> None:
    """Raises `SidecarCorrupt` or `SidecarUnknown` unless `data` is the header of this partition's segment."""
    if len(data) < HEADER_BYTES:
        raise SidecarCorrupt(f"stamps header of {len(data)} bytes, {HEADER_BYTES} required")
    magic, version, _, key, topic_id, partition, base = _HEADER.unpack_from(data)
    if not checksum_holds(data, 0, _HEADER.size) or magic != MAGIC:
        raise SidecarCorrupt("stamps header: its checksum does not hold")
    if version != FORMAT_VERSION or key != NO_KEY:
        raise SidecarUnknown(
            f"stamps header: version {version} key {key}, version {FORMAT_VERSION} key 0 known"
        )
    found = TopicPartition(TopicId(topic_id), partition)
    if found != where or base != base_offset:
        raise SidecarUnknown(f"stamps header of {found} at {base}, {where} at {base_offset} required")


def stamp_at(count: int) -> int:
    """Byte where stamp number `count` begins."""
    return HEADER_BYTES + count * STAMP_BYTES


def stamps_in(size: int) -> int:
    """Whole stamps in a file of `size` bytes."""
    return max(0, (size - HEADER_BYTES) // STAMP_BYTES)


def intact(block: bytes | memoryview, at: int, seed: int) -> bool:
    """The stamp at byte `at` of `block` is whole and its checksum holds for this partition."""
    return at + STAMP_BYTES <= len(block) and checksum_holds(block, at, at + _COVERED, seed)


def brief(block: bytes | memoryview, at: int) -> BriefStamp:
    """Read what finding needs of the stamp at byte `at`; the caller checks `intact`."""
    base_offset, span, _, size = _BRIEF.unpack_from(block, at)
    return BriefStamp(
        base_offset, base_offset + span, size, _POSITION.unpack_from(block, at + _POSITION_AT)[0]
    )


def base_offset_of(block: bytes | memoryview, at: int) -> int:
    return int.from_bytes(block[at : at + 8], "big", signed=True)


def checksum_of(packed: bytes | memoryview, at: int = 0) -> int:
    """The stamp's own checksum: with its offset it names one batch of one history."""
    return stored_checksum(packed, at + _COVERED)
