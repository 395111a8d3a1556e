"""The records inside a batch in plain Python: the codec where none is compiled, and for large blocks.

One record: length varint, then attributes b, timestamp delta varint, offset delta varint, key, value (each a
varint length, -1 = none, and its bytes), header count varint, headers (name: length and UTF-8; value as
above). Varints are zigzag and at most ten bytes.

Every length is checked against what is left before it is used, and headers are counted before they are read.
"""

from collections.abc import Iterator, Sequence

from penstock.contract.errors import CorruptBatch
from penstock.contract.limits import MIB
from penstock.records.batch import Buffer

Headers = Sequence[tuple[str, bytes | None]]
RawRecord = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""(offset delta, timestamp delta in ms, key, value, headers)."""

HEADERS_PER_BATCH_MAX = 2 * MIB
"""A header of two bytes becomes an object of eighty. No block that the compiled parser reads, which does not count,
can hold more: both parsers say the same of every batch.
"""
_VARINT_BITS_MAX = 63
_RECORD_BYTES_MIN = 7
_HEADER_BYTES_MIN = 2


def encode_varint(value: int) -> bytes:
    """Zigzag varint of a signed 64-bit number, 1 to 10 bytes."""
    value = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_record(
    offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None, headers: Headers
) -> bytes:
    """One record with its length before it. Raises `TypeError` for a key, value or header of another type."""
    parts: list[Buffer] = [b"\x00", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    _add_bytes(parts, key)
    _add_bytes(parts, value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        _add_bytes(parts, name.encode())
        _add_bytes(parts, content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _add_bytes(parts: list[Buffer], content: Buffer | None) -> None:
    if content is None:
        parts.append(b"\x01")
    else:
        with memoryview(content) as view:
            parts.append(encode_varint(view.nbytes))
        parts.append(content)


def decode_records(block: Buffer, count: int) -> Iterator[RawRecord]:
    """The `count` records that fill `block` exactly, one after the other.

    Raises `CorruptBatch` at the first byte that is not theirs; what was given out before it was sound.
    """
    data = bytes(block)
    end = len(data)
    if count * _RECORD_BYTES_MIN > end:
        raise CorruptBatch(f"batch: {count} records in {end} bytes, {_RECORD_BYTES_MIN} required for each")
    headers_left = HEADERS_PER_BATCH_MAX
    at = 0
    for index in range(count):
        length, start = _varint(data, at, end)
        stop = start + length
        if length < 0 or stop > end:
            raise CorruptBatch(f"batch: record {index} says {length} bytes, {end - start} left")
        # No attribute is in use. The compiled parser takes them for a varint: both must say the same of every batch.
        _, at = _varint(data, start, stop)
        timestamp_delta, at = _varint(data, at, stop)
        offset_delta, at = _varint(data, at, stop)
        key, at = _bytes(data, at, stop)
        value, at = _bytes(data, at, stop)
        header_count, at = _varint(data, at, stop)
        headers: list[tuple[str, bytes | None]] = []
        if header_count:
            if not 0 <= header_count * _HEADER_BYTES_MIN <= stop - at or header_count > headers_left:
                raise CorruptBatch(
                    f"batch: record {index} says {header_count} headers in {stop - at} bytes,"
                    f" at most {HEADERS_PER_BATCH_MAX} in a batch allowed"
                )
            headers_left -= header_count
            for _ in range(header_count):
                name, at = _bytes(data, at, stop)
                content, at = _bytes(data, at, stop)
                if name is None:
                    raise CorruptBatch(f"batch: record {index} has a header without a name")
                try:
                    headers.append((name.decode(), content))
                except UnicodeDecodeError as error:
                    raise CorruptBatch(
                        f"batch: record {index} has a header whose name is no UTF-8"
                    ) from error
        if at != stop:
            raise CorruptBatch(f"batch: record {index} ends at byte {at}, its length says {stop}")
        yield offset_delta, timestamp_delta, key, value, headers
    if at != end:
        raise CorruptBatch(f"batch: {end - at} bytes behind its {count} records")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(value, first byte after it)."""
    if at < end and data[at] < 0x80:
        raw = data[at]
        return (raw >> 1) ^ -(raw & 1), at + 1
    raw = shift = 0
    while at < end and shift <= _VARINT_BITS_MAX:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFF_FFFF_FFFF_FFFF
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    raise CorruptBatch(f"batch: the number before byte {at} does not end")


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """(content, first byte after it). Any negative length is none, as Kafka's readers have it."""
    length, at = _varint(data, at, end)
    if length < 0:
        return None, at
    if length > end - at:
        raise CorruptBatch(f"batch: a field of {length} bytes at byte {at}, {end - at} left")
    return data[at : at + length], at + length
