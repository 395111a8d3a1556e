"""The odometer, case by case; the model is in the property tests."""

import crc32c
import pytest

from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.records.stamp import Stamp, StampFlag, stamp_seed
from penstock.records.usage import MinuteRow, Totals
from penstock.rules.odometer import Odometer, OdometerCorrupt

HERE = TopicPartition(TopicId(bytes(range(16))), 1)
SEED = stamp_seed(HERE)
MINUTE = 28_333_333
NOON_MS = MINUTE * 60_000
TXN = StampFlag.TRANSACTIONAL
COMMIT = TXN | StampFlag.CONTROL_COMMIT
ABORT = TXN | StampFlag.CONTROL_ABORT


class Writer:
    """Writes stamps one behind the other into an odometer."""

    def __init__(self) -> None:
        self.odometer = Odometer()
        self.last: Stamp | None = None

    def write(
        self,
        count: int,
        size: int,
        *,
        principal: int = 1,
        at_ms: int = NOON_MS,
        flags: StampFlag = StampFlag.NONE,
        producer: int = -1,
    ) -> None:
        self.last = Stamp(
            base_offset=self.odometer.end_offset,
            offset_span=count,
            record_count=count,
            size=size,
            leader_epoch=0,
            accepted_ms=at_ms,
            principal=principal,
            producer_id=producer,
            producer_epoch=0,
            flags=int(flags),
            position=0,
            base_sequence=-1,
        )
        self.odometer.apply(self.last)


def test_a_plain_batch_counts_where_it_stands_with_its_whole_size() -> None:
    writer = Writer()
    writer.write(10, 1_000)
    writer.write(5, 500, principal=2)
    assert writer.odometer.totals == Totals(committed_messages=15, committed_bytes=1_500)
    assert writer.odometer.minute_rows == (MinuteRow(MINUTE, 1, 10, 1_000), MinuteRow(MINUTE, 2, 5, 500))


def test_a_transaction_counts_at_its_commit_for_its_sender_in_the_markers_minute() -> None:
    writer = Writer()
    writer.write(10, 1_000, flags=TXN, producer=7, principal=3)
    assert writer.odometer.totals == Totals()
    assert writer.odometer.minute_rows == ()
    assert writer.odometer.open_transactions == {7: (10, 1_000)}
    writer.write(1, 78, flags=COMMIT, producer=7, principal=0, at_ms=NOON_MS + 60_000)
    assert writer.odometer.totals == Totals(
        committed_messages=10, committed_bytes=1_000, control_records=1, control_bytes=78
    )
    assert writer.odometer.minute_rows == (MinuteRow(MINUTE + 1, 3, 10, 1_000),)
    assert writer.odometer.open_transactions == {}


def test_an_aborted_transaction_counts_as_aborted_and_in_no_row() -> None:
    writer = Writer()
    writer.write(10, 1_000, flags=TXN, producer=7)
    writer.write(4, 400, flags=TXN, producer=8)
    writer.write(1, 78, flags=ABORT, producer=7)
    assert writer.odometer.totals == Totals(
        aborted_messages=10, aborted_bytes=1_000, control_records=1, control_bytes=78
    )
    assert writer.odometer.minute_rows == ()
    assert writer.odometer.open_transactions == {8: (4, 400)}


def test_a_marker_without_a_transaction_counts_itself_alone() -> None:
    writer = Writer()
    writer.write(1, 78, flags=COMMIT, producer=7)
    assert writer.odometer.totals == Totals(control_records=1, control_bytes=78)


def test_rows_begin_anew_with_the_minute_and_with_the_segment() -> None:
    writer = Writer()
    writer.write(1, 100, flags=StampFlag.FIRST_OF_SEGMENT)
    writer.write(1, 100, at_ms=NOON_MS + 59_999)
    writer.write(1, 100, at_ms=NOON_MS + 60_000)
    assert writer.odometer.minute_rows == (MinuteRow(MINUTE + 1, 1, 1, 100),)
    assert writer.odometer.segment_rows == (MinuteRow(MINUTE, 1, 2, 200), MinuteRow(MINUTE + 1, 1, 1, 100))
    writer.write(1, 100, at_ms=NOON_MS + 60_001, flags=StampFlag.FIRST_OF_SEGMENT)
    assert writer.odometer.minute_rows == (MinuteRow(MINUTE + 1, 1, 2, 200),)
    assert writer.odometer.segment_rows == (MinuteRow(MINUTE + 1, 1, 1, 100),)


def test_a_seal_says_what_the_segment_added() -> None:
    writer = Writer()
    writer.write(1, 100, flags=StampFlag.FIRST_OF_SEGMENT)
    writer.write(10, 1_000, flags=TXN | StampFlag.FIRST_OF_SEGMENT, producer=7)
    writer.write(2, 200, at_ms=NOON_MS + 5)
    seal = writer.odometer.seal(HERE, bytes(32), 4)
    assert (seal.base_offset, seal.end_offset, seal.batch_count, seal.size) == (1, 13, 2, 1_200)
    assert (seal.first_accepted_ms, seal.last_accepted_ms, seal.log_generation) == (NOON_MS, NOON_MS + 5, 4)
    assert seal.totals.since(seal.before) == Totals(committed_messages=2, committed_bytes=200)
    assert seal.rows == (MinuteRow(MINUTE, 1, 2, 200),)


def test_a_batch_counted_twice_skipped_or_out_of_time_is_our_bug() -> None:
    writer = Writer()
    writer.write(3, 300)
    assert writer.last is not None
    again = writer.last
    for wrong in (
        again,
        again._replace(base_offset=4),
        again._replace(base_offset=3, accepted_ms=NOON_MS - 1),
        again._replace(base_offset=3, flags=int(StampFlag.CLEANED)),
    ):
        before = writer.odometer.encode(SEED)
        with pytest.raises(InvariantBroken):
            writer.odometer.apply(wrong)
        assert writer.odometer.encode(SEED) == before


def test_the_encoding_is_the_same_whatever_the_order_of_what_it_holds() -> None:
    first, second = Writer(), Writer()
    for writer, order in ((first, (1, 2)), (second, (2, 1))):
        for number in order:
            writer.write(1, 100, flags=TXN, producer=number, principal=number)
        for number in order:
            writer.write(1, 100, principal=number)
    assert first.odometer.encode(SEED) == second.odometer.encode(SEED)


def test_every_changed_byte_and_every_truncation_of_a_state_is_noticed() -> None:
    writer = Writer()
    writer.write(10, 1_000, flags=TXN, producer=7)
    writer.write(2, 200)
    kept = writer.odometer.encode(SEED)
    for at in range(len(kept)):
        changed = bytearray(kept)
        changed[at] ^= 1
        for wrong in (changed, kept[:at]):
            with pytest.raises(OdometerCorrupt):
                Odometer.decode(wrong, SEED)


def test_a_state_of_another_partition_is_refused() -> None:
    kept = Odometer().encode(SEED)
    with pytest.raises(OdometerCorrupt, match="does not hold for this partition"):
        Odometer.decode(kept, stamp_seed(TopicPartition(HERE.topic_id, 2)))


@pytest.mark.parametrize(("at", "junk"), [(0, b"JUNK"), (4, b"\0\2"), (-4, b"\0\0\0\1"), (22, b"\xff" * 8)])
def test_a_state_that_no_odometer_writes_is_refused_even_under_a_good_checksum(at: int, junk: bytes) -> None:
    body = bytearray(Odometer().encode(SEED)[:-4])
    place = at % len(body)
    body[place : place + len(junk)] = junk
    with pytest.raises(OdometerCorrupt):
        Odometer.decode(bytes(body) + crc32c.crc32c(bytes(body), SEED).to_bytes(4, "big"), SEED)


def test_a_state_taken_up_from_seals_has_only_the_rows_that_reach_it_without_a_gap() -> None:
    writer = Writer()
    seals = []
    for _ in range(3):
        writer.write(1, 100, flags=StampFlag.FIRST_OF_SEGMENT)
        writer.write(2, 200, flags=TXN, producer=7, principal=3)
        seals.append(writer.odometer.seal(HERE, bytes(32)))
    assert Odometer.resumed(seals).encode(SEED) == writer.odometer.encode(SEED)
    resumed = Odometer.resumed([seals[0], seals[2]])
    assert resumed.minute_rows == (MinuteRow(MINUTE, 1, 1, 100),)
    assert resumed.totals == writer.odometer.totals
    assert resumed.open_transactions == {7: (6, 600)}
