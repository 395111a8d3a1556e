"""Takes a seat of the tenant's `groups_max` before a group is made, and gives seats back that no group sits on."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakValueDictionary

from data_plane.metadata import broker_records
from data_plane.metadata.group_seats import GroupSeatsRecord, group_seats_key
from data_plane.metadata.model import tenant_key
from data_plane.metadata.port import Compare, Delete, MetaStore, OutcomeUnknown, Put, StoreUnavailable
from data_plane.node.groups.group_partition import GroupPartition
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.tasks import Turn
from penstock.contract import errors
from penstock.contract.ids import TenantId, TopicPartition

COUNTED_EVERY_MS = 1_000
"""A deleted group's seat is free for the tenant's groups of other partitions after so long."""
_DROPS = 0
"""The coordinator of this partition deletes records that count nothing any more."""
_TRIES = 10
"""Of one change, where others change the record at the same time."""


class GroupSeats:
    """Of the groups that this broker coordinates. Tenants without the limit cost nothing."""

    def __init__(
        self, view: MetadataView, store: MetaStore, call_ms: int, begin_turn: Callable[[], Turn]
    ) -> None:
        self._view = view
        self._store = store
        self._call_ms = call_ms
        self._begin_turn = begin_turn
        self._being_made: defaultdict[tuple[TopicPartition, str], dict[str, int]] = defaultdict(dict)
        """By partition and tenant, groups that calls are making now."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def seated(self, led: GroupPartition, tenant: TenantId, group: str) -> AsyncIterator[None]:
        """Within the block the group may be made. Raises `LimitExceeded`, `NotCoordinator`, `CoordinatorNotReady`."""
        if not self._limit(tenant) or led.core.has_group(tenant, group):
            yield
            return
        async with self._lock(tenant):
            self._note(led, tenant, group, 1)
            try:
                await self._take(led, tenant, group)
            except BaseException:
                self._note(led, tenant, group, -1)
                raise
        try:
            yield
        finally:
            self._note(led, tenant, group, -1)

    def _note(self, led: GroupPartition, tenant: str, group: str, more: int) -> None:
        """A call takes a seat for the group, or has ended."""
        made = self._being_made[led.replica.where, tenant]
        made[group] = made.get(group, 0) + more
        if not made[group]:
            del made[group]
        if not made:
            del self._being_made[led.replica.where, tenant]

    def _lock(self, tenant: str) -> asyncio.Lock:
        """One change of a tenant's record after the other."""
        return self._locks.setdefault(tenant, asyncio.Lock())

    async def run(self, serving: Callable[[], list[GroupPartition]]) -> None:
        """Give seats back, and take those of groups that were there before the limit. Runs without an end."""
        while True:
            await asyncio.sleep(COUNTED_EVERY_MS / 1000)
            for led in serving():
                await self._recount(led)

    async def _recount(self, led: GroupPartition) -> None:
        image = self._view.image
        tenants = sorted({*led.core.tenants, *image.group_seats})
        async for name in self._begin_turn().through(tenants):
            tenant = TenantId(name)
            if self._lock(tenant).locked():
                continue  # calls that make its groups count them
            if not self._limit(tenant):
                if led.replica.where.partition == _DROPS and tenant in image.group_seats:
                    await self._drop(tenant)
                continue
            record = image.group_seats.get(tenant, GroupSeatsRecord())
            groups = self._groups(led, tenant)
            known = record.of(led.replica.where.partition)
            if known.count == groups:
                continue
            try:
                async with self._lock(tenant):
                    await self._change(led, tenant, partial(self._counted, led, tenant))
            except errors.PenstockError:
                continue  # the next round does it

    async def _drop(self, tenant: TenantId) -> None:
        """Nothing is counted without the limit, and nothing of a tenant that is gone. Not if either has changed."""
        image = self._view.image
        compares = (
            Compare(group_seats_key(tenant), image.group_seats_revisions[tenant]),
            Compare(tenant_key(tenant), image.tenant_revisions.get(tenant, 0)),
        )
        try:
            result = await self._store.txn(compares, (Delete(group_seats_key(tenant)),))
        except (OutcomeUnknown, StoreUnavailable):
            return  # the next round does it
        if result.succeeded:
            await self._view.reached(result.revision, self._call_ms)

    def _counted(self, led: GroupPartition, tenant: TenantId, record: GroupSeatsRecord) -> GroupSeatsRecord:
        groups = self._groups(led, tenant)
        return record.counted(led.replica.where.partition, led.leading.leader_epoch, groups)

    def _limit(self, tenant: TenantId) -> int:
        return self._view.image.quotas_of(tenant).groups_max

    def _groups(self, led: GroupPartition, tenant: str, besides: str = "") -> int:
        """Groups of the tenant that the partition has, and those being made; without `besides`."""
        made = self._being_made.get((led.replica.where, tenant), {})
        more = [name for name in made if name != besides and not led.core.has_group(tenant, name)]
        return led.core.groups_count(tenant) + len(more)

    async def _take(self, led: GroupPartition, tenant: TenantId, group: str) -> None:
        def taken(record: GroupSeatsRecord) -> GroupSeatsRecord:
            if led.core.has_group(tenant, group):
                return record
            return record.taken(
                led.replica.where.partition,
                led.leading.leader_epoch,
                self._groups(led, tenant, group),
                self._limit(tenant) or _UNLIMITED,
            )

        try:
            await self._change(led, tenant, taken)
        except errors.LimitExceeded:
            # Seats may have been given back that this broker has not heard of.
            if not await self._view.caught_up(self._call_ms):
                raise errors.CoordinatorNotReady(
                    f"group {group}: the metadata store does not answer, so its tenant's groups are not counted"
                ) from None
            await self._change(led, tenant, taken)

    async def _change(
        self, led: GroupPartition, tenant: TenantId, decide: Callable[[GroupSeatsRecord], GroupSeatsRecord]
    ) -> None:
        """Decide, compare and set, under the tenant's lock; again where the image was behind. Raises its refusals."""
        image, key = self._view.image, group_seats_key(tenant)
        for _ in range(_TRIES):
            led.require_ready()
            before = image.group_seats.get(tenant, GroupSeatsRecord())
            after = decide(before)
            if after == before:
                return
            compare = Compare(key, image.group_seats_revisions.get(tenant, 0))
            try:
                result = await self._store.txn((compare,), (Put(key, after.encode()),))
                revision, succeeded = result.revision, result.succeeded
            except OutcomeUnknown:
                revision, succeeded = await self._newest(tenant), False
            except StoreUnavailable:
                raise _not_counted(tenant) from None
            await self._view.reached(revision, self._call_ms)
            if succeeded:
                return
        raise errors.CoordinatorNotReady(
            f"{led.replica.name}: many groups of the tenant are made at once, try again"
        )

    async def _newest(self, tenant: str) -> int:
        try:
            return (await self._store.range(broker_records.CLUSTER_KEY)).revision
        except StoreUnavailable:
            raise _not_counted(tenant) from None


_UNLIMITED = 2**63
"""The limit was lifted meanwhile."""


def _not_counted(tenant: str) -> errors.CoordinatorNotReady:
    return errors.CoordinatorNotReady(
        f"groups of {tenant}: the metadata store does not answer, so they are not counted"
    )
