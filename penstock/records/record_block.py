"""The records inside a batch: the codec that mypyc makes native, and that runs without it where no other is installed.

One record: length varint, then attributes b, timestamp delta varint, offset delta varint, key, value (each a
varint length, -1 = none, and its bytes), header count varint, headers (name: length and UTF-8; value as
above). Varints are zigzag and at most ten bytes.

Every length is checked against what is left before it is used, and headers and their names are counted before they are
made. What a block becomes takes at most 250 bytes a record and a header, at most a million of them together, and their
content; names count four times.

`i64` is a number of the machine where this is compiled, and any whole number where it is not. So nothing here relies
on an overflow: what could pass 64 bits is reduced to them.
"""

from collections.abc import Sequence
from typing import Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.contract.errors import CorruptBatch
from penstock.contract.limits import HEADER_NAME_BYTES_PER_BATCH_MAX, RECORDS_AND_HEADERS_PER_BATCH_MAX
from penstock.records.batch import Buffer

RecordHeaders = list[tuple[str, bytes | None]]
Headers = Sequence[tuple[str, bytes | None]]

_RECORD_BYTES_MIN: Final = 7
HEADER_BYTES_MIN: Final = 2
_TWO_63: Final = 2**63
_NO_HEADERS: Final = b"\x00"


class RecordEncoder:
    """Encodes one record behind the other, up to `bytes_max` bytes; the first is taken whatever its size."""

    __slots__ = ("_base_timestamp", "_bytes_max", "_count", "_max_timestamp", "_out")

    def __init__(self, bytes_max: int) -> None:
        self._out = BytesWriter()
        self._bytes_max: i64 = bytes_max
        self._count: i64 = 0
        self._base_timestamp: i64 = -1
        self._max_timestamp: i64 = -1

    @property
    def size(self) -> int:
        """Bytes so far."""
        return len(self._out)

    @property
    def base_timestamp(self) -> int:
        """That of the first record."""
        return self._base_timestamp

    @property
    def max_timestamp(self) -> int:
        """The latest one."""
        return self._max_timestamp

    def append(
        self, timestamp: i64, key: Buffer | None, value: Buffer | None, headers: Headers | None
    ) -> int:
        """The record's bytes, or 0 where it does not fit. `timestamp` is 0 or later.

        Raises `TypeError` for a key, value or header of another type, and is then as before.
        """
        key_bytes = key if key is None or isinstance(key, bytes) else _bytes_of(key)
        value_bytes = value if value is None or isinstance(value, bytes) else _bytes_of(value)
        encoded_headers = _NO_HEADERS if not headers else _encoded_headers(headers)
        count = self._count
        base = self._base_timestamp if count else timestamp
        delta: i64 = timestamp - base
        body: i64 = 1 + _varint_bytes(delta) + _varint_bytes(count)
        body += _field_bytes(key_bytes) + _field_bytes(value_bytes) + len(encoded_headers)
        out = self._out
        size: i64 = _varint_bytes(body) + body
        if count and len(out) + size > self._bytes_max:
            return 0
        _write_varint(out, body)
        out.append(0)
        _write_varint(out, delta)
        _write_varint(out, count)
        _write_field(out, key_bytes)
        _write_field(out, value_bytes)
        out.write(encoded_headers)
        self._base_timestamp = base
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self._count = count + 1
        return size

    def block(self) -> bytes:
        """All records."""
        return self._out.getvalue()


def _encoded_headers(headers: Sequence[Any]) -> bytes:
    """Their number, and each one's name and content."""
    out = BytesWriter()
    _write_varint(out, len(headers))
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError(f"a header is {pair!r:.200}; a pair of a str and bytes required")
        content = pair[1]
        _write_field(out, pair[0].encode())
        _write_field(out, None if content is None else _bytes_of(content))
    return out.getvalue()


def _bytes_of(content: Buffer) -> bytes:
    """The bytes of anything bytes-like. Raises `TypeError` for anything else."""
    if isinstance(content, bytes):
        return content
    try:
        with memoryview(content) as view:
            return view.tobytes()
    except TypeError:
        # In the words of the other codec.
        raise TypeError(f"a bytes-like object is required, not '{type(content).__name__}'") from None


def _write_field(out: BytesWriter, content: bytes | None) -> None:
    if content is None:
        out.append(1)
    else:
        _write_varint(out, len(content))
        out.write(content)


def _field_bytes(content: bytes | None) -> i64:
    if content is None:
        return 1
    length: i64 = len(content)
    return _varint_bytes(length) + length


def _write_varint(out: BytesWriter, value: i64) -> None:
    """Zigzag varint of a signed 64-bit number, 1 to 10 bytes."""
    left: i64 = (value << 1) ^ (value >> 63)
    while left > 0x7F or left < 0:
        out.append(left & 0x7F | 0x80)
        # Its highest bit may be set, and is no sign.
        left = left >> 7 & 0x01FF_FFFF_FFFF_FFFF
    out.append(left)


def _varint_bytes(value: i64) -> i64:
    left: i64 = (value << 1) ^ (value >> 63)
    size: i64 = 1
    while left > 0x7F or left < 0:
        left = left >> 7 & 0x01FF_FFFF_FFFF_FFFF
        size += 1
    return size


class RecordColumns:
    """The records of a block, column by column; all columns are as long as there are records."""

    __slots__ = ("headers", "keys", "offset_deltas", "timestamps_ms", "values")

    def __init__(
        self,
        offset_deltas: Sequence[int],
        timestamps_ms: list[int],
        keys: list[bytes | None],
        values: list[bytes | None],
        headers: list[RecordHeaders] | None,
    ) -> None:
        self.offset_deltas = offset_deltas
        self.timestamps_ms = timestamps_ms
        self.keys = keys
        self.values = values
        self.headers = headers
        """None where no record has any."""

    def from_index(self, first: int) -> "RecordColumns":
        """Those of the records from that one on."""
        return RecordColumns(
            self.offset_deltas[first:],
            self.timestamps_ms[first:],
            self.keys[first:],
            self.values[first:],
            None if self.headers is None else self.headers[first:],
        )


def decode_records(
    block: Buffer, count: int, base_timestamp: int = 0, append_time: int | None = None
) -> RecordColumns:
    """The `count` records that fill `block` exactly. Times are `append_time` where that is given, else `base_timestamp`
    and what each record adds, modulo 64 bits.

    Raises `CorruptBatch` for a block that holds anything else.
    """
    data = block if isinstance(block, bytes) else bytes(block)
    end: i64 = len(data)
    if count * _RECORD_BYTES_MIN > end:
        raise CorruptBatch(f"batch: {count} records in {end} bytes, {_RECORD_BYTES_MIN} required for each")
    headers_left: i64 = RECORDS_AND_HEADERS_PER_BATCH_MAX - count
    name_bytes_left: i64 = HEADER_NAME_BYTES_PER_BATCH_MAX
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    timestamps: list[int] = []
    headers: list[RecordHeaders] | None = None
    deltas: list[int] | None = None
    last_delta: i64 = 0
    # One object for all records of one time.
    timestamp: int = base_timestamp if append_time is None else append_time
    at: i64 = 0
    index: i64 = 0
    total: i64 = count
    while index < total:
        length, start = _varint(data, at, end)
        if length < 0 or length > end - start:
            raise CorruptBatch(f"batch: record {index} says {length} bytes, {end - start} left")
        stop: i64 = start + length
        # No attribute is in use. aiokafka's parser takes them for a varint: both must say the same of every batch.
        _, at = _varint(data, start, stop)
        timestamp_delta, at = _varint(data, at, stop)
        offset_delta, at = _varint(data, at, stop)
        key, at = _field(data, at, stop)
        value, at = _field(data, at, stop)
        header_count, at = _varint(data, at, stop)
        if header_count:
            if header_count < 0 or header_count > (stop - at) // HEADER_BYTES_MIN:
                raise CorruptBatch(
                    f"batch: record {index} says {header_count} headers in {stop - at} bytes,"
                    f" {HEADER_BYTES_MIN} required for each"
                )
            if header_count > headers_left:
                raise too_many_headers()
            headers_left -= header_count
            if headers is None:
                headers = [[] for _ in range(index)]
            of_record: RecordHeaders = []
            at, name_bytes_left = _read_headers(
                data, at, stop, header_count, name_bytes_left, index, of_record
            )
            headers.append(of_record)
        elif headers is not None:
            headers.append([])
        if at != stop:
            raise CorruptBatch(f"batch: record {index} ends at byte {at}, its length says {stop}")
        if timestamp_delta != last_delta and append_time is None:
            last_delta = timestamp_delta
            timestamp = _time_after(base_timestamp, timestamp_delta)
        if deltas is not None:
            deltas.append(offset_delta)
        elif offset_delta != index:
            deltas = [*range(index), offset_delta]
        timestamps.append(timestamp)
        keys.append(key)
        values.append(value)
        index += 1
    if at != end:
        raise CorruptBatch(f"batch: {end - at} bytes behind its {count} records")
    return RecordColumns(range(count) if deltas is None else deltas, timestamps, keys, values, headers)


def _time_after(base: int, delta: int) -> int:
    """Their sum, modulo 64 bits."""
    time = base + delta
    return time if -_TWO_63 <= time < _TWO_63 else (time + _TWO_63) % (2 * _TWO_63) - _TWO_63


def too_many_headers() -> CorruptBatch:
    """What to say of a batch that becomes more objects than one may."""
    return CorruptBatch(
        f"batch: more than {RECORDS_AND_HEADERS_PER_BATCH_MAX} records and headers together, not more allowed"
    )


def _read_headers(
    data: bytes, at: i64, stop: i64, count: i64, name_bytes_left: i64, index: i64, headers: RecordHeaders
) -> tuple[i64, i64]:
    """Add the headers that begin at byte `at`; the first byte after them, and how long further names may be."""
    for _ in range(count):
        length, at = _varint(data, at, stop)
        if length < 0:
            raise CorruptBatch(f"batch: record {index} has a header without a name")
        if length > stop - at:
            raise CorruptBatch(f"batch: a header's name of {length} bytes at byte {at}, {stop - at} left")
        if length > name_bytes_left:
            raise CorruptBatch(
                f"batch: names of headers above {HEADER_NAME_BYTES_PER_BATCH_MAX} bytes, not more allowed"
            )
        name_bytes_left -= length
        try:
            name = data[at : at + length].decode()
        except UnicodeDecodeError as error:
            raise CorruptBatch(f"batch: record {index} has a header whose name is no UTF-8") from error
        content, at = _field(data, at + length, stop)
        headers.append((name, content))
    return at, name_bytes_left


def _varint(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """(value, first byte after it)."""
    raw: i64 = 0
    shift: i64 = 0
    while at < end:
        byte: i64 = data[at]
        at += 1
        if shift == 63:
            # Of the tenth byte one bit is left.
            if byte < 0x80:
                raw |= (byte & 1) << 63
                return (raw >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(raw & 1), at
            break
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(raw & 1), at
        shift += 7
    raise CorruptBatch(f"batch: the number before byte {at} does not end")


def _field(data: bytes, at: i64, end: i64) -> tuple[bytes | None, i64]:
    """(content, first byte after it). Any negative length is none, as Kafka's readers have it."""
    length, at = _varint(data, at, end)
    if length < 0:
        return None, at
    if length > end - at:
        raise CorruptBatch(f"batch: a field of {length} bytes at byte {at}, {end - at} left")
    return data[at : at + length], at + length
