"""The Transport port over grpc.aio: streams and calls to other brokers' internal listeners."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import grpc

from data_plane.broker.connection import GRPC_ERRORS, GrpcConnection
from data_plane.broker.grpc_options import CHANNEL_OPTIONS
from data_plane.contract.methods import CLUSTER_SECRET
from data_plane.node.ports import CallFailed, Connection, ConnectionLost
from penstock.contract.methods import ERROR_CODE


class GrpcTransport:
    """One channel an address, made at first use, kept until `close`; it reconnects by itself."""

    def __init__(self, cluster_secret: str) -> None:
        self._metadata = ((CLUSTER_SECRET, cluster_secret),)
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def connect(self, address: str, method: str, timeout_ms: int) -> Connection:
        """Open a stream and wait until the peer has taken it. Raises `ConnectionLost`."""
        open_stream: Any = self._channel(address).stream_stream(method)
        call = open_stream(metadata=self._metadata)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await call.initial_metadata()
                if call.done():
                    raise ConnectionLost(f"{address}: {await _why_ended(call)}")
        except TimeoutError:
            call.cancel()
            raise ConnectionLost(f"{address}: no answer within {timeout_ms} ms") from None
        except GRPC_ERRORS as error:
            call.cancel()
            raise ConnectionLost(f"{address}: {error}") from None
        except BaseException:
            call.cancel()
            raise
        return GrpcConnection(
            address, read=call.read, write=call.write, hang_up=call.cancel, why=lambda: _why_ended(call)
        )

    async def call(self, address: str, method: str, request: bytes, timeout_ms: int) -> bytes:
        """One unary call. Raises `CallFailed`, `ConnectionLost` (outcome unknown)."""
        ask: Any = self._channel(address).unary_unary(method)
        asked: Coroutine[Any, Any, bytes] = ask(request, metadata=self._metadata, timeout=timeout_ms / 1000)
        try:
            return await asked
        except grpc.aio.AioRpcError as error:
            code = dict(error.trailing_metadata() or ()).get(ERROR_CODE, "")
            if isinstance(code, str) and code.isdecimal():
                raise CallFailed(int(code), error.details() or f"refused with code {code}") from None
            raise ConnectionLost(f"{address}: {error.code().name}: {error.details()}") from None
        except GRPC_ERRORS as error:
            raise ConnectionLost(f"{address}: {error}") from None

    async def close(self) -> None:
        """End every stream and call."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
            self._channels[address] = channel
        return channel


async def _why_ended(call: Any) -> str:
    code: grpc.StatusCode = await call.code()
    return (
        "the peer closed the stream" if code is grpc.StatusCode.OK else f"{code.name}: {await call.details()}"
    )
