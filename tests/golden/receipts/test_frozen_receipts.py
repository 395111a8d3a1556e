"""A receipts file that was written once must always be readable; the same receipts are written as the same bytes."""

from pathlib import Path

import pytest

from penstock.receipts import read_receipts
from penstock.receipts.format import pack_header, pack_records
from penstock.receipts.spans import SpanKey, Spans

pytestmark = pytest.mark.both_cores

FROZEN = Path(__file__).parent / "receipts.bin"
ORDERS, SIZES = bytes(range(16)), bytes(range(16, 32))


def made() -> bytes:
    """Two appends: the second adds a topic, a day, an epoch and neighbours of what the first one wrote."""
    spans = Spans()
    spans.add(SpanKey(ORDERS, 0, 19_675, 3, -1), 0, 1_000, 65_432)
    spans.add(SpanKey(ORDERS, 0, 19_675, 3, -1), 1_200, 1_201, 61)
    spans.add(SpanKey(ORDERS, 11, 19_675, -1, 1), 2**40, 2**40 + 50_000, 2**35)
    header, crc = pack_header(b"penstock receipt")
    first, crc = pack_records(spans, {ORDERS: 0}, [(0, ORDERS, "orders")], crc)
    spans = Spans()
    spans.add(SpanKey(ORDERS, 0, 19_675, 3, -1), 1_000, 1_200, 9_999)
    spans.add(SpanKey(ORDERS, 0, 19_676, 4, -1), 1_201, 1_300, 7_000)
    spans.add(SpanKey(SIZES, 2, 19_676, 2**31 - 1, -1), 0, 1, 2**30)
    second, _ = pack_records(spans, {ORDERS: 0, SIZES: 1}, [(1, SIZES, "größen")], crc)
    return header + first + second


def test_receipts_are_still_written_as_frozen() -> None:
    assert made() == FROZEN.read_bytes()


def test_frozen_receipts_are_still_read() -> None:
    receipts = read_receipts(FROZEN)
    assert receipts.sources[0].file_id == b"penstock receipt"
    assert receipts.sources[0].torn_bytes == 0
    assert receipts.topics == {ORDERS: "orders", SIZES: "größen"}
    found = [
        (*where, held.first_offset, held.end_offset, held.bytes, str(held.day), held.leader_epoch, held.acks)
        for where, of_partition in receipts.ranges.items()
        for held in of_partition
    ]
    assert found == [
        (ORDERS, 0, 0, 1_201, 75_492, "2023-11-14", 3, -1),
        (ORDERS, 0, 1_201, 1_300, 7_000, "2023-11-15", 4, -1),
        (ORDERS, 11, 2**40, 2**40 + 50_000, 2**35, "2023-11-14", -1, 1),
        (SIZES, 2, 0, 1, 2**30, "2023-11-15", 2**31 - 1, -1),
    ]
