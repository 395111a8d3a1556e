"""Producer state: duplicates, gaps, fencing, expiry, bounds (RL61 to RL66)."""

from dataclasses import dataclass

import pytest

from data_plane.log.outcomes import Duplicate
from data_plane.log.producers import Producers
from data_plane.log.small_file import SmallFileCorrupt
from penstock.contract.errors import LimitExceeded, OutOfOrderSequence, ProducerFenced, UnknownProducer

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Batch:
    producer_id: int
    producer_epoch: int
    base_sequence: int
    offset_span: int = 1


class Table:
    """A table with the log's time and offsets kept beside it."""

    def __init__(self, table_max: int = 10_000) -> None:
        self.producers = Producers(table_max=table_max, idle_ms=DAY_MS)
        self.now_ms = 1_000
        self.offset = 0

    def check(self, batch: Batch) -> Duplicate | None:
        return self.producers.check(batch, self.now_ms, lambda: "orders-7")

    def append(self, batch: Batch) -> None:
        self.producers.apply(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.offset_span,
            self.offset,
            self.now_ms,
        )
        self.offset += batch.offset_span

    def send(self, batch: Batch) -> Duplicate | None:
        found = self.check(batch)
        if found is None:
            self.append(batch)
        return found


def test_a_batch_without_a_producer_is_never_checked() -> None:
    assert Table().check(Batch(-1, -1, -1)) is None


def test_sequences_follow_each_other() -> None:
    table = Table()
    for first in (0, 3, 6):
        assert table.send(Batch(9, 0, first, 3)) is None


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    table = Table()
    for first in range(0, 15, 3):
        table.send(Batch(9, 0, first, 3))
    assert table.check(Batch(9, 0, 0, 3)) == Duplicate(0, 1_000)
    assert table.check(Batch(9, 0, 12, 3)) == Duplicate(12, 1_000)


def test_only_the_last_five_batches_are_remembered() -> None:
    table = Table()
    for first in range(6):
        table.send(Batch(9, 0, first))
    with pytest.raises(OutOfOrderSequence):
        table.check(Batch(9, 0, 0))
    assert table.check(Batch(9, 0, 1)) == Duplicate(1, 1_000)


def test_a_batch_with_the_same_start_and_another_length_is_no_duplicate() -> None:
    table = Table()
    table.send(Batch(9, 0, 0, 3))
    with pytest.raises(OutOfOrderSequence):
        table.check(Batch(9, 0, 0, 2))


def test_a_gap_is_refused_and_names_what_is_required() -> None:
    table = Table()
    table.send(Batch(9, 0, 0))
    with pytest.raises(OutOfOrderSequence, match="orders-7: producer 9 epoch 0 sends sequence 2, 1 required"):
        table.check(Batch(9, 0, 2))


def test_sequences_wrap_to_zero() -> None:
    table = Table()
    table.append(Batch(9, 0, 2**31 - 2, 2))
    assert table.send(Batch(9, 0, 0)) is None
    assert table.check(Batch(9, 0, 2**31 - 2, 2)) == Duplicate(0, 1_000)


def test_a_batch_over_the_wrap_continues_behind_it() -> None:
    table = Table()
    table.append(Batch(9, 0, 2**31 - 2, 4))
    assert table.check(Batch(9, 0, 2)) is None


def test_a_new_epoch_begins_at_zero() -> None:
    table = Table()
    table.send(Batch(9, 0, 0))
    with pytest.raises(OutOfOrderSequence, match="begins epoch 1 with sequence 1, 0 required"):
        table.check(Batch(9, 1, 1))
    assert table.send(Batch(9, 1, 0)) is None


def test_an_older_epoch_is_fenced() -> None:
    table = Table()
    table.send(Batch(9, 3, 0))
    with pytest.raises(ProducerFenced, match="epoch 2, epoch 3 or later required"):
        table.check(Batch(9, 2, 1))


def test_an_unknown_producer_must_begin_at_zero() -> None:
    with pytest.raises(UnknownProducer, match="producer 9 is not known and sends sequence 5"):
        Table().check(Batch(9, 0, 5))


def test_a_clock_that_jumps_ahead_does_not_make_a_retry_new() -> None:
    table = Table()
    table.send(Batch(9, 0, 0))
    table.now_ms += 10 * DAY_MS
    assert table.check(Batch(9, 0, 0)) == Duplicate(0, 1_000)
    assert table.check(Batch(9, 0, 1)) is None


def test_a_full_table_forgets_a_producer_that_was_idle_for_the_idle_time() -> None:
    table = Table(table_max=1)
    table.send(Batch(9, 0, 0))
    table.now_ms += DAY_MS - 1
    with pytest.raises(LimitExceeded):
        table.send(Batch(8, 0, 0))
    table.now_ms += 1
    table.send(Batch(8, 0, 0))
    with pytest.raises(UnknownProducer):
        table.check(Batch(9, 0, 1))


def test_one_producer_too_many_is_refused_with_the_limit_named() -> None:
    table = Table(table_max=2)
    table.send(Batch(1, 0, 0))
    table.send(Batch(2, 0, 0))
    with pytest.raises(LimitExceeded, match="at most 2 allowed"):
        table.check(Batch(3, 0, 0))
    assert table.send(Batch(1, 0, 1)) is None


def test_room_is_made_by_forgetting_idle_producers() -> None:
    table = Table(table_max=2)
    table.send(Batch(1, 0, 0))
    table.now_ms += DAY_MS
    table.send(Batch(2, 0, 0))
    assert table.send(Batch(3, 0, 0)) is None
    assert len(table.producers) == 2


def test_a_replicated_batch_counts_even_where_a_client_would_be_refused() -> None:
    table = Table(table_max=1)
    table.append(Batch(9, 4, 17))
    table.append(Batch(9, 2, 40))
    assert table.check(Batch(9, 2, 41)) is None
    table.append(Batch(8, 0, 3))
    assert table.check(Batch(8, 0, 4)) is None


def test_a_producer_that_the_leader_knew_is_known_to_its_followers_from_any_sequence_on() -> None:
    table = Table()
    table.append(Batch(9, 4, 17))
    table.append(Batch(8, 0, 3))
    assert len(table.producers) == 2


def test_a_marker_without_a_sequence_leaves_the_sequence_as_it_is() -> None:
    table = Table()
    table.send(Batch(9, 0, 0))
    table.append(Batch(9, 0, -1))
    assert table.check(Batch(9, 0, 1)) is None
    table.append(Batch(9, 1, -1))
    assert table.check(Batch(9, 1, 0)) is None


def test_a_copy_does_not_move_with_the_original() -> None:
    table = Table()
    table.send(Batch(9, 0, 0))
    copy = table.producers.copy()
    table.send(Batch(9, 0, 1))
    assert copy != table.producers
    assert copy.check(Batch(9, 0, 1), table.now_ms, str) is None


def test_the_table_reads_back() -> None:
    table = Table()
    for producer in (5, 3, 9):
        for sequence in range(producer):
            table.send(Batch(producer, 1, sequence))
    read = Producers.unpack(table.producers.pack())
    assert read == table.producers
    assert read.pack() == table.producers.pack()


def test_equal_tables_have_equal_bytes_whatever_the_order_of_their_producers() -> None:
    one, other = Table(), Table()
    for table, order in ((one, (1, 2)), (other, (2, 1))):
        for producer in order:
            table.producers.apply(producer, 0, 0, 1, producer, 5)
    assert one.producers.pack() == other.producers.pack()


@pytest.mark.parametrize("damage", ["short", "long", "empty"])
def test_bytes_that_are_no_table_are_refused(damage: str) -> None:
    table = Table()
    table.send(Batch(9, 0, 0))
    data = table.producers.pack()
    bad = {"short": data[:-1], "long": data + b"\0", "empty": b""}[damage]
    with pytest.raises(SmallFileCorrupt):
        Producers.unpack(bad)
