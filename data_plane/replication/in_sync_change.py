"""A change of a partition's in-sync set on its way to the metadata (RL35, RL36).

    settled --propose--> outstanding --applied | refused | a newer record--> settled
    outstanding --no answer--> unresolved, and proposed again unchanged
    unresolved --applied | refused | a newer record--> settled
    any --a record with another leader or leader epoch--> deposed

While a proposal is outstanding or unresolved its members count as in sync too.
"""

from dataclasses import dataclass

from data_plane.metadata.model import PartitionRecord
from penstock.contract.ids import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One compare-and-set of the partition's record (RL35).

    The caller compares the partition block at the revision in which the partition's epoch was `base_partition_epoch`,
    and for each of `members` (the leader is one) that its registration has exactly that broker epoch, then
    puts `record`.
    """

    in_sync: tuple[BrokerId, ...]
    members: tuple[tuple[BrokerId, int], ...]
    base_partition_epoch: int
    record: PartitionRecord


@dataclass(frozen=True, slots=True)
class Settled:
    """The record says which replicas are in sync."""


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Proposed, and the store has not answered yet."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Unresolved:
    """No answer came: it may have been applied, now or later."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Deposed:
    """Another leader or leader epoch was seen: nothing more is committed or proposed."""


InSyncChange = Settled | Outstanding | Unresolved | Deposed


def proposed(change: InSyncChange) -> tuple[BrokerId, ...]:
    """Replicas that may be in sync by a proposal."""
    return change.proposal.in_sync if isinstance(change, Outstanding | Unresolved) else ()


def is_awaited(change: InSyncChange, record: PartitionRecord) -> bool:
    """Is it the record whose answer is on its way? A replica that gives itself up may write the very same one: only
    the answer says who has written it."""
    return isinstance(change, Outstanding) and record == change.proposal.record
