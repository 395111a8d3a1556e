"""The transport of production, over grpc.aio channels."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import grpc

from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import PenstockError
from penstock.transport.address import require_protected
from penstock.transport.channel_pool import ChannelPool
from penstock.transport.grpc_terms import (
    CHANNEL_OPTIONS,
    REQUEST_ID_BYTES,
    call_metadata,
    code_of,
    credentials,
    describe,
)
from penstock.transport.port import CallFailed, ConnectionLost
from penstock.transport.process import channel_wanted

_ENDED = (grpc.aio.AioRpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError)
"""What grpc.aio raises on a call that is over."""


class GrpcTransport:
    """Keeps `penstock.transport.port.Transport`. Raises `ConfigurationError` for an unprotected bootstrap
    address.
    """

    def __init__(self, settings: ConnectionSettings, random: Random) -> None:
        for address in settings.bootstrap:
            require_protected(address, settings.ca_file)
        self._settings = settings
        self._random = random
        self._channels: ChannelPool[Any] = ChannelPool(self._made)

    async def connect(self, address: str, method: str, timeout_ms: int) -> "GrpcConnection":
        """Begin a stream; whether the broker is there shows with the first frame. Raises `ConnectionLost`."""
        request_id = self._request_id()
        metadata = call_metadata(self._settings.api_key, request_id)
        try:
            call = self._channels.for_stream(
                address, lambda channel: channel.stream_stream(method)(metadata=metadata)
            )
        except PenstockError as error:
            raise ConnectionLost(error.message, int(error.code)) from None
        return GrpcConnection(call, address, request_id)

    async def call(self, address: str, method: str, request: bytes, timeout_ms: int) -> bytes:
        """One unary call. Raises `CallFailed`, `ConnectionLost`."""
        request_id = self._request_id()
        metadata = call_metadata(self._settings.api_key, request_id)
        try:
            answer: bytes = await self._channels.for_call(
                address,
                lambda channel: channel.unary_unary(method)(
                    request, timeout=timeout_ms / 1000, metadata=metadata
                ),
            )
            return answer
        except PenstockError as error:
            raise CallFailed(int(error.code), error.message) from None
        except grpc.aio.AioRpcError as error:
            raise _failure(error, address, request_id) from None

    async def watch(self, address: str, method: str, request: bytes) -> AsyncIterator[bytes]:
        """Answers as they come. Raises `CallFailed`, `ConnectionLost`."""
        request_id = self._request_id()
        metadata = call_metadata(self._settings.api_key, request_id)
        try:
            call = self._channels.for_stream(
                address, lambda channel: channel.unary_stream(method)(request, metadata=metadata)
            )
        except PenstockError as error:
            raise CallFailed(int(error.code), error.message) from None
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise _failure(error, address, request_id) from None
        finally:
            call.cancel()

    async def close(self) -> None:
        """End every connection."""
        for channel in self._channels.drain():
            await channel.close()

    def _request_id(self) -> str:
        return self._random.randbytes(REQUEST_ID_BYTES).hex()

    def _made(self, address: str) -> grpc.aio.Channel:
        require_protected(address, self._settings.ca_file)
        channel_wanted()
        secret = credentials(self._settings.ca_file)
        if secret is None:
            return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        return grpc.aio.secure_channel(address, secret, options=CHANNEL_OPTIONS)


class GrpcConnection:
    """Keeps `penstock.transport.port.Connection` over one grpc.aio call."""

    def __init__(self, call: Any, address: str, request_id: str) -> None:
        self._call = call
        self._address = address
        self._request_id = request_id

    async def send(self, frame: bytes) -> None:
        try:
            await self._call.write(frame)
        except _ENDED as error:
            raise ConnectionLost(f"{self._address}: {error}") from None

    async def receive(self) -> bytes:
        try:
            frame = await self._call.read()
        except _ENDED as error:
            raise ConnectionLost(*self._reason(error)) from None
        if frame is grpc.aio.EOF:
            status = await self._call.code()
            code = code_of(status, await self._call.trailing_metadata())
            details = await self._call.details()
            raise ConnectionLost(describe(self._address, status, details, self._request_id), code)
        data: bytes = frame
        return data

    async def end(self) -> None:
        """What was sent still arrives; then the broker ends the call."""
        try:
            await self._call.done_writing()
        except _ENDED:
            pass  # it has ended already

    def close(self) -> None:
        self._call.cancel()

    def _reason(self, error: Exception) -> tuple[str, int | None]:
        if isinstance(error, grpc.aio.AioRpcError):
            failure = _failure(error, self._address, self._request_id)
            return failure.message, failure.code
        return f"{self._address}: {error}", None


def _failure(error: grpc.aio.AioRpcError, address: str, request_id: str) -> CallFailed | ConnectionLost:
    trailing: Any = error.trailing_metadata()
    code = code_of(error.code(), trailing)
    message = describe(address, error.code(), error.details(), request_id)
    if code is None:
        return ConnectionLost(message)
    return CallFailed(code, message)
