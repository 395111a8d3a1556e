"""One watch of etcd over one stream: whole revisions in order, signs of life required, every end reported.

    opening --created--> following --silence, end of stream--> `NoAnswer`
    opening, following --canceled--> `RevisionCompacted` or `WatchCanceled`

A stream that says nothing proves nothing: after `progress_s` of silence a sign of life is asked for, and without one
the watch is given up. Only a notice that names this watch is a bookmark: an answer to the asking is sent to all
watches of a stream, and etcd before 3.4.25 and 3.5.8 may send it ahead of events it should follow.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import grpc

from data_plane.etcd import kv_pb2 as kv
from data_plane.etcd import rpc_pb2 as pb
from data_plane.etcd.endpoints import Endpoints
from data_plane.etcd.outcomes import NoAnswer, RevisionCompacted, WatchCanceled


@dataclass(frozen=True, slots=True)
class Opened:
    """The watch stands. `revision` is the newest that the answering member holds; it may lag behind others."""

    revision: int


@dataclass(frozen=True, slots=True)
class Revision:
    """All events of one revision within the range."""

    revision: int
    events: tuple[kv.Event, ...]


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Every event up to and with `revision` has been delivered."""

    revision: int


News = Opened | Revision | Bookmark


async def follow(
    endpoints: Endpoints, key: bytes, range_end: bytes, start_revision: int
) -> AsyncGenerator[News, None]:
    """Watch the range from `start_revision` (inclusive) without an end, over the endpoint in use.

    Raises `NotSent`, `NoAnswer` (open it again from where it was), `RevisionCompacted`, `WatchCanceled`.
    """
    index, channel = await endpoints.ready()
    stub = channel.stream_stream(
        "/etcdserverpb.Watch/Watch",
        request_serializer=pb.WatchRequest.SerializeToString,
        response_deserializer=pb.WatchResponse.FromString,
    )
    # A member that has no leader ends the stream instead of falling silent.
    call = stub(metadata=(("hasleader", "true"),))
    create = pb.WatchCreateRequest(
        key=key, range_end=range_end, start_revision=start_revision, progress_notify=True, fragment=True
    )
    stream = _Stream(call, f"etcd {endpoints.name(index)}", endpoints.config.progress_s)
    fragments: list[kv.Event] = []
    try:
        await stream.send(pb.WatchRequest(create_request=create))
        watch_id: int | None = None
        while True:
            response = await stream.receive()
            if response.canceled:
                if response.compact_revision:
                    raise RevisionCompacted(response.compact_revision)
                raise WatchCanceled(response.cancel_reason or "no reason given")
            if response.created:
                watch_id = response.watch_id
                yield Opened(response.header.revision)
            fragments.extend(response.events)
            if response.fragment:
                continue
            for revision in _revisions(fragments):
                yield revision
            if not fragments and not response.created and response.watch_id == watch_id:
                yield Bookmark(response.header.revision)
            fragments = []
    except NoAnswer:
        endpoints.leave(index)
        raise
    finally:
        stream.close()


def _revisions(events: Iterable[kv.Event]) -> Iterator[Revision]:
    for revision, group in groupby(events, key=lambda event: int(event.kv.mod_revision)):
        yield Revision(revision, tuple(group))


class _Stream:
    """A call that can be waited for with a limit: giving up a read of grpc's would end the call."""

    def __init__(self, call: Any, name: str, progress_s: float) -> None:
        self._call = call
        self._name = name
        self._progress_s = progress_s
        self._reading: asyncio.Future[Any] | None = None

    async def send(self, request: pb.WatchRequest) -> None:
        try:
            async with asyncio.timeout(self._progress_s):
                await self._call.write(request)
        except TimeoutError:
            raise NoAnswer(f"{self._name}: takes no request") from None
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise NoAnswer(f"{self._name}: {_words(error)}") from None

    async def receive(self) -> pb.WatchResponse:
        """The next message; asks for a sign of life when there is none. Raises `NoAnswer`."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._call.read())
        for asked in (False, True):
            await asyncio.wait({self._reading}, timeout=self._progress_s)
            if self._reading.done():
                break
            if not asked:
                await self.send(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
        else:
            raise NoAnswer(f"{self._name}: no sign of life of a watch in {2 * self._progress_s:g} s")
        reading, self._reading = self._reading, None
        if reading.cancelled():
            raise NoAnswer(f"{self._name}: the stream was cancelled")
        error = reading.exception()
        if error is not None:
            raise NoAnswer(f"{self._name}: {_words(error)}") from None
        if reading.result() is grpc.aio.EOF:
            raise NoAnswer(f"{self._name}: the stream has ended")
        response: pb.WatchResponse = reading.result()
        return response

    def close(self) -> None:
        if self._reading is not None and not self._reading.cancel() and not self._reading.cancelled():
            self._reading.exception()  # not reported: the watch is over
        self._call.cancel()


def _words(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return repr(error)
