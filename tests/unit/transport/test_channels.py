"""Streams and watches over real gRPC give the room they took on a channel back, however they end."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import grpc
import pytest

from penstock.asyncio.channels import GrpcTransport
from penstock.blocking.channels import Channels
from penstock.client.settings import ConnectionSettings
from penstock.transport.port import CallFailed, ConnectionLost
from tests.unit.broker.listeners import World, run, serving
from tests.waiting import PATIENCE_S, until

NOBODY = "127.0.0.1:1"


def streams_taken(channels: Any) -> int:
    return sum(carrier.streams for known in channels._carriers.values() for carrier in known)


@asynccontextmanager
async def asyncio_client(world: World) -> AsyncIterator[GrpcTransport]:
    transport = GrpcTransport(ConnectionSettings(bootstrap=(world.client,)), Random(1))
    yield transport
    await until("every stream is over", lambda: streams_taken(transport._channels) == 0)
    await transport.close()


async def _closed(world: World, transport: GrpcTransport) -> None:
    connection = await transport.connect(world.client, "/s/echo", 1_000)
    await connection.send(b"one")
    assert await connection.receive() == b"one"
    assert streams_taken(transport._channels) == 1
    connection.close()


async def _closed_before_it_began(world: World, transport: GrpcTransport) -> None:
    (await transport.connect(world.client, "/s/echo", 1_000)).close()


async def _ended(world: World, transport: GrpcTransport) -> None:
    connection = await transport.connect(world.client, "/s/echo", 1_000)
    await connection.end()
    with pytest.raises(ConnectionLost):
        await connection.receive()


async def _refused(world: World, transport: GrpcTransport) -> None:
    connection = await transport.connect(world.client, "/s/echo", 1_000)
    await connection.send(b"no frame")
    with pytest.raises((ConnectionLost, CallFailed)):
        await connection.receive()


async def _nobody_there(world: World, transport: GrpcTransport) -> None:
    connection = await transport.connect(NOBODY, "/s/echo", 1_000)
    with pytest.raises(ConnectionLost):
        await connection.receive()


async def _watch_left(world: World, transport: GrpcTransport) -> None:
    watch = transport.watch(world.client, "/w/count", b"3")
    assert [await anext(watch) for _ in range(3)] == [b"0", b"1", b"2"]
    assert streams_taken(transport._channels) == 1
    await watch.aclose()  # type: ignore[attr-defined]


async def _watch_cancelled(world: World, transport: GrpcTransport) -> None:
    async def watching() -> None:
        async for _ in transport.watch(world.client, "/w/count", b"1"):
            pass

    task = asyncio.create_task(watching())
    await world.began.wait()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    "story",
    [_closed, _closed_before_it_began, _ended, _refused, _nobody_there, _watch_left, _watch_cancelled],
)
def test_an_asyncio_client_gets_its_room_back(
    story: Callable[[World, GrpcTransport], Awaitable[None]],
) -> None:
    async def scenario(world: World) -> None:
        async with asyncio_client(world) as transport:
            await story(world, transport)

    run(scenario)


class Blocking:
    """Stories of a blocking client, each in a thread beside the listeners."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channels = Channels(ConnectionSettings(bootstrap=(address,)))
        self._over = threading.Event()

    def _frames(self, *frames: bytes) -> Iterator[bytes]:
        yield from frames
        self._over.wait(PATIENCE_S)

    def cancelled(self) -> None:
        call = self.channels.stream(self.address, "/s/echo", self._frames(b"one"), "r")
        assert next(call) == b"one"
        assert streams_taken(self.channels._channels) == 1
        call.cancel()

    def cancelled_at_once(self) -> None:
        self.channels.stream(self.address, "/s/echo", self._frames(), "r").cancel()

    def ended(self) -> None:
        assert list(self.channels.stream(self.address, "/s/echo", iter([b"one"]), "r")) == [b"one"]

    def refused(self) -> None:
        with pytest.raises(grpc.RpcError):
            list(self.channels.stream(self.address, "/s/echo", self._frames(b"no frame"), "r"))

    def nobody_there(self) -> None:
        with pytest.raises(grpc.RpcError):
            list(self.channels.stream(NOBODY, "/s/echo", self._frames(), "r"))

    def watch_cancelled(self) -> None:
        call = self.channels.watch(self.address, "/w/count", b"1", "r")
        assert next(call) == b"0"
        assert streams_taken(self.channels._channels) == 1
        call.cancel()

    def closed(self) -> None:
        self.channels.stream(self.address, "/s/echo", self._frames(), "r")
        pool = self.channels._channels
        taken = [carrier for known in pool._carriers.values() for carrier in known]
        self.channels.close()
        with pytest.raises(ValueError, match="closed"):
            self.channels.stream(self.address, "/s/echo", self._frames(), "r")
        for _ in range(3_000):
            if not taken[0].streams:
                return
            self._over.wait(0.01)
        raise AssertionError("not within 30 s")

    def end(self) -> None:
        self._over.set()
        self.channels.close()


@pytest.mark.parametrize(
    "story",
    ["cancelled", "cancelled_at_once", "ended", "refused", "nobody_there", "watch_cancelled", "closed"],
)
def test_a_blocking_client_gets_its_room_back(story: str) -> None:
    async def whole() -> None:
        async with serving() as world:
            client = Blocking(world.client)
            try:
                await asyncio.to_thread(getattr(client, story))
                await until("every stream is over", lambda: streams_taken(client.channels._channels) == 0)
            finally:
                await asyncio.to_thread(client.end)

    asyncio.run(whole())
