"""Building a batch: messages encoded by the compiled codec, compressed, given the producer's ids and a CRC.

A builder is filling, then built. It belongs to one caller at a time.
"""

import struct
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Protocol

import crc32c

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import invariant
from penstock.records.batch import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CRC_COVERS_FROM,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Buffer,
    Compression,
    check_batch,
)
from penstock.records.codec import compiled_codec
from penstock.records.compression import compress
from penstock.records.record_block import Headers, encode_record

_NO_HEADERS: list[tuple[str, bytes | None]] = []
_HEAD = struct.Struct(">qiibI")
"""The header's part that the CRC does not cover."""
_REST = struct.Struct(">hiqqqhii")
"""The header's part that it does."""
_CHUNK = 1024
NO_EPOCH = -1


class _Encoder(Protocol):
    """What both codecs' encoders offer: aiokafka's builder sets the names."""

    def append(
        self,
        offset: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: list[tuple[str, bytes | None]],
        /,
    ) -> Any:
        """None when the record does not fit; something with a `size` when it was added."""

    def size(self) -> int: ...

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int, /) -> None: ...

    def build(self) -> bytearray: ...


class BatchBuilder:
    """Collects messages up to `bytes_max` of uncompressed batch, header included.

    The first message is taken whatever its size, so that a caller with a higher limit for messages than for
    batches gets on; that limit is the caller's to check. `key`, `value` and header contents are bytes-like;
    anything else is a `TypeError` and leaves the builder as it was.
    """

    __slots__ = ("_append", "_built", "_compression", "_encoder", "_transactional", "count")

    count: int
    """Messages taken so far."""

    def __init__(
        self,
        compression: Compression = Compression.NONE,
        bytes_max: int = limits.BATCH_BYTES_MAX_DEFAULT,
        *,
        transactional: bool = False,
    ) -> None:
        codec = compiled_codec()
        # The encoders refuse the record that would make a batch of their limit.
        make = PlainEncoder if codec is None else codec.builder
        self._encoder: _Encoder = make(MAGIC, 0, transactional, -1, -1, -1, bytes_max + 1)
        self._append = self._encoder.append
        self._compression = compression
        self._transactional = transactional
        self._built = False
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, uncompressed."""
        return self._encoder.size()

    def append(
        self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Headers | None = None
    ) -> int:
        """Take one message; its encoded bytes, or 0 when it does not fit.

        Raises `InvalidRequest` for a negative time.
        """
        count = self.count
        if timestamp_ms < 0:
            raise InvalidRequest(f"timestamp_ms: {timestamp_ms}, 0 or later required")
        if count >= limits.RECORDS_PER_BATCH_MAX:
            return 0
        taken = self._append(count, timestamp_ms, key, value, list(headers) if headers else _NO_HEADERS)
        if taken is None:
            return 0
        self.count = count + 1
        size: int = taken.size
        return size

    def append_many(
        self,
        timestamp_ms: int,
        values: Sequence[Buffer | None],
        keys: Sequence[Buffer | None] | None = None,
        start: int = 0,
    ) -> int:
        """Take `values[start:]` (with `keys[start:]`) of one time as far as they fit; how many were taken.

        A third faster than `append`. When one is no bytes-like object, the ones before it were taken: `count`
        says so.
        """
        if timestamp_ms < 0:
            raise InvalidRequest(f"timestamp_ms: {timestamp_ms}, 0 or later required")
        invariant(keys is None or len(keys) == len(values), "there is a key for each value")
        append = self._append
        count = first = self.count
        at = start
        end = min(len(values), start + limits.RECORDS_PER_BATCH_MAX - first)
        try:
            while at < end:
                stop = min(at + _CHUNK, end)
                for taken in map(
                    append,
                    range(count, count + stop - at),
                    repeat(timestamp_ms),
                    repeat(None) if keys is None else keys[at:stop],
                    values[at:stop],
                    repeat(_NO_HEADERS),
                ):
                    if taken is None:
                        return count - first
                    count += 1
                at = stop
            return count - first
        finally:
            self.count = count

    def build(self, base_sequence: int = -1, producer_id: int = -1, producer_epoch: int = NO_EPOCH) -> bytes:
        """The batch: base offset 0, leader epoch -1. Once; the builder is then spent.

        Compressed only where that makes it smaller. Without ids it is not idempotent.
        """
        invariant(self.count > 0 and not self._built, "a batch is built once, of one message at least")
        self._built = True
        encoder = self._encoder
        encoder.set_producer_state(producer_id, producer_epoch, base_sequence)
        plain = encoder.build()
        if self._compression is Compression.NONE:
            return bytes(plain)
        with memoryview(plain) as view:
            block = compress(self._compression, view[BATCH_HEADER_BYTES:])
            if len(block) + BATCH_HEADER_BYTES >= len(plain):
                return bytes(plain)
            fields = _REST.unpack_from(plain, CRC_COVERS_FROM)
            return _sealed(fields[0] & ~CODEC_MASK | self._compression, fields[1:], block)


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


class _Taken:
    """Size of a record that was added."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


class PlainEncoder:
    """The compiled encoder's behaviour in plain Python, where that is not installed."""

    def __init__(
        self,
        magic: int,
        compression: int,
        transactional: bool,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        bytes_limit: int,
    ) -> None:
        self._attributes = TRANSACTIONAL if transactional else 0
        self._ids = (producer_id, producer_epoch, base_sequence)
        self._limit = bytes_limit
        self._parts: list[bytes] = []
        self._size = BATCH_HEADER_BYTES
        self._base_timestamp = -1
        self._max_timestamp = -1

    def append(
        self,
        offset: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: list[tuple[str, bytes | None]],
        /,
    ) -> _Taken | None:
        base = self._base_timestamp if offset else timestamp
        record = encode_record(offset, timestamp - base, key, value, headers)
        if offset and self._size + len(record) >= self._limit:
            return None
        self._base_timestamp = base
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._parts.append(record)
        self._size += len(record)
        return _Taken(len(record))

    def size(self) -> int:
        return self._size

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int, /) -> None:
        self._ids = (producer_id, producer_epoch, base_sequence)

    def build(self) -> bytearray:
        count = len(self._parts)
        fields = (count - 1, self._base_timestamp, self._max_timestamp, *self._ids, count)
        return bytearray(_sealed(self._attributes, fields, b"".join(self._parts)))
