"""Brokers of the release before and of this one on the same addresses: the old ones speak as they always did."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import uvloop

from daemon.handshakes import RefusedHandshakes
from daemon.identity import Role
from data_plane.authz.peers import PeerRules
from data_plane.broker import peer_wire as wire
from data_plane.broker.internal_handshakes import InternalHandshakes
from data_plane.broker.server import Listener, bind, credentials_within
from data_plane.broker.transition import BothTransports, OldDoors, TransitionConfig
from data_plane.contract import replication_pb2 as pb
from data_plane.node.ports import CallFailed, ConnectionLost, Peer
from penstock.contract.errors import ConfigurationError, ErrorCode
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.ids import BrokerId
from tests.certificates import authority, identity, own, write
from tests.unit.broker.listeners import LOOPBACK, MS, World, channel, serving

SECRET = "s" * 64
ROLES = frozenset({Role.BROKER, Role.OPERATOR, Role.CONTROL_PLANE})


def old_hello(form: wire.Form, method: str, secret: str = SECRET) -> bytes:
    """As the release before says it."""
    parts = [text.encode() for text in (method, secret, "r-1")]
    return b"".join([struct.pack(">4sBBHHH", b"PSTP", 1, form, *map(len, parts)), *parts])


OLD_WELCOME = b"\x02\x00\x00\x00\x05PSTP\x01"


class Doors:
    """A broker in transition: `peer` and `internal` are its addresses."""

    def __init__(self, world: World, doors: OldDoors) -> None:
        self.world = world
        self.peer = Peer(BrokerId(1), f"127.0.0.1:{doors.ports['peer']}")
        self.internal = f"127.0.0.1:{doors.ports['internal']}"

    def transport(self) -> BothTransports:
        return BothTransports(self.world.transport, SECRET, "c1")


@contextlib.asynccontextmanager
async def in_transition(connections_max: int = 100) -> AsyncIterator[Doors]:
    me = identity("broker-1")
    async with serving() as world:
        within, _ = world.services()
        rules = PeerRules(
            cluster_id="c1", roles=dict.fromkeys([*within.streams, *within.calls, *within.watches], ROLES)
        )
        handshakes, refused = InternalHandshakes(), RefusedHandshakes()
        server, port = bind(LOOPBACK, credentials_within(me, handshakes), 100, 100)
        server.add_generic_rpc_handlers(
            (
                Listener(
                    within,
                    rules=rules,
                    handshakes=handshakes,
                    refused_handshakes=refused,
                    strangers=world.strangers,
                    fault=world.faults.append,
                ),
            )
        )
        await server.start()
        doors = OldDoors(
            SECRET,
            me.current.identity,
            {"internal": LOOPBACK, "peer": LOOPBACK},
            {"internal": port, "peer": int(world.peer.rpartition(":")[2])},
            connections_max,
        )
        await doors.start(within, within, rules, refused, world.faults.append)
        try:
            yield Doors(world, doors)
        finally:
            await doors.stop()
            await server.stop(None)


async def said_to(address: str, said: bytes, size: int) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(said)
    async with asyncio.timeout(MS / 1_000):
        heard = await reader.readexactly(size)
    writer.close()
    return heard


def test_a_broker_of_the_release_before_is_taken_by_its_secret_and_known_by_its_first_frame() -> None:
    async def scenario() -> None:
        async with in_transition() as doors:
            opening = pb.ReplicaOpenHead(broker_id=7, broker_epoch=1).SerializeToString()
            frame = wire.frame(pack_frame(FrameKind.REPLICA_OPEN, opening))
            said = old_hello(wire.Form.STREAM, "/s/echo") + frame
            heard = await said_to(doors.peer.address, said, len(OLD_WELCOME) + len(frame))
            assert heard == OLD_WELCOME + frame
            (caller,) = doors.world.callers
            assert caller.identity is not None and caller.identity.uri == "penstock://c1/broker/7"
            said = old_hello(wire.Form.CALL, "/c/echo") + wire.frame(b"x")
            heard = await said_to(doors.peer.address, said, len(OLD_WELCOME) + 5 + len(b"answer x"))
            assert heard.endswith(b"answer x")

    uvloop.run(scenario())


def test_the_wrong_secret_and_what_is_no_hello_are_refused() -> None:
    async def scenario() -> None:
        async with in_transition() as doors:
            end = wire.end(ErrorCode.UNAUTHENTICATED, "the peer listener demands the cluster secret")
            for secret in ("x" * 64, "", SECRET[:-1], SECRET + "x"):
                said = old_hello(wire.Form.STREAM, "/s/echo", secret)
                assert await said_to(doors.peer.address, said, len(end)) == end
            for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"PSTP\x01\x09" + bytes(30), b"\x16garbage", b"P"):
                host, _, port = doors.peer.address.rpartition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(garbage)
                writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            assert doors.world.callers == []
            assert doors.world.faults == []

    uvloop.run(scenario())


def test_this_releases_brokers_and_operators_come_in_by_the_same_addresses() -> None:
    async def scenario() -> None:
        async with in_transition() as doors:
            transport = doors.transport()
            stream = await transport.connect(doors.peer, "/s/echo", MS)
            frames = [b"", b"x", bytes(3_000_000)]
            for frame in frames:
                await stream.send(frame)
                assert await stream.receive() == frame
            assert doors.world.callers[0].identity == identity("broker-2").current.identity
            assert await transport.call(doors.peer, "/c/echo", b"x", MS) == b"answer x"
            async with channel(doors.internal, identity("operator")) as opened:
                assert await opened.unary_unary("/c/echo")(b"x", timeout=MS / 1_000) == b"answer x"
            stream.close()

    uvloop.run(scenario())


def test_a_control_plane_of_the_release_before_calls_by_its_secret() -> None:
    async def scenario() -> None:
        async with in_transition() as doors, channel(doors.internal) as opened:
            ask = opened.unary_unary("/c/echo")
            key = "x-penstock-cluster-secret"
            assert await ask(b"x", metadata=((key, SECRET),), timeout=MS / 1_000) == b"answer x"
            for metadata in ((), ((key, "x" * 64),)):
                call = ask(b"x", metadata=metadata, timeout=MS / 1_000)
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED

    uvloop.run(scenario())


def test_a_broker_of_the_release_before_is_dialled_as_it_understands_it() -> None:
    async def scenario() -> None:
        async with in_transition() as doors:
            tls_hung_up_on = 0

            async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal tls_hung_up_on
                first = await reader.readexactly(4)
                if first != b"PSTP":
                    tls_hung_up_on += 1
                    writer.transport.abort()
                    return
                hello = old_hello(wire.Form.CALL, "/c/echo")
                rest = await reader.readexactly(len(hello) - 4 - 3 + 16 + len(wire.frame(b"x")))
                assert SECRET.encode() in rest
                writer.write(OLD_WELCOME + wire.frame(b"old answer") + wire.end(0, ""))
                writer.close()

            async with await asyncio.start_server(old, "127.0.0.1", 0) as server:
                peer = Peer(BrokerId(2), f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
                transport = doors.transport()
                for _ in range(3):
                    assert await transport.call(peer, "/c/echo", b"x", MS) == b"old answer"
            assert tls_hung_up_on == 1, "it is remembered"
            with pytest.raises(ConnectionLost):
                await transport.call(peer, "/c/echo", b"x", MS)

    uvloop.run(scenario())


def test_a_broker_that_does_not_serve_the_release_before_any_more_is_reached_at_once() -> None:
    async def scenario() -> None:
        async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if await reader.readexactly(4) == b"PSTP":
                writer.write(OLD_WELCOME + wire.frame(b"old answer") + wire.end(0, ""))
                writer.close()
            else:
                writer.transport.abort()

        async with in_transition() as doors:
            transport = doors.transport()
            async with await asyncio.start_server(old, "127.0.0.1", 0) as server:
                address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
                peer = Peer(BrokerId(1), address)
                assert await transport.call(peer, "/c/echo", b"x", MS) == b"old answer"
            async with serving(peer_at=address):
                stream = await transport.connect(peer, "/s/echo", MS)
                await stream.send(b"x")
                assert await stream.receive() == b"x"
                stream.close()

    uvloop.run(scenario())


def test_a_refusal_is_not_asked_again_in_plain_text() -> None:
    async def scenario() -> None:
        async with in_transition() as doors:
            with pytest.raises(CallFailed, match="orders: no such topic"):
                await doors.transport().call(doors.peer, "/c/fail", b"not found", MS)

    uvloop.run(scenario())


@pytest.mark.parametrize("refused", ["theirs", "ours", "another broker's"])
def test_a_refused_certificate_makes_no_peer_of_the_release_before(tmp_path: Path, refused: str) -> None:
    """The old listener at the same address would take the secret, and the call."""
    other = authority(name="other")
    believed = {"theirs": [other], "ours": [authority(), other]}.get(refused, [authority()])
    issuer = authority() if refused == "another broker's" else other
    caller = own(write(tmp_path, "broker-2", ca=issuer, believed=believed), "broker-2")

    async def scenario() -> None:
        async with in_transition() as doors:
            peer = doors.peer if refused != "another broker's" else Peer(BrokerId(3), doors.peer.address)
            transport = BothTransports(doors.world.transport_of(caller), SECRET, "c1")
            for _ in range(3):
                with pytest.raises(ConnectionLost):
                    await transport.call(peer, "/c/echo", b"x", MS)
                with pytest.raises(ConnectionLost):
                    await transport.connect(peer, "/s/echo", MS)
            assert doors.world.callers == []
            await transport.close()

    uvloop.run(scenario())


def test_connections_that_say_nothing_make_way_at_the_addresses_of_both_releases() -> None:
    async def scenario() -> None:
        async with in_transition(connections_max=2) as doors:
            for address in (doors.peer.address, doors.internal):
                host, _, port = address.rpartition(":")
                silent = [await asyncio.open_connection(host, int(port)) for _ in range(12)]
                for reader, _ in silent[:8]:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b"", "the oldest are hung up on"
                assert not any(reader.at_eof() for reader, _ in silent[-3:])
                for _, writer in silent:
                    writer.close()
            assert await doors.transport().call(doors.peer, "/c/echo", b"x", MS) == b"answer x"

    uvloop.run(scenario())


def test_what_has_a_place_keeps_it_when_there_are_too_many() -> None:
    async def scenario() -> None:
        async with in_transition(connections_max=1) as doors:
            transport = doors.transport()
            streams = [await transport.connect(doors.peer, "/s/echo", MS) for _ in range(2)]
            with pytest.raises(ConnectionLost):
                await transport.connect(doors.peer, "/s/echo", MS)
            for stream in streams:
                await stream.send(b"x")
                assert await stream.receive() == b"x"
                stream.close()

    uvloop.run(scenario())


@pytest.mark.parametrize("content", [b"short\n", b"\xff" * 64, None])
def test_a_secret_file_that_holds_no_secret_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"transition\.cluster_secret_file: "):
        TransitionConfig(cluster_secret_file=file).secret()
