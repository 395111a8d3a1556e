"""Batches whose records carry the broker's time of acceptance (topics with timestamp type APPEND)."""

import struct

import crc32c

from data_plane.disk.port import Buffer
from penstock.records.batch import APPEND_TIME, BATCH_HEADER_BYTES, CRC_COVERS_FROM, BatchHeader

_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35
_CRC = struct.Struct(">I")
_CRC_AT = 17
_PREFIX = struct.Struct(">qii")


def placed_at_time(
    batch: memoryview, header: BatchHeader, base_offset: int, leader_epoch: int, accepted_ms: int
) -> list[Buffer]:
    """As `records.batch.placed`, with the acceptance time in the header and a new checksum; the body is not
    copied."""
    head = bytearray(batch[:BATCH_HEADER_BYTES])
    body = batch[BATCH_HEADER_BYTES:]
    _PREFIX.pack_into(head, 0, base_offset, header.batch_length, leader_epoch)
    _ATTRIBUTES.pack_into(head, _ATTRIBUTES_AT, header.attributes | APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(head, _MAX_TIMESTAMP_AT, accepted_ms)
    crc = crc32c.crc32c(body, crc32c.crc32c(bytes(head[CRC_COVERS_FROM:])))
    _CRC.pack_into(head, _CRC_AT, crc)
    return [bytes(head), body]
