"""Who stays electable when a partition's in-sync set changes: the one rule leader and controller share."""

from collections.abc import Callable
from dataclasses import replace

from data_plane.metadata.model import PartitionRecord
from penstock.contract.ids import BrokerId


def in_order(record: PartitionRecord, wanted: Callable[[BrokerId], bool]) -> tuple[BrokerId, ...]:
    """The record's replicas that are wanted, in order of preference."""
    return tuple(broker for broker in record.replicas if wanted(broker))


def eligible_after(
    record: PartitionRecord, in_sync: tuple[BrokerId, ...], min_insync: int
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """(eligible, last known) of a record whose in-sync set becomes `in_sync` (RL43).

    Below `min_insync` the high watermark stands still, so a replica that leaves the set stays complete and
    electable. At or above it the watermark may move on without it, so both lists are cleared.
    """
    if len(in_sync) >= min_insync:
        return (), ()
    eligible = in_order(record, lambda b: (b in record.in_sync or b in record.eligible) and b not in in_sync)
    last_known = in_order(record, lambda b: b in record.last_known and b not in in_sync and b not in eligible)
    return eligible, last_known


def forgotten(record: PartitionRecord, broker: BrokerId) -> PartitionRecord:
    """`record` without waiting for `broker`: its log directory is another one, so what it stored does not come back
    with it (RL54).
    """
    return replace(record, last_known=tuple(b for b in record.last_known if b != broker))


def with_in_sync(record: PartitionRecord, in_sync: tuple[BrokerId, ...], min_insync: int) -> PartitionRecord:
    """The successor of `record` with another in-sync set, and the two lists that follow from it."""
    ordered = in_order(record, lambda b: b in in_sync)
    eligible, last_known = eligible_after(record, ordered, min_insync)
    return record.changed(in_sync=ordered, eligible=eligible, last_known=last_known)
