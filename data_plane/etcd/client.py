"""Calls to etcd, each within a deadline; a read is asked again elsewhere, a change never is.

What came of a change is one of: answered, `Refused` or `NotSent` (not applied), `NoAnswer` (unknown). Reads are
linearizable unless they name a revision.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from data_plane.etcd import kv_pb2 as kv
from data_plane.etcd import rpc_pb2 as pb
from data_plane.etcd.endpoints import Endpoints, EtcdConfig
from data_plane.etcd.outcomes import LeaseGone, NoAnswer, NotSent, Refused, RevisionCompacted

PAGE_KEYS = 500
"""Of one answer to a listing: some MB with the largest values that are meant to be stored."""
_RELISTINGS = 3

_OPEN = (
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
)
"""Codes that leave open whether the request was applied; etcd itself says UNAVAILABLE when it loses its leader while
a proposal is on its way."""
_CALL_FAILED = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError, asyncio.CancelledError)
"""What a call of grpc's raises; `_failure` says what it means."""
_LEASE_MISSING = "requested lease not found"
_COMPACTED = "required revision has been compacted"

_log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Keys of a range as they were at `revision`, in the order of their bytes."""

    revision: int
    items: tuple[kv.KeyValue, ...]
    beside: kv.KeyValue | None = None
    """Another key as it was at the same revision, if one was asked for."""


class EtcdClient:
    """One process's client. Belongs to the loop on which it is made."""

    def __init__(self, config: EtcdConfig) -> None:
        self.endpoints = Endpoints(config)
        self.config = config

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """Sent once. Raises `NotSent`, `Refused`, `LeaseGone` (nothing applied), `NoAnswer` (unknown)."""
        return await self._once("KV/Txn", request, pb.TxnResponse)

    async def list(self, key: bytes, range_end: bytes, beside: bytes = b"") -> Listing:
        """All keys of the range at the newest revision, read in pages of that one revision, with one key `beside`.

        Raises `NotSent` or `Refused`.
        """
        first = [pb.RequestOp(request_range=pb.RangeRequest(key=key, range_end=range_end, limit=PAGE_KEYS))]
        if beside:
            first.append(pb.RequestOp(request_range=pb.RangeRequest(key=beside)))
        for _ in range(_RELISTINGS):
            items: list[kv.KeyValue] = []
            answer = await self._read("KV/Txn", pb.TxnRequest(success=first), pb.TxnResponse)
            page = answer.responses[0].response_range
            revision = answer.header.revision
            aside = answer.responses[1].response_range.kvs if beside else []
            try:
                while True:
                    items.extend(page.kvs)
                    if not page.more:
                        return Listing(
                            revision=revision, items=tuple(items), beside=aside[0] if aside else None
                        )
                    page = await self._page(page.kvs[-1].key + b"\0", range_end, revision)
            except RevisionCompacted:
                _log.warning("etcd compacted a revision while it was listed", extra={"revision": revision})
        raise NotSent("etcd compacts faster than it can be listed")

    async def get(self, key: bytes) -> tuple[kv.KeyValue | None, int]:
        """One key, and the store's newest revision. Raises `NotSent` or `Refused`."""
        found = await self._read("KV/Range", pb.RangeRequest(key=key), pb.RangeResponse)
        return (found.kvs[0] if found.kvs else None), found.header.revision

    async def compact(self, revision: int) -> None:
        """Forget what was overwritten up to and with that revision. Raises as `txn`, `RevisionCompacted`."""
        await self._once(
            "KV/Compact", pb.CompactionRequest(revision=revision, physical=True), pb.CompactionResponse
        )

    async def grant(self, ttl_s: int) -> pb.LeaseGrantResponse:
        """A new lease; etcd may grant more time than asked for. Raises as `txn`."""
        return await self._once("Lease/LeaseGrant", pb.LeaseGrantRequest(TTL=ttl_s), pb.LeaseGrantResponse)

    async def revoke(self, lease: int) -> None:
        """End a lease; its keys go in one revision. Raises as `txn`."""
        await self._once("Lease/LeaseRevoke", pb.LeaseRevokeRequest(ID=lease), pb.LeaseRevokeResponse)

    async def keep_alive(self, lease: int) -> None:
        """Extend a lease by its whole time. Raises `LeaseGone`; `NotSent`, `NoAnswer`, `Refused`: ask again."""
        index, channel = await self.endpoints.ready()
        stub = channel.stream_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            request_serializer=pb.LeaseKeepAliveRequest.SerializeToString,
            response_deserializer=pb.LeaseKeepAliveResponse.FromString,
        )
        call = stub(timeout=self.config.call_s, metadata=(("hasleader", "true"),))
        try:
            await call.write(pb.LeaseKeepAliveRequest(ID=lease))
            read: Any = await call.read()
            if read is grpc.aio.EOF:
                raise NoAnswer(f"etcd {self.endpoints.name(index)}: the keep-alive stream ended")
        except _CALL_FAILED as error:
            raise self._failure(index, error) from None
        except NoAnswer:
            self.endpoints.leave(index)
            raise
        finally:
            call.cancel()
        if read.TTL <= 0:
            raise LeaseGone("NOT_FOUND", f"lease {lease} has expired")

    async def status(self) -> pb.StatusResponse:
        """What the member in use says of itself. Raises `NotSent`."""
        return await self._read("Maintenance/Status", pb.StatusRequest(), pb.StatusResponse)

    async def close(self) -> None:
        await self.endpoints.close()

    # -- calls -----------------------------------------------------------------------------------------------

    async def _page(self, key: bytes, range_end: bytes, revision: int) -> pb.RangeResponse:
        request = pb.RangeRequest(key=key, range_end=range_end, limit=PAGE_KEYS, revision=revision)
        return await self._read("KV/Range", request, pb.RangeResponse)

    async def _read(self, method: str, request: Message, answer: type[M]) -> M:
        """Ask each endpoint at most once, and twice when there is only one."""
        reason: Exception = NotSent("etcd has no endpoints")
        for _ in range(max(2, len(self.endpoints))):
            try:
                return await self._once(method, request, answer)
            except NoAnswer as error:
                reason = error
        raise NotSent(f"{reason}; a read changes nothing")

    async def _once(self, method: str, request: Message, answer: type[M]) -> M:
        index, channel = await self.endpoints.ready()
        call: Callable[..., Any] = channel.unary_unary(
            f"/etcdserverpb.{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        try:
            found: M = await call(request, timeout=self.config.call_s)
        except _CALL_FAILED as error:
            raise self._failure(index, error) from None
        return found

    def _failure(self, index: int, error: BaseException) -> BaseException:
        """What to raise for it; an endpoint that left its answer open is left."""
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                return error
            # grpc's way to say that the call was cancelled, not this task.
        name = self.endpoints.name(index)
        if not isinstance(error, grpc.aio.AioRpcError):
            self.endpoints.leave(index)
            return NoAnswer(f"etcd {name}: {error!r}")
        code, detail = error.code(), error.details() or ""
        if code in _OPEN:
            self.endpoints.leave(index)
            return NoAnswer(f"etcd {name}: {code.name}: {detail}")
        if _LEASE_MISSING in detail:
            return LeaseGone(code.name, detail)
        if _COMPACTED in detail:
            return RevisionCompacted(0)
        return Refused(code.name, f"{detail} ({name})")


def range_end(prefix: bytes) -> bytes:
    """The end of the range that holds every key with this prefix."""
    for position in range(len(prefix) - 1, -1, -1):
        if prefix[position] < 0xFF:
            return prefix[:position] + bytes([prefix[position] + 1])
    return b"\0"  # etcd's sign for the end of all keys
