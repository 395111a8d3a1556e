"""A block of records: each fills just what its length says, and no number is believed beyond the bytes there are."""

import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from penstock.contract import limits
from penstock.contract.errors import CorruptBatch
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


def with_headers(count: int, header: bytes = b"\0\1", offset_delta: int = 0) -> bytes:
    """A record of so many headers; `header` is one of them, encoded."""
    start = b"\0\0" + encode_varint(offset_delta) + b"\1\1"
    return with_body(start + encode_varint(count) + header * count)


def encoded_header(name: bytes, content: bytes) -> bytes:
    return encode_varint(len(name)) + name + encode_varint(len(content)) + content


def test_records_and_headers_of_a_batch_are_bounded_together() -> None:
    headers = limits.RECORDS_AND_HEADERS_PER_BATCH_MAX - 2
    half = headers // 2
    columns = decode_records(with_headers(half) + with_headers(headers - half, offset_delta=1), 2)
    assert columns.headers is not None and sum(map(len, columns.headers)) == headers
    with pytest.raises(CorruptBatch, match="more than 1000000 records and headers together"):
        decode_records(with_headers(half) + with_headers(headers - half + 1, offset_delta=1), 2)


def test_names_of_a_batchs_headers_are_bounded_over_all_its_records() -> None:
    most = limits.HEADER_NAME_BYTES_PER_BATCH_MAX
    first = with_headers(1, encoded_header(b"n" * (most - 10), b""))
    block = first + with_headers(2, encoded_header(b"n" * 5, b"content"), 1)
    assert len(decode_records(block, 2).values) == 2
    block = first + with_headers(2, encoded_header(b"n" * 6, b"content"), 1)
    with pytest.raises(CorruptBatch, match=f"names of headers above {most} bytes"):
        decode_records(block, 2)


def memory_of(block: bytes, count: int) -> int:
    """The most that decoding takes beside the block; what is refused too."""
    tracemalloc.start(1)
    try:
        decode_records(block, count)
    except CorruptBatch:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


DENSE: dict[str, Callable[[int], bytes]] = {
    "records": lambda index: encode_record(2 * index + 300, 300 * index, b"ke", b"va", []),
    "a header each": lambda index: encode_record(2 * index + 300, 300 * index, b"ke", b"va", [("na", b"co")]),
    "empty headers": lambda index: with_headers(10, b"\0\0", index),
    "headers": lambda index: with_headers(10, encoded_header(b"na", b"co"), index),
}


@pytest.mark.parametrize("dense", DENSE)
def test_what_a_block_becomes_takes_a_stated_number_of_bytes_a_record_and_header(dense: str) -> None:
    records = 5_000
    block = b"".join(DENSE[dense](index) for index in range(records))
    objects = records * {"records": 1, "a header each": 2}.get(dense, 11)
    assert memory_of(block, records) <= 250 * objects


def test_names_of_the_widest_characters_take_what_is_stated() -> None:
    """One of them makes each character of a name four bytes wide."""
    name = b"n" * 1_000_000 + "\U0001f600".encode()
    wide = with_headers(4, encoded_header(name, b""))
    assert memory_of(wide, 1) <= 7 * len(name) * 4, "text, and while it is made its bytes and a narrower copy"


@pytest.mark.parametrize(
    "block",
    [
        with_headers(limits.RECORDS_AND_HEADERS_PER_BATCH_MAX),
        with_headers(1, encoded_header(b"n" * (limits.HEADER_NAME_BYTES_PER_BATCH_MAX + 1), b"")),
        with_body(b"\0\0\0" + encode_varint(1 << 40) + b"k" * 4_000_000),
        encode_varint(1 << 40) + b"k" * 4_000_000,
    ],
    ids=["headers", "name", "key", "record"],
)
def test_a_claim_beyond_a_bound_is_refused_before_memory_is_taken(block: bytes) -> None:
    assert memory_of(block, 1) < 10_000


def test_records_beyond_the_bytes_that_are_there_are_refused_before_memory_is_taken() -> None:
    assert memory_of(bytes(7 * 100_000 - 1), 100_000) < 10_000


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


def test_all_records_have_the_time_of_an_append_whatever_they_add() -> None:
    block = b"".join(encode_record(number, 10 * number, None, b"v", []) for number in range(3))
    assert decode_records(block, 3, 1_000).timestamps_ms == [1_000, 1_010, 1_020]
    assert decode_records(block, 3, 1_000, append_time=7_000).timestamps_ms == [7_000] * 3


@pytest.mark.parametrize("deltas", [[0, 1, 2], [1, 2, 3], [0, 2, 3], [0, 1, 5]])
def test_the_offsets_of_records_are_those_that_they_say(deltas: list[int]) -> None:
    block = b"".join(encode_record(delta, 0, None, b"v", []) for delta in deltas)
    assert list(decode_records(block, 3).offset_deltas) == deltas


def test_columns_from_a_record_on_are_all_cut_at_the_same_place() -> None:
    rows: list[Row] = [
        (delta, delta, b"k%d" % delta, b"v%d" % delta, [("h", b"%d" % delta)] if delta else [])
        for delta in (0, 2, 5)
    ]
    columns = decode_records(b"".join(encode_record(*row) for row in rows), 3)
    for first in range(4):
        rest = columns.from_index(first)
        assert rest.headers is not None
        assert rows[first:] == list(
            zip(rest.offset_deltas, rest.timestamps_ms, rest.keys, rest.values, rest.headers, strict=True)
        )
    plain = decode_records(plain_block(3), 3).from_index(1)
    assert (plain.headers, len(plain.values), list(plain.offset_deltas)) == (None, 2, [1, 2])
