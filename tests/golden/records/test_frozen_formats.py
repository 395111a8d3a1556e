"""Bytes written once must be read for ever: batches of each codec, a stamp, a seal, an odometer.

The files were written by these very functions and are never written again. What has only one encoding must also
still come out the same; a codec's output may change with its library, what it reads may not.
"""

from pathlib import Path

import pytest

from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.batch import BATCH_HEADER_BYTES, Compression, check_batch, placed
from penstock.records.build import BatchBuilder
from penstock.records.parse import Record, records_of
from penstock.records.record_block import RecordEncoder
from penstock.records.seal import Seal, SegmentDigest, pack_seal, unpack_seal
from penstock.records.stamp import Stamp, StampFlag, pack_stamp, stamp_seed, unpack_stamp
from penstock.rules.odometer import Odometer

pytestmark = pytest.mark.both_cores

FILES = Path(__file__).parent
HERE = TopicPartition(TopicId(bytes.fromhex("000102030405060708090a0b0c0d0e0f")), 3)
SEED = stamp_seed(HERE)
NOW_MS = 1_700_000_000_000
BASE = 1_000

MESSAGES = [
    Record(BASE, NOW_MS, b"key", b"value " * 40, []),
    Record(BASE + 1, NOW_MS + 70_000, None, b"", [("trace", b"\x00\xff"), ("trace", None), ("größe", b"")]),
    Record(BASE + 2, NOW_MS - 1, b"", None, []),
]


def built(codec: Compression) -> bytes:
    builder = BatchBuilder(codec)
    for message in MESSAGES:
        builder.append(message.timestamp_ms, message.key, message.value, message.headers)
    return b"".join(placed(builder.build(40, 123_456_789_012, 2), BASE, 9))


def stamps() -> list[Stamp]:
    def stamp(at: int, span: int, time: int, principal: int, producer: int, flags: StampFlag) -> Stamp:
        return Stamp(
            base_offset=BASE + at,
            offset_span=span,
            record_count=span,
            size=100 * span,
            leader_epoch=9,
            accepted_ms=NOW_MS + time,
            principal=principal,
            producer_id=producer,
            producer_epoch=2,
            flags=int(flags),
            position=100 * at,
            base_sequence=-1,
        )

    transactional = StampFlag.TRANSACTIONAL
    return [
        stamp(0, 3, 0, 7, -1, StampFlag.FIRST_OF_SEGMENT),
        stamp(3, 2, 10, 2**32 - 1, 5, transactional),
        stamp(5, 4, 20, 8, 6, transactional),
        stamp(9, 1, 60_000, 0, 5, transactional | StampFlag.CONTROL_COMMIT),
        stamp(10, 6, 60_001, 7, -1, StampFlag.NONE),
    ]


def odometer() -> Odometer:
    made = Odometer(BASE)
    for stamp in stamps():
        made.apply(stamp)
    return made


def seal() -> Seal:
    digest = SegmentDigest(HERE, BASE)
    for stamp in stamps():
        digest.add(built(Compression.NONE)[:61], pack_stamp(stamp, SEED))
    return odometer().seal(HERE, digest.digest(), log_generation=1)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_frozen_batch_is_read(codec: Compression) -> None:
    frozen = (FILES / f"batch-{codec.name.lower()}.bin").read_bytes()
    header = check_batch(frozen)
    assert header.compression is codec
    assert (header.base_offset, header.leader_epoch) == (BASE, 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (123_456_789_012, 2, 40)
    assert records_of(frozen) == MESSAGES


def test_a_batch_is_still_built_as_frozen_by_both_encoders() -> None:
    frozen = (FILES / "batch-none.bin").read_bytes()
    assert built(Compression.NONE) == frozen
    own = RecordEncoder(10_000)
    for message in MESSAGES:
        own.append(message.timestamp_ms, message.key, message.value, message.headers)
    assert own.block() == frozen[BATCH_HEADER_BYTES:]


def test_stamps_are_still_written_and_read_as_frozen() -> None:
    frozen = (FILES / "stamps.bin").read_bytes()
    assert b"".join(pack_stamp(stamp, SEED) for stamp in stamps()) == frozen
    assert [unpack_stamp(frozen, SEED, at) for at in range(0, len(frozen), 64)] == stamps()


def test_a_seal_is_still_written_and_read_as_frozen() -> None:
    frozen = (FILES / "seal.bin").read_bytes()
    assert pack_seal(seal()) == frozen
    assert unpack_seal(frozen) == (seal(), len(frozen))


def test_an_odometer_is_still_written_and_read_as_frozen() -> None:
    frozen = (FILES / "odometer.bin").read_bytes()
    assert odometer().encode(SEED) == frozen
    assert Odometer.decode(frozen, SEED).encode(SEED) == frozen
    assert Odometer.decode(frozen, SEED).open_transactions == {6: (4, 400)}
