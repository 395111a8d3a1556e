"""Batches for tests of the log: a true header and checksum around bytes that nobody parses."""

import struct

import crc32c

from penstock.records.batch import BatchHeader, check_batch

_HEADER = struct.Struct(">qiibIhiqqqhii")
_COVERED = struct.Struct(">hiqqqhii")
_CRC_AT = 17
_BODY_FROM = 21
NOW_MS = 1_760_000_000_000


def made_batch(
    count: int = 1, body_bytes: int = 40, *, producer_id: int = -1, epoch: int = -1, sequence: int = -1,
    timestamp_ms: int = NOW_MS, fill: int = 7, body: bytes | None = None,
) -> bytes:  # fmt: skip
    """A whole batch of `count` records whose block is `body`, or `body_bytes` of `fill`."""
    if body is None:
        body = bytes([fill]) * body_bytes
    covered = _COVERED.pack(
        0, count - 1, timestamp_ms, timestamp_ms, producer_id, epoch, sequence, count
    )  # fmt: skip
    crc = crc32c.crc32c(body, crc32c.crc32c(covered))
    head = struct.pack(">qiibI", 0, 49 + len(body), -1, 2, crc)
    return head + covered + body


def with_header(batch: bytes) -> tuple[memoryview, BatchHeader]:
    """The batch as the node hands it to the log."""
    return memoryview(batch), check_batch(batch)
