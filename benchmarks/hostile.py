"""Endless loads that one tenant, or a client without a key, can put on brokers: `python -m benchmarks.hostile KIND`.

The clients stand in a process of their own that gets what the machine has left, so that what others lose is lost at the
brokers. Brokers, key and topics come as arguments; it ends when it is killed.
"""

import argparse
import asyncio
import itertools
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from penstock.contract import limits, methods
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.v1 import groups_pb2, log_pb2

NAMED_MAX = limits.FRAME_ENTRIES_MAX
_LARGE_FRAMES = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
_STREAMS, _BATCHES = 50, 200
_SILENT_CONNECTIONS, _SILENT_CALLS, _IDLE = 20, 900, 1_100
_WATCHES = 40

Channel = Any
Load = Callable[[str, str, list[str]], Awaitable[None]]
"""(address of a broker, API key, topics of the key's tenant)."""


def _key(api_key: str) -> tuple[tuple[str, str], ...]:
    return ((methods.AUTHORIZATION, f"Bearer {api_key}"),)


def channel(address: str) -> Channel:
    return grpc.aio.insecure_channel(address, options=_LARGE_FRAMES)


async def metadata(address: str, api_key: str, topics: list[str]) -> None:
    """Names its own topic as often as a call may."""
    request = log_pb2.MetadataRequest(topics=topics[:1] * NAMED_MAX).SerializeToString()
    await _asked_for_ever(address, api_key, methods.METADATA, request)


async def everything(address: str, api_key: str, topics: list[str]) -> None:
    """Asks for all of its topics, again and again."""
    request = log_pb2.MetadataRequest(all_topics=True).SerializeToString()
    await _asked_for_ever(address, api_key, methods.METADATA, request)


async def _asked_for_ever(address: str, api_key: str, method: str, request: bytes) -> None:
    async with channel(address) as opened:
        ask = opened.unary_unary(method)
        while True:
            try:
                await ask(request, metadata=_key(api_key), timeout=30)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)


async def joins(address: str, api_key: str, topics: list[str]) -> None:
    """Members that join groups of all its topics and leave them."""
    async with channel(address) as opened:
        beat = opened.unary_unary(methods.GROUP_HEARTBEAT)
        for number in itertools.count():
            for epoch in (0, -1):
                request = groups_pb2.GroupHeartbeatRequest(
                    group=f"g{number % 10}",
                    member_id=f"m{number}",
                    member_epoch=epoch,
                    topics=topics if epoch == 0 else [],
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                )
                try:
                    await beat(request.SerializeToString(), metadata=_key(api_key), timeout=30)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.05)


async def refused(address: str, api_key: str, topics: list[str]) -> None:
    """Streams of batches that are none, of topics that are not."""
    head = log_pb2.ProduceHead(acks=-1)
    for number in range(_BATCHES):
        head.batches.add(id=number + 1, topic_id=os.urandom(16), partition=0, size=1, leader_epoch=-1)
    frame = pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [bytes(_BATCHES)])

    async def stream() -> None:
        async with channel(address) as opened:
            call = opened.stream_stream(methods.PRODUCE)(metadata=_key(api_key))
            while True:
                await call.write(bytes(frame))
                await call.read()

    await asyncio.gather(*(_again(stream) for _ in range(_STREAMS)))


async def watches(address: str, api_key: str, topics: list[str]) -> None:
    """Watches of as many names as a call may have, while others' topics change."""
    names = [*topics, *(f"none-{number}" for number in range(NAMED_MAX - len(topics)))]
    request = log_pb2.WatchMetadataRequest(topics=names).SerializeToString()

    async def watch() -> None:
        async with channel(address) as opened:
            call = opened.unary_stream(methods.WATCH_METADATA)(request, metadata=_key(api_key))
            while await call.read():
                pass

    await asyncio.gather(*(_again(watch) for _ in range(_WATCHES)))


async def silent(address: str, api_key: str, topics: list[str]) -> None:
    """Calls without a key that never send their request."""

    async def connection() -> None:
        async with channel(address) as opened:
            calls = [opened.stream_stream(methods.METADATA)() for _ in range(_SILENT_CALLS)]
            await asyncio.gather(*(call.code() for call in calls))

    await asyncio.gather(*(_again(connection) for _ in range(_SILENT_CONNECTIONS)))


async def idle(address: str, api_key: str, topics: list[str]) -> None:
    """Connections that say nothing."""
    host, _, port = address.rpartition(":")
    sockets = [socket.create_connection((host, int(port))) for _ in range(_IDLE)]
    await asyncio.Event().wait()
    del sockets


async def spinning(address: str, api_key: str, topics: list[str]) -> None:
    """No call at all, only a busy process."""
    while True:
        time.sleep(0)  # noqa: ASYNC251


async def _again(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await work()
        except grpc.aio.AioRpcError:
            pass
        await asyncio.sleep(0.05)


LOADS: dict[str, Load] = {
    load.__name__: load for load in (spinning, metadata, everything, joins, refused, watches, silent, idle)
}


async def _run(kind: str, bootstrap: str, api_key: str, topics: list[str]) -> None:
    await asyncio.gather(*(LOADS[kind](address, api_key, topics) for address in bootstrap.split(",")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=LOADS)
    for name in ("bootstrap", "api-key", "topics"):
        parser.add_argument(f"--{name}", required=True)
    chosen = parser.parse_args()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asyncio.run(_run(chosen.kind, chosen.bootstrap, chosen.api_key, chosen.topics.split(",")))


if __name__ == "__main__":
    main()
