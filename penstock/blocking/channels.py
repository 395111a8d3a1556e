"""gRPC channels of one blocking client: one a broker address, made when first needed."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from penstock.client.settings import ConnectionSettings
from penstock.transport.address import require_protected
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
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}
        self._closed = False

    def stream(self, address: str, method: str, frames: Iterator[bytes], request_id: str) -> Any:
        """A bidirectional call; iterate it for frames."""
        return self._calls(address).stream_stream(method)(frames, metadata=self._metadata(request_id))

    def watch(self, address: str, method: str, request: bytes, request_id: str) -> Any:
        """A call with many answers; iterate it."""
        return self._calls(address).unary_stream(method)(request, metadata=self._metadata(request_id))

    def call(self, address: str, method: str, request: bytes, timeout_ms: int, request_id: str) -> Any:
        """A unary call under way, as a future."""
        unary = self._calls(address).unary_unary(method)
        return unary.future(request, timeout=timeout_ms / 1000, metadata=self._metadata(request_id))

    def close(self) -> None:
        """End every connection and whatever runs on it."""
        with self._lock:
            self._closed = True
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()

    def _metadata(self, request_id: str) -> tuple[tuple[str, str], ...]:
        return call_metadata(self._settings.api_key, request_id)

    def _calls(self, address: str) -> Any:
        """The channel, whose typing does not know bytes without serializers."""
        return self._channel(address)

    def _channel(self, address: str) -> grpc.Channel:
        require_protected(address, self._settings.ca_file)
        _prepare_gevent()
        with self._lock:
            channel = self._channels.get(address)
            if channel is None:
                channel_wanted()
                if self._closed:
                    raise ValueError("the client's channels are closed")
                secret = credentials(self._settings.ca_file)
                channel = (
                    grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
                    if secret is None
                    else grpc.secure_channel(address, secret, options=CHANNEL_OPTIONS)
                )
                self._channels[address] = channel
            return channel
