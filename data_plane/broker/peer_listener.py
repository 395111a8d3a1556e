"""The peer listener: streams and calls of other brokers, each known by the certificate of its TLS connection.

A connection is accepted here and not by the loop's server: so it counts from its first packet on, and why its handshake
failed is known.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from daemon.handshakes import NO_IDENTITY, RefusedHandshakes
from daemon.handshakes import NOT_IN_TIME as HANDSHAKE_NOT_IN_TIME
from daemon.handshakes import refusal_of as handshake_refusal_of
from daemon.hang_ups import MADE_WAY, NO_SPACE, NOT_IN_TIME, HangUps
from daemon.identity import Identity, NoIdentity, identity_of_peer
from data_plane.authz.peers import PeerRules
from data_plane.broker import peer_wire as wire
from data_plane.broker.handling import Handlers, TurnedAway, check_request, refusal_of, request_id_of
from data_plane.broker.peer_connection import PeerConnection
from data_plane.node.ports import Caller, CallFailed, CallHandler, StreamHandler
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.rules.addresses import split_address

_log = logging.getLogger("penstock.peers")

HELLO_S = 10.0
"""For a handshake, and once more for the hello after it."""
HANDLERS_AT_ONCE_MAX = 20_000
_BACKLOG = 128
_ACCEPT_AGAIN_S = 0.5
"""After a connection could not be accepted, for want of descriptors."""


class PeerListener:
    """Offers what only brokers ask of each other.

    `fault` gets each exception of a handler that is neither a refusal nor a lost peer: our own bug (RL140). A handler
    is not cancelled when its peer goes: it learns so from its connection, or finishes what it has begun (RL19).
    """

    name = "peer"
    version = wire.VERSION

    def __init__(
        self,
        streams: Mapping[str, StreamHandler],
        calls: Mapping[str, CallHandler],
        *,
        rules: PeerRules,
        tls: Callable[[], ssl.SSLContext | None],
        connections_max: int,
        refused_handshakes: RefusedHandshakes,
        hang_ups: HangUps,
        fault: Callable[[BaseException], None],
    ) -> None:
        """Beyond `connections_max` the oldest connection that was not let in yet is hung up on, or else the new
        one. `tls` gives what the next handshake is made with; with None there is none, and `identify` has to know the
        peer by what it says."""
        self._streams = streams
        self._calls = calls
        self.rules = rules
        self._connections_max = connections_max
        self.tls = tls
        self._refused_handshakes = refused_handshakes
        self._hang_ups = hang_ups
        self._handlers = Handlers(fault)
        self._turned_away = TurnedAway()
        self._connections: dict[_Accepted, None] = {}
        self._strangers: dict[_Accepted, None] = {}
        """Those that were not let in yet, the oldest first."""
        self._bound: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    async def start(self, bound: socket.socket) -> None:
        """Serve on a socket of `bind_peers`, which this listener then owns."""
        self._bound = bound
        self._accepting = asyncio.create_task(self._accept_all(bound))

    async def stop(self) -> None:
        """Hang up on everyone."""
        if self._accepting is not None and self._bound is not None:
            self._accepting.cancel()
            with suppress(asyncio.CancelledError):
                await self._accepting
            self._bound.close()
        for connection in list(self._connections):
            connection.abort("the broker stops")
        while self._connections:
            await next(iter(self._connections)).gone.wait()

    async def _accept_all(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                wired, address = await loop.sock_accept(bound)
            except ConnectionError:
                continue
            except OSError as error:
                _log.warning("a connection cannot be accepted", extra={"reason": str(error)})
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            _Accepted(self, wired, address)

    def turned_away(self) -> dict[str, int]:
        """How many connections were not admitted since this was asked last, by address."""
        return self._turned_away.take()

    @property
    def last_reason(self) -> str:
        """Why the last of them was not."""
        return self._turned_away.reason

    # -- for its connections ---------------------------------------------------------------------------------

    def entered(self, connection: "_Accepted") -> bool:
        """False when there are too many. A broker says at once who it is, so one that has not makes way: connecting
        alone keeps no broker out."""
        if len(self._connections) >= self._connections_max:
            stranger = next(iter(self._strangers), None)
            if stranger is None:
                self._hang_ups.count(NO_SPACE, connection.host)
                return False
            self.left(stranger)
            self._hang_ups.count(MADE_WAY, stranger.host)
            stranger.make_way()
        self._connections[connection] = self._strangers[connection] = None
        return True

    def left(self, connection: "_Accepted") -> None:
        self._connections.pop(connection, None)
        self._strangers.pop(connection, None)

    def refused(self, connection: "_Accepted", code: ErrorCode, reason: str) -> None:
        """It is counted, and hears why."""
        self._turned_away.count(connection.host, reason)
        connection.refuse(code, reason)

    def handshake_failed(self, connection: "_Accepted", error: BaseException) -> None:
        """It is counted unless the peer is only gone."""
        refusal = handshake_refusal_of(error)
        if refusal is not None and refusal.reason == HANDSHAKE_NOT_IN_TIME:
            self._hang_ups.count(NOT_IN_TIME, connection.host)
        if refusal is not None:
            self._count_refused(connection, refusal.reason, refusal.message)

    def _count_refused(self, connection: "_Accepted", reason: str, message: str) -> None:
        self._refused_handshakes.count(self.name, reason)
        self._turned_away.count(connection.host, message)

    def hung_up_on(self, connection: "_Accepted", why: str) -> None:
        """It is counted, and hears nothing: it would not understand."""
        self._turned_away.count(connection.host, why)
        connection.abort(why)

    def too_slow(self, connection: "_Accepted") -> None:
        """It did not say who it is in time."""
        self._hang_ups.count(NOT_IN_TIME, connection.host)

    def incoming(self) -> wire.Incoming:
        """What reads the hello of a new connection, and what follows."""
        return wire.Incoming()

    def identify(self, connection: "_Accepted", hello: wire.Hello) -> Identity:
        """Who the peer is. Raises `NoIdentity`."""
        return identity_of_peer(connection.certificate)

    def _refuse_identity(self, connection: "_Accepted", reason: str, message: str) -> None:
        self._refused_handshakes.count(self.name, reason)
        self.refused(connection, ErrorCode.UNAUTHENTICATED, message)

    def greeted(self, connection: "_Accepted", hello: wire.Hello) -> None:
        """Begin what the caller wants, if it may."""
        try:
            identity = self.identify(connection, hello)
        except NoIdentity as wrong:
            self._refuse_identity(connection, NO_IDENTITY, str(wrong))
            return
        refusal = self.rules.refusal(identity, hello.method)
        if refusal is not None:
            self._refuse_identity(connection, refusal.reason, refusal.message)
            return
        self._strangers.pop(connection, None)
        caller = Caller(
            peer=connection.host,
            connection=connection.peer,
            authorization="",
            identity=identity,
            request_id=request_id_of(hello.request_id),
        )
        work: Awaitable[None]
        if self._handlers.count >= HANDLERS_AT_ONCE_MAX:
            connection.finish(
                ErrorCode.BROKER_UNAVAILABLE, f"{HANDLERS_AT_ONCE_MAX} streams and calls are served already"
            )
            return
        if hello.form is wire.Form.STREAM and hello.method in self._streams:
            work = self._streams[hello.method](caller, connection)
        elif hello.form is wire.Form.CALL and hello.method in self._calls:
            work = _answer(self._calls[hello.method], caller, connection)
        else:
            connection.finish(ErrorCode.INVALID_REQUEST, f"{hello.method}: no such {hello.form.name.lower()}")
            return
        connection.welcome()
        task = self._handlers.start(hello.method, caller, work)
        task.add_done_callback(partial(_ended, connection, caller))


class _Accepted(PeerConnection):
    """The side that is connected to: nothing is done before it has a handshake and a whole hello."""

    def __init__(self, listener: PeerListener, wired: socket.socket, address: tuple[str, int]) -> None:
        self.host = address[0]
        super().__init__(f"{self.host}:{address[1]}")
        self._listener = listener
        self.said = self._incoming = listener.incoming()
        self._in_time: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        """Until the connection is made, or is not going to be."""
        self.gone = asyncio.Event()
        if listener.entered(self):
            self._handshake = asyncio.create_task(self._secure(wired))
            self._handshake.add_done_callback(
                lambda task: self._given_up(wired) if task.cancelled() else None
            )
        else:
            wired.close()

    def _given_up(self, wired: socket.socket) -> None:
        """It made way before its handshake had begun."""
        self._handshake = None
        wired.close()
        self._ended()

    async def _secure(self, wired: socket.socket) -> None:
        try:
            tls = self._listener.tls()
            await self._loop.connect_accepted_socket(
                lambda: self,
                wired,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HELLO_S,
            )
        except (OSError, asyncio.CancelledError) as error:
            self._listener.handshake_failed(self, error)
            self._ended()
        finally:
            self._handshake = None

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """As the peer has shown it."""
        shown: Mapping[str, Any] | None = self._transport.get_extra_info("peercert")
        return shown

    def abort(self, reason: str) -> None:
        if self._handshake is not None:
            self._handshake.cancel()
        else:
            super().abort(reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handshake = None
        super().connection_made(transport)
        self._in_time = self._loop.call_later(HELLO_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._ended()

    def _ended(self) -> None:
        self._stop_clock()
        self._listener.left(self)
        self.gone.set()

    def welcome(self) -> None:
        self._transport.write(wire.welcome(self._listener.version))

    def make_way(self) -> None:
        """It was not let in yet, and another one wants its place."""
        if self._closed:
            self.abort("it was refused before")
        else:
            self._listener.hung_up_on(self, "there are too many connections")

    def _greet(self) -> bool:
        hello = self._incoming.take_hello()
        if hello is None:
            return False
        self._stop_clock()
        self._greeted = True
        self._listener.greeted(self, hello)
        return True

    def _broken(self, wrong: wire.WireError) -> None:
        self._stop_clock()
        if isinstance(wrong, wire.NoBroker):
            self._listener.hung_up_on(self, str(wrong))
        elif not self._greeted:
            self._listener.refused(self, ErrorCode.INVALID_REQUEST, str(wrong))
        else:
            self.lose(str(wrong))
            self.finish(ErrorCode.INVALID_REQUEST, str(wrong))

    def _too_slow(self) -> None:
        self._listener.too_slow(self)
        self._listener.hung_up_on(self, f"no hello came within {HELLO_S:g} s")

    def _stop_clock(self) -> None:
        if self._in_time is not None:
            self._in_time.cancel()


async def _answer(handler: CallHandler, caller: Caller, connection: _Accepted) -> None:
    try:
        async with asyncio.timeout(limits.FIRST_REQUEST_MS_MAX / 1000):
            request = await connection.receive()
    except TimeoutError:
        raise CallFailed(
            ErrorCode.INVALID_REQUEST, f"no request came within {limits.FIRST_REQUEST_MS_MAX} ms"
        ) from None
    check_request(request)
    await connection.send(await handler(caller, request))


def _ended(connection: _Accepted, caller: Caller, task: asyncio.Task[Any]) -> None:
    """The connection ends with its handler, by what that raised."""
    error = None if task.cancelled() else task.exception()
    refusal = None if error is None else refusal_of(error, caller.request_id)
    connection.finish(*refusal or (0, ""))


def bind_peers(address: str) -> tuple[socket.socket, int]:
    """A socket that is bound and takes connections in, without serving them yet, and its port. Raises `OSError` when
    the address is taken.

    Brokers that connect meanwhile wait; none is refused while this one boots.
    """
    try:
        host, port = split_address(address)
        bound = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_BACKLOG,
        )
    except (OSError, ValueError) as error:
        raise OSError(f"{address}: cannot be bound: {error}") from None
    bound.setblocking(False)
    return bound, bound.getsockname()[1]
