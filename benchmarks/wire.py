"""The produce stream without the SDK: frames of pre-encoded batches, so that a figure is the broker's alone."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Self

import grpc

from penstock.contract import limits, methods
from penstock.contract.errors import NotLeader, PenstockError, error_class
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import TopicId
from penstock.contract.v1 import log_pb2 as pb

OPTIONS = [
    ("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX + (1 << 20)),
    ("grpc.max_send_message_length", limits.FRAME_BYTES_MAX + (1 << 20)),
    ("grpc.http2.max_frame_size", 1 << 20),
    (
        "grpc.use_local_subchannel_pool",
        1,
    ),  # a connection for each, as producers in processes of their own have
]
_RETRIABLE_S = 10.0

Placed = tuple[TopicId, int, bytes]
"""(topic id, partition, batch)."""


class ProduceWire:
    """One produce stream to one broker. A refused batch raises: a benchmark that loses batches measures nothing."""

    def __init__(self, address: str, api_key: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        self._call: Any = None
        self._metadata = ((methods.AUTHORIZATION, f"Bearer {api_key}"),)
        self._next_id = 1
        self._credit = 0
        self._credited = asyncio.Condition()
        self._waiting: dict[int, asyncio.Future[float]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._call = self._channel.stream_stream(methods.PRODUCE)(metadata=self._metadata)
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._call.cancel()
        await self._channel.close()

    async def send(self, batches: Sequence[Placed], acks: int = -1) -> list["asyncio.Future[float]"]:
        """One frame; a future for each batch that gives the time of its result (perf_counter)."""
        size = sum(len(batch) for _, _, batch in batches)
        async with self._credited:
            await self._credited.wait_for(lambda: self._credit >= size)
            self._credit -= size
        head = pb.ProduceHead(acks=acks)
        futures = []
        loop = asyncio.get_running_loop()
        for topic_id, partition, batch in batches:
            future: asyncio.Future[float] = loop.create_future()
            self._waiting[self._next_id] = future
            futures.append(future)
            head.batches.add(
                id=self._next_id, topic_id=topic_id, partition=partition, size=len(batch), leader_epoch=-1
            )
            self._next_id += 1
        frame = pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [batch for _, _, batch in batches])
        await self._call.write(frame)
        return futures

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._call.read()
                if frame is grpc.aio.EOF:
                    raise ConnectionError("the broker ended the stream")
                _, head, _ = unpack_frame(frame)
                now = time.perf_counter()
                answer = pb.ProduceAnswerHead.FromString(bytes(head))
                for result in answer.results:
                    future = self._waiting.pop(result.id)
                    if result.error:
                        future.set_exception(error_class(result.error)(result.message))
                    else:
                        future.set_result(now)
                async with self._credited:
                    self._credit += answer.credit_bytes
                    self._credited.notify_all()
        except Exception as error:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)
            raise


async def until_writable(address: str, api_key: str, wanted: Sequence[Placed]) -> None:
    """Send each batch once, again until it is taken: leaders of new topics need a moment."""
    deadline = time.perf_counter() + _RETRIABLE_S
    waiting = list(wanted)
    async with ProduceWire(address, api_key) as wire:
        while waiting:
            futures = await wire.send(waiting)
            done = await asyncio.gather(*futures, return_exceptions=True)
            refused = [
                (placed, error)
                for placed, error in zip(waiting, done, strict=True)
                if not isinstance(error, float)
            ]
            if refused and time.perf_counter() > deadline:
                raise NotLeader(f"still not writable: {refused[0][1]}")
            waiting = [placed for placed, _ in refused]
            if waiting:
                await asyncio.sleep(0.05)


async def replay(
    wires: Sequence[ProduceWire], frames: Sequence[Iterable[Sequence[Placed]]], window: int
) -> float:
    """Send `frames[i]` on `wires[i]`, at most `window` frames unanswered on each; seconds until all are answered."""

    async def one(wire: ProduceWire, mine: Iterable[Sequence[Placed]]) -> None:
        open_frames: deque[list[asyncio.Future[float]]] = deque()
        try:
            for frame in mine:
                if len(open_frames) >= window:
                    await asyncio.gather(*open_frames.popleft())
                open_frames.append(await wire.send(frame))
            while open_frames:
                await asyncio.gather(*open_frames.popleft())
        except PenstockError:
            for futures in open_frames:  # one refusal is enough to report
                await asyncio.gather(*futures, return_exceptions=True)
            raise

    began = time.perf_counter()
    await asyncio.gather(*(one(wire, mine) for wire, mine in zip(wires, frames, strict=True)))
    return time.perf_counter() - began
