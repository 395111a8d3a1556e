"""Stamps: fixed width, checked, bound to their partition."""

import pytest

from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.stamp import (
    STAMP_BYTES,
    Stamp,
    StampCorrupt,
    StampFlag,
    pack_stamp,
    stamp_seed,
    unpack_stamp,
)

HERE = TopicPartition(TopicId(bytes(range(16))), 3)
SEED = stamp_seed(HERE)
STAMP = Stamp(
    base_offset=2**40,
    offset_span=7,
    record_count=5,
    size=1_234,
    leader_epoch=9,
    accepted_ms=1_700_000_000_000,
    principal=2**32 - 1,
    producer_id=77,
    producer_epoch=2,
    flags=StampFlag.TRANSACTIONAL | StampFlag.FIRST_OF_SEGMENT,
    position=2**31,
    base_sequence=2**31 - 3,
)


def test_a_stamp_is_64_bytes_and_reads_back() -> None:
    packed = pack_stamp(STAMP, SEED)
    assert len(packed) == STAMP_BYTES == 64
    assert unpack_stamp(packed, SEED) == STAMP
    assert unpack_stamp(memoryview(b"." * 64 + packed), SEED, 64) == STAMP


def test_every_changed_bit_of_a_stamp_is_noticed() -> None:
    packed = pack_stamp(STAMP, SEED)
    for at in range(STAMP_BYTES * 8):
        changed = bytearray(packed)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(StampCorrupt):
            unpack_stamp(bytes(changed), SEED)


def test_a_short_stamp_is_refused() -> None:
    with pytest.raises(StampCorrupt, match="63 bytes left, 64 required"):
        unpack_stamp(pack_stamp(STAMP, SEED)[:63], SEED)


def test_a_block_of_zeros_is_no_stamp() -> None:
    with pytest.raises(StampCorrupt):
        unpack_stamp(bytes(64), SEED)


@pytest.mark.parametrize("other", [TopicPartition(HERE.topic_id, 4), TopicPartition(TopicId(bytes(16)), 3)])
def test_a_stamp_of_another_partition_is_refused(other: TopicPartition) -> None:
    with pytest.raises(StampCorrupt):
        unpack_stamp(pack_stamp(STAMP, SEED), stamp_seed(other))


def test_ends_follow_from_span_and_sequence() -> None:
    assert STAMP.end_offset == 2**40 + 7
    assert STAMP.last_sequence == 3  # 2**31 - 3 and six more, wrapped to 0 after 2**31 - 1
    assert STAMP._replace(base_sequence=-1).last_sequence == -1
