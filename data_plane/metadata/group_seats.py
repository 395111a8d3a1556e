"""How many consumer groups of a tenant each partition of `__groups` may have, so that all together keep `groups_max`.

    /group_seats/<tenant>    GroupSeatsRecord; only of tenants with that limit

A coordinator takes a seat for a group before it makes the group, and gives those back that no group sits on. It knows
the groups of its own partition alone; this record knows the sum. Every change compares the record's revision, and
carries the coordinator's leader epoch: one that has lost its partition changes nothing for its successor.
"""

import json
from dataclasses import dataclass, replace
from typing import Self

from penstock.contract.errors import LimitExceeded, NotCoordinator

GROUPS_MAX = "groups_max"


def group_seats_key(tenant: str) -> str:
    return f"/group_seats/{tenant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Of one partition of `__groups`, as the coordinator of that leader epoch wrote them."""

    partition: int
    leader_epoch: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeatsRecord:
    """Of one tenant; partitions in order."""

    seats: tuple[Seats, ...] = ()

    def encode(self) -> bytes:
        rows = [[one.partition, one.leader_epoch, one.count] for one in self.seats]
        return json.dumps({"seats": rows}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Later versions may add fields."""
        rows = json.loads(value)["seats"]
        return cls(seats=tuple(Seats(partition=row[0], leader_epoch=row[1], count=row[2]) for row in rows))

    @property
    def total(self) -> int:
        return sum(one.count for one in self.seats)

    def of(self, partition: int) -> Seats:
        """The partition's; none, of no epoch, where nothing was written of it."""
        for one in self.seats:
            if one.partition == partition:
                return one
        return Seats(partition=partition, leader_epoch=-1, count=0)

    def counted(self, partition: int, leader_epoch: int, groups: int) -> Self:
        """The partition has so many seats as it has groups, also where that is more than the limit: what is there
        stays. Raises `NotCoordinator` where a later epoch has written.
        """
        known = self.of(partition)
        if known.leader_epoch > leader_epoch:
            raise NotCoordinator(f"__groups-{partition}: leadership moved to another broker")
        wanted = Seats(partition=partition, leader_epoch=leader_epoch, count=groups)
        others = [one for one in self.seats if one.partition != partition]
        return replace(self, seats=tuple(sorted((*others, wanted), key=lambda one: one.partition)))

    def taken(self, partition: int, leader_epoch: int, groups: int, limit: int) -> Self:
        """With a seat for one more than the partition's `groups`; itself if there is one that is free.

        Raises `LimitExceeded`, and `NotCoordinator` as `counted` does.
        """
        known = self.of(partition)
        if known.leader_epoch == leader_epoch and known.count > groups:
            return self
        after = self.counted(partition, leader_epoch, groups + 1)
        if after.total > limit:
            raise LimitExceeded(
                f"{GROUPS_MAX}: the tenant has {after.total - 1} consumer groups, at most {limit} allowed; delete some"
                " that are not used, or ask for a higher limit",
                limit=GROUPS_MAX,
            )
        return after
