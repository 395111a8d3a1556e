"""The ways to an etcd cluster: one channel an endpoint, the one in use left for the next when it does not answer."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from data_plane.etcd.outcomes import NotSent

_log = logging.getLogger(__name__)

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.enable_http_proxy", 0),  # the environment's, which gRPC would ask for etcd on this machine too
    ("grpc.max_receive_message_length", -1),  # a listing of many keys is one message
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Repeating is decided where it is known what a repetition means.
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # etcd hangs up on clients that send keepalives more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
)
_LOOK_S = 0.003
_LOOK_S_MAX = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM texts. Without a client certificate etcd must not demand one."""

    ca: bytes
    certificate: bytes | None = None
    key: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdConfig:
    """`endpoints` are host:port. `read_tls` None = plain text; it may raise `OSError`."""

    endpoints: tuple[str, ...]
    read_tls: Callable[[], Tls] | None = None
    """Called again when an endpoint cannot be reached, because certificates are renewed."""
    call_s: float = 2.0
    """What one call may take before its answer counts as lost."""
    connect_s: float = 1.0
    """What connecting to one endpoint may take before the next one is tried."""
    progress_s: float = 3.0
    """How often a silent watch asks for a sign of life; after twice that without one it is opened again."""


class Endpoints:
    """Belongs to the loop on which it is made."""

    def __init__(self, config: EtcdConfig) -> None:
        self.config = config
        tls = None if config.read_tls is None else config.read_tls()
        self._channels = [_channel(endpoint, tls) for endpoint in config.endpoints]
        self._made_with = [tls] * len(self._channels)
        self._current = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._channels)

    def name(self, index: int) -> str:
        return self.config.endpoints[index]

    async def ready(self) -> tuple[int, grpc.aio.Channel]:
        """A connected channel and its number: the one in use if it is connected, else the first that can be.

        Raises `NotSent` when none can be.
        """
        for _ in self._channels:
            index = self._current
            if await self._connected(self._channels[index]):
                return index, self._channels[index]
            await self._take_up_files(index)
            self.leave(index)
        raise NotSent(f"etcd: none of {', '.join(self.config.endpoints)} can be reached")

    def leave(self, index: int) -> None:
        """Endpoint `index` did not serve: use the next one, unless another call has moved on already."""
        if index == self._current and len(self._channels) > 1:
            self._current = (index + 1) % len(self._channels)
            _log.info(
                "etcd endpoint left", extra={"left": self.name(index), "next": self.name(self._current)}
            )

    async def _take_up_files(self, index: int) -> None:
        """The next attempt at this endpoint is made with what the files hold now."""
        if self.config.read_tls is None or self._closed:
            return
        try:
            tls = self.config.read_tls()
        except OSError as error:
            _log.warning("a certificate for etcd cannot be read", extra={"error": str(error)})
            return
        if tls == self._made_with[index]:
            return
        _log.info("certificates for etcd taken up", extra={"endpoint": self.name(index)})
        left, self._channels[index] = self._channels[index], _channel(self.name(index), tls)
        self._made_with[index] = tls
        await left.close()

    async def close(self) -> None:
        self._closed = True
        for channel in self._channels:
            await channel.close()

    async def _connected(self, channel: grpc.aio.Channel) -> bool:
        deadline = time.monotonic() + self.config.connect_s
        pause = _LOOK_S
        while not self._closed:
            state = channel.get_state(try_to_connect=True)
            if state is grpc.ChannelConnectivity.READY:
                return True
            failed = state in (
                grpc.ChannelConnectivity.TRANSIENT_FAILURE,
                grpc.ChannelConnectivity.SHUTDOWN,
            )
            if failed or time.monotonic() >= deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LOOK_S_MAX)
        return False


def _channel(endpoint: str, tls: Tls | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.ca, private_key=tls.key, certificate_chain=tls.certificate
    )
    return grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
