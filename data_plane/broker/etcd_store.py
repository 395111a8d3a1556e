"""MetaStore over etcd: one cell's keys, fenced by its origin, every outcome told for what it is.

Each transaction compares the cell's origin besides what it was asked to: an etcd that was restored to a time before the
cell, or another one behind the same address, takes nothing from a process that knew the first (RL55).
"""

import asyncio
import secrets
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from data_plane.broker.etcd_keys import CellKeys, Origin
from data_plane.broker.etcd_watch import CellWatch, Following
from data_plane.etcd import kv_pb2 as kv
from data_plane.etcd import rpc_pb2 as pb
from data_plane.etcd.client import EtcdClient, range_end
from data_plane.etcd.endpoints import EtcdConfig
from data_plane.etcd.outcomes import LeaseGone, NoAnswer, NotSent, Refused
from data_plane.metadata.port import (
    CHANGES_PER_TXN_MAX,
    Change,
    Compare,
    Delete,
    KeyValue,
    OutcomeUnknown,
    RangeResult,
    SessionLost,
    StoreUnavailable,
    StoreWentBack,
    TxnResult,
)
from penstock.contract.invariant import invariant

SESSION_TTL_S_MIN = 1

T = TypeVar("T")


class EtcdStore:
    """See `data_plane.metadata.port.MetaStore`. Belongs to the loop on which it is made; asks nothing until used."""

    def __init__(self, config: EtcdConfig, cell: str, *, base: int = 0) -> None:
        """`base`: what the revisions of a cell that is not there yet begin at."""
        self.client = EtcdClient(config)
        self.keys = CellKeys(cell)
        self._base = base
        self._origin: Origin | None = None
        self._finding_origin = asyncio.Lock()
        self._closed = False
        self._running: dict[asyncio.Task[Any], None] = {}
        self._watches: dict[Following, None] = {}
        self._quiet: dict[str, tuple[int, int]] = {}
        """By prefix: (revision last told by a watch, a bookmark up to which nothing followed it)."""

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        keys = {change.key for change in changes}
        invariant(len(keys) == len(changes), "a key stands in at most one change of a transaction")
        invariant(
            max(len(compares), len(changes)) <= CHANGES_PER_TXN_MAX,
            f"a transaction has at most {CHANGES_PER_TXN_MAX} compares and as many changes",
        )
        return await self._shielded(self._txn(tuple(compares), tuple(changes)))

    async def range(self, prefix: str) -> RangeResult:
        return await self._shielded(self._range(prefix))

    def watch(self, prefix: str, after_revision: int) -> CellWatch:
        self._watches = {following: None for following in self._watches if not following.ended}
        following = Following(self, prefix, after_revision, self._quiet)
        self._watches[following] = None
        if self._closed:
            following.fail(StoreUnavailable("the store is closed"))
        else:
            following.begin()
        return CellWatch(following)

    @property
    def watching(self) -> int:
        """Watches that somebody reads."""
        return sum(1 for following in self._watches if not following.ended)

    async def session(self, ttl_ms: int) -> "EtcdSession":
        return await self._shielded(self._session(ttl_ms))

    async def close(self) -> None:
        """Sessions are left to expire unless ended before."""
        if self._closed:
            return
        self._closed = True
        for following in self._watches:
            following.fail(StoreUnavailable("the store is closed"))
        tasks = [*self._running, *(task for f in self._watches if (task := f.task) is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.close()

    def quiet_since(self, prefix: str) -> int:
        """Up to which revision watches know that the prefix has not changed further than they told; 0 = not known."""
        told, bookmark = self._quiet.get(prefix, (0, 0))
        return max(told, bookmark)

    # -- the cell --------------------------------------------------------------------------------------------

    async def origin(self) -> Origin:
        """Where the cell's revisions begin; makes the cell if there is none. Raises `StoreUnavailable`."""
        if self._origin is None:
            async with self._finding_origin:
                if self._origin is None:
                    self._origin = await self._find_origin()
        return self._origin

    async def check_origin(self, at_least: int) -> None:
        """Raises `StoreWentBack` unless the cell is the one known and its revision is `at_least`, else
        `StoreUnavailable`."""
        origin = await self.origin()
        try:
            item, revision = await self.client.get(self.keys.origin)
        except (NotSent, Refused) as error:
            raise StoreUnavailable(str(error)) from None
        self._demand_same(item)
        if origin.to_cell(revision) < at_least:
            raise StoreWentBack(
                f"etcd cell {self.keys.cell!r}: at revision {origin.to_cell(revision)}, after {at_least} was seen"
            )

    async def _find_origin(self) -> Origin:
        made = pb.TxnRequest(
            compare=[pb.Compare(target=pb.Compare.CREATE, key=self.keys.origin, create_revision=0)],
            success=[_put(self.keys.origin, Origin.encode(self._base, secrets.token_hex(8)), 0)],
        )
        try:
            item, _ = await self.client.get(self.keys.origin)
            if item is None:
                await self.client.txn(made)
                item, _ = await self.client.get(self.keys.origin)
        except (NotSent, NoAnswer, Refused) as error:
            raise StoreUnavailable(str(error)) from None
        if item is None:
            raise StoreUnavailable(f"etcd cell {self.keys.cell!r}: was taken away while it was made")
        return Origin.decode(item)

    def _demand_same(self, item: kv.KeyValue | None) -> None:
        if item is None or Origin.decode(item) != self._origin:
            found = "is gone" if item is None else "is another"
            raise StoreWentBack(
                f"etcd cell {self.keys.cell!r}: its origin {found}; etcd was replaced or restored"
            )

    # -- operations ------------------------------------------------------------------------------------------

    async def _txn(self, compares: tuple[Compare, ...], changes: tuple[Change, ...]) -> TxnResult:
        origin = await self.origin()
        fence = pb.Compare(target=pb.Compare.MOD, key=self.keys.origin, mod_revision=origin.made_at)
        request = pb.TxnRequest(
            compare=[fence, *(self._compare(origin, compare) for compare in compares)],
            success=[self._operation(change) for change in changes],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=self.keys.origin))],
        )
        try:
            answer = await self.client.txn(request)
        except LeaseGone as error:
            raise SessionLost(str(error)) from None
        except (NotSent, Refused) as error:
            raise StoreUnavailable(str(error)) from None
        except NoAnswer as error:
            raise OutcomeUnknown(str(error)) from None
        if not answer.succeeded:
            found = answer.responses[0].response_range.kvs
            self._demand_same(found[0] if found else None)
        return TxnResult(answer.succeeded, origin.to_cell(answer.header.revision))

    async def _range(self, prefix: str) -> RangeResult:
        origin = await self.origin()
        start = self.keys.to_etcd(prefix)
        try:
            listing = await self.client.list(start, range_end(start), beside=self.keys.origin)
        except (NotSent, Refused) as error:
            raise StoreUnavailable(str(error)) from None
        self._demand_same(listing.beside)
        items = tuple(
            KeyValue(self.keys.to_cell(item.key), item.value, origin.to_cell(item.mod_revision), item.lease)
            for item in listing.items
        )
        return RangeResult(origin.to_cell(listing.revision), items)

    async def _session(self, ttl_ms: int) -> "EtcdSession":
        await self.origin()
        try:
            granted = await self.client.grant(max(SESSION_TTL_S_MIN, -(-ttl_ms // 1000)))
        except (NotSent, NoAnswer, Refused) as error:
            # A lease that nobody knows of binds nothing and goes with its time.
            raise StoreUnavailable(str(error)) from None
        return EtcdSession(self, granted.ID, granted.TTL * 1000)

    def _compare(self, origin: Origin, compare: Compare) -> pb.Compare:
        return pb.Compare(
            target=pb.Compare.MOD,
            key=self.keys.to_etcd(compare.key),
            mod_revision=origin.mod_revision(compare.mod_revision),
        )

    def _operation(self, change: Change) -> pb.RequestOp:
        key = self.keys.to_etcd(change.key)
        if isinstance(change, Delete):
            return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
        return _put(key, change.value, change.session_id)

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to its end even if the caller gives up: what was asked for stands (RL19)."""
        if self._closed:
            work.close()
            raise StoreUnavailable("the store is closed")
        task = asyncio.ensure_future(work)
        self._running[task] = None
        task.add_done_callback(self._ran)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise OutcomeUnknown("the store was closed") from None

    def _ran(self, task: "asyncio.Task[Any]") -> None:
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits any more


@dataclass(frozen=True, slots=True)
class EtcdSession:
    """A lease. Only etcd's word that it is gone ends it: a broken stream or a silent etcd does not."""

    store: EtcdStore
    session_id: int
    ttl_ms: int
    """As granted: at least what was asked for."""

    async def keep_alive(self) -> None:
        await self.store._shielded(self._keep_alive())

    async def end(self) -> None:
        await self.store._shielded(self._end())

    async def _keep_alive(self) -> None:
        try:
            await self.store.client.keep_alive(self.session_id)
        except LeaseGone as error:
            raise SessionLost(str(error)) from None
        except (NotSent, NoAnswer, Refused) as error:
            raise StoreUnavailable(str(error)) from None

    async def _end(self) -> None:
        try:
            await self.store.client.revoke(self.session_id)
        except LeaseGone:
            return  # gone already
        except (NotSent, NoAnswer, Refused) as error:
            raise StoreUnavailable(str(error)) from None


def _put(key: bytes, value: bytes, lease: int) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))
