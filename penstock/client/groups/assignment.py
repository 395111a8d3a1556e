"""What a group assigns: the events that the application hears within `poll`, and what a member does with the
partitions of its consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.contract.ids import NamedPartition


class RebalanceKind(Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True, eq=False)
class RebalanceEvent:
    """A change that the application hears of within `poll`; the caller then calls `finish` with it."""

    kind: RebalanceKind
    partitions: tuple[NamedPartition, ...]


class AssignedPosition(Protocol):
    """Where its consumer stands in one partition."""

    offset: int
    epoch: int
    high_watermark: int

    @property
    def has_offset(self) -> bool: ...


class AssignedPartitions(Protocol):
    """What a member uses of its consumer, which reads what the group assigns."""

    @property
    def topics(self) -> tuple[str, ...]: ...

    @property
    def positions(self) -> Mapping[NamedPartition, AssignedPosition]: ...

    def add_partition(self, tp: NamedPartition, offset: int, epoch: int, *, new: bool) -> None: ...

    def deliver_partition(self, tp: NamedPartition) -> None: ...

    def hold_partition(self, tp: NamedPartition) -> None: ...

    def remove_partition(self, tp: NamedPartition) -> None: ...
