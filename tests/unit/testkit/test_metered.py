"""The checker of what was metered: readings beyond what anyone saw committed."""

from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.contract import usage_pb2 as pb
from data_plane.testkit.invariants import InvariantViolated
from data_plane.testkit.metered import _check_readings, _Committed
from data_plane.testkit.watcher import Committed, Ledger
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.records.stamp import Stamp, pack_stamp, stamp_seed

WHERE = TopicPartition(TopicId(b"t" * 16), 0)
BATCH_BYTES = 100


def check(end_offset: int, *, claimed_end: int, deleted: bool) -> None:
    """A final reading of one-message batches up to `end_offset`; the watcher has seen three of them committed."""
    ledger = Ledger(claimed_end=claimed_end)
    for offset in range(3):
        stamp = Stamp(offset, 1, 1, BATCH_BYTES, 1, 0, 1, -1, -1, 0, offset * BATCH_BYTES, -1)
        packed = pack_stamp(stamp, stamp_seed(WHERE))
        ledger.entries.append(Committed(offset, offset + 1, packed, 0, "b0"))
    watcher: Any = SimpleNamespace(
        ledger=lambda _: ledger,
        topic_of=lambda _: SimpleNamespace(settings=TopicSettings()),
        deleted={WHERE.topic_id: None} if deleted else {},
    )
    totals = (end_offset, end_offset * BATCH_BYTES, 0, 0, 0, 0)
    reading = pb.Reading(end_offset=end_offset, totals=totals)
    _check_readings(_Committed(watcher), WHERE, [reading])


def test_what_was_seen_committed_may_be_metered() -> None:
    check(3, claimed_end=0, deleted=False)


def test_a_reading_beyond_it_is_found() -> None:
    for claimed_end, deleted in ((0, False), (4, False), (3, True), (0, True)):
        with pytest.raises(InvariantViolated, match="reading at 4"):
            check(4, claimed_end=claimed_end, deleted=deleted)


def test_what_only_a_struck_leader_claims_of_a_topic_that_is_deleted_is_not_judged() -> None:
    check(4, claimed_end=4, deleted=True)
