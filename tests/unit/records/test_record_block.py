"""A block of records: each fills just what its length says, and no number is believed beyond the bytes there are."""

import zlib

import pytest

from penstock.contract.errors import CorruptBatch
from penstock.records import record_block
from penstock.records.batch import NO_TIMESTAMP, Compression, check_batch
from penstock.records.compression import compress
from penstock.records.malformed import what_is_malformed
from penstock.records.record_block import RecordHeaders, decode_records

from .forging import encode_record, encode_varint, forged, plain_block

Row = tuple[int, int, bytes | None, bytes | None, RecordHeaders]
"""Offset delta, timestamp delta, key, value, headers."""


def decoded(block: bytes, count: int) -> list[Row]:
    columns = decode_records(block, count)
    headers = columns.headers or [[] for _ in columns.values]
    return list(
        zip(columns.offset_deltas, columns.timestamps_ms, columns.keys, columns.values, headers, strict=True)
    )


def with_body(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


def test_what_was_written_is_read_one_after_the_other() -> None:
    written: list[Row] = [
        (0, 5, None, None, []),
        (1, -5, b"", b"value", [("name", None)]),
        (2, 0, b"key", b"", [("a", b"1"), ("a", b"2"), ("ä", b"")]),
    ]
    block = b"".join(encode_record(*record) for record in written)
    assert decoded(block, 3) == written


@pytest.mark.parametrize("changed", [-1, 1])
def test_a_record_that_is_longer_or_shorter_than_its_fields_is_refused(changed: int) -> None:
    sound = encode_record(0, 0, None, b"value", [])
    body = sound[1:] + b"\0" if changed > 0 else sound[1:-1]
    with pytest.raises(CorruptBatch):
        decoded(with_body(body) + plain_block(1), 2)


def test_bytes_behind_the_last_record_are_refused_and_so_is_one_record_too_few() -> None:
    assert len(decoded(plain_block(2), 2)) == 2
    for block, count in ((plain_block(2) + b"\0", 2), (plain_block(2), 1), (plain_block(2), 3)):
        with pytest.raises(CorruptBatch):
            decoded(block, count)


@pytest.mark.parametrize("said", [-1, 2, 3, 1 << 40])
def test_a_number_of_headers_that_have_no_room_is_refused_by_name(said: int) -> None:
    sound = encode_record(0, 0, None, None, [("", b"")])
    body = sound[1:-3] + encode_varint(said) + sound[-2:]
    with pytest.raises(CorruptBatch, match=f"says {said} headers in 2 bytes"):
        decoded(with_body(body), 1)


def test_a_batchs_headers_are_bounded_over_all_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_block, "HEADERS_PER_BATCH_MAX", 4)
    half = [("", None)] * 2
    full = b"".join(encode_record(index, 0, None, None, half) for index in range(2))
    assert len(decoded(full, 2)) == 2
    with pytest.raises(CorruptBatch, match="headers"):
        decoded(full + encode_record(2, 0, None, None, [("", None)]), 3)


def test_a_batch_without_timestamps_is_taken_and_one_before_that_is_not() -> None:
    for base, taken in ((NO_TIMESTAMP, True), (NO_TIMESTAMP - 1, False)):
        batch = forged(plain_block(1), 1, base_timestamp=base, max_timestamp=NO_TIMESTAMP)
        if taken:
            assert check_batch(batch).base_timestamp == NO_TIMESTAMP
        else:
            with pytest.raises(CorruptBatch, match="or later and in order"):
                check_batch(batch)


def test_a_zlib_stream_is_no_gzip() -> None:
    block = plain_block(3)
    sound = forged(bytes(compress(Compression.GZIP, block)), 3, codec=Compression.GZIP)
    assert what_is_malformed(sound) == ""
    assert what_is_malformed(forged(zlib.compress(block), 3, codec=Compression.GZIP))
