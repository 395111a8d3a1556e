"""What leaders and the controller say to each other of a tenant's storage.

Bytes are those of one copy, as the leader of each partition has them. Times are monotonic milliseconds of each one's
own clock: no time travels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.contract.ids import BrokerId, TenantId, TopicPartition

STORAGE_BYTES_MAX = "storage_bytes_max"
CLEARS_BELOW = 20
"""A tenant is let in again once this part of its limit is free: one segment more or less does not change it to and
fro."""
NAMED_MAX = 1_000
"""Tenants in one answer."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Of one partition, as the leader of that epoch has it."""

    where: TopicPartition
    leader_epoch: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Of one broker to the controller of that epoch."""

    broker: BrokerId
    registration: int
    """Its broker epoch."""
    epoch: int
    """Of the controller that it is meant for."""
    sequence: int
    """Number among the sender's reports: the answer names it."""
    kept: Sequence[Kept]
    """Of partitions that it leads, whose size is another one since it was reported."""
    whole: bool
    """With this report all that it leads was reported to this controller."""
    full: Sequence[TenantId]
    """Tenants that it refuses now: a new controller takes them over."""


@dataclass(frozen=True, slots=True)
class Full:
    """A tenant that has reached its limit."""

    tenant: TenantId
    used_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a tenant keeps of its limit, of one copy."""

    tenant: TenantId
    used_bytes: int
    limit: int


@dataclass(frozen=True, slots=True)
class NearLimit:
    """Tenants that use NAMED_PERCENT of their limit or more, the fullest first."""

    uses: Sequence[Use]
    whole: bool
    """All of them are named: who is missing uses less. Else a tenant may be missing that is not known yet."""


def has_cleared(used_bytes: int, limit: int) -> bool:
    """Whether a tenant that had reached its limit may produce again. `limit` 0 = there is none."""
    return limit == 0 or used_bytes <= limit - limit // CLEARS_BELOW
