"""Batches as an attacker or another client may make them: any header over any block, with a CRC that holds."""

import struct
from typing import Any

import crc32c

from penstock.records.batch import Compression
from penstock.records.record_block import encode_record

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
