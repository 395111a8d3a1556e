"""MetaStore over etcd: one namespace's keys, fenced by its origin. Every outcome is reported as what it is.

Each transaction compares the namespace's origin besides what it was asked to: an etcd that was restored to an older
time, or another one behind the same address, takes nothing from a process that knew the first (RL55).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from data_plane.broker.etcd_keys import Origin
from data_plane.broker.etcd_namespace import EtcdNamespace, put
from data_plane.broker.etcd_watch import Following, NamespaceWatch
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
    TxnResult,
)
from penstock.contract.invariant import invariant

SESSION_TTL_S_MIN = 1

T = TypeVar("T")


class EtcdStore:
    """See `data_plane.metadata.port.MetaStore`. Belongs to the loop on which it is made; asks nothing until used."""

    def __init__(self, config: EtcdConfig, namespace: str, *, base: int = 0) -> None:
        """`base`: what the revisions of a namespace that is not there yet begin at."""
        self.namespace = EtcdNamespace(EtcdClient(config), namespace, base=base)
        self.client = self.namespace.client
        self._closed = False
        self._running: dict[asyncio.Task[Any], None] = {}
        self._watches: dict[Following, None] = {}
        self._quiet: dict[str, tuple[int, int]] = {}
        """By prefix: (revision that a watch last delivered, a bookmark up to which nothing followed it)."""

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

    def watch(self, prefix: str, after_revision: int) -> NamespaceWatch:
        self._watches = {following: None for following in self._watches if not following.ended}
        following = Following(self.namespace, prefix, after_revision, self._quiet)
        self._watches[following] = None
        if self._closed:
            following.fail(StoreUnavailable("the store is closed"))
        else:
            following.begin()
        return NamespaceWatch(following)

    @property
    def watching(self) -> int:
        """Watches that have a reader."""
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
        """Up to which revision watches have delivered every change of the prefix; 0 = not known."""
        delivered, bookmark = self._quiet.get(prefix, (0, 0))
        return max(delivered, bookmark)

    # -- operations ------------------------------------------------------------------------------------------

    async def _txn(self, compares: tuple[Compare, ...], changes: tuple[Change, ...]) -> TxnResult:
        origin = await self.namespace.origin()
        fence = pb.Compare(target=pb.Compare.MOD, key=self.namespace.keys.origin, mod_revision=origin.made_at)
        request = pb.TxnRequest(
            compare=[fence, *(self._compare(origin, compare) for compare in compares)],
            success=[self._operation(change) for change in changes],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=self.namespace.keys.origin))],
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
            self.namespace.check_same(found[0] if found else None)
        return TxnResult(answer.succeeded, origin.to_namespace(answer.header.revision))

    async def _range(self, prefix: str) -> RangeResult:
        origin = await self.namespace.origin()
        start = self.namespace.keys.to_etcd(prefix)
        try:
            listing = await self.client.list(start, range_end(start), beside=self.namespace.keys.origin)
        except (NotSent, Refused) as error:
            raise StoreUnavailable(str(error)) from None
        self.namespace.check_same(listing.beside)
        items = tuple(
            KeyValue(
                self.namespace.keys.to_namespace(item.key),
                item.value,
                origin.to_namespace(item.mod_revision),
                item.lease,
            )
            for item in listing.items
        )
        return RangeResult(origin.to_namespace(listing.revision), items)

    async def _session(self, ttl_ms: int) -> "EtcdSession":
        await self.namespace.origin()
        try:
            granted = await self.client.grant(max(SESSION_TTL_S_MIN, -(-ttl_ms // 1000)))
        except (NotSent, NoAnswer, Refused) as error:
            # No broker knows of this lease: it binds nothing and expires.
            raise StoreUnavailable(str(error)) from None
        return EtcdSession(self, granted.ID, granted.TTL * 1000)

    def _compare(self, origin: Origin, compare: Compare) -> pb.Compare:
        return pb.Compare(
            target=pb.Compare.MOD,
            key=self.namespace.keys.to_etcd(compare.key),
            mod_revision=origin.mod_revision(compare.mod_revision),
        )

    def _operation(self, change: Change) -> pb.RequestOp:
        key = self.namespace.keys.to_etcd(change.key)
        if isinstance(change, Delete):
            return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
        return put(key, change.value, change.session_id)

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
            task.exception()  # seen, also when no caller waits any more


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
