"""Building a batch: messages encoded, compressed, given the producer's ids and a CRC.

A builder is filling, then built. It belongs to one caller at a time.
"""

import struct
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import crc32c

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import invariant
from penstock.records.batch import (
    BATCH_HEADER_BYTES,
    CRC_COVERS_FROM,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Buffer,
    Compression,
    check_batch,
)
from penstock.records.codec import chosen_extension
from penstock.records.compression import compress
from penstock.records.record_block import Headers, RecordEncoder

_NO_HEADERS: list[tuple[str, bytes | None]] = []
_HEAD = struct.Struct(">qiibI")
"""The header's part that the CRC does not cover."""
_REST = struct.Struct(">hiqqqhii")
"""The header's part that it does."""
_CHUNK = 1024
NO_EPOCH = -1


class BatchBuilder:
    """Collects messages up to `bytes_max` of uncompressed batch, header included, and as many as a reader takes.

    The first message is taken whatever its size, so that a caller with a higher limit for messages than for
    batches gets on; that limit is the caller's to check. `key`, `value` and header contents are bytes-like;
    anything else is a `TypeError` and leaves the builder as it was.
    """

    __slots__ = (
        "_built",
        "_compression",
        "_encoder",
        "_extension",
        "_header_count",
        "_transactional",
        "count",
    )

    count: int
    """Messages taken so far."""

    def __init__(
        self,
        compression: Compression = Compression.NONE,
        bytes_max: int = limits.BATCH_BYTES_MAX_DEFAULT,
        *,
        transactional: bool = False,
    ) -> None:
        extension = chosen_extension()
        self._encoder: RecordEncoder | None = None
        # aiokafka's builder refuses the record that would make a batch of its limit. Ids and CRC come later.
        self._extension: Any = None
        if extension is None:
            self._encoder = RecordEncoder(bytes_max - BATCH_HEADER_BYTES)
        else:
            self._extension = extension.builder(MAGIC, 0, transactional, -1, -1, -1, bytes_max + 1)
        self._compression = compression
        self._transactional = transactional
        self._built = False
        self.count = 0
        self._header_count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, uncompressed."""
        encoder = self._encoder
        if encoder is not None:
            return BATCH_HEADER_BYTES + encoder.size
        size: int = self._extension.size()
        return size

    def append(
        self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Headers | None = None
    ) -> int:
        """Take one message; its encoded bytes, or 0 when it does not fit.

        Raises `InvalidRequest` for a negative time or more headers than a batch may have.
        """
        count = self.count
        if timestamp_ms < 0:
            raise InvalidRequest(f"timestamp_ms: {timestamp_ms}, 0 or later required")
        header_count = self._header_count
        if headers:
            header_count += len(headers)
        if count + header_count >= limits.RECORDS_AND_HEADERS_PER_BATCH_MAX:
            if count:
                return 0
            raise InvalidRequest(
                f"headers: {header_count},"
                f" at most {limits.RECORDS_AND_HEADERS_PER_BATCH_MAX - 1} in a message allowed"
            )
        encoder = self._encoder
        if encoder is not None:
            size = encoder.append(timestamp_ms, key, value, headers)
        else:
            taken = self._extension.append(
                count, timestamp_ms, key, value, list(headers) if headers else _NO_HEADERS
            )
            size = 0 if taken is None else taken.size
        if size:
            self.count = count + 1
            self._header_count = header_count
        return size

    def append_many(
        self,
        timestamp_ms: int,
        values: Sequence[Buffer | None],
        keys: Sequence[Buffer | None] | None = None,
        start: int = 0,
    ) -> int:
        """Take `values[start:]` (with `keys[start:]`) of one time as far as they fit; how many were taken.

        Faster than `append`. When one is no bytes-like object, the ones before it were taken: `count` says so.
        """
        if timestamp_ms < 0:
            raise InvalidRequest(f"timestamp_ms: {timestamp_ms}, 0 or later required")
        invariant(keys is None or len(keys) == len(values), "there is a key for each value")
        left = limits.RECORDS_AND_HEADERS_PER_BATCH_MAX - self._header_count - self.count
        end = min(len(values), start + left)
        first = self.count
        encoder = self._encoder
        if encoder is None:
            self._append_many_by_extension(timestamp_ms, values, keys, start, end)
        else:
            for index in range(start, end):
                key = None if keys is None else keys[index]
                if not encoder.append(timestamp_ms, key, values[index], None):
                    break
                self.count += 1
        return self.count - first

    def _append_many_by_extension(
        self,
        timestamp_ms: int,
        values: Sequence[Buffer | None],
        keys: Sequence[Buffer | None] | None,
        start: int,
        end: int,
    ) -> None:
        """Without the interpreter for each message, which is a third faster."""
        count = self.count
        try:
            for at in range(start, end, _CHUNK):
                stop = min(at + _CHUNK, end)
                for taken in map(
                    self._extension.append,
                    range(count, count + stop - at),
                    repeat(timestamp_ms),
                    repeat(None) if keys is None else keys[at:stop],
                    values[at:stop],
                    repeat(_NO_HEADERS),
                ):
                    if taken is None:
                        return
                    count += 1
        finally:
            self.count = count

    def build(self, base_sequence: int = -1, producer_id: int = -1, producer_epoch: int = NO_EPOCH) -> bytes:
        """The batch: base offset 0, leader epoch -1. Once; the builder is then spent.

        Compressed only where that makes it smaller. Without ids it is not idempotent.
        """
        invariant(self.count > 0 and not self._built, "a batch is built once, of one message at least")
        self._built = True
        plain: Buffer
        times: tuple[int, ...]
        if self._encoder is not None:
            plain = self._encoder.block()
            times = (self._encoder.base_timestamp, self._encoder.max_timestamp)
        else:
            whole = self._extension.build()
            times = _REST.unpack_from(whole, CRC_COVERS_FROM)[2:4]
            plain = memoryview(whole)[BATCH_HEADER_BYTES:]
        attributes = TRANSACTIONAL if self._transactional else 0
        fields = (self.count - 1, *times, producer_id, producer_epoch, base_sequence, self.count)
        block = compress(self._compression, plain)
        if self._compression is Compression.NONE or len(block) >= len(plain):
            return _sealed(attributes, fields, plain)
        return _sealed(attributes | self._compression, fields, block)


def with_producer(batch: Buffer, base_sequence: int, producer_id: int, producer_epoch: int) -> bytes:
    """The same records under other producer ids, for a producer that begins a new epoch.

    Raises as `check_batch` does.
    """
    header = check_batch(batch)
    fields = (
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        header.record_count,
    )
    with memoryview(batch) as view:
        return _sealed(header.attributes, fields, view[BATCH_HEADER_BYTES:])


def _sealed(attributes: int, fields: tuple[int, ...], block: Buffer) -> bytes:
    """Header with its CRC, and the block. `fields` are those behind the attributes."""
    rest = _REST.pack(attributes, *fields)
    crc = crc32c.crc32c(block, crc32c.crc32c(rest))
    length = BATCH_HEADER_BYTES - LENGTH_PREFIX_BYTES + len(block)
    return b"".join((_HEAD.pack(0, length, -1, MAGIC, crc), rest, block))
