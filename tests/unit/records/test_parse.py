"""Reading batches: columns, tuples, Arrow, both parsers, and what is refused."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.errors import CorruptBatch
from penstock.contract.limits import MIB, RECORDS_AND_HEADERS_PER_BATCH_MAX
from penstock.records.batch import BATCH_HEADER_BYTES, Compression, check_batch, placed
from penstock.records.build import BatchBuilder
from penstock.records.codec import READ_PAST_BYTES, extension_codec
from penstock.records.compression import compress
from penstock.records.parse import (
    EXTENSION_BLOCK_BYTES_MAX,
    Columns,
    Record,
    columns_of,
    parse_block,
    parse_by_extension,
    records_of,
)
from tests.waiting import PATIENCE_S

from .forging import encode_record, encode_varint, forged, plain_block

NOW_MS = 1_700_000_000_000
ROWS = [
    Record(70, NOW_MS, b"k", b"v", []),
    Record(71, NOW_MS + 9, None, b"", [("a", b"1"), ("a", None), ("ü", b"")]),
    Record(72, NOW_MS - 5, b"", None, []),
]


def batch_at_70(codec: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(codec)
    for row in ROWS:
        builder.append(row.timestamp_ms, row.key, row.value, row.headers)
    return b"".join(placed(builder.build(), 70, 4))


def test_records_come_with_the_offsets_of_their_place_in_the_log() -> None:
    assert records_of(batch_at_70()) == ROWS
    assert records_of(memoryview(batch_at_70())) == ROWS


def test_columns_hold_the_same_as_the_records() -> None:
    columns = columns_of(batch_at_70())
    rows = zip(
        columns.offsets, columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True
    )
    assert [Record(*row) for row in rows] == ROWS
    assert len(columns) == 3
    assert columns.header.leader_epoch == 4
    assert columns.values is columns.values


@pytest.mark.parametrize("offset", [0, 70, 71, 72, 73, 10**9])
def test_reading_may_begin_inside_a_batch(offset: int) -> None:
    assert records_of(batch_at_70(), offset) == [row for row in ROWS if row.offset >= offset]


def test_an_arrow_table_holds_the_same() -> None:
    rows = columns_of(batch_at_70()).arrow().to_pylist()
    assert [row["offset"] for row in rows] == [70, 71, 72]
    assert [row["value"] for row in rows] == [b"v", b"", None]
    assert [row["key"] for row in rows] == [b"k", None, b""]
    assert rows[1]["headers"] == [
        {"name": "a", "content": b"1"},
        {"name": "a", "content": None},
        {"name": "ü", "content": b""},
    ]
    assert int(rows[2]["timestamp_ms"].timestamp() * 1000) == NOW_MS - 5


def test_arrow_has_no_time_where_the_record_has_none() -> None:
    batch = forged(plain_block(1), 1, base_timestamp=-1, max_timestamp=-1)
    assert columns_of(batch).arrow().to_pylist()[0]["timestamp_ms"] is None


def test_brokers_time_replaces_the_producers() -> None:
    columns = columns_of(forged(plain_block(3), 3, attributes=8, max_timestamp=5_000))
    assert columns.timestamps_ms == [5_000] * 3


def test_a_missing_time_is_minus_one_and_zero_stays_zero() -> None:
    batch = forged(plain_block(3), 3, base_timestamp=-1, max_timestamp=1)
    assert columns_of(batch).timestamps_ms == [-1, 0, 1]


def test_a_cleaned_batch_is_read_by_its_records_own_offsets() -> None:
    block = b"".join(encode_record(delta, 0, None, b"v", []) for delta in (2, 5, 6))
    batch = forged(block, 3, last_offset_delta=9, base_offset=100)
    assert list(columns_of(batch).offsets) == [102, 105, 106]
    assert [record.offset for record in records_of(batch, 105)] == [105, 106]
    empty = forged(b"", 0, last_offset_delta=9)
    assert records_of(empty) == []
    for deltas in ((5, 5), (6, 5), (-1, 5), (5, 10)):
        block = b"".join(encode_record(delta, 0, None, b"v", []) for delta in deltas)
        with pytest.raises(CorruptBatch, match="do not rise within 0 to 9"):
            records_of(forged(block, 2, last_offset_delta=9))


def test_a_batch_whose_records_claim_other_offsets_is_refused() -> None:
    for first, last in ((1, 1), (0, 2), (0, 0)):
        block = encode_record(first, 0, None, b"v", []) + encode_record(last, 0, None, b"v", [])
        with pytest.raises(CorruptBatch, match="0 and 1 required"):
            columns_of(forged(block, 2))


def test_a_bad_crc_is_refused_before_anything_is_inflated() -> None:
    bomb = bytes(compress(Compression.ZSTD, bytes(10 * MIB)))
    with pytest.raises(CorruptBatch, match="CRC-32C"):
        columns_of(forged(bomb, 1, codec=Compression.ZSTD, crc=0))


def parsers_verdicts(block: bytes, count: int, **fields: int) -> list[str]:
    """What each parser says: the records' values, or its refusal."""
    batch = forged(block, count, **fields)
    header = check_batch(batch, from_producer=False)
    extension = extension_codec()
    assert extension is not None
    parsers: tuple[Callable[[], Any], ...] = (
        lambda: parse_by_extension(extension, header, batch[:BATCH_HEADER_BYTES], block),
        lambda: parse_block(header, block),
    )
    verdicts = []
    for parse in parsers:
        try:
            columns = Columns(header, range(count), parse(), len(block))
        except CorruptBatch:
            verdicts.append("refused")
        else:
            verdicts.append(repr((columns.timestamps_ms, columns.keys, columns.values, columns.headers)))
    return verdicts


def test_both_parsers_read_the_same() -> None:
    blocks = [
        (plain_block(5), 5),
        (plain_block(3, None), 3),
        (encode_record(0, -(2**62), b"k" * 300, b"", [("a", None), ("", b"x" * 200)]), 1),
        # Numbers of ten bytes, of which the last one holds a bit, and attributes, which are in no use.
        (encode_record(0, -(2**63), None, None, []), 1),
        (encode_record(0, 2**63 - 1, None, None, []), 1),
        (record(b"\xff" * 9 + b"\x7f" + b"\0\0\1\1\0"), 1),
        # Headers in one record of several, and a header whose content is none by a length of -2.
        (
            encode_record(0, 0, None, None, [])
            + encode_record(1, 3, None, b"v", [("h", b"")])
            + plain_block(1),
            3,
        ),
        (record(b"\0\0\0\1\1\2\0\3"), 1),
        # Key and value of other negative lengths than -1.
        (record(b"\0\0\0\3" + encode_varint(-(2**63)) + b"\0"), 1),
    ]
    for block, count in blocks:
        theirs, own = parsers_verdicts(block, count)
        assert theirs == own != "refused"


def record(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


HUGE = encode_varint(2**63 - 1)
ENDLESS = b"\xff" * 11


@pytest.mark.parametrize(
    ("block", "count"),
    [
        (b"", 1),
        (plain_block(2), 1),
        (plain_block(2), 3),
        (plain_block(2)[:-1], 2),
        (plain_block(2) + b"\0", 2),
        (HUGE, 1),
        (ENDLESS, 1),
        (record(b"\0" + ENDLESS), 1),
        (record(b"\0\0\0" + HUGE), 1),
        (record(b"\0\0\0" + encode_varint(2**63 - 100) + bytes(200)), 1),
        (record(b"\0\0\0\1" + HUGE), 1),
        (record(b"\0\0\0\1\1" + HUGE), 1),
        (record(b"\0\0\0\1\1" + encode_varint(-1)), 1),
        (record(b"\0\0\0\1\1" + encode_varint(1) + encode_varint(-1) + b"\1"), 1),
        (record(b"\0\0\0\1\1" + encode_varint(1) + HUGE + b"\1"), 1),
        (record(b"\0\0\0\1\1" + encode_varint(1) + b"\2\xff\1"), 1),
        (record(b"\0\0\0\1\1" + encode_varint(2) + b"\0\1"), 1),
        (record(b"\0\0\0\1\1" + b"\xff"), 1),
        (encode_varint(-5) + b"\0\0\0\1\1\0", 1),
        (record(b"\0" + b"\xff" * 9 + b"\x80" + b"\0\1\1\0"), 1),
        (record(b"\0\0\0\1\1\0") + b"\x0c\0\0\0\1\1", 2),
    ],
)
def test_hostile_records_are_refused_by_both_parsers(block: bytes, count: int) -> None:
    assert parsers_verdicts(block, count) == ["refused", "refused"]
    with pytest.raises(CorruptBatch):
        columns_of(forged(block, count))


def test_a_large_block_of_headers_is_counted_before_it_becomes_objects() -> None:
    claimed = RECORDS_AND_HEADERS_PER_BATCH_MAX - 1
    body = b"\0\0\0\1\1" + encode_varint(claimed) + b"\0\1" * claimed
    block = record(body)
    padding = encode_record(1, 0, None, bytes(EXTENSION_BLOCK_BYTES_MAX), [])
    packed = bytes(compress(Compression.ZSTD, block + padding))
    with pytest.raises(CorruptBatch, match="more than 1000000 records and headers together"):
        columns_of(forged(packed, 2, codec=Compression.ZSTD))


@pytest.mark.parametrize(
    "headers", [RECORDS_AND_HEADERS_PER_BATCH_MAX - 1, RECORDS_AND_HEADERS_PER_BATCH_MAX]
)
def test_both_parsers_take_as_many_headers(headers: int) -> None:
    block = record(b"\0\0\0\1\1" + encode_varint(headers) + b"\0\1" * headers)
    assert len(block) < EXTENSION_BLOCK_BYTES_MAX
    verdicts = parsers_verdicts(block, 1)
    assert [verdict == "refused" for verdict in verdicts] == [
        headers == RECORDS_AND_HEADERS_PER_BATCH_MAX
    ] * 2


def test_a_large_block_is_read_too() -> None:
    block = b"".join(encode_record(index, 0, None, bytes(MIB), []) for index in range(5))
    assert len(block) > EXTENSION_BLOCK_BYTES_MAX
    batch = forged(bytes(compress(Compression.LZ4, block)), 5, codec=Compression.LZ4)
    assert columns_of(batch).values == [bytes(MIB)] * 5


GUARD = Path(__file__).with_name("guard_page.py")


def run_behind_guard_page(room: int) -> int:
    return subprocess.run(
        [sys.executable, str(GUARD), str(room)], check=False, capture_output=True, timeout=PATIENCE_S
    ).returncode


def test_aiokafkas_parser_reads_no_further_than_the_room_behind_a_block() -> None:
    assert run_behind_guard_page(READ_PAST_BYTES) == 0


def test_the_guard_page_catches_a_parser_without_room() -> None:
    assert run_behind_guard_page(0) < 0
