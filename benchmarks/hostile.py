"""Endless loads that one tenant, or a client without a key, can put on brokers: `python -m benchmarks.hostile KIND`.

The clients stand in a process of their own that gets what the machine has left, so that what others lose is lost at the
service. Linux shares processors first between sessions (`sched_autogroup`) and only then between a session's threads:
so it lowers its session, which is to be its own (`setsid`), and itself within. Brokers, key and topics come as
arguments. At SIGTERM it prints what it got as JSON and ends.
"""

import argparse
import asyncio
import http.client
import itertools
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import grpc

import penstock.asyncio
from benchmarks.priority import lower_own
from penstock.contract import limits, methods
from penstock.contract.errors import PenstockError
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.v1 import groups_pb2, log_pb2
from penstock.records.build import BatchBuilder

NAMED_MAX = limits.FRAME_ENTRIES_MAX
_LARGE_FRAMES = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
_STREAMS, _BATCHES = 50, 200
_SILENT_CONNECTIONS, _SILENT_CALLS, _IDLE = 20, 900, 1_100
_WATCHES = 40
_WRITERS, _UNANSWERED, _SMALL_MESSAGE_BYTES = 17, 20, 20
_SLOW_READERS, _OLD_READERS, _STORM, _REST_CALLERS = 50, 4, 20, 8
_LARGE_MESSAGE_BYTES = 64 * 1024

ANSWERED, REFUSED = "answered", "refused"
got: Counter[str] = Counter()
"""Of this process: answers, receipts and batches of messages; and refusals."""

Channel = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one load is put on."""

    address: str
    """Of a broker's client listener."""
    api_url: str
    api_key: str
    topics: list[str]
    """Of the key's tenant: the first has 1,000 partitions and messages in its partition 0."""


Load = Callable[[Target], Awaitable[None]]


def _key(api_key: str) -> tuple[tuple[str, str], ...]:
    return ((methods.AUTHORIZATION, f"Bearer {api_key}"),)


def channel(address: str) -> Channel:
    return grpc.aio.insecure_channel(address, options=_LARGE_FRAMES)


async def metadata(at: Target) -> None:
    """Names its own topic as often as a call may."""
    request = log_pb2.MetadataRequest(topics=at.topics[:1] * NAMED_MAX).SerializeToString()
    await _asked_for_ever(at, methods.METADATA, request)


async def everything(at: Target) -> None:
    """Asks for all of its topics, again and again."""
    request = log_pb2.MetadataRequest(all_topics=True).SerializeToString()
    await _asked_for_ever(at, methods.METADATA, request)


async def _asked_for_ever(at: Target, method: str, request: bytes) -> None:
    async with channel(at.address) as opened:
        ask = opened.unary_unary(method)
        while True:
            try:
                await ask(request, metadata=_key(at.api_key), timeout=30)
                got[ANSWERED] += 1
            except grpc.aio.AioRpcError:
                got[REFUSED] += 1
                await asyncio.sleep(0.05)


async def joins(at: Target) -> None:
    """Members that join groups of all its topics and leave them."""
    async with channel(at.address) as opened:
        beat = opened.unary_unary(methods.GROUP_HEARTBEAT)
        for number in itertools.count():
            for epoch in (0, -1):
                request = groups_pb2.GroupHeartbeatRequest(
                    group=f"g{number % 10}",
                    member_id=f"m{number}",
                    member_epoch=epoch,
                    topics=at.topics if epoch == 0 else [],
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                )
                try:
                    await beat(request.SerializeToString(), metadata=_key(at.api_key), timeout=30)
                    got[ANSWERED] += 1
                except grpc.aio.AioRpcError:
                    got[REFUSED] += 1
                    await asyncio.sleep(0.05)


async def refused(at: Target) -> None:
    """Streams of batches that are none, of topics that are not."""
    head = log_pb2.ProduceHead(acks=-1)
    for number in range(_BATCHES):
        head.batches.add(id=number + 1, topic_id=os.urandom(16), partition=0, size=1, leader_epoch=-1)
    frame = pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [bytes(_BATCHES)])

    async def stream() -> None:
        async with channel(at.address) as opened:
            call = opened.stream_stream(methods.PRODUCE)(metadata=_key(at.api_key))
            while True:
                await call.write(bytes(frame))
                if await call.read():
                    got[REFUSED] += _BATCHES

    await asyncio.gather(*(_again(stream) for _ in range(_STREAMS)))


async def watches(at: Target) -> None:
    """Watches of as many names as a call may have, while others' topics change."""
    names = [*at.topics, *(f"none-{number}" for number in range(NAMED_MAX - len(at.topics)))]
    request = log_pb2.WatchMetadataRequest(topics=names).SerializeToString()

    async def watch() -> None:
        async with channel(at.address) as opened:
            call = opened.unary_stream(methods.WATCH_METADATA)(request, metadata=_key(at.api_key))
            while await call.read():
                got[ANSWERED] += 1

    await asyncio.gather(*(_again(watch) for _ in range(_WATCHES)))


async def silent(at: Target) -> None:
    """Calls without a key that never send their request."""

    async def connection() -> None:
        async with channel(at.address) as opened:
            calls = [opened.stream_stream(methods.METADATA)() for _ in range(_SILENT_CALLS)]
            await asyncio.gather(*(call.code() for call in calls))
            got[REFUSED] += _SILENT_CALLS

    await asyncio.gather(*(_again(connection) for _ in range(_SILENT_CONNECTIONS)))


async def idle(at: Target) -> None:
    """Connections that say nothing."""
    host, _, port = at.address.rpartition(":")
    sockets = [socket.create_connection((host, int(port))) for _ in range(_IDLE)]
    await asyncio.Event().wait()
    del sockets


async def over_quota(at: Target) -> None:
    """Sends to one partition as fast as it can, far above its tenant's rate."""
    async with _client(at) as client, client.producer(linger_ms=0, compression="none") as producer:
        value = os.urandom(_LARGE_MESSAGE_BYTES)
        while True:
            try:
                (await producer.send(at.topics[0], value, partition=0)).add_done_callback(_count)
            except PenstockError:
                got[REFUSED] += 1
                await asyncio.sleep(0.05)


async def writers(at: Target) -> None:
    """Streams of small messages, one a frame, well below the tenant's rate of bytes: 50 over three brokers."""
    request = log_pb2.MetadataRequest(topics=at.topics[:1]).SerializeToString()
    async with channel(at.address) as opened:
        answer = await opened.unary_unary(methods.METADATA)(request, metadata=_key(at.api_key), timeout=30)
    metadata = log_pb2.MetadataResponse.FromString(answer)
    (broker,) = (broker.id for broker in metadata.brokers if broker.address == at.address)
    (topic,) = metadata.topics
    led = [partition for partition in topic.partitions if partition.leader == broker]
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes(_SMALL_MESSAGE_BYTES))
    batch = builder.build()

    async def writer(partition: log_pb2.PartitionMetadata) -> None:
        head = log_pb2.ProduceHead(acks=-1)
        head.batches.add(
            id=1,
            topic_id=topic.topic_id,
            partition=partition.partition,
            size=len(batch),
            leader_epoch=partition.leader_epoch,
        )
        frame = bytes(pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [batch]))
        unanswered = asyncio.Semaphore(_UNANSWERED)
        async with channel(at.address) as opened:
            call = opened.stream_stream(methods.PRODUCE)(metadata=_key(at.api_key))

            async def read() -> None:
                while (said := await call.read()) is not grpc.aio.EOF:
                    answers = log_pb2.ProduceAnswerHead.FromString(bytes(unpack_frame(said)[1]))
                    for result in answers.results:
                        got[REFUSED if result.error else ANSWERED] += 1
                        unanswered.release()

            reading = asyncio.create_task(read())
            try:
                while not reading.done():
                    await unanswered.acquire()
                    await call.write(frame)
            finally:
                reading.cancel()

    await asyncio.gather(*(_again(partial(writer, partition)) for partition in led[:_WRITERS]))


async def slow(at: Target) -> None:
    """Consumers that take one message a second."""

    async def consumer() -> None:
        async with _client(at) as client, client.consumer() as reader:
            reader.assign([(at.topics[0], 0)])
            await reader.seek(at.topics[0], offset=0)
            while True:
                got[ANSWERED] += len(await reader.poll(max_messages=1, timeout=1.0))
                await asyncio.sleep(1.0)

    await asyncio.gather(*(_again(consumer) for _ in range(_SLOW_READERS)))


async def oldest(at: Target) -> None:
    """Reads what is oldest, to the end, again and again."""

    async def consumer() -> None:
        async with _client(at) as client, client.consumer() as reader:
            reader.assign([(at.topics[0], 0)])
            while True:
                await reader.seek(at.topics[0], offset=0)
                while batches := await reader.poll_batches(timeout=1.0):
                    got[ANSWERED] += len(batches)

    await asyncio.gather(*(_again(consumer) for _ in range(_OLD_READERS)))


async def storm(at: Target) -> None:
    """Connections that ask one question and leave."""
    request = log_pb2.MetadataRequest(topics=at.topics[-1:]).SerializeToString()

    async def connection() -> None:
        async with channel(at.address) as opened:
            await opened.unary_unary(methods.METADATA)(request, metadata=_key(at.api_key), timeout=30)
            got[ANSWERED] += 1

    await asyncio.gather(*(_again(connection) for _ in range(_STORM)))


async def rest(at: Target) -> None:
    """Asks the REST interface for its topics, whatever the answer is."""
    url = urlsplit(at.api_url)

    def flood() -> None:
        while True:
            connection = http.client.HTTPConnection(str(url.hostname), url.port or 80, timeout=30)
            try:
                while True:
                    connection.request(
                        "GET", "/v1/topics?limit=100", headers={"Authorization": f"Bearer {at.api_key}"}
                    )
                    answer = connection.getresponse()
                    answer.read()
                    got[ANSWERED if answer.status < 400 else REFUSED] += 1
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
            finally:
                connection.close()

    for _ in range(_REST_CALLERS):
        threading.Thread(target=flood, daemon=True).start()
    await asyncio.Event().wait()


async def spinning(at: Target) -> None:
    """No call at all, only a busy process."""
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def _again(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await work()
        except (grpc.aio.AioRpcError, PenstockError):
            got[REFUSED] += 1
        await asyncio.sleep(0.05)


def _count(delivery: penstock.asyncio.Delivery) -> None:
    got[REFUSED if delivery.exception() else ANSWERED] += 1


def _client(at: Target) -> penstock.asyncio.Client:
    return penstock.asyncio.Client(bootstrap=[at.address], api_key=at.api_key)


async def together(at: Target) -> None:
    """All of them at once, but for the one without a call."""
    await asyncio.gather(*(load(at) for load in _ALONE if load is not spinning))


_ALONE: tuple[Load, ...] = (
    *(spinning, metadata, everything, joins, refused, watches, silent, idle),
    *(over_quota, writers, slow, oldest, storm, rest),
)
LOADS: dict[str, Load] = {load.__name__: load for load in (*_ALONE, together)}


def _end() -> None:
    print(json.dumps(got), flush=True)
    os._exit(0)


async def _run(kind: str, bootstrap: str, api_url: str, api_key: str, topics: list[str]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _end)
    await asyncio.gather(
        *(
            LOADS[kind](Target(address=address, api_url=api_url, api_key=api_key, topics=topics))
            for address in bootstrap.split(",")
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=LOADS)
    for name in ("bootstrap", "api-url", "api-key", "topics"):
        parser.add_argument(f"--{name}", required=True)
    chosen = parser.parse_args()
    lower_own()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asyncio.run(_run(chosen.kind, chosen.bootstrap, chosen.api_url, chosen.api_key, chosen.topics.split(",")))


if __name__ == "__main__":
    main()
