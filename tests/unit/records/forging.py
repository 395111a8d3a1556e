"""Batches as an attacker or another client may make them: any header over any block, with a CRC that holds."""

import struct
from typing import Any

import crc32c

from penstock.records.batch import Buffer, Compression
from penstock.records.record_block import Headers

_HEAD = struct.Struct(">qiibI")
_REST = struct.Struct(">hiqqqhii")


def forged(block: bytes, count: int, **fields: Any) -> bytes:
    """One batch over `block` that says it holds `count` records; `fields` replace header fields by name."""
    attributes = fields.pop("attributes", fields.pop("codec", Compression.NONE))
    rest = _REST.pack(
        attributes,
        fields.pop("last_offset_delta", count - 1),
        fields.pop("base_timestamp", 1_000),
        fields.pop("max_timestamp", 2_000),
        fields.pop("producer_id", -1),
        fields.pop("producer_epoch", -1),
        fields.pop("base_sequence", -1),
        count,
    )
    length = fields.pop("batch_length", 49 + len(block))
    head = (fields.pop("base_offset", 0), length, -1, fields.pop("magic", 2))
    crc = fields.pop("crc", None)
    assert not fields, f"no such fields: {fields}"
    return _HEAD.pack(*head, crc32c.crc32c(rest + block) if crc is None else crc) + rest + block


def plain_block(count: int, value: bytes | None = b"v") -> bytes:
    """`count` sound records."""
    return b"".join(encode_record(index, index, None, value, []) for index in range(count))


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
