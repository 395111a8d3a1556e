"""The Transport port over TLS: streams and calls to other brokers' peer listeners, a connection for each."""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from daemon.handshakes import HandshakeRefused, RefusedHandshakes, check_broker, refusal_of
from data_plane.broker import peer_wire as wire
from data_plane.broker.peer_connection import PeerConnection
from data_plane.node.ports import CallFailed, Connection, ConnectionLost, Peer
from penstock.rules.addresses import split_address

_log = logging.getLogger("penstock.peers")

T = TypeVar("T")


class NothingSaid(ConnectionLost):
    """There was no connection, or the peer hung up on the handshake: it has heard nothing of what was asked."""


_LOGGED_MAX = 100
"""Addresses of which is remembered what was logged."""


class PeerTransport:
    """Connects again for each stream and each call: streams last, and calls are a few a second."""

    version = wire.VERSION

    def __init__(
        self,
        cluster_id: str,
        tls: Callable[[], ssl.SSLContext | None],
        refused_handshakes: RefusedHandshakes,
    ) -> None:
        """`tls` gives what the next connection is made with; it checks the peer's certificate. With None there is
        none, and `check` has to do without."""
        self._cluster_id = cluster_id
        self._tls = tls
        self._refused_handshakes = refused_handshakes
        self._open: dict[_Dialled, None] = {}
        self._logged: dict[str, str] = {}
        """What was logged last, by address."""

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        """Open a stream and wait until the peer has taken it. Raises `ConnectionLost`."""
        return await self._dial(peer, wire.Form.STREAM, method, None, timeout_ms, _Dialled.welcomed)

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        """One call. Raises `CallFailed`, `ConnectionLost` (outcome unknown)."""
        return await self._dial(peer, wire.Form.CALL, method, request, timeout_ms, _Dialled.answered)

    async def close(self) -> None:
        """End every stream and call."""
        for connection in list(self._open):
            connection.abort("the broker stops")
        while self._open:
            await next(iter(self._open)).gone.wait()

    async def _dial(
        self,
        peer: Peer,
        form: wire.Form,
        method: str,
        request: bytes | None,
        timeout_ms: int,
        then: "Callable[[_Dialled], Awaitable[T]]",
    ) -> T:
        """What `then` makes of a connection on which all was said that this side begins with; that is hung up on if
        `then` fails or all of it takes too long."""
        made: _Dialled | None = None
        address = peer.address
        try:
            hello = self.hello(form, method, secrets.token_hex(8))
            first = hello if request is None else hello + wire.frame(request)
            host, port = self._host_and_port(address)
            tls = self._tls()
            async with asyncio.timeout(timeout_ms / 1000):
                _, made = await asyncio.get_running_loop().create_connection(
                    lambda: _Dialled(
                        address, first, self._open, lambda shown: self.check(peer, shown), self.version
                    ),
                    host,
                    port,
                    ssl=tls,
                    ssl_handshake_timeout=None if tls is None else timeout_ms / 1000,
                )
                found = await then(made)
        except TimeoutError:
            self._hang_up(made)
            raise ConnectionLost(f"{address}: no answer within {timeout_ms} ms") from None
        except (OSError, UnicodeError, wire.WireError) as error:
            raise self._lost(address, error) from None
        except (ConnectionLost, CallFailed):
            if made is not None and made.unwelcome:
                self._log_once(address, made.unwelcome)
            if made is not None and made.refused is not None:
                self._refused_handshakes.count(RefusedHandshakes.OUTGOING, made.refused.reason)
            raise
        except BaseException:
            self._hang_up(made)
            raise
        self._logged.pop(address, None)
        return found

    def hello(self, form: wire.Form, method: str, request_id: str) -> bytes:
        """What is said first. Raises `WireError` when it is too long."""
        return wire.Hello(form=form, method=method, request_id=request_id).encode()

    def check(self, peer: Peer, certificate: Mapping[str, Any] | None) -> None:
        """Raises `HandshakeRefused` unless it is of the broker that is meant."""
        check_broker(certificate, self._cluster_id, peer.broker)

    def _lost(self, address: str, error: Exception) -> ConnectionLost:
        """What is wrong with a certificate is logged and counted; a peer that is only gone is not."""
        refusal = refusal_of(error)
        if refusal is None:
            return NothingSaid(f"{address}: {error}")
        self._log_once(address, refusal.message)
        self._refused_handshakes.count(RefusedHandshakes.OUTGOING, refusal.reason)
        return ConnectionLost(f"{address}: {refusal.message}")

    def _host_and_port(self, address: str) -> tuple[str, int]:
        if not address:
            reason = "its registration names no peer listener: it is a broker of an older version"
            self._log_once(address, reason)
            raise ConnectionLost(reason)
        try:
            return split_address(address)
        except ValueError as wrong:
            raise ConnectionLost(str(wrong)) from None

    def _log_once(self, address: str, reason: str) -> None:
        """What no new attempt will change is logged once."""
        if self._logged.get(address) == reason:
            return
        if address in self._logged or len(self._logged) < _LOGGED_MAX:
            self._logged[address] = reason
            _log.warning("another broker cannot be spoken to", extra={"address": address, "reason": reason})

    @staticmethod
    def _hang_up(made: "_Dialled | None") -> None:
        if made is not None:
            made.abort("given up by this side")


class _Dialled(PeerConnection):
    """The side that connects: it says `first` as soon as it knows with whom it speaks, and the peer welcomes it or says
    why not."""

    def __init__(
        self,
        address: str,
        first: bytes,
        connections: "dict[_Dialled, None]",
        check: Callable[[Mapping[str, Any] | None], None],
        version: int,
    ) -> None:
        """`check` raises `HandshakeRefused` for a peer that is not meant."""
        super().__init__(address)
        self._first = first
        self._connections = connections
        self._check = check
        self._version = version
        self.refused: HandshakeRefused | None = None
        """Why nothing was said to the peer, or why it takes no connection of ours."""
        self.gone = asyncio.Event()
        self.unwelcome = ""
        """Why the peer has not welcomed this side, when it has said so or speaks another wire."""

    async def welcomed(self) -> Connection:
        """This connection, once the peer has taken it. Raises `ConnectionLost`."""
        while not self._greeted:
            self._check_open()
            self._receiver = self._loop.create_future()
            await self._receiver
        if self.unwelcome:
            self._check_open()
        return self

    async def answered(self) -> bytes:
        """The answer of a call; the connection is closed then. Raises `CallFailed`, `ConnectionLost`."""
        try:
            return await self.receive()
        except ConnectionLost:
            code, reason = self.ended_with
            if code:
                raise CallFailed(code, reason) from None
            raise
        finally:
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections[self] = None
        try:
            self._check(transport.get_extra_info("peercert"))
        except HandshakeRefused as refused:
            self.refused = refused
            self.unwelcome = refused.message
            self.abort(refused.message)
        else:
            self._transport.write(self._first)
        self._first = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._greeted and exc is not None and (refused := refusal_of(exc)) is not None:
            self.refused = refused
            self.unwelcome = refused.message
            self.lose(refused.message)
        super().connection_lost(exc)
        self._connections.pop(self, None)
        self.gone.set()

    def _greet(self) -> bool:
        message = self._incoming.take()
        if message is None:
            return False
        kind, payload = message
        if kind == wire.Kind.WELCOME:
            wire.read_welcome(payload, self._version)
            self._wake(self._receiver)
        elif kind == wire.Kind.END:
            self._arrived(kind, payload)
            self.unwelcome = self._lost
        else:
            raise wire.WireError("it sends before it has welcomed")
        return True

    def _broken(self, wrong: wire.WireError) -> None:
        if not self._greeted:
            self.unwelcome = f"what listens there does not speak as brokers of this version do: {wrong}"
        self.abort(self.unwelcome or str(wrong))
