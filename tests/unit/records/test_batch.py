"""The header view: what is a batch, what is not, and what a batch says when it is refused."""

from typing import Any

import pytest

from penstock.contract import limits
from penstock.contract.errors import CorruptBatch, UnsupportedCompression
from penstock.records.batch import (
    BATCH_HEADER_BYTES,
    Compression,
    check_batch,
    check_header,
    placed,
    read_header,
    split_batches,
)
from penstock.records.build import BatchBuilder

from .forging import forged, plain_block

TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08


def sound(count: int = 3) -> bytes:
    builder = BatchBuilder()
    for index in range(count):
        assert builder.append(1_700_000_000_000 + index, b"key", b"value %d" % index)
    return builder.build()


def test_a_built_batch_passes_and_its_header_says_what_it_holds() -> None:
    batch = sound(3)
    header = check_batch(batch)
    assert (header.size, header.offset_span, header.record_count) == (len(batch), 3, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_002)
    assert header.compression is Compression.NONE
    assert not (header.transactional or header.control or header.append_time)


def test_a_memoryview_and_a_bytearray_are_checked_like_bytes() -> None:
    batch = sound()
    assert check_batch(memoryview(batch)) == check_batch(bytearray(batch)) == check_batch(batch)


def test_every_changed_bit_is_noticed_but_in_the_two_fields_that_the_leader_sets() -> None:
    batch = sound()
    unnoticed = []
    for at in range(len(batch)):
        for bit in range(8):
            changed = bytearray(batch)
            changed[at] ^= 1 << bit
            try:
                check_batch(changed)
            except (CorruptBatch, UnsupportedCompression):
                continue
            unnoticed.append(at)
    assert sorted({*unnoticed}) == [*range(8), *range(12, 16)]


def test_every_truncation_and_every_byte_too_many_is_noticed() -> None:
    batch = sound()
    for length in range(len(batch)):
        with pytest.raises(CorruptBatch):
            check_batch(batch[:length])
    with pytest.raises(CorruptBatch, match=f"{len(batch) + 1} bytes, {len(batch)} required"):
        check_batch(batch + b"\0")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"magic": 1}, "magic 1, 2 required"),
        ({"batch_length": 48}, "60 bytes by its length field, 61 to"),
        ({"batch_length": limits.BATCH_BYTES_MAX_LIMIT - 11}, "by its length field, 61 to"),
        ({"batch_length": -13}, "-1 bytes by its length field"),
        ({"last_offset_delta": -1}, "spans 0 offsets"),
        ({"last_offset_delta": limits.RECORDS_PER_BATCH_MAX}, "spans 1000001 offsets, 1 to 1000000 allowed"),
        ({"last_offset_delta": 1}, "3 records over 2 offsets"),
        ({"last_offset_delta": 3}, "3 records over 4 offsets, one record an offset required"),
        ({"attributes": 0x40}, "attributes 0x0040, only bits of 0x003f"),
        ({"attributes": -1}, "attributes 0xffff"),
        ({"attributes": CONTROL}, "only brokers write control records"),
        ({"attributes": APPEND_TIME}, "only brokers mark them so"),
        ({"attributes": TRANSACTIONAL}, "transactional without a producer id"),
        ({"base_timestamp": -2}, "timestamps -2 to 2000"),
        ({"max_timestamp": 999}, "timestamps 1000 to 999"),
        ({"producer_id": -2}, "producer id -2"),
        ({"producer_id": 7, "producer_epoch": 0}, "producer id 7, epoch 0, sequence -1"),
        ({"producer_id": 7, "base_sequence": 0}, "producer id 7, epoch -1, sequence 0"),
        ({"crc": 1}, "its header says 0x00000001"),
    ],
)
def test_a_malformed_batch_is_refused_with_the_fact_and_the_demand(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(CorruptBatch, match=message):
        check_batch(forged(plain_block(3), 3, **fields))


def test_an_empty_batch_is_no_producers_batch() -> None:
    with pytest.raises(CorruptBatch, match="0 records over 1 offsets"):
        check_batch(forged(b"", 0, last_offset_delta=0))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=f"codec {codec}"):
        check_batch(forged(plain_block(1), 1, codec=codec))


def test_the_largest_count_passes_the_header_check_and_one_more_does_not() -> None:
    most = limits.RECORDS_PER_BATCH_MAX
    assert check_header(forged(b"x", most)).record_count == most
    with pytest.raises(CorruptBatch):
        check_header(forged(b"x", most + 1))


def test_the_largest_batch_passes_and_one_byte_more_does_not() -> None:
    room = limits.BATCH_BYTES_MAX_LIMIT - BATCH_HEADER_BYTES
    assert check_batch(forged(bytes(room), 1)).size == limits.BATCH_BYTES_MAX_LIMIT
    with pytest.raises(CorruptBatch):
        check_batch(forged(bytes(room + 1), 1))


def test_the_header_check_does_not_look_at_the_crc() -> None:
    assert check_header(forged(plain_block(1), 1, crc=0)).crc == 0


def test_what_rests_in_a_log_may_be_a_brokers_or_a_cleaned_batch() -> None:
    marker = forged(plain_block(1), 1, attributes=CONTROL | TRANSACTIONAL, producer_id=7, producer_epoch=0)
    assert check_batch(marker, from_producer=False).control
    assert check_batch(forged(plain_block(1), 1, attributes=APPEND_TIME), from_producer=False).append_time
    assert check_batch(forged(b"", 0, last_offset_delta=9), from_producer=False).offset_span == 10


def test_a_header_is_read_at_its_place_without_the_body() -> None:
    batch = sound()
    assert read_header(b"..." + batch[:BATCH_HEADER_BYTES], 3) == check_batch(batch)
    with pytest.raises(CorruptBatch, match="60 bytes, 61 required"):
        read_header(batch[: BATCH_HEADER_BYTES - 1])


def test_batches_in_a_row_are_split_without_a_copy() -> None:
    first, second = sound(1), sound(2)
    joined = first + second
    views = split_batches(joined)
    assert [bytes(view) for view in views] == [first, second]
    assert all(view.obj is joined for view in views)
    assert split_batches(b"") == []


@pytest.mark.parametrize("cut", [1, 60, 61, 100])
def test_a_row_that_ends_inside_a_batch_is_refused(cut: int) -> None:
    with pytest.raises(CorruptBatch, match="batches: "):
        split_batches(sound() + sound()[:cut])


def test_a_row_with_a_length_that_leads_nowhere_is_refused() -> None:
    for length in (-(2**31), -13, 0, 48, 2**31 - 1):
        with pytest.raises(CorruptBatch):
            split_batches(forged(plain_block(1), 1, batch_length=length))


def test_a_placed_batch_differs_in_base_offset_and_leader_epoch_only_and_shares_its_body() -> None:
    batch = sound()
    parts = placed(memoryview(batch), 2**40 + 5, 17)
    header = check_batch(b"".join(parts))
    assert (header.base_offset, header.leader_epoch) == (2**40 + 5, 17)
    assert b"".join(parts)[8:12] == batch[8:12]
    assert b"".join(parts)[16:] == batch[16:]
    body = parts[-1]
    assert isinstance(body, memoryview)
    assert body.obj is batch
