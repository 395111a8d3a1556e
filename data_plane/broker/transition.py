"""The links of the release before, beside those of this one: plain text with the cluster secret, on loopback alone.

The next release deletes this module and the setting `transition`.

A broker in transition is at its addresses for both. What connects there is looked at: what begins as TLS does is led to
the listeners of this release, anything else to those of the release before, all on ports of their own. Another broker
is dialled by TLS first, and as the release before did when it hangs up on that. So brokers of both releases form one
cluster, and none has to know which release another one runs.
"""

import asyncio
import hmac
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from daemon.handshakes import RefusedHandshakes
from daemon.hang_ups import HangUps
from daemon.identity import Identity, NoIdentity, Role
from daemon.settings import Settings
from data_plane.authz.peers import PeerRules
from data_plane.broker import peer_wire as wire
from data_plane.broker.grpc_options import INTERNAL_CALLS_MAX
from data_plane.broker.peer_listener import PeerListener, bind_peers
from data_plane.broker.peer_transport import NothingSaid, PeerTransport
from data_plane.broker.server import Listener, bind
from data_plane.broker.strangers import Strangers
from data_plane.contract import replication_pb2 as pb
from data_plane.node.ports import (
    Caller,
    CallFailed,
    Connection,
    ConnectionLost,
    Peer,
    Service,
    StreamHandler,
    Transport,
)
from penstock.contract.errors import ConfigurationError, ErrorCode
from penstock.contract.frames import FrameKind, unpack_frame
from penstock.rules.addresses import split_address

ANY_PORT = "127.0.0.1:0"
_SECRET_KEY = "x-penstock-cluster-secret"
_SECRET_LENGTH_MIN = 32
_VERSION = 1
_HELLO = struct.Struct(">4sBBHHH")
_TLS_BEGINS = b"\x16"
_CHUNK_BYTES = 65_536
_FIRST_S = 10.0
_HEADS: Mapping[FrameKind, type[pb.ReplicaOpenHead] | type[pb.BeatHead]] = {
    FrameKind.REPLICA_OPEN: pb.ReplicaOpenHead,
    FrameKind.BEAT: pb.BeatHead,
}
"""What a stream of a broker begins with: the head says which broker it is."""


class TransitionConfig(Settings, frozen=True, kw_only=True):
    """For an upgrade from the release before, while some brokers or control planes still run it."""

    cluster_secret_file: Path
    """File with the cluster secret that the release before shows."""

    def secret(self) -> str:
        """Raises `ConfigurationError` when the file cannot be read or holds no secret."""
        try:
            text = self.cluster_secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"transition.cluster_secret_file: {error}") from None
        if len(text) < _SECRET_LENGTH_MIN:
            raise ConfigurationError(
                f"transition.cluster_secret_file: {self.cluster_secret_file} holds no secret of at least"
                f" {_SECRET_LENGTH_MIN} characters"
            )
        return text


class OldHello(wire.Incoming):
    """Reads the hello of the release before, which has the secret between method and request id."""

    __slots__ = ("secret",)

    def __init__(self) -> None:
        super().__init__()
        self.secret = ""

    def take_hello(self) -> wire.Hello | None:
        arrived = bytes(self._view[self._start : self._end])
        if not wire.MAGIC.startswith(arrived[:4]):
            raise wire.NoBroker("this is the listener for other brokers, and the caller is none")
        if len(arrived) < _HELLO.size:
            return None
        _, version, form, *lengths = _HELLO.unpack_from(arrived)
        whole = _HELLO.size + sum(lengths)
        if version != _VERSION or form not in (wire.Form.STREAM, wire.Form.CALL):
            raise wire.WireError(f"version {version}, {_VERSION} required in plain text")
        if whole > wire.HELLO_BYTES_MAX:
            raise wire.WireError(f"a hello of {whole} bytes, at most {wire.HELLO_BYTES_MAX} allowed")
        if len(arrived) < whole:
            return None
        texts, at = [], _HELLO.size
        for length in lengths:
            texts.append(arrived[at : at + length].decode(errors="replace"))
            at += length
        self._start += at
        method, self.secret, request_id = texts
        return wire.Hello(form=wire.Form(form), method=method, request_id=request_id)


class _OldPeerListener(PeerListener):
    version = _VERSION

    def __init__(self, secret: str, own: Identity, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._secret = secret
        self._own = own

    def incoming(self) -> wire.Incoming:
        return OldHello()

    def identify(self, connection: Any, hello: wire.Hello) -> Identity:
        """A broker; which one shows its first frame, so this one's identity stands for any until then."""
        if not hmac.compare_digest(connection.said.secret.encode(), self._secret.encode()):
            raise NoIdentity("the peer listener demands the cluster secret")
        return self._own


class _Begun:
    """A connection of which the first frame was read already."""

    def __init__(self, connection: Connection, first: bytes) -> None:
        self._connection = connection
        self._first = [first]

    @property
    def peer(self) -> str:
        return self._connection.peer

    async def send(self, frame: bytes) -> None:
        await self._connection.send(frame)

    async def receive(self) -> bytes:
        return self._first.pop() if self._first else await self._connection.receive()

    def close(self) -> None:
        self._connection.close()

    @property
    def is_gone(self) -> bool:
        return self._connection.is_gone

    def when_gone(self, wake: Callable[[], None] | None) -> None:
        self._connection.when_gone(wake)


def _known_by_first_frame(handler: StreamHandler) -> StreamHandler:
    async def serve(caller: Caller, connection: Connection) -> None:
        first = await connection.receive()
        kind, head, _ = unpack_frame(first)
        named = _HEADS.get(kind)
        if named is not None and caller.identity is not None:
            with suppress(DecodeError, NoIdentity):
                broker = named.FromString(bytes(head)).broker_id
                caller = replace(caller, identity=replace(caller.identity, broker_id=broker))
        await handler(caller, _Begun(connection, first))

    return serve


class _OldAdminListener(Listener):
    """Admin calls of a control plane of the release before."""

    def __init__(self, secret: str, cluster_id: str, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._secret = secret
        self._as = Identity(cluster_id=cluster_id, role=Role.CONTROL_PLANE)

    def identify(self, method: str, caller: Caller, context: Any) -> Identity | None:
        shown = dict(context.invocation_metadata() or ()).get(_SECRET_KEY, "")
        if not hmac.compare_digest(str(shown).encode(), self._secret.encode()):
            raise CallFailed(ErrorCode.UNAUTHENTICATED, "the internal listener demands the cluster secret")
        if caller.authorization:
            raise CallFailed(ErrorCode.FORBIDDEN, "the internal listener takes no API keys")
        return self._as


class _OldTransport(PeerTransport):
    version = _VERSION

    def __init__(self, secret: str, cluster_id: str) -> None:
        super().__init__(cluster_id, lambda: None, RefusedHandshakes())
        self._secret = secret

    def hello(self, form: wire.Form, method: str, request_id: str) -> bytes:
        parts = [text.encode() for text in (method, self._secret, request_id)]
        return b"".join([_HELLO.pack(wire.MAGIC, _VERSION, form, *map(len, parts)), *parts])

    def check(self, peer: Peer, certificate: Mapping[str, Any] | None) -> None:
        """The release before shows none."""


class BothTransports:
    """The Transport port to brokers of both releases. Plain text is spoken where TLS was hung up on before a word."""

    def __init__(self, tls: PeerTransport, secret: str, cluster_id: str) -> None:
        self._tls = tls
        self._plain = _OldTransport(secret, cluster_id)
        self._old: dict[str, None] = {}
        """Addresses that took plain text last."""

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        async def by(transport: Transport) -> Connection:
            return await transport.connect(peer, method, timeout_ms)

        was_old = peer.address in self._old
        try:
            stream: Connection = await self._by_one(peer, by)
        except ConnectionLost:
            if not was_old:
                raise
            # It may not serve the release before any more. On a stream that was not taken nothing was done.
            stream = await self._by_one(peer, by)
        return stream

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        async def by(transport: Transport) -> bytes:
            return await transport.call(peer, method, request, timeout_ms)

        answer: bytes = await self._by_one(peer, by)
        return answer

    async def close(self) -> None:
        await self._tls.close()
        await self._plain.close()

    async def _by_one(self, peer: Peer, ask: Callable[[Transport], Any]) -> Any:
        if peer.address not in self._old:
            try:
                return await ask(self._tls)
            except NothingSaid:
                self._old[peer.address] = None
        try:
            return await ask(self._plain)
        except ConnectionLost:
            self._old.pop(peer.address, None)
            raise


class OldDoors:
    """What a broker in transition has more: the old listeners, and at its addresses what leads to old or new ones."""

    def __init__(
        self,
        secret: str,
        own: Identity,
        listen: Mapping[str, str],
        tls_ports: Mapping[str, int],
        connections_max: int,
    ) -> None:
        """By `internal` and `peer`: its addresses, and the ports of the listeners of this release. `connections_max`
        is for each old listener, as the new ones have it. Raises `OSError` when one is taken."""
        self._secret = secret
        self._own = own
        self._tls_ports = tls_ports
        self._connections_max = connections_max
        self._server, internal_port = bind(ANY_PORT, None, connections_max, INTERNAL_CALLS_MAX)
        self._peer_socket, peer_port = bind_peers(ANY_PORT)
        self._old_ports = {"internal": internal_port, "peer": peer_port}
        self.strangers = {
            internal_port: Strangers(
                HangUps("old_internal"), connections_max=connections_max, one_address=True
            )
        }
        """Of its gRPC listener, by port."""
        self.peer_hang_ups = HangUps("old_peer")
        self._bound = {name: bind_peers(address) for name, address in listen.items()}
        self.ports = {name: port for name, (_, port) in self._bound.items()}
        self._peers: _OldPeerListener | None = None
        self._fronts: list[asyncio.Server] = []

    async def start(
        self,
        admin: Service,
        peers: Service,
        rules: PeerRules,
        refused: RefusedHandshakes,
        fault: Callable[[BaseException], None],
    ) -> None:
        listener = _OldAdminListener(
            self._secret,
            rules.cluster_id,
            admin,
            rules=rules,
            handshakes=None,
            refused_handshakes=refused,
            strangers=self.strangers[self._old_ports["internal"]],
            fault=fault,
        )
        self._server.add_generic_rpc_handlers((listener,))
        self._peers = _OldPeerListener(
            self._secret,
            self._own,
            {method: _known_by_first_frame(handler) for method, handler in peers.streams.items()},
            peers.calls,
            rules=rules,
            tls=lambda: None,
            connections_max=self._connections_max,
            refused_handshakes=refused,
            hang_ups=self.peer_hang_ups,
            fault=fault,
        )
        await self._server.start()
        await self._peers.start(self._peer_socket)
        for name, (bound, _) in self._bound.items():
            # Both listeners behind it may be full, and then judge for themselves who makes way.
            front = _Front(self._tls_ports[name], self._old_ports[name], 2 * self._connections_max)
            self._fronts.append(await asyncio.start_server(front.lead, sock=bound))

    async def stop(self) -> None:
        for front in self._fronts:
            front.close()
        await self._server.stop(grace=None)
        if self._peers is not None:
            await self._peers.stop()


class _Front:
    """Leads each connection to the listener that understands it. Each takes two descriptors of the broker's."""

    def __init__(self, tls_port: int, plain_port: int, connections_max: int) -> None:
        """Beyond `connections_max` the oldest connection that has said nothing is hung up on, or else the new one."""
        self._tls_port = tls_port
        self._plain_port = plain_port
        self._connections_max = connections_max
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._silent: dict[asyncio.StreamWriter, None] = {}
        """Those that have said nothing yet, the oldest first."""

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._entered(writer):
            writer.transport.abort()
            return
        inner: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_FIRST_S):
                first = await reader.read(_CHUNK_BYTES)
            if not first or writer not in self._silent:
                return  # it has left, or made way
            del self._silent[writer]
            port = self._tls_port if first.startswith(_TLS_BEGINS) else self._plain_port
            answers, inner = await asyncio.open_connection(*split_address(f"127.0.0.1:{port}"))
            inner.write(first)
            there = asyncio.create_task(_pass_on(reader, inner))
            await _pass_on(answers, writer)
            there.cancel()
        except (OSError, TimeoutError):
            pass
        finally:
            self._left(writer)
            for side in (writer, inner):
                if side is not None:
                    side.close()

    def _entered(self, writer: asyncio.StreamWriter) -> bool:
        """False when there are too many."""
        if len(self._open) >= self._connections_max:
            oldest = next(iter(self._silent), None)
            if oldest is None:
                return False
            self._left(oldest)
            oldest.transport.abort()
        self._open[writer] = self._silent[writer] = None
        return True

    def _left(self, writer: asyncio.StreamWriter) -> None:
        self._open.pop(writer, None)
        self._silent.pop(writer, None)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.close()
