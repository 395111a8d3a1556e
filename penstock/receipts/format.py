"""The bytes of a receipts file: a header, then records that each hold a checksum of all that stands before them.

    header   magic 8s "PSRECPT\\n" | version H | file_id 16s | crc I
    record   size H | body | crc I

Big-endian. `crc` of the header is CRC-32C of what stands before it; `crc` of a record is CRC-32C over its size and
body, seeded with the crc before it. So a record that stood here before a failed write, or in another file, does not
pass. `size` counts the body, which is a kind B and unsigned LEB128 numbers of at most 64 bits:

    1 topic          number | topic_id 16s | name in UTF-8, to the end
    2 acknowledged   topic number | partition | day since 1970 UTC | leader epoch + 1 | acks (1 leader, 2 in-sync set)
                     | then, for each span: first offset less that of the span before (0 for the first)
                       | messages | bytes

A topic stands before the first record that names its number. Records add up: a reader joins spans that are
neighbours. The first record that is incomplete or fails its checksum ends the file.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import crc32c

from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import TOPIC_ID_BYTES
from penstock.receipts.spans import Span, SpanKey, Spans
from penstock.receipts.values import ACKS_IN_SYNC, ACKS_LEADER

MAGIC = b"PSRECPT\n"
VERSION = 1
FILE_ID_BYTES = 16
NO_FILE_ID = b""
"""Of a file whose maker was stopped before its header stood."""
_HEADER = struct.Struct(">8sH16s")
_CRC = struct.Struct(">I")
_SIZE = struct.Struct(">H")
HEADER_BYTES = _HEADER.size + _CRC.size
RECORD_BYTES_MIN = _SIZE.size + _CRC.size
_TOPIC, _ACKNOWLEDGED = 1, 2
_SPANS_A_RECORD = 1_000
"""At most 30 bytes each, so a body stays far below 64 KiB."""
_DAY_MAX = 2_932_896
"""9999-12-31, the last day that has a date."""
_ACKS_CODES = {ACKS_LEADER: 1, ACKS_IN_SYNC: 2}
_ACKS = {code: acks for acks, code in _ACKS_CODES.items()}


class Content(NamedTuple):
    """What a file holds, and where its whole records end."""

    file_id: bytes
    topics: dict[bytes, str]
    """In the order of their numbers."""
    spans: Spans
    end: int
    """First byte behind the last whole record."""
    crc: int
    """Seed of the next record."""


def pack_header(file_id: bytes) -> tuple[bytes, int]:
    """(header, seed of the first record)."""
    fixed = _HEADER.pack(MAGIC, VERSION, file_id)
    crc = crc32c.crc32c(fixed)
    return fixed + _CRC.pack(crc), crc


def pack_records(
    spans: Spans, numbers: Mapping[bytes, int], new_topics: Iterable[tuple[int, bytes, str]], crc: int
) -> tuple[bytes, int]:
    """(records, seed of the next one): first the topics that the file does not name yet, then the spans.

    `numbers` has the topic of every span, the new ones included.
    """
    parts: list[bytes] = []
    bodies = [_topic_body(*topic) for topic in new_topics]
    for key, of_key in spans:
        bodies += _span_bodies(key, numbers[key.topic_id], of_key)
    for body in bodies:
        framed = _SIZE.pack(len(body)) + body
        crc = crc32c.crc32c(framed, crc)
        parts += (framed, _CRC.pack(crc))
    return b"".join(parts), crc


def unpack(data: bytes, path: str, *, with_spans: bool = True) -> Content:
    """All whole records of a file; an empty one holds none. Without spans it takes no memory. Raises
    `ConfigurationError` when it is no receipts file, or of another version.
    """
    if not data:
        return Content(NO_FILE_ID, {}, Spans(), 0, 0)
    if data[: len(MAGIC)] != MAGIC or len(data) < HEADER_BYTES:
        raise ConfigurationError(f"receipts: {path} is no receipts file; it does not begin as one")
    _, version, file_id = _HEADER.unpack_from(data)
    if version != VERSION:
        raise ConfigurationError(f"receipts: {path} has version {version}, {VERSION} is known")
    crc = crc32c.crc32c(data[: _HEADER.size])
    if crc != _CRC.unpack_from(data, _HEADER.size)[0]:
        raise ConfigurationError(f"receipts: {path}: the checksum of its header does not hold")
    topics: dict[bytes, str] = {}
    ids: list[bytes] = []
    spans = Spans()
    at = HEADER_BYTES
    while len(data) - at >= RECORD_BYTES_MIN:
        end = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
        if end + _CRC.size > len(data):
            break
        found = crc32c.crc32c(data[at:end], crc)
        if found != _CRC.unpack_from(data, end)[0]:
            break
        body = data[at + _SIZE.size : end]
        try:
            if with_spans or body[0] != _ACKNOWLEDGED:
                _take(body, ids, topics, spans)
        except (ValueError, IndexError) as error:
            raise ConfigurationError(
                f"receipts: {path}: the record at byte {at} is none of version {VERSION}: {error}"
            ) from error
        at, crc = end + _CRC.size, found
    return Content(file_id, topics, spans, at, crc)


def goes_on(data: bytes, at: int, crc: int) -> bool:
    """Whether a whole record stands anywhere behind the one at `at`, the first that does not pass with the seed `crc`.
    An interrupted write leaves none.

    The seed of a record is the checksum that stands before it. Takes time for each byte behind `at`.
    """
    if len(data) - at < 2 * RECORD_BYTES_MIN:
        return False
    end = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
    if _whole(data, end + _CRC.size, crc32c.crc32c(data[at:end], crc)):
        return True  # only its checksum is bad
    return any(
        _whole(data, begin, _CRC.unpack_from(data, begin - _CRC.size)[0])
        for begin in range(at + RECORD_BYTES_MIN, len(data) - RECORD_BYTES_MIN + 1)
    )


def _whole(data: bytes, at: int, crc: int) -> bool:
    if len(data) - at < RECORD_BYTES_MIN:
        return False
    size = _SIZE.unpack_from(data, at)[0]
    end = at + _SIZE.size + size
    if not size or end + _CRC.size > len(data) or data[at + _SIZE.size] not in (_TOPIC, _ACKNOWLEDGED):
        return False
    return bool(crc32c.crc32c(data[at:end], crc) == _CRC.unpack_from(data, end)[0])


def _topic_body(number: int, topic_id: bytes, name: str) -> bytes:
    return bytes([_TOPIC]) + _numbers(number) + topic_id + name.encode()


def _span_bodies(key: SpanKey, number: int, spans: list[Span]) -> Iterator[bytes]:
    head = bytes([_ACKNOWLEDGED]) + _numbers(
        number, key.partition, key.day, key.leader_epoch + 1, _ACKS_CODES[key.acks]
    )
    for start in range(0, len(spans), _SPANS_A_RECORD):
        parts, before = [head], 0
        for span in spans[start : start + _SPANS_A_RECORD]:
            parts.append(_numbers(span.first - before, span.end - span.first, span.size))
            before = span.first
        yield b"".join(parts)


def _take(body: bytes, ids: list[bytes], topics: dict[bytes, str], spans: Spans) -> None:
    """Add one record. Raises `ValueError`, `IndexError` when it is malformed."""
    kind = body[0]
    if kind == _TOPIC:
        number, at = _number(body, 1)
        topic_id, name = body[at : at + TOPIC_ID_BYTES], body[at + TOPIC_ID_BYTES :].decode()
        if number != len(topics) or len(topic_id) != TOPIC_ID_BYTES or topic_id in topics or not name:
            raise ValueError(f"topic {number} out of order or without a name")
        topics[topic_id] = name
        ids.append(topic_id)
        return
    if kind != _ACKNOWLEDGED:
        raise ValueError(f"kind {kind}")
    (number, partition, day, epoch, code), at = _some(body, 1, 5)
    if number >= len(topics) or day > _DAY_MAX or partition >= 2**31 or epoch > 2**31 or code not in _ACKS:
        raise ValueError(f"topic {number}, partition {partition}, day {day}, epoch {epoch - 1}, acks {code}")
    key = SpanKey(ids[number], partition, day, epoch - 1, _ACKS[code])
    first = 0
    while at < len(body):
        (delta, messages, size), at = _some(body, at, 3)
        first += delta
        if not messages or first + messages >= 2**63:
            raise ValueError(f"offsets {first} to {first + messages}")
        spans.add(key, first, first + messages, size)


def _numbers(*values: int) -> bytes:
    out = bytearray()
    for value in values:
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


def _some(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    values = []
    for _ in range(count):
        value, at = _number(data, at)
        values.append(value)
    return values, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if value >= 2**64 or shift > 63:
        raise ValueError("a number of more than 64 bits")
    return value, at
