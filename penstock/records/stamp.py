"""The stamp: the fixed-width entry that a leader writes beside each batch, stored alike on every replica.

Layout, big-endian, 64 bytes:

    base_offset q | offset_span i | record_count i | size i | leader_epoch i | accepted_ms q | principal I
    | producer_id q | producer_epoch h | flags H | position I | base_sequence i | 4 zero bytes | header_crc I

`size` is the whole batch as stored (its length field + 12); `position` is where the batch begins in its
segment, so the stamps of a segment are its complete offset index; `header_crc` is CRC-32C over the first 60
bytes, seeded with topic id and partition (RL118), so a stamp of another partition or a stale block fails.
"""

import struct
from enum import IntFlag
from typing import NamedTuple

import crc32c

from penstock.contract.ids import TopicPartition
from penstock.records.checksum import CHECKSUM_BYTES, checksum_holds, with_checksum

_BODY = struct.Struct(">qiiiiqIqhHIi4x")
STAMP_BYTES = _BODY.size + CHECKSUM_BYTES
_PARTITION = struct.Struct(">I")


class StampFlag(IntFlag):
    NONE = 0
    TRANSACTIONAL = 1
    CONTROL_COMMIT = 2
    CONTROL_ABORT = 4
    FIRST_OF_SEGMENT = 8
    CLEANED = 16


class StampCorrupt(Exception):
    """The stamp's checksum does not hold for this partition."""


class Stamp(NamedTuple):
    """One batch as the log accounts for it: counts in records, size, position in bytes, time in ms UTC."""

    base_offset: int
    offset_span: int
    record_count: int
    size: int
    leader_epoch: int
    accepted_ms: int
    principal: int
    producer_id: int
    producer_epoch: int
    flags: int
    position: int
    base_sequence: int

    @property
    def end_offset(self) -> int:
        """First offset after the batch."""
        return self.base_offset + self.offset_span

    @property
    def last_sequence(self) -> int:
        """Sequence of the batch's last record (wraps after 2**31 - 1); -1 without a sequence."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.offset_span - 1) & 0x7FFFFFFF


def stamp_seed(partition: TopicPartition) -> int:
    """Seed of the header CRC for one partition."""
    return int(crc32c.crc32c(partition.topic_id + _PARTITION.pack(partition.partition)))


def pack_stamp(stamp: Stamp, seed: int) -> bytes:
    """64 bytes of one stamp."""
    body = _BODY.pack(
        stamp.base_offset,
        stamp.offset_span,
        stamp.record_count,
        stamp.size,
        stamp.leader_epoch,
        stamp.accepted_ms,
        stamp.principal,
        stamp.producer_id,
        stamp.producer_epoch,
        stamp.flags,
        stamp.position,
        stamp.base_sequence,
    )
    return with_checksum(body, seed)


def unpack_stamp(data: bytes | memoryview, seed: int, at: int = 0) -> Stamp:
    """Read the stamp at byte `at`; raises `StampCorrupt` when it is short or its checksum fails."""
    if at + STAMP_BYTES > len(data):
        raise StampCorrupt(f"{len(data) - at} bytes left, {STAMP_BYTES} required")
    if not checksum_holds(data, at, at + _BODY.size, seed):
        raise StampCorrupt(f"checksum of the stamp at byte {at} does not hold")
    return Stamp(*_BODY.unpack_from(data, at))
