"""The Transport port over grpc.aio: streams and calls to other brokers' internal listeners."""

import asyncio
from typing import Any

import grpc

from data_plane.broker.connection import CalledConnection
from data_plane.broker.grpc_options import CHANNEL_OPTIONS
from data_plane.contract.methods import CLUSTER_SECRET
from data_plane.node.ports import CallFailed, Connection, ConnectionLost
from penstock.contract.errors import ErrorCode
from penstock.contract.methods import ERROR_CODE

_RECONNECT_MS = 100
_RECONNECT_MS_MAX = 1_000
"""A broker that comes back is reached within a second, not after grpc's two minutes of back-off."""


class GrpcTransport:
    """One channel an address, made at first use, kept until `close`."""

    def __init__(self, cluster_secret: str) -> None:
        self._metadata = ((CLUSTER_SECRET, cluster_secret),)
        self._channels: dict[str, grpc.aio.Channel] = {}

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            options = (
                *CHANNEL_OPTIONS,
                ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS),
                ("grpc.min_reconnect_backoff_ms", _RECONNECT_MS),
                ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS_MAX),
                ("grpc.use_local_subchannel_pool", 1),
            )
            channel = self._channels[address] = grpc.aio.insecure_channel(address, options=options)
        return channel

    async def connect(self, address: str, method: str, timeout_ms: int) -> Connection:
        """Open a stream and wait until the peer has taken it. Raises `ConnectionLost`."""
        open_stream: Any = self._channel(address).stream_stream(method)
        call = open_stream(metadata=self._metadata)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await call.initial_metadata()
        except (TimeoutError, grpc.RpcError, grpc.aio.BaseError) as error:
            call.cancel()
            raise ConnectionLost(f"{address}: {str(error) or 'no answer in time'}") from None
        if call.done():
            raise ConnectionLost(f"{address}: {await call.details()}")
        return CalledConnection(call, address)

    async def call(self, address: str, method: str, request: bytes, timeout_ms: int) -> bytes:
        """One unary call. Raises `CallFailed`, `ConnectionLost` (outcome unknown)."""
        try:
            ask: Any = self._channel(address).unary_unary(method)
            answer: bytes = await ask(request, metadata=self._metadata, timeout=timeout_ms / 1000)
        except grpc.aio.AioRpcError as error:
            code = dict(error.trailing_metadata() or ()).get(ERROR_CODE)
            if code is not None:
                raise CallFailed(int(code), error.details() or ErrorCode(int(code)).name) from None
            raise ConnectionLost(f"{address}: {error.details()}") from None
        return answer

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
