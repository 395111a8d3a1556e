"""The peer listener: streams and calls of other brokers, who show the cluster secret before anything else is read."""

import asyncio
import hmac
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from data_plane.broker import peer_wire as wire
from data_plane.broker.handling import Handlers, TurnedAway, check_request, refusal_of, request_id_of
from data_plane.broker.peer_connection import PeerConnection
from data_plane.node.ports import Caller, CallFailed, CallHandler, StreamHandler
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.rules.addresses import split_address

HELLO_S = 10.0
"""For a connection to say who it is, and with TLS to agree on that."""
HANDLERS_AT_ONCE_MAX = 20_000
_BACKLOG = 128


class PeerListener:
    """Offers what only brokers ask of each other.

    `fault` gets each exception of a handler that is neither a refusal nor a lost peer: our own bug (RL140). A handler
    is not cancelled when its peer goes: it learns so from its connection, or finishes what it has begun (RL19).
    """

    name = "peer"

    def __init__(
        self,
        streams: Mapping[str, StreamHandler],
        calls: Mapping[str, CallHandler],
        *,
        cluster_secret: str,
        connections_max: int,
        fault: Callable[[BaseException], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Beyond `connections_max` the oldest connection that has not shown the secret is hung up on, or else the new
        one. With `tls` all connections are in it."""
        self._streams, self._calls = streams, calls
        self._secret, self._connections_max, self._tls = cluster_secret.encode(), connections_max, tls
        self._handlers = Handlers(fault)
        self._turned_away = TurnedAway()
        self._connections: dict[_Accepted, None] = {}
        self._strangers: dict[_Accepted, None] = {}
        """Those that have not shown the secret, the oldest first."""
        self._server: asyncio.Server | None = None

    async def start(self, bound: socket.socket) -> None:
        """Serve on a socket of `bind_peers`, which this listener then owns."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Accepted(self),
            sock=bound,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else HELLO_S,
        )

    async def stop(self) -> None:
        """Hang up on everyone."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort("the broker stops")
        while self._connections:
            await next(iter(self._connections)).gone.wait()

    def turned_away(self) -> dict[str, int]:
        """How many connections were not admitted since this was asked last, by address."""
        return self._turned_away.take()

    # -- for its connections ---------------------------------------------------------------------------------

    def entered(self, connection: "_Accepted") -> bool:
        """False when there are too many. A broker shows the secret at once, so one that has not makes way: connecting
        alone keeps no broker out."""
        if len(self._connections) >= self._connections_max:
            stranger = next(iter(self._strangers), None)
            if stranger is None:
                return False
            self.left(stranger)
            stranger.make_way()
        self._connections[connection] = self._strangers[connection] = None
        return True

    def left(self, connection: "_Accepted") -> None:
        self._connections.pop(connection, None)
        self._strangers.pop(connection, None)

    def refused(self, connection: "_Accepted", code: ErrorCode, reason: str) -> None:
        """It is counted, and hears why."""
        self._turned_away.count(connection.host)
        connection.refuse(code, reason)

    def hung_up_on(self, connection: "_Accepted", why: str) -> None:
        """It is counted, and hears nothing: it would not understand."""
        self._turned_away.count(connection.host)
        connection.abort(why)

    def greeted(self, connection: "_Accepted", hello: wire.Hello) -> None:
        """Begin what the caller wants, if it may."""
        if not hmac.compare_digest(hello.cluster_secret.encode(), self._secret):
            self.refused(
                connection, ErrorCode.UNAUTHENTICATED, "the peer listener demands the cluster secret"
            )
            return
        self._strangers.pop(connection, None)
        caller = Caller(
            peer=connection.host,
            connection=connection.peer,
            authorization="",
            cluster_secret=hello.cluster_secret,
            internal=True,
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
    """The side that is connected to: nothing is done before it has a whole hello with the secret."""

    def __init__(self, listener: PeerListener) -> None:
        super().__init__("")
        self._listener = listener
        self._in_time: asyncio.TimerHandle | None = None
        self.host = ""
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self._peer = f"{self.host}:{port}"
        if self._listener.entered(self):
            self._in_time = self._loop.call_later(HELLO_S, self._too_slow)
        else:
            self.abort("there are too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_clock()
        self._listener.left(self)
        self.gone.set()

    def welcome(self) -> None:
        self._transport.write(wire.welcome())

    def make_way(self) -> None:
        """It has not shown the secret, and another one wants its place."""
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
