"""Seals: one encoding, checked, self-consistent, and a digest that follows every byte it covers."""

import dataclasses

import pytest

from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.records.seal import Seal, SealCorrupt, SegmentDigest, pack_seal, unpack_seal
from penstock.records.usage import MinuteRow, OpenRow, Totals, minute_of

HERE = TopicPartition(TopicId(bytes(range(16))), 3)
SEAL = Seal(
    where=HERE,
    log_generation=1,
    base_offset=100,
    end_offset=160,
    batch_count=4,
    size=5_000,
    first_accepted_ms=1_700_000_000_000,
    last_accepted_ms=1_700_000_060_000,
    before=Totals(committed_messages=90, committed_bytes=900, control_records=2, control_bytes=160),
    totals=Totals(
        committed_messages=140,
        committed_bytes=4_900,
        aborted_messages=9,
        aborted_bytes=800,
        control_records=3,
        control_bytes=240,
    ),
    rows=(
        MinuteRow(28_333_333, 7, 30, 3_000),
        MinuteRow(28_333_333, 9, 10, 500),
        MinuteRow(28_333_334, 7, 10, 500),
    ),
    open_rows=(OpenRow(5, 7, 1, 90), OpenRow(5, 8, 2, 180), OpenRow(6, 7, 3, 270)),
    digest=bytes(range(32)),
)


def test_a_seal_reads_back_and_says_where_the_next_begins() -> None:
    packed = pack_seal(SEAL)
    assert unpack_seal(packed) == (SEAL, len(packed))
    assert unpack_seal(b"..." + packed + packed, 3) == (SEAL, 3 + len(packed))


def test_a_seal_without_rows_reads_back() -> None:
    bare = dataclasses.replace(SEAL, rows=(), open_rows=(), totals=SEAL.before)
    assert unpack_seal(pack_seal(bare))[0] == bare


def test_every_changed_byte_and_every_truncation_of_a_seal_is_noticed() -> None:
    packed = pack_seal(SEAL)
    for at in range(len(packed)):
        for flip in (1, 0x80):
            changed = bytearray(packed)
            changed[at] ^= flip
            with pytest.raises(SealCorrupt):
                unpack_seal(changed)
        with pytest.raises(SealCorrupt):
            unpack_seal(packed[:at])


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"end_offset": 100}, "only a segment with batches is sealed"),
        ({"batch_count": 0}, "only a segment with batches is sealed"),
        ({"last_accepted_ms": 0}, "acceptance times do not decrease"),
        ({"rows": SEAL.rows[::-1]}, "rows are in order"),
        ({"rows": SEAL.rows[:2]}, "add up"),
        ({"rows": (SEAL.rows[0],) * 2}, "rows are in order"),
        ({"open_rows": SEAL.open_rows[::-1]}, "open rows are in order"),
        ({"digest": b"short"}, "32 bytes"),
        ({"where": TopicPartition(TopicId(b"short"), 0)}, "16 bytes"),
        ({"totals": Totals()}, "whole numbers from 0 on"),
    ],
)
def test_a_seal_that_contradicts_itself_does_not_exist(changes: dict[str, object], claim: str) -> None:
    with pytest.raises(InvariantBroken, match=claim):
        dataclasses.replace(SEAL, **changes)  # type: ignore[arg-type]


def digest_of(*pairs: tuple[bytes, bytes], where: TopicPartition = HERE, base: int = 0) -> bytes:
    digest = SegmentDigest(where, base)
    for header, stamp in pairs:
        digest.add(header, stamp)
    return digest.digest()


def test_a_digest_depends_on_each_header_each_stamp_their_order_and_their_segment() -> None:
    first, second = (b"h" * 61, b"s" * 64), (b"i" * 61, b"t" * 64)
    digests = [
        digest_of(),
        digest_of(first),
        digest_of(second),
        digest_of(first, second),
        digest_of(second, first),
        digest_of((first[0], second[1])),
        digest_of(first, base=1),
        digest_of(first, where=TopicPartition(HERE.topic_id, 4)),
        digest_of(first, where=TopicPartition(TopicId(bytes(16)), 3)),
    ]
    assert len({*digests}) == len(digests)
    with pytest.raises(InvariantBroken):
        digest_of((b"h" * 60, b"s" * 64))


def test_minutes_are_counted_from_1970() -> None:
    assert (minute_of(0), minute_of(59_999), minute_of(60_000)) == (0, 0, 1)


def test_totals_differ_by_what_was_added() -> None:
    assert SEAL.totals.since(SEAL.before) == Totals(
        committed_messages=50,
        committed_bytes=4_000,
        aborted_messages=9,
        aborted_bytes=800,
        control_records=1,
        control_bytes=80,
    )
    with pytest.raises(InvariantBroken):
        SEAL.before.since(SEAL.totals)
