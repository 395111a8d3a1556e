"""The fold by day and by chosen offsets against a plain sum, transactions included."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.records.seal import Seal
from penstock.records.stamp import Stamp, StampFlag
from penstock.records.usage import MinuteRow, Totals
from penstock.rules.odometer import Odometer
from penstock.rules.timestamps import DAY_MS, day_of
from penstock.rules.usage_folding import UsageFold, sealed_totals

BEGIN_MS = 20_000 * DAY_MS


def stamp(base: int, count: int, at_ms: int, flags: int = 0, producer: int = -1) -> Stamp:
    return Stamp(
        base_offset=base, offset_span=count, record_count=count, size=100 + count, leader_epoch=1,
        accepted_ms=at_ms, principal=1, producer_id=producer, producer_epoch=0,
        flags=flags | (StampFlag.FIRST_OF_SEGMENT if base == 0 else 0), position=0, base_sequence=-1,
    )  # fmt: skip


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, DAY_MS)), max_size=20), st.data())
def test_days_and_marks_are_the_plain_sums(writes: list[tuple[int, int]], data: st.DataObject) -> None:
    stamps, at_ms, base = [], BEGIN_MS, 0
    for count, later in writes:
        at_ms += later
        stamps.append(stamp(base, count, at_ms))
        base += count
    bounds = [0, *(one.end_offset for one in stamps)]
    start, end = sorted(data.draw(st.lists(st.sampled_from(bounds), min_size=2, max_size=2)))
    fold = UsageFold(Odometer(), start_offset=start, end_offset=end, wanted=bounds)
    for one in stamps:
        fold.apply(one)
    inside = [one for one in stamps if start <= one.base_offset < end]
    wanted: dict[date, list[int]] = {}
    for one in inside:
        row = wanted.setdefault(day_of(one.accepted_ms), [one.base_offset, 0, 0, 0])
        row[1] = one.end_offset
        row[2] += one.record_count
        row[3] += one.size
    assert {d.day: [d.first_offset, d.end_offset, d.messages, d.bytes] for d in fold.days()} == wanted
    begin_mark, end_mark = fold.mark(start), fold.mark(end)
    assert begin_mark is not None and end_mark is not None
    added = end_mark.totals.since(begin_mark.totals)
    assert (added.committed_messages, added.committed_bytes) == (
        sum(one.record_count for one in inside),
        sum(one.size for one in inside),
    )


def test_a_transaction_counts_on_the_day_of_its_marker() -> None:
    fold = UsageFold(Odometer(), start_offset=0, end_offset=5)
    fold.apply(stamp(0, 3, BEGIN_MS, StampFlag.TRANSACTIONAL, producer=9))
    fold.apply(stamp(3, 1, BEGIN_MS + 1, StampFlag.NONE))
    marker = StampFlag.TRANSACTIONAL | StampFlag.CONTROL_COMMIT
    fold.apply(stamp(4, 1, BEGIN_MS + DAY_MS, marker, producer=9))
    assert [(d.messages, d.bytes) for d in fold.days()] == [(1, 101), (3, 103)]


def test_a_stamp_out_of_order_is_refused() -> None:
    fold = UsageFold(Odometer(), start_offset=0, end_offset=9)
    with pytest.raises(InvariantBroken):
        fold.apply(stamp(1, 1, BEGIN_MS))


def test_what_is_no_bound_of_a_batch_has_no_mark() -> None:
    fold = UsageFold(Odometer(), start_offset=0, end_offset=4, wanted=[2])
    fold.apply(stamp(0, 4, BEGIN_MS))
    assert fold.mark(2) is None
    assert fold.mark(4) is not None


def test_a_seal_tells_totals_before_a_whole_minute() -> None:
    minute = BEGIN_MS // 60_000
    seal = Seal(
        where=TopicPartition(TopicId(bytes(16)), 0), log_generation=1, base_offset=10, end_offset=30, batch_count=2,
        size=50, first_accepted_ms=BEGIN_MS, last_accepted_ms=BEGIN_MS + 60_000,
        before=Totals(committed_messages=10, committed_bytes=100),
        totals=Totals(committed_messages=30, committed_bytes=150),
        rows=(MinuteRow(minute, 1, 5, 20), MinuteRow(minute + 1, 1, 15, 30)), open_rows=(), digest=bytes(32),
    )  # fmt: skip
    assert sealed_totals(seal, BEGIN_MS) == (10, 100)
    assert sealed_totals(seal, BEGIN_MS + 60_000) == (15, 120)
    assert sealed_totals(seal, BEGIN_MS + 120_000) == (30, 150)
    assert sealed_totals(seal, BEGIN_MS + 120_001) == (30, 150)
    assert sealed_totals(seal, BEGIN_MS + 60_001) is None
