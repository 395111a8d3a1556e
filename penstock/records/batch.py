"""The header of a RecordBatch v2, Kafka's format: read it, check a whole batch, give it its place in a log.

Layout, big-endian, 61 bytes, then the records as one block:

    base_offset q | batch_length i | leader_epoch i | magic b | crc I | attributes h | last_offset_delta i
    | base_timestamp q | max_timestamp q | producer_id q | producer_epoch h | base_sequence i | record_count i

The CRC-32C covers everything from byte 21 on, so base offset and leader epoch, which the leader assigns, lie
outside it and a batch rests on disk as its producer made it. Nothing here looks into the record block.

Source: Kafka's message format, https://kafka.apache.org/documentation/#recordbatch.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

import crc32c

from penstock.contract import limits
from penstock.contract.errors import CorruptBatch, UnsupportedCompression
from penstock.records.codec import codec_name as codec_name

Buffer = bytes | bytearray | memoryview

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")
_LENGTH = struct.Struct(">i")
BATCH_HEADER_BYTES = _HEADER.size
LENGTH_PREFIX_BYTES = 12
"""Base offset and the length field itself: what `batch_length` does not count."""
MAGIC = 2
_LENGTH_AT = 8
_MAGIC_AT = 16
CRC_COVERS_FROM = 21

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
_KNOWN_ATTRIBUTES = CODEC_MASK | APPEND_TIME | TRANSACTIONAL | CONTROL
NO_TIMESTAMP = -1


class Compression(IntEnum):
    """How the record block is packed: the low three bits of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """The 61 bytes before the records. Lengths in bytes, timestamps in ms UTC, -1 = none."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch as stored."""
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def offset_span(self) -> int:
        """Offsets that the batch takes up; more than `record_count` only after compaction."""
        return self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Codec of the record block; raises `UnsupportedCompression` for a number that names none."""
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise UnsupportedCompression(
                f"batch: codec {self.attributes & CODEC_MASK}; 0 (none) to 4 (zstd) are known"
            ) from None

    @property
    def append_time(self) -> bool:
        """All records carry `max_timestamp`, the broker's time of acceptance."""
        return bool(self.attributes & APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """The header that begins at byte `at`; the batch's body need not be there.

    Raises `CorruptBatch` when it is short, or its magic, length or counts cannot be those of any batch.
    """
    left = len(buffer) - at
    if left < BATCH_HEADER_BYTES:
        raise CorruptBatch(f"batch: {left} bytes, {BATCH_HEADER_BYTES} required for its header")
    header = BatchHeader(*_HEADER.unpack_from(buffer, at))
    if header.magic != MAGIC:
        raise CorruptBatch(f"batch: magic {header.magic}, {MAGIC} required")
    size = header.size
    if not BATCH_HEADER_BYTES <= size <= limits.BATCH_BYTES_MAX_LIMIT:
        raise CorruptBatch(
            f"batch: {size} bytes by its length field,"
            f" {BATCH_HEADER_BYTES} to {limits.BATCH_BYTES_MAX_LIMIT} allowed"
        )
    if not 1 <= header.offset_span <= limits.RECORDS_PER_BATCH_MAX:
        raise CorruptBatch(
            f"batch: spans {header.offset_span} offsets, 1 to {limits.RECORDS_PER_BATCH_MAX} allowed"
        )
    if not 0 <= header.record_count <= header.offset_span:
        raise CorruptBatch(
            f"batch: {header.record_count} records over {header.offset_span} offsets,"
            f" 0 to {header.offset_span} allowed"
        )
    return header


def check_header(buffer: Buffer, *, from_producer: bool = True) -> BatchHeader:
    """Everything of `check_batch` but the CRC.

    `from_producer` holds the batch to what a client may send: one record an offset, at least one, no control
    records, no broker timestamps, a producer id with an epoch and a sequence or none of them. Without it the
    batch is one that rests in a log.
    """
    header = read_header(buffer)
    if header.size != len(buffer):
        raise CorruptBatch(f"batch: {len(buffer)} bytes, {header.size} required by its length field")
    if header.attributes & ~_KNOWN_ATTRIBUTES:
        raise CorruptBatch(
            f"batch: attributes {header.attributes & 0xFFFF:#06x},"
            f" only bits of {_KNOWN_ATTRIBUTES:#06x} are known"
        )
    _ = header.compression
    if from_producer:
        _check_producers(header)
    return header


def _check_producers(header: BatchHeader) -> None:
    if header.record_count != header.offset_span:
        raise CorruptBatch(
            f"batch: {header.record_count} records over {header.offset_span} offsets,"
            " one record an offset required"
        )
    if header.control:
        raise CorruptBatch("batch: control bit set, only brokers write control records")
    if header.append_time:
        raise CorruptBatch("batch: timestamps marked as the broker's, only brokers mark them so")
    if header.base_timestamp < NO_TIMESTAMP or header.max_timestamp < header.base_timestamp:
        raise CorruptBatch(
            f"batch: timestamps {header.base_timestamp} to {header.max_timestamp},"
            f" {NO_TIMESTAMP} or later and in order required"
        )
    if header.producer_id == -1:
        if header.transactional:
            raise CorruptBatch("batch: transactional without a producer id, one required")
    elif header.producer_id < -1 or header.producer_epoch < 0 or header.base_sequence < 0:
        raise CorruptBatch(
            f"batch: producer id {header.producer_id}, epoch {header.producer_epoch},"
            f" sequence {header.base_sequence}; all 0 or more required, or producer id -1"
        )


def check_batch(buffer: Buffer, *, from_producer: bool = True) -> BatchHeader:
    """Check that `buffer` is one whole, intact batch and return its header; the records are not looked into.

    Raises `CorruptBatch` (lengths, magic, attributes, counts, bounds, CRC-32C) or `UnsupportedCompression`.
    """
    header = check_header(buffer, from_producer=from_producer)
    with memoryview(buffer) as view:
        crc = crc32c.crc32c(view[CRC_COVERS_FROM:])
    if crc != header.crc:
        raise CorruptBatch(f"batch: CRC-32C of its bytes is {crc:#010x}, its header says {header.crc:#010x}")
    return header


def split_batches(buffer: Buffer) -> list[memoryview]:
    """Views of the batches that stand one behind the other in `buffer`, by length fields and magic alone.

    The views keep `buffer` alive. Raises `CorruptBatch` when they do not fill it exactly.
    """
    view = memoryview(buffer)
    total = len(view)
    batches: list[memoryview] = []
    at = 0
    while at < total:
        if total - at < BATCH_HEADER_BYTES:
            raise CorruptBatch(
                f"batches: {total - at} bytes left at byte {at}, {BATCH_HEADER_BYTES} required for a header"
            )
        size = _LENGTH.unpack_from(view, at + _LENGTH_AT)[0] + LENGTH_PREFIX_BYTES
        if view[at + _MAGIC_AT] != MAGIC:
            raise CorruptBatch(
                f"batches: magic {view[at + _MAGIC_AT]} at byte {at + _MAGIC_AT}, {MAGIC} required"
            )
        if not BATCH_HEADER_BYTES <= size <= total - at:
            raise CorruptBatch(
                f"batches: the batch at byte {at} says {size} bytes,"
                f" {BATCH_HEADER_BYTES} to {total - at} possible"
            )
        batches.append(view[at : at + size])
        at += size
    return batches


def placed(batch: Buffer, base_offset: int, leader_epoch: int) -> list[Buffer]:
    """The batch with its place in the log, as buffers to write one behind the other; the body is not copied.

    Only bytes 0-7 and 12-15 differ, both outside the CRC. `batch` must have passed `check_batch`.
    """
    view = memoryview(batch)
    return [_PREFIX.pack(base_offset, len(view) - LENGTH_PREFIX_BYTES, leader_epoch), view[_MAGIC_AT:]]
