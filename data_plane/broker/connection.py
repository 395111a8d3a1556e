"""Connections over gRPC streams of raw frames: the same port on the serving and on the calling side."""

from typing import Any

import grpc

from data_plane.node.ports import ConnectionLost


class ServedConnection:
    """The broker's end of a stream that a peer opened."""

    def __init__(self, context: "grpc.aio.ServicerContext[bytes, bytes]", peer: str) -> None:
        self._context, self._peer = context, peer

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, frame: bytes) -> None:
        try:
            await self._context.write(frame)
        except (grpc.RpcError, grpc.aio.BaseError) as error:
            raise ConnectionLost(f"{self._peer}: {error}") from None

    async def receive(self) -> bytes:
        try:
            frame: Any = await self._context.read()
        except (grpc.RpcError, grpc.aio.BaseError) as error:
            raise ConnectionLost(f"{self._peer}: {error}") from None
        if frame is grpc.aio.EOF:
            raise ConnectionLost(f"{self._peer}: the peer closed the stream")
        return bytes(frame) if not isinstance(frame, bytes) else frame

    def close(self) -> None:
        """The stream ends when its handler returns."""


class CalledConnection:
    """The end of a stream that this broker opened."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[bytes, bytes]", peer: str) -> None:
        self._call, self._peer = call, peer

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, frame: bytes) -> None:
        try:
            await self._call.write(frame)
        except (grpc.RpcError, grpc.aio.BaseError, grpc.aio.UsageError) as error:
            raise ConnectionLost(f"{self._peer}: {error}") from None

    async def receive(self) -> bytes:
        try:
            frame: Any = await self._call.read()
        except (grpc.RpcError, grpc.aio.BaseError, grpc.aio.UsageError) as error:
            raise ConnectionLost(f"{self._peer}: {error}") from None
        if frame is grpc.aio.EOF:
            raise ConnectionLost(f"{self._peer}: the peer closed the stream")
        return bytes(frame) if not isinstance(frame, bytes) else frame

    def close(self) -> None:
        self._call.cancel()
