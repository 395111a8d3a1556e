"""Bytes from an enemy: nothing but a refusal comes out of the readers, and objects stay within their bounds."""

import struct
import tracemalloc

import cramjam
import crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.contract.errors import CorruptBatch, MalformedBatch, UnsupportedCompression
from penstock.records.batch import BATCH_HEADER_BYTES, Compression, check_batch, read_header, split_batches
from penstock.records.codec import extension_codec
from penstock.records.compression import compress, decompress
from penstock.records.parse import (
    EXTENSION_BLOCK_BYTES_MAX,
    Columns,
    columns_of,
    parse_block,
    parse_by_extension,
)
from penstock.records.seal import SealCorrupt, unpack_seal
from penstock.records.stamp import StampCorrupt, unpack_stamp
from penstock.rules.odometer import Odometer, OdometerCorrupt
from tests.unit.records.forging import encode_record, encode_varint, forged

NUMBERS = st.sampled_from([0, 1, 2, 3, 7, 63, 64, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -1, -2, -(2**63)])
PIECES = st.one_of(
    st.binary(max_size=12),
    NUMBERS.map(encode_varint),
    st.sampled_from([b"\xff" * 10, b"\x80", b"\0\0\0\1\1\0", b"\0\1"]),
    st.builds(
        encode_record,
        st.integers(0, 3),
        NUMBERS,
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=5),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
)
BLOCKS = st.lists(PIECES, max_size=8).map(b"".join)
COUNTS = st.one_of(st.integers(1, 8), st.sampled_from([999_999, 1_000_000]))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A sound block with some bytes set otherwise, cut, or doubled."""
    count = draw(st.integers(1, 6))
    block = bytearray(
        b"".join(
            encode_record(i, i, b"key", b"value", [("h", b"x")] * draw(st.integers(0, 2)))
            for i in range(count)
        )
    )
    for _ in range(draw(st.integers(0, 3))):
        block[draw(st.integers(0, len(block) - 1))] = draw(st.integers(0, 255))
    return bytes(block[: draw(st.integers(1, len(block)))])


def read_all(batch: bytes) -> None:
    columns = columns_of(batch)
    assert len(list(columns.records())) == columns.header.record_count


@given(st.binary(max_size=300))
@example(b"")
@example(bytes(61))
def test_any_bytes_are_a_batch_or_refused(junk: bytes) -> None:
    for reader in (check_batch, read_header, split_batches, columns_of):
        try:
            reader(junk)
        except (CorruptBatch, UnsupportedCompression):
            continue


@given(st.binary(min_size=61, max_size=61), BLOCKS)
def test_any_header_with_sound_lengths_and_crc_is_a_batch_or_refused(head: bytes, block: bytes) -> None:
    batch = bytearray(head + block)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[16] = 2
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    for reader in (check_batch, columns_of):
        try:
            reader(batch)
        except (CorruptBatch, UnsupportedCompression):
            continue


@given(
    BLOCKS | damaged(),
    COUNTS,
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 8, 16, 32]),
    st.sampled_from(Compression),
)
def test_any_records_under_a_crc_that_holds_are_read_or_refused(
    block: bytes, count: int, base_timestamp: int, flags: int, codec: Compression
) -> None:
    packed = bytes(compress(codec, block))
    batch = forged(packed, count, attributes=flags | codec, base_timestamp=base_timestamp)
    try:
        read_all(batch)
    except CorruptBatch:
        pass


@given(st.binary(max_size=400), COUNTS, st.integers(0, 7))
def test_any_compressed_bytes_under_a_crc_that_holds_are_read_or_refused(
    packed: bytes, count: int, codec: int
) -> None:
    try:
        read_all(forged(packed, count, attributes=codec))
    except (CorruptBatch, UnsupportedCompression):
        pass


@given(st.data(), st.sampled_from([c for c in Compression if c is not Compression.NONE]))
def test_a_damaged_frame_is_inflated_within_its_bound_or_refused(
    data: st.DataObject, codec: Compression
) -> None:
    sample = data.draw(st.binary(max_size=50)) * data.draw(st.integers(1, 200))
    frame = bytearray(compress(codec, sample))
    for _ in range(data.draw(st.integers(0, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    bytes_max = data.draw(st.integers(0, 12_000))
    try:
        block = decompress(codec, bytes(frame), bytes_max)
    except CorruptBatch:
        return
    assert len(block) <= bytes_max


@given(BLOCKS | damaged(), COUNTS, st.integers(-(2**63), 2**63 - 1))
def test_both_parsers_read_the_same_and_refuse_the_same(
    block: bytes, count: int, base_timestamp: int
) -> None:
    extension = extension_codec()
    assert extension is not None
    batch = forged(block, count, base_timestamp=base_timestamp)
    header = check_batch(batch, from_producer=False)
    try:
        own = parse_block(header, block)
    except CorruptBatch:
        # Else a batch would be skipped by some consumers and read by others.
        with pytest.raises(CorruptBatch):
            parse_by_extension(extension, header, batch[:BATCH_HEADER_BYTES], block)
        return
    theirs = parse_by_extension(extension, header, batch[:BATCH_HEADER_BYTES], block)
    by_parser = [Columns(header, range(count), parsed, len(block)) for parsed in (own, theirs)]
    assert list(by_parser[0].records()) == list(by_parser[1].records())
    assert isinstance(theirs, list)
    assert list(own.offset_deltas) == [record.offset for record in theirs]


@given(st.binary(max_size=400))
def test_any_bytes_are_a_stamp_a_seal_an_odometer_or_refused(junk: bytes) -> None:
    with pytest.raises(StampCorrupt):
        unpack_stamp(junk, 1)
    with pytest.raises(SealCorrupt):
        unpack_seal(junk)
    with pytest.raises(OdometerCorrupt):
        Odometer.decode(junk, 1)


def test_the_densest_blocks_that_aiokafkas_parser_is_given_stay_small_in_memory() -> None:
    """Worst cases just below its limit: empty headers in one record, which are refused once it has made them, and empty
    records."""
    headers = (EXTENSION_BLOCK_BYTES_MAX - 20) // 2
    body = b"\0\0\0\1\1" + encode_varint(headers) + b"\0\1" * headers
    one = encode_varint(len(body)) + body
    per_record = len(encode_record(500_000, 0, None, None, []))
    records = EXTENSION_BLOCK_BYTES_MAX // per_record
    many = b"".join(encode_record(index, 0, None, None, []) for index in range(records))
    for block, count in ((one, 1), (many, records)):
        assert EXTENSION_BLOCK_BYTES_MAX * 0.9 < len(block) <= EXTENSION_BLOCK_BYTES_MAX
        batch = forged(bytes(cramjam.lz4.compress(block)), count, codec=Compression.LZ4)
        tracemalloc.start(1)
        try:
            taken = len(columns_of(batch).headers)
        except MalformedBatch:
            taken = 0
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert taken == (0 if count == 1 else count)
        assert peak < 200_000_000
