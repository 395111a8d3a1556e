"""Streams and calls between brokers on the loopback address: who is let in, what is bounded, and how they end."""

import asyncio
import contextlib
import logging
import re
import select
import socket
import struct
from collections.abc import AsyncIterator

import pytest
import uvloop

from daemon.hang_ups import HangUps
from data_plane.authz.peers import PeerRules
from data_plane.broker import peer_connection, peer_listener
from data_plane.broker import peer_wire as wire
from data_plane.broker.handling import READ_AHEAD_BYTES, READ_AHEAD_FRAMES
from data_plane.broker.peer_connection import PeerConnection
from data_plane.broker.peer_listener import bind_peers
from data_plane.node.ports import CallFailed, ConnectionLost, Peer
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId
from tests.certificates import CLUSTER, calling, identity
from tests.certificates import serving as serving_as
from tests.unit.broker.listeners import CALLERS, CONNECTIONS, LOOPBACK, MS, World, run, serving
from tests.waiting import PATIENCE_S, until

HEAD = struct.Struct(">BI")


def hello(method: str = "/s/echo", form: wire.Form = wire.Form.STREAM, request_id: str = "r-1") -> bytes:
    return wire.Hello(form=form, method=method, request_id=request_id).encode()


@contextlib.asynccontextmanager
async def raw(
    world: World, caller: str = "broker-2"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of that process; none speaks no TLS."""
    host, _, port = world.peer.partition(":")
    tls = calling(identity(caller)) if caller else None
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def message(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    kind, length = HEAD.unpack(await reader.readexactly(HEAD.size))
    return kind, await reader.readexactly(length)


async def end_of(reader: asyncio.StreamReader) -> tuple[int, str]:
    """How the listener ends the connection, after what it says before."""
    kind, payload = await message(reader)
    while kind != wire.Kind.END:
        kind, payload = await message(reader)
    return wire.read_end(payload)


def at(address: str, broker: int = 1) -> Peer:
    return Peer(BrokerId(broker), address)


# -- connecting --------------------------------------------------------------------------------------------


def test_nobody_there_is_a_lost_connection() -> None:
    async def scenario(world: World) -> None:
        bound, port = bind_peers(LOOPBACK)
        bound.close()
        with pytest.raises(ConnectionLost, match="Connection refused"):
            await world.transport.connect(at(f"127.0.0.1:{port}"), "/s/echo", MS)
        with pytest.raises(ConnectionLost, match="Connection refused"):
            await world.transport.call(at(f"127.0.0.1:{port}"), "/c/echo", b"", MS)

    run(scenario)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:http", ":1"])
def test_what_is_no_address_is_a_lost_connection(address: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ConnectionLost, match="host:port required"):
            await world.transport.connect(at(address), "/s/echo", MS)

    run(scenario)


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "..", "no-such-host.invalid"])
def test_a_host_that_cannot_be_looked_up_is_a_lost_connection(host: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ConnectionLost, match=re.escape(host[:5])):
            await world.transport.connect(at(f"{host}:1"), "/s/echo", MS)

    run(scenario)


def test_a_peer_that_accepts_and_is_silent_costs_the_timeout_and_no_more() -> None:
    async def scenario(world: World) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(ConnectionLost, match="no answer within 200 ms"):
                await world.transport.connect(at(address), "/s/echo", 200)
            with pytest.raises(ConnectionLost, match="no answer within 200 ms"):
                await world.transport.call(at(address), "/c/echo", b"", 200)
        await until("both are hung up on", lambda: not world.transport._open)

    run(scenario)


def test_a_broker_that_comes_back_is_reached_at_once() -> None:
    async def scenario() -> None:
        async with serving() as world:
            transport = world.transport_of(identity("broker-2"))
            address = world.peer
            connection = await transport.connect(at(address), "/s/echo", MS)
        with pytest.raises(ConnectionLost):
            await connection.receive()
        for _ in range(20):
            with pytest.raises(ConnectionLost):
                await transport.connect(at(address), "/s/echo", MS)
        async with serving(address):
            again = await transport.connect(at(address), "/s/echo", MS)
            await again.send(b"back")
            assert await again.receive() == b"back"
        await transport.close()

    uvloop.run(scenario())


def test_brokers_that_connect_while_one_boots_wait_for_it() -> None:
    async def scenario(world: World) -> None:
        bound, port = bind_peers(LOOPBACK)
        connecting = asyncio.create_task(world.transport.connect(at(f"127.0.0.1:{port}"), "/s/echo", MS))
        await until("it has connected", lambda: bool(select.select([bound], [], [], 0)[0]))
        assert not connecting.done()
        other = peer_listener.PeerListener(
            world.services()[0].streams,
            {},
            rules=PeerRules(cluster_id=CLUSTER, roles={"/s/echo": CALLERS}),
            tls=lambda: serving_as(identity("broker-1")),
            connections_max=1,
            refused_handshakes=world.refused_handshakes,
            hang_ups=HangUps("peer"),
            fault=world.faults.append,
        )
        await other.start(bound)
        connection = await connecting
        await connection.send(b"x")
        assert await connection.receive() == b"x"
        await other.stop()
        with pytest.raises(ConnectionLost):
            await connection.receive()

    run(scenario)


def test_two_brokers_cannot_share_a_port() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(OSError, match="cannot be bound"):
            bind_peers(world.peer)

    run(scenario)


def test_connections_beyond_the_bound_are_hung_up_on_and_the_others_stay() -> None:
    async def scenario(world: World) -> None:
        made = [await world.transport.connect(world.broker, "/s/echo", MS) for _ in range(CONNECTIONS)]
        with pytest.raises(ConnectionLost):
            await world.transport.connect(world.broker, "/s/echo", MS)
        await made[0].send(b"still there")
        assert await made[0].receive() == b"still there"
        made[1].close()
        await until("its place is free", lambda: len(world.peer_listener._connections) < CONNECTIONS)
        await world.transport.connect(world.broker, "/s/echo", MS)

    run(scenario)


@pytest.mark.parametrize(
    ("caller", "said"),
    [("", b""), ("broker-2", b""), ("broker-2", hello()[:-1]), ("runner", hello())],
    ids=["no handshake", "nothing", "half", "wrong role"],
)
def test_connections_that_are_not_let_in_keep_no_broker_out(
    caller: str, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a hundred handshakes take, those that were refused first are still there.
    monkeypatch.setattr(peer_connection, "_LINGER_S", PATIENCE_S)

    async def scenario(world: World) -> None:
        async with contextlib.AsyncExitStack() as strangers:
            oldest, _ = await strangers.enter_async_context(raw(world, caller))
            for _ in range(CONNECTIONS - 1):
                _, writer = await strangers.enter_async_context(raw(world, caller))
                writer.write(said)
            await until("all are there", lambda: len(world.peer_listener._connections) == CONNECTIONS)
            connection = await world.transport.connect(world.broker, "/s/echo", MS)
            assert await oldest.read() == b""
            assert len(world.peer_listener._connections) == CONNECTIONS
            await connection.send(b"inside")
            assert await connection.receive() == b"inside"
            assert world.peer_listener.turned_away()["127.0.0.1"] >= 1

    run(scenario)


def test_streams_beyond_the_bound_are_refused_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_listener, "HANDLERS_AT_ONCE_MAX", 2)

    async def scenario(world: World) -> None:
        streams = [await world.transport.connect(world.broker, "/s/echo", MS) for _ in range(2)]
        with pytest.raises(
            ConnectionLost, match="BROKER_UNAVAILABLE: 2 streams and calls are served already"
        ):
            await world.transport.connect(world.broker, "/s/echo", MS)
        await streams[0].send(b"still there")
        assert await streams[0].receive() == b"still there"
        streams[1].close()
        await until("there is room again", lambda: world.peer_listener._handlers.count < 2)
        another = await world.transport.connect(world.broker, "/s/echo", MS)
        another.close()
        streams[0].close()

    run(scenario)


def test_the_kernel_clears_away_what_a_dead_network_has_left() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/echo", MS)
        (accepted,) = world.peer_listener._connections
        assert isinstance(connection, PeerConnection)
        for side in (connection, accepted):
            wired = side._transport.get_extra_info("socket")
            assert wired.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert wired.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
            assert wired.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
            assert wired.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(scenario)


# -- who may call ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caller", ["runner", "control-plane"])
@pytest.mark.parametrize(("form", "method"), [(wire.Form.STREAM, "/s/echo"), (wire.Form.CALL, "/c/echo")])
def test_the_peer_listener_takes_roles_that_may_call_the_method_and_no_others(
    caller: str, form: wire.Form, method: str
) -> None:
    async def scenario(world: World) -> None:
        async with raw(world, caller) as (reader, writer):
            writer.write(hello(method, form) + wire.frame(b"x"))
            code, reason = await end_of(reader)
        assert code == ErrorCode.UNAUTHENTICATED
        assert reason == f"{caller} may not call {method}: broker or operator required"
        assert world.callers == []
        assert not world.began.is_set()
        assert world.peer_listener.turned_away() == {"127.0.0.1": 1}
        assert world.peer_listener.turned_away() == {}
        assert world.peer_listener.last_reason == reason
        assert world.refused_handshakes.counts == {("peer", "wrong_role"): 1}

    run(scenario)


def test_a_transport_of_the_wrong_role_is_refused_with_the_reason_which_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World) -> None:
        stranger = world.transport_of(identity("runner"))
        for _ in range(3):
            with pytest.raises(ConnectionLost, match="UNAUTHENTICATED: runner may not call /s/echo"):
                await stranger.connect(world.broker, "/s/echo", MS)
        with pytest.raises(CallFailed, match="runner may not call /c/echo"):
            await stranger.call(world.broker, "/c/echo", b"", MS)
        await stranger.close()

    with caplog.at_level(logging.WARNING, "penstock.peers"):
        run(scenario)
    logged = [vars(one)["reason"] for one in caplog.records if one.name == "penstock.peers"]
    assert len(logged) == 2
    assert logged[0].startswith("UNAUTHENTICATED: runner may not call /s/echo")


@pytest.mark.parametrize(
    ("form", "method"),
    [(wire.Form.STREAM, "/c/echo"), (wire.Form.CALL, "/s/echo"), (wire.Form.CALL, "/w/count")],
)
def test_a_method_that_is_not_offered_in_that_form_is_refused(form: wire.Form, method: str) -> None:
    async def scenario(world: World) -> None:
        async with raw(world) as (reader, writer):
            writer.write(hello(method, form=form))
            code, reason = await end_of(reader)
        assert (code, reason) == (ErrorCode.INVALID_REQUEST, f"{method}: no such {form.name.lower()}")

    run(scenario)


def test_a_caller_is_known_by_its_address_its_connection_and_its_request() -> None:
    async def scenario(world: World) -> None:
        for request_id in ("job-7:a/b", 'a"b'):
            async with raw(world) as (reader, writer):
                writer.write(hello("/c/echo", form=wire.Form.CALL, request_id=request_id) + wire.frame(b"x"))
                assert (await message(reader))[0] == wire.Kind.WELCOME
                assert await message(reader) == (wire.Kind.FRAME, b"answer x")
                assert await end_of(reader) == (0, "")
                port = writer.get_extra_info("sockname")[1]
                assert world.callers[-1].connection == f"127.0.0.1:{port}"
        kept, made = world.callers
        assert (kept.peer, kept.identity, kept.authorization) == (
            "127.0.0.1",
            identity("broker-2").current.identity,
            "",
        )
        assert kept.request_id == "job-7:a/b"
        assert made.request_id != 'a"b' and len(made.request_id) == 16

    run(scenario)


def test_one_that_says_no_hello_in_time_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one whose hello comes has the usual time: a machine with much to do takes longer than the short one."""

    async def scenario(world: World) -> None:
        usual_s = peer_listener.HELLO_S
        monkeypatch.setattr(peer_listener, "HELLO_S", 0.05)
        for said in (b"", hello()[:-1]):
            async with raw(world) as (reader, writer):
                writer.write(said)
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        assert world.peer_listener.turned_away() == {"127.0.0.1": 2}
        monkeypatch.setattr(peer_listener, "HELLO_S", usual_s)
        connection = await world.transport.connect(world.broker, "/s/echo", MS)
        await connection.send(b"in time")
        assert await connection.receive() == b"in time"

    run(scenario)


def test_a_call_whose_request_does_not_come_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIRST_REQUEST_MS_MAX", 100)

    async def scenario(world: World) -> None:
        async with raw(world) as (reader, writer):
            writer.write(hello("/c/echo", form=wire.Form.CALL))
            code, reason = await end_of(reader)
            assert (code, reason) == (ErrorCode.INVALID_REQUEST, "no request came within 100 ms")

    run(scenario)


# -- versions ----------------------------------------------------------------------------------------------


def test_a_broker_of_another_version_is_told_so() -> None:
    async def scenario(world: World) -> None:
        async with raw(world) as (reader, writer):
            writer.write(wire.MAGIC + bytes([wire.VERSION + 1]) + bytes(100))
            code, reason = await end_of(reader)
        assert code == ErrorCode.INVALID_REQUEST
        assert (
            reason
            == f"the caller is a broker of another version: {wire.VERSION + 1}, {wire.VERSION} required"
        )

    run(scenario)


def test_a_registration_of_an_older_broker_says_what_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="a broker of an older version"):
                await world.transport.connect(at(""), "/s/echo", MS)

    with caplog.at_level(logging.WARNING, "penstock.peers"):
        run(scenario)
    assert len([one for one in caplog.records if one.name == "penstock.peers"]) == 1


@pytest.mark.parametrize("listener", ["internal", "client"])
def test_a_listener_of_another_kind_is_named_as_the_reason(
    listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        address = world.internal if listener == "internal" else world.client
        with pytest.raises(
            ConnectionLost,
            match=r"does not speak as brokers of this version do|the peer is gone|it speaks no TLS",
        ):
            await world.transport.connect(at(address), "/s/echo", MS)

    run(scenario)


# -- bounds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [wire.FRAME_LENGTH_MAX + 1, 2**32 - 1])
def test_a_length_over_the_limit_ends_the_connection_before_memory_is_taken(length: int) -> None:
    async def scenario(world: World) -> None:
        other = await world.transport.connect(world.broker, "/s/echo", MS)
        async with raw(world) as (reader, writer):
            writer.write(hello() + HEAD.pack(wire.Kind.FRAME, length))
            code, reason = await end_of(reader)
            assert (code, reason) == (ErrorCode.INVALID_REQUEST, f"a message of kind 1 and {length} bytes")
        await world.finished.wait()
        await other.send(b"still there")
        assert await other.receive() == b"still there"
        assert world.seen == [b"still there"]
        assert world.faults == []

    run(scenario)


def test_no_memory_is_taken_for_what_comes_behind_a_wrong_role() -> None:
    async def scenario(world: World) -> None:
        async with raw(world, "runner") as (reader, writer):
            writer.write(hello() + HEAD.pack(wire.Kind.FRAME, wire.FRAME_LENGTH_MAX))
            assert (await end_of(reader))[0] == ErrorCode.UNAUTHENTICATED
            (accepted,) = world.peer_listener._connections
            writer.write(bytes(100_000))
            await writer.drain()
            assert len(accepted._incoming.free()) == 64 * limits.KIB

    run(scenario)


def test_a_frame_that_no_peer_would_read_is_not_sent() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/echo", MS)
        with pytest.raises(ConnectionLost, match=f"at most {wire.FRAME_LENGTH_MAX} allowed"):
            await connection.send(bytes(wire.FRAME_LENGTH_MAX + 1))
        with pytest.raises(ConnectionLost, match=f"at most {wire.FRAME_LENGTH_MAX} allowed"):
            await world.transport.call(world.broker, "/c/echo", bytes(wire.FRAME_LENGTH_MAX + 1), MS)

    run(scenario)


def test_no_more_is_read_ahead_than_the_bound_and_one_buffer() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/deaf", MS)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await connection.send(bytes(10_000))
                sent += 1

        flooding = asyncio.create_task(flood())
        (accepted,) = world.peer_listener._connections
        await until("reading has paused", lambda: accepted._reading_paused)
        await until(
            "the sender waits", lambda: isinstance(connection, PeerConnection) and connection._writing_paused
        )
        assert READ_AHEAD_BYTES <= accepted._buffered_bytes < READ_AHEAD_BYTES + 64 * limits.KIB
        before = sent
        world.release.set()
        await until("more has gone", lambda: sent > before + 100)
        flooding.cancel()

    run(scenario)


@pytest.mark.parametrize("lengths", [(0, 2**16 - 1), (2**16 - 1,) * 2, (1, wire.HELLO_BYTES_MAX - 10)])
def test_a_hello_that_says_it_is_too_long_is_refused_before_it_has_come(
    lengths: tuple[int, int],
) -> None:
    async def scenario(world: World) -> None:
        async with raw(world) as (reader, writer):
            writer.write(struct.pack(">4sBBHH", wire.MAGIC, wire.VERSION, wire.Form.STREAM, *lengths))
            code, reason = await end_of(reader)
        assert code == ErrorCode.INVALID_REQUEST
        assert reason == f"a hello of {10 + sum(lengths)} bytes, at most {wire.HELLO_BYTES_MAX} allowed"
        assert world.peer_listener.turned_away() == {"127.0.0.1": 1}

    run(scenario)


def test_empty_frames_are_not_read_ahead_without_a_bound() -> None:
    async def scenario(world: World) -> None:
        async with raw(world) as (_, writer):
            writer.write(hello("/s/deaf") + 1_000_000 * wire.frame(b""))
            await world.began.wait()
            (accepted,) = world.peer_listener._connections
            await until("reading has paused", lambda: accepted._reading_paused)
            assert len(accepted._frames) <= READ_AHEAD_FRAMES + 64 * limits.KIB // HEAD.size
            world.release.set()
            await until("all are received", lambda: len(world.seen) == 1_000_000)

    run(scenario)


def test_a_sender_of_much_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_connection, "_TURN_BYTES", 1_000)

    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/echo", MS)
        turns: list[str] = []
        await connection.send(bytes(600))
        asyncio.get_running_loop().call_soon(turns.append, "another's")
        await connection.send(bytes(600))
        assert turns == []
        await connection.send(bytes(600))
        assert turns == ["another's"]

    run(scenario)


def test_nothing_is_sent_behind_an_end_that_was_said_while_a_sender_let_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_connection, "_TURN_BYTES", 1_000)

    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/deaf", MS)
        await connection.send(bytes(1_000))
        asyncio.get_running_loop().call_soon(connection.close)
        with pytest.raises(ConnectionLost, match="closed by this side"):
            await connection.send(b"too late")
        world.release.set()
        await until("it has ended", lambda: not world.peer_listener._connections)
        assert world.seen == [bytes(1_000)]

    run(scenario)


def test_a_cancelled_send_has_sent_nothing_and_the_connection_is_whole() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/deaf", MS)
        assert isinstance(connection, PeerConnection)
        sent = 0
        while not connection._writing_paused:
            await connection.send(b"%d" % sent + bytes(100_000))
            sent += 1
        waiting = asyncio.create_task(connection.send(b"never"))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        world.release.set()
        await connection.send(b"last")
        await until("the last has come", lambda: bool(world.seen) and world.seen[-1] == b"last")
        assert world.seen[:-1] == [b"%d" % number + bytes(100_000) for number in range(sent)]

    run(scenario)


# -- ends --------------------------------------------------------------------------------------------------


def test_what_was_sent_before_a_close_still_arrives() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/deaf", MS)
        world.release.set()
        frames = [b"%d" % number * 1_000 for number in range(100)]
        for frame in frames:
            await connection.send(frame)
        connection.close()
        with pytest.raises(ConnectionLost, match="closed by this side"):
            await connection.send(b"x")
        await until("all has come", lambda: world.seen == frames)
        await until("no socket is left", lambda: not world.transport._open)

    run(scenario)


def test_a_peer_that_reads_no_end_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_connection, "_LINGER_S", 0.05)

    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/deaf", MS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                while True:
                    await connection.send(bytes(1_000_000))
        connection.close()
        await until("no socket is left", lambda: not world.transport._open)

    run(scenario)


def test_a_stop_hangs_up_on_everyone() -> None:
    async def scenario(world: World) -> None:
        connections = [await world.transport.connect(world.broker, "/s/echo", MS) for _ in range(5)]
        await world.peer_listener.stop()
        for connection in connections:
            with pytest.raises(ConnectionLost):
                await connection.receive()
        with pytest.raises(ConnectionLost):
            await world.transport.connect(world.broker, "/s/echo", MS)
        await until("all handlers were told", lambda: len(world.ends) == 5)
        assert "cancelled" not in world.ends

    run(scenario)


def test_calls_leave_no_connection_behind() -> None:
    async def scenario(world: World) -> None:
        for number in range(50):
            assert (
                await world.transport.call(world.broker, "/c/echo", b"%d" % number, MS)
                == b"answer %d" % number
            )
        began = asyncio.get_running_loop().time()
        await until(
            "no socket is left", lambda: not world.transport._open and not world.peer_listener._connections
        )
        assert asyncio.get_running_loop().time() - began < peer_connection._LINGER_S

    run(scenario)


@pytest.mark.parametrize("said", [wire.frame(b"early"), wire.frame(b"early") + wire.welcome()])
def test_a_peer_that_sends_before_it_has_welcomed_is_hung_up_on(said: bytes) -> None:
    async def scenario(world: World) -> None:
        gone = asyncio.Event()

        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            gone.set()
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0, ssl=serving_as(identity("broker-1")))
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionLost, match="sends before it has welcomed"):
                await world.transport.connect(at(f"127.0.0.1:{port}"), "/s/echo", MS)
            await gone.wait()

    run(scenario)


def test_a_caller_hangs_up_on_a_peer_that_answers_and_does_not_end() -> None:
    async def scenario(world: World) -> None:
        ends: list[tuple[int, str]] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(wire.welcome() + wire.frame(b"one") + wire.frame(b"two"))
            await reader.readexactly(len(hello("/c/echo", form=wire.Form.CALL, request_id="0" * 16)))
            ends.append(await end_of(reader))
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving_as(identity("broker-1")))
        async with server:
            port = server.sockets[0].getsockname()[1]
            assert await world.transport.call(at(f"127.0.0.1:{port}"), "/c/echo", b"x", MS) == b"one"
            await until("it heard the end", lambda: ends == [(0, "")])
            await until("nothing is left", lambda: not world.transport._open)

    run(scenario)


def test_a_send_on_a_socket_that_is_being_closed_is_a_lost_connection() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.broker, "/s/echo", MS)
        assert isinstance(connection, PeerConnection)
        connection._transport.abort()  # as the loop does when a write has failed
        with pytest.raises(ConnectionLost):
            await connection.send(b"into the void")

    run(scenario)


def test_a_call_that_is_answered_late_is_given_up_in_time() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ConnectionLost, match="no answer within 100 ms"):
            await world.transport.call(world.broker, "/c/slow", b"", 100)
        world.release.set()
        await world.finished.wait()
        assert world.ends == []

    run(scenario)
