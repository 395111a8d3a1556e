"""One namespace in etcd: its keys, and the origin from which its revisions count. The origin is found once and compared
from then on.
"""

import asyncio
import secrets

from data_plane.broker.etcd_keys import NamespaceKeys, Origin
from data_plane.etcd import kv_pb2 as kv
from data_plane.etcd import rpc_pb2 as pb
from data_plane.etcd.client import EtcdClient
from data_plane.etcd.outcomes import NoAnswer, NotSent, Refused
from data_plane.metadata.port import StoreUnavailable, StoreWentBack


class EtcdNamespace:
    """What the operations and the watches of one store share."""

    def __init__(self, client: EtcdClient, namespace: str, *, base: int) -> None:
        """`base`: what the revisions of a namespace that is not there yet begin at."""
        self.client = client
        self.keys = NamespaceKeys(namespace)
        self._base = base
        self._origin: Origin | None = None
        self._finding_origin = asyncio.Lock()

    async def origin(self) -> Origin:
        """Where the namespace's revisions begin; makes the namespace if there is none. Raises `StoreUnavailable`."""
        if self._origin is None:
            async with self._finding_origin:
                if self._origin is None:
                    self._origin = await self._find_origin()
        return self._origin

    async def check_origin(self, at_least: int) -> None:
        """Raises `StoreWentBack` unless the namespace is the one known and its revision is `at_least`, else
        `StoreUnavailable`."""
        origin = await self.origin()
        try:
            item, revision = await self.client.get(self.keys.origin)
        except (NotSent, Refused) as error:
            raise StoreUnavailable(str(error)) from None
        self.check_same(item)
        if origin.to_namespace(revision) < at_least:
            raise StoreWentBack(
                f"etcd namespace {self.keys.namespace!r}: at revision {origin.to_namespace(revision)}, "
                f"after {at_least} was seen"
            )

    def check_same(self, item: kv.KeyValue | None) -> None:
        """Raises `StoreWentBack` unless `item`, the origin as etcd has it now, is the one that was found (RL55)."""
        if item is None or Origin.decode(item) != self._origin:
            found = "is gone" if item is None else "is another"
            raise StoreWentBack(
                f"etcd namespace {self.keys.namespace!r}: its origin {found}; etcd was replaced or restored"
            )

    async def _find_origin(self) -> Origin:
        made = pb.TxnRequest(
            compare=[pb.Compare(target=pb.Compare.CREATE, key=self.keys.origin, create_revision=0)],
            success=[put(self.keys.origin, Origin.encode(self._base, secrets.token_hex(8)), 0)],
        )
        try:
            item, _ = await self.client.get(self.keys.origin)
            if item is None:
                await self.client.txn(made)
                item, _ = await self.client.get(self.keys.origin)
        except (NotSent, NoAnswer, Refused) as error:
            raise StoreUnavailable(str(error)) from None
        if item is None:
            raise StoreUnavailable(
                f"etcd namespace {self.keys.namespace!r}: was taken away while it was made"
            )
        return Origin.decode(item)


def put(key: bytes, value: bytes, lease: int) -> pb.RequestOp:
    """One write of a transaction; `lease` 0 = of no session."""
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))
