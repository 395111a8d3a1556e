"""An internal, a peer and a client listener on the loopback address, over handlers that tests ask."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import uvloop

from daemon.handshakes import RefusedHandshakes
from daemon.hang_ups import HangUps
from daemon.identity import Role
from daemon.tls import OwnIdentity
from data_plane.authz.peers import PeerRules
from data_plane.broker.connection import GrpcConnection
from data_plane.broker.internal_handshakes import InternalHandshakes
from data_plane.broker.peer_listener import PeerListener, bind_peers
from data_plane.broker.peer_transport import PeerTransport
from data_plane.broker.server import Listener, bind, credentials_within
from data_plane.broker.strangers import Strangers
from data_plane.node.ports import (
    Caller,
    CallFailed,
    Connection,
    ConnectionLost,
    Peer,
    Service,
    anyone,
    at_once,
)
from penstock.contract.errors import ErrorCode, NotFound
from penstock.contract.frames import FrameError
from penstock.contract.ids import BrokerId
from penstock.contract.methods import ERROR_CODE
from tests.certificates import CLUSTER, channel_credentials, identity

CALLERS = frozenset({Role.BROKER, Role.OPERATOR})
"""Who may call what the listeners within the cluster offer."""
LOOPBACK = "127.0.0.1:0"
MS = 5_000
CONNECTIONS = 100


PEER, GRPC = WAYS = ("peer", "grpc")
"""How the same handlers are reached: by the peer listener, or by the internal one, which is gRPC."""


class GrpcCaller:
    """Streams and calls over grpc.aio, as a process of the cluster."""

    def __init__(self, identity: OwnIdentity) -> None:
        self._identity = identity
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: list[Any] = []

    async def connect(self, address: str, method: str, timeout_ms: int) -> Connection:
        open_stream: Any = self._channel(address).stream_stream(method)
        call = open_stream(timeout=60)
        self._calls.append(call)
        await call.initial_metadata()
        if call.done():
            raise ConnectionLost(f"{await call.code()}: {await call.details()}")
        return _GrpcClientConnection(address, call)

    async def call(self, address: str, method: str, request: bytes, timeout_ms: int) -> bytes:
        ask: Any = self._channel(address).unary_unary(method)
        try:
            answer: bytes = await ask(request, timeout=timeout_ms / 1000)
        except grpc.aio.AioRpcError as error:
            code = dict(error.trailing_metadata() or ()).get(ERROR_CODE, "")
            if isinstance(code, str) and code.isdecimal():
                raise CallFailed(int(code), error.details() or "") from None
            raise ConnectionLost(f"{address}: {error.details()}") from None
        return answer

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    def _channel(self, address: str) -> grpc.aio.Channel:
        if address not in self._channels:
            options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
            options.append(("grpc.use_local_subchannel_pool", 1))
            self._channels[address] = grpc.aio.secure_channel(
                address, channel_credentials(self._identity), options=options
            )
        return self._channels[address]


class _GrpcClientConnection(GrpcConnection):
    """The client's side of a stream."""

    def __init__(self, address: str, call: Any) -> None:
        super().__init__(address, read=self._read_or_why, write=call.write)
        self._call = call

    async def _read_or_why(self) -> Any:
        frame = await self._call.read()
        if frame is grpc.aio.EOF and await self._call.code() is not grpc.StatusCode.OK:
            raise grpc.aio.UsageError(await self._call.details())
        return frame

    def close(self) -> None:
        super().close()
        self._call.cancel()


class World:
    """The listeners, and what their handlers have seen."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.ends: list[str] = []
        self.seen: list[bytes] = []
        self.faults: list[BaseException] = []
        self.began = asyncio.Event()
        self.release = asyncio.Event()
        self.finished = asyncio.Event()
        self.internal = self.client = self.peer = ""
        self.broker = Peer(BrokerId(1), "")
        """The one whose listeners these are, at its peer listener."""
        self.refused_handshakes = RefusedHandshakes()
        """By the listeners and by `transport`."""
        self.now_s = 0.0
        self.handshakes = InternalHandshakes(lambda: self.now_s)
        """Of the internal listener."""
        self.strangers = Strangers(HangUps("client"), connections_max=CONNECTIONS)
        """Of both gRPC listeners."""
        self.inside = 0
        """Calls that the client listener has admitted and that have not ended."""
        self.listener: Listener
        """The one for clients."""
        self.peer_listener: PeerListener
        self.transport = self.transport_of(identity("broker-2"))
        self.grpc = GrpcCaller(identity("operator"))

    def transport_of(self, caller: OwnIdentity) -> PeerTransport:
        return PeerTransport(CLUSTER, lambda: caller.current.client, self.refused_handshakes)

    async def connect(self, way: str, method: str) -> Connection:
        if way == PEER:
            return await self.transport.connect(self.broker, method, MS)
        return await self.grpc.connect(self.internal, method, MS)

    async def call(self, way: str, method: str, request: bytes) -> bytes:
        if way == PEER:
            return await self.transport.call(self.broker, method, request, MS)
        return await self.grpc.call(self.internal, method, request, MS)

    def services(self) -> tuple[Service, Service]:
        internal = Service(
            streams={
                "/s/echo": self._echo,
                "/s/deaf": self._deaf,
                "/s/leaves": self._leaves,
                "/s/refuse": self._refuse,
                "/s/bug": self._bug_stream,
            },
            calls={"/c/echo": self._call, "/c/slow": self._slow, "/c/fail": self._fail, "/c/bug": self._bug},
            watches={"/w/count": self._count},
            enter=anyone,
            turn=at_once,
        )
        client = Service(
            streams={"/s/echo": self._echo},
            calls={"/c/tenant": self._call},
            watches={"/w/count": self._count},
            enter=self._enter,
            turn=self._turn,
        )
        return internal, client

    @contextlib.contextmanager
    def _enter(self, caller: Caller) -> Iterator[None]:
        if caller.authorization == "stranger":
            raise CallFailed(ErrorCode.UNAUTHENTICATED, "nobody knows this key")
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def _turn(self, method: str, caller: Caller, request: bytes) -> None:
        if caller.authorization == "patient":
            self.began.set()
            await self.release.wait()

    async def _echo(self, caller: Caller, connection: Connection) -> None:
        self.callers.append(caller)
        self.began.set()
        try:
            while True:
                frame = await connection.receive()
                self.seen.append(frame)
                if frame == b"no frame":
                    raise FrameError("magic 0x6e6f; 0x5053 required")
                if frame == b"hang up":
                    connection.close()
                await connection.send(frame)
        except ConnectionLost as lost:
            self.ends.append(str(lost))
            raise
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        finally:
            self.finished.set()

    async def _deaf(self, caller: Caller, connection: Connection) -> None:
        self.began.set()
        await self.release.wait()
        while True:
            self.seen.append(await connection.receive())

    async def _leaves(self, caller: Caller, connection: Connection) -> None:
        """Receives nothing, and ends with its client."""
        gone = asyncio.Event()
        connection.when_gone(gone.set)
        self.began.set()
        if not connection.is_gone:
            await gone.wait()
        self.ends.append(f"is gone: {connection.is_gone}")
        self.finished.set()

    async def _refuse(self, caller: Caller, connection: Connection) -> None:
        await connection.receive()
        raise CallFailed(ErrorCode.THROTTLED, "tn_a: 60 failed logins; wait a minute")

    async def _bug_stream(self, caller: Caller, connection: Connection) -> None:
        raise KeyError("ours")

    async def _call(self, caller: Caller, request: bytes) -> bytes:
        self.callers.append(caller)
        return b"answer " + request[:100]

    async def _slow(self, caller: Caller, request: bytes) -> bytes:
        self.began.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        self.finished.set()
        return b""

    async def _fail(self, caller: Caller, request: bytes) -> bytes:
        if request == b"not found":
            raise NotFound("orders: no such topic")
        raise CallFailed(int(request), f"code {int(request)}: " + "é" * 2_000)

    async def _bug(self, caller: Caller, request: bytes) -> bytes:
        raise KeyError("ours")

    async def _count(self, caller: Caller, request: bytes, push: Callable[[bytes], Awaitable[None]]) -> None:
        for number in range(int(request)):
            await push(b"%d" % number)
        self.began.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            self.finished.set()
            raise


@contextlib.asynccontextmanager
async def serving(peer_at: str = LOOPBACK, own: OwnIdentity | None = None) -> AsyncIterator[World]:
    """`own`: who the broker with these listeners is, broker 1 unless given."""
    world = World()
    own = own or identity("broker-1")
    internal, client = world.services()
    offered = {**internal.streams, **internal.calls, **internal.watches}
    rules = PeerRules(cluster_id=CLUSTER, roles=dict.fromkeys(offered, CALLERS))
    internal_server, internal_port = bind(
        LOOPBACK, credentials_within(own, world.handshakes), CONNECTIONS, 100
    )
    peer_socket, peer_port = bind_peers(peer_at)
    world.peer = f"127.0.0.1:{peer_port}"
    world.broker = Peer(BrokerId(1), world.peer)
    world.peer_listener = PeerListener(
        internal.streams,
        internal.calls,
        rules=rules,
        tls=lambda: own.current.server,
        connections_max=CONNECTIONS,
        refused_handshakes=world.refused_handshakes,
        hang_ups=HangUps("peer"),
        fault=world.faults.append,
    )
    client_server, client_port = bind(LOOPBACK, None, CONNECTIONS, 100)
    internal_server.add_generic_rpc_handlers(
        (
            Listener(
                internal,
                rules=rules,
                handshakes=world.handshakes,
                refused_handshakes=world.refused_handshakes,
                strangers=world.strangers,
                fault=world.faults.append,
            ),
        )
    )
    world.listener = Listener(
        client,
        handshakes=None,
        refused_handshakes=world.refused_handshakes,
        strangers=world.strangers,
        fault=world.faults.append,
    )
    client_server.add_generic_rpc_handlers((world.listener,))
    world.internal, world.client = f"127.0.0.1:{internal_port}", f"127.0.0.1:{client_port}"
    await internal_server.start()
    await client_server.start()
    await world.peer_listener.start(peer_socket)
    try:
        async with asyncio.timeout(60):
            yield world
    finally:
        await world.transport.close()
        await world.grpc.close()
        await world.peer_listener.stop()
        await internal_server.stop(None)
        await client_server.stop(None)


@contextlib.asynccontextmanager
async def channel(address: str, caller: OwnIdentity | None = None) -> AsyncIterator[Any]:
    """`caller`: over TLS, as that process."""
    options = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    opening = (
        grpc.aio.insecure_channel(address, options=options)
        if caller is None
        else grpc.aio.secure_channel(address, channel_credentials(caller), options=options)
    )
    async with opening as opened:
        yield opened


def run(scenario: Callable[[World], Awaitable[None]]) -> None:
    """On the loop that brokers run on."""

    async def whole() -> None:
        async with serving() as world:
            await scenario(world)

    uvloop.run(whole())
