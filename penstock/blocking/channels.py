"""gRPC channels of one blocking client."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from penstock.client.settings import ConnectionSettings
from penstock.transport.address import require_protected
from penstock.transport.channel_pool import ChannelPool
from penstock.transport.grpc_terms import CHANNEL_OPTIONS, call_metadata, credentials
from penstock.transport.process import channel_wanted

_prepared = threading.Lock()
_gevent_ready = False


def _prepare_gevent() -> None:
    """Where gevent has replaced threads by greenlets, grpc must wait in its loop; once a process."""
    global _gevent_ready
    monkey: Any = sys.modules.get("gevent.monkey")
    if _gevent_ready or monkey is None or not monkey.is_module_patched("threading"):
        return
    with _prepared:
        if not _gevent_ready:
            from grpc.experimental import gevent

            gevent.init_gevent()
            _gevent_ready = True


class Channels:
    """Opens streams, watches and calls. Safe between threads.

    Everything raises `ConfigurationError` for an address that may not be spoken to in plaintext.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._channels: ChannelPool[Any] = ChannelPool(self._made)
        """Channels, whose typing does not know bytes without serializers."""
        self._closed = False

    def stream(self, address: str, method: str, frames: Iterator[bytes], request_id: str) -> Any:
        """A bidirectional call; iterate it for frames."""
        metadata = self._metadata(request_id)
        return self._channels.for_stream(
            address, lambda channel: channel.stream_stream(method)(frames, metadata=metadata)
        )

    def watch(self, address: str, method: str, request: bytes, request_id: str) -> Any:
        """A call with many answers; iterate it."""
        metadata = self._metadata(request_id)
        return self._channels.for_stream(
            address, lambda channel: channel.unary_stream(method)(request, metadata=metadata)
        )

    def call(self, address: str, method: str, request: bytes, timeout_ms: int, request_id: str) -> Any:
        """A unary call under way, as a future."""
        metadata = self._metadata(request_id)
        return self._channels.for_call(
            address,
            lambda channel: channel.unary_unary(method).future(
                request, timeout=timeout_ms / 1000, metadata=metadata
            ),
        )

    def close(self) -> None:
        """End every connection and whatever runs on it."""
        self._closed = True
        for channel in self._channels.drain():
            channel.close()

    def _metadata(self, request_id: str) -> tuple[tuple[str, str], ...]:
        return call_metadata(self._settings.api_key, request_id)

    def _made(self, address: str) -> grpc.Channel:
        require_protected(address, self._settings.ca_file)
        _prepare_gevent()
        channel_wanted()
        if self._closed:
            raise ValueError("the client's channels are closed")
        secret = credentials(self._settings.ca_file)
        if secret is None:
            return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        return grpc.secure_channel(address, secret, options=CHANNEL_OPTIONS)
