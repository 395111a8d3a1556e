"""A Connection over a client's gRPC stream of raw frames; the stream ends when its handler has returned.

One task reads ahead of the receiver, by a bounded amount: giving up a `receive` then loses no frame and
breaks no stream (a cancelled read of grpc's does both), and a frame is there while the one before it is still
being handled.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from data_plane.broker.handling import READ_AHEAD_BYTES, READ_AHEAD_FRAMES
from data_plane.node.ports import ConnectionLost

GRPC_ERRORS = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError)


class GrpcConnection:
    """States: open -> lost (the peer is gone, or has ended its direction: what has arrived can still be received) or
    closed (by us)."""

    def __init__(
        self,
        peer: str,
        *,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._peer = peer
        self._read = read
        self._write = write
        self._frames: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._lost = ""
        self._closed = self._gone = False
        self._wake_when_gone: Callable[[], None] | None = None
        self._receiver: asyncio.Future[None] | None = None
        self._space = asyncio.Event()
        self._pump = asyncio.create_task(self._read_ahead())

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, frame: bytes) -> None:
        """A cancelled send closes the connection: it is not known how much of the frame has gone."""
        self._check_open()
        try:
            await self._write(frame)
        except GRPC_ERRORS as error:
            self.lose(str(error) or "the stream has ended")
            raise ConnectionLost(f"{self._peer}: {self._lost}") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.close()
                raise
            # grpc's way to say that the call was cancelled, not this task.
            self.lose("the stream was cancelled")
            raise ConnectionLost(f"{self._peer}: {self._lost}") from None

    async def receive(self) -> bytes:
        while not self._frames or self._closed:
            self._check_open()
            self._receiver = asyncio.get_running_loop().create_future()
            await self._receiver
        frame = self._frames.popleft()
        self._buffered_bytes -= len(frame)
        self._space.set()
        return frame

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.lose("closed by this side")
        self._pump.cancel()

    def stop_reading(self) -> None:
        """The stream is over for all its users: end the task that reads ahead."""
        self._pump.cancel()
        self.lose("the stream is over")

    @property
    def is_gone(self) -> bool:
        return self._gone

    def when_gone(self, wake: Callable[[], None] | None) -> None:
        self._wake_when_gone = wake

    def lose(self, reason: str) -> None:
        """The stream has ended: every receive and send fails. The first reason counts."""
        self._end(reason)
        self._gone = True
        if self._wake_when_gone is not None:
            self._wake_when_gone()

    def _end(self, reason: str) -> None:
        self._lost = self._lost or reason
        self._wake()

    def _check_open(self) -> None:
        if self._lost:
            raise ConnectionLost(f"{self._peer}: {self._lost}")

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    async def _read_ahead(self) -> None:
        reason, end = "the peer closed the stream", self._end
        try:
            while (frame := await self._read()) is not grpc.aio.EOF:
                self._frames.append(frame)
                self._buffered_bytes += len(frame)
                self._wake()
                while self._buffered_bytes >= READ_AHEAD_BYTES or len(self._frames) >= READ_AHEAD_FRAMES:
                    self._space.clear()
                    await self._space.wait()
        except grpc.aio.AioRpcError as error:
            reason, end = f"{error.code().name}: {error.details()}", self.lose
        except GRPC_ERRORS as error:
            reason, end = str(error) or "the stream has ended", self.lose
        except asyncio.CancelledError:
            reason, end = "the stream was cancelled", self.lose
            raise
        finally:
            end(reason)
