"""The floor: the least that a replicated gRPC log in Python must do, and how fast that is on this machine.

Three processes (one leader, two followers) and a client, on loopback, over long-lived bidirectional grpc.aio streams of
plain bytes. A batch is checked (CRC-32C), written, optionally fdatasynced (group commit), pushed to both followers,
acknowledged by them when durable, and then by the leader. No metadata, no authentication, no offsets, no recovery: what
the product adds shows as a ratio to this, measured in the same run.
"""

import argparse
import asyncio
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import crc32c
import grpc

from benchmarks.event_loop import run
from benchmarks.figures import percentile

SERVICE = "floor.Log"
OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
]
NUMBER = struct.Struct(">q")
LATENCY_ROUNDS = 2_000
LATENCY_BYTES = 10_000
PAUSE_S = 0.0005


class Log:
    """An append-only file whose `durable` count advances after each (group) fdatasync."""

    def __init__(self, path: str, fsync: bool, on_durable: Callable[[], None]) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        self.fsync = fsync
        self.on_durable = on_durable
        self.written = self.durable = 0
        self.wake = asyncio.Event()
        if fsync:
            self.task = asyncio.create_task(self._sync())

    def append(self, batch: bytes) -> int:
        crc32c.crc32c(batch)
        os.write(self.fd, batch)
        self.written += 1
        if self.fsync:
            self.wake.set()
        else:
            self.durable = self.written
            self.on_durable()
        return self.written

    async def _sync(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.wake.wait()
            self.wake.clear()
            upto = self.written
            await loop.run_in_executor(None, os.fdatasync, self.fd)
            self.durable = upto
            self.on_durable()


class Leader:
    """One leader and its two followers."""

    def __init__(self, path: str, fsync: bool) -> None:
        self.batches: list[bytes] = []
        self.followers: dict[object, int] = {}
        self.watermark = 0
        self.appended = asyncio.Event()
        self.committed = asyncio.Event()
        self.log = Log(path, fsync, self.advance)

    def advance(self) -> None:
        if len(self.followers) < 2:
            return
        mark = min(self.log.durable, *self.followers.values())
        if mark > self.watermark:
            self.watermark = mark
            self.committed.set()
            self.committed = asyncio.Event()

    async def produce(self, requests: AsyncIterator[bytes], context: Any) -> None:
        last = sent = self.log.written
        done = asyncio.Event()

        async def read() -> None:
            nonlocal last
            async for batch in requests:
                self.batches.append(batch)
                last = self.log.append(batch)
                self.appended.set()
                self.appended = asyncio.Event()
            done.set()

        reader = asyncio.create_task(read())
        while not (done.is_set() and sent == last):
            waiting = self.committed
            while sent < min(last, self.watermark):
                sent += 1
                await context.write(NUMBER.pack(sent))
            if self.watermark <= sent or last <= sent:
                await waiting.wait()
        await reader

    async def follow(self, requests: AsyncIterator[bytes], context: Any) -> None:
        me, position = object(), 0
        self.followers[me] = 0

        async def read() -> None:
            async for message in requests:
                self.followers[me] = NUMBER.unpack(message)[0]
                self.advance()

        reader = asyncio.create_task(read())
        while not reader.done():
            waiting = self.appended
            while position < len(self.batches):
                await context.write(self.batches[position])
                position += 1
            await waiting.wait()


async def _lead(path: str, fsync: bool, port: int) -> None:
    leader = Leader(path, fsync)
    server = grpc.aio.server(options=OPTIONS)
    handlers: dict[str, Any] = {
        "Produce": grpc.stream_stream_rpc_method_handler(leader.produce),
        "Follow": grpc.stream_stream_rpc_method_handler(leader.follow),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def _connect(port: int) -> grpc.aio.Channel:
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
    await asyncio.wait_for(channel.channel_ready(), 20)
    return channel


async def _follow(path: str, fsync: bool, port: int) -> None:
    channel = await _connect(port)
    call: Any = channel.stream_stream(f"/{SERVICE}/Follow")()
    moved = asyncio.Event()
    log = Log(path, fsync, moved.set)

    async def acknowledge() -> None:
        sent = -1
        while True:
            if log.durable > sent:
                sent = log.durable
                await call.write(NUMBER.pack(sent))
            await moved.wait()
            moved.clear()

    task = asyncio.create_task(acknowledge())
    async for batch in call:
        log.append(batch)
    task.cancel()


async def _latency(port: int) -> float:
    channel = await _connect(port)
    produce: Any = channel.stream_stream(f"/{SERVICE}/Produce")()
    batch, took = os.urandom(LATENCY_BYTES), []
    for _ in range(LATENCY_ROUNDS):
        began = time.perf_counter()
        await produce.write(batch)
        await produce.read()
        took.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    produce.cancel()
    await channel.close()
    return percentile(took, 0.99) * 1e3


async def _throughput(port: int, batches: list[bytes]) -> float:
    channel = await _connect(port)
    produce: Any = channel.stream_stream(f"/{SERVICE}/Produce")()

    async def send() -> None:
        for batch in batches:
            await produce.write(batch)

    began, sender = time.perf_counter(), asyncio.create_task(send())
    for _ in batches:
        await produce.read()
    took = time.perf_counter() - began
    await sender
    produce.cancel()
    await channel.close()
    return sum(map(len, batches)) / took / 1e6


class Floor:
    """A running floor in a folder of its own: a leader and two followers as processes, until the block ends."""

    def __init__(self, folder: Path, fsync: bool = True) -> None:
        self._folder = folder
        self._flags = ["--fsync"] * fsync
        self._parts: list[subprocess.Popen[bytes]] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    def __enter__(self) -> "Floor":
        self._temporary = tempfile.TemporaryDirectory(dir=self._folder)
        for role in ("leader", "follower", "follower"):
            path = f"{self._temporary.name}/{len(self._parts)}"
            command = [sys.executable, "-m", "benchmarks.floor", role, path, str(self.port), *self._flags]
            self._parts.append(subprocess.Popen(command))
        time.sleep(3)
        return self

    def __exit__(self, *_: object) -> None:
        for part in reversed(self._parts):
            part.kill()
            part.wait()
        self._temporary.cleanup()

    def latency_p99_ms(self) -> float:
        """One batch of 10 KB in flight, 2,000 rounds."""
        return run(_latency(self.port))

    def mb_per_s(self, batches: list[bytes]) -> float:
        """All batches as fast as they go; MB (10^6 bytes) acknowledged per second."""
        return run(_throughput(self.port, batches))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["leader", "follower"])
    parser.add_argument("path")
    parser.add_argument("port", type=int)
    parser.add_argument("--fsync", action="store_true")
    arguments = parser.parse_args()
    act = _lead if arguments.role == "leader" else _follow
    asyncio.run(act(arguments.path, arguments.fsync, arguments.port))


if __name__ == "__main__":
    main()
