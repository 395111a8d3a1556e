"""Certificates of every wrong kind on real sockets, on both sides: refused with the reason and counted; none harms."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop

from daemon.hang_ups import MADE_WAY, HangUps
from daemon.tls import IdentityConfig, OwnIdentity
from data_plane.authz.peers import PeerRules
from data_plane.broker.peer_listener import PeerListener, _Accepted, bind_peers
from data_plane.node.ports import ConnectionLost, Peer
from penstock.contract.ids import BrokerId
from tests.certificates import authority, identity, own, write
from tests.unit.broker.listeners import CALLERS, LOOPBACK, MS, World, channel, run, serving
from tests.waiting import PATIENCE_S, until


class Shown(OwnIdentity):
    """What a process shows that does not check its own files: made of files that were good once."""

    def __init__(self, files: IdentityConfig, good: OwnIdentity) -> None:
        self.current = good.current
        for context in (self.current.server, self.current.client):
            context.load_cert_chain(files.certificate_file, files.key_file)


def shown(folder: Path, name: str, files: IdentityConfig) -> OwnIdentity:
    return Shown(files, own(write(folder / "good", name), name))


def wrong(folder: Path, name: str, kind: str) -> OwnIdentity:
    """An identity of that name with something wrong with it."""
    where = folder / "wrong"
    match kind:
        case "wrong_authority":
            return shown(folder, name, write(where, name, ca=authority(name="other")))
        case "expired":
            return shown(folder, name, write(where, name, begins_in=timedelta(days=-5)))
        case "not_yet_valid":
            return shown(folder, name, write(where, name, begins_in=timedelta(days=5)))
        case "name_mismatch":
            return shown(folder, name, write(where, name, hosts=["broker.example"]))
        case "no_identity":
            return shown(folder, name, write(where, "etcd-1"))
        case "wrong_role":
            return shown(folder, name, write(where, "runner"))
    raise AssertionError(kind)


async def unharmed(world: World) -> None:
    assert await world.transport.call(world.broker, "/c/echo", b"x", MS) == b"answer x"
    assert world.faults == []


@pytest.mark.parametrize("kind", ["wrong_authority", "expired", "not_yet_valid", "no_identity", "wrong_role"])
def test_a_caller_with_a_wrong_certificate_is_turned_away_and_counted(tmp_path: Path, kind: str) -> None:
    caller = wrong(tmp_path, "broker-2", kind)

    async def scenario(world: World) -> None:
        stranger = world.transport_of(caller)
        with pytest.raises(ConnectionLost):
            await stranger.connect(world.broker, "/s/echo", MS)
        counts = world.refused_handshakes.counts
        await until("it is counted", lambda: counts["peer", kind] == 1)
        assert world.peer_listener.turned_away() == {"127.0.0.1": 1}
        assert world.callers == []
        await stranger.close()
        await unharmed(world)

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("wrong_authority", "no authority in our identity.ca_file vouches for its certificate"),
        ("expired", "its certificate has expired, or a clock is wrong; renew it"),
        ("not_yet_valid", "its certificate is not valid yet, or a clock is wrong; set the clock"),
        ("name_mismatch", "its certificate is not for the host of this address; issue one that names it"),
        ("no_identity", "the certificate names no penstock://... among its subject alternative names"),
    ],
)
def test_a_broker_with_a_wrong_certificate_is_not_spoken_to(tmp_path: Path, kind: str, says: str) -> None:
    async def scenario() -> None:
        async with serving(own=wrong(tmp_path, "broker-1", kind)) as world:
            for _ in range(2):
                with pytest.raises(ConnectionLost) as lost:
                    await world.transport.connect(world.broker, "/s/echo", MS)
                (line,) = str(lost.value).splitlines()
                assert says in line
            assert world.refused_handshakes.counts["outgoing", kind] == 2
            assert world.callers == []

    uvloop.run(scenario())


@pytest.mark.parametrize(
    ("name", "cluster_id", "kind"),
    [("broker-2", "c1", "wrong_broker"), ("broker-1", "c2", "wrong_cluster")],
)
def test_what_listens_at_a_brokers_address_must_be_that_broker(
    tmp_path: Path, name: str, cluster_id: str, kind: str
) -> None:
    """Signed by one authority, as clusters with a PKI of their own may be."""
    files = write(
        tmp_path / "listens", name, ca=authority(cluster_id), believed=[authority(), authority("c2")]
    )

    async def scenario() -> None:
        listens = Shown(files, own(write(tmp_path / "good", "broker-1"), "broker-1"))
        async with serving(own=listens) as world:
            caller = own(
                write(tmp_path / "calls", "broker-2", believed=[authority(), authority("c2")]), "broker-2"
            )
            transport = world.transport_of(caller)
            with pytest.raises(ConnectionLost, match="penstock://c1/broker/1 is registered with it"):
                await transport.connect(world.broker, "/s/echo", MS)
            assert world.refused_handshakes.counts["outgoing", kind] == 1
            await transport.close()

    uvloop.run(scenario())


def test_plain_text_is_turned_away_and_counted() -> None:
    async def scenario(world: World) -> None:
        host, _, port = world.peer.partition(":")
        for said in (b"PSTP\x01\x01" + bytes(30), b"GET / HTTP/1.1\r\n\r\n", bytes(100)):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        counts = world.refused_handshakes.counts
        await until("all are counted", lambda: counts["peer", "plain_text"] == 3)
        await unharmed(world)

    run(scenario)


def test_who_shows_no_certificate_is_turned_away_and_counted() -> None:
    async def scenario(world: World) -> None:
        host, _, port = world.peer.partition(":")
        bare = ssl.create_default_context(cadata=identity("broker-2").current.ca.decode())
        reader, writer = await asyncio.open_connection(host, int(port), ssl=bare)
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
        writer.close()
        counts = world.refused_handshakes.counts
        await until("it is counted", lambda: counts["peer", "no_certificate"] == 1)
        await unharmed(world)

    run(scenario)


def test_a_plain_listener_at_a_brokers_address_is_named() -> None:
    async def scenario(world: World) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            peer = Peer(BrokerId(1), f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            with pytest.raises(ConnectionLost, match="it speaks no TLS"):
                await world.transport.connect(peer, "/s/echo", MS)
        assert world.refused_handshakes.counts["outgoing", "plain_text"] == 1

    run(scenario)


def test_one_that_is_silent_in_the_handshake_is_hung_up_on_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_plane.broker.peer_listener.HELLO_S", 0.1)

    async def scenario(world: World) -> None:
        host, _, port = world.peer.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert world.refused_handshakes.counts["peer", "not_in_time"] == 1

    run(scenario)


# -- files that change -------------------------------------------------------------------------------------------


def changing(folder: Path, steps: Callable[[World, OwnIdentity, OwnIdentity], Awaitable[None]]) -> None:
    """With files of their own for the listening broker 1 and the calling broker 2."""

    async def scenario() -> None:
        listens = own(write(folder / "1", "broker-1"), "broker-1")
        calls = own(write(folder / "2", "broker-2"), "broker-2")
        async with serving(own=listens) as world:
            await steps(world, listens, calls)

    uvloop.run(scenario())


def test_streams_outlast_a_change_of_certificates_and_of_the_authority(tmp_path: Path) -> None:
    old, new = authority(), authority(name="next")

    async def steps(world: World, listens: OwnIdentity, calls: OwnIdentity) -> None:
        transport = world.transport_of(calls)
        stream = await transport.connect(world.broker, "/s/echo", MS)
        admin = own(write(tmp_path / "o", "operator", believed=[old, new]), "operator")

        async def works() -> None:
            await stream.send(b"still there")
            assert await stream.receive() == b"still there"
            assert await transport.call(world.broker, "/c/echo", b"x", MS) == b"answer x"
            async with channel(world.internal, admin) as opened:
                assert await opened.unary_unary("/c/echo")(b"x", timeout=MS / 1_000) == b"answer x"

        await works()
        for ca, believed in ((old, [old, new]), (new, [old, new]), (new, [new])):
            for folder, name, who in (("1", "broker-1", listens), ("2", "broker-2", calls)):
                write(tmp_path / folder, name, ca=ca, believed=believed)
                assert who.look()
                if believed == [new]:
                    admin = own(write(tmp_path / "o", "operator", ca=new), "operator")
                else:
                    await works()
        await works()
        late = world.transport_of(identity("broker-3"))
        with pytest.raises(ConnectionLost):
            await late.connect(world.broker, "/s/echo", MS)
        assert world.refused_handshakes.counts["peer", "wrong_authority"] == 0
        await transport.close()
        await late.close()

    changing(tmp_path, steps)


def test_a_connection_that_arrives_while_all_places_are_taken_by_handshakes_gets_one() -> None:
    async def scenario(world: World) -> None:
        bound, port = bind_peers(LOOPBACK)
        hang_ups = HangUps("peer")
        few = PeerListener(
            world.services()[0].streams,
            {},
            rules=PeerRules(cluster_id="c1", roles={"/s/echo": CALLERS}),
            tls=lambda: identity("broker-1").current.server,
            connections_max=2,
            refused_handshakes=world.refused_handshakes,
            hang_ups=hang_ups,
            fault=world.faults.append,
        )
        await few.start(bound)
        with contextlib.ExitStack() as silent:
            for _ in range(2):
                silent.enter_context(socket.create_connection(("127.0.0.1", port)))
            await until("both are there", lambda: len(few._connections) == 2)
            peer = Peer(BrokerId(1), f"127.0.0.1:{port}")
            connection = await world.transport.connect(peer, "/s/echo", MS)
            await connection.send(b"inside")
            assert await connection.receive() == b"inside"
            assert hang_ups.counts == {MADE_WAY: 1}
        await few.stop()

    run(scenario)


def test_one_that_makes_way_before_its_handshake_has_begun_is_closed() -> None:
    async def scenario(world: World) -> None:
        listener = world.peer_listener
        listener._connections_max = 1
        pairs = [socket.socketpair() for _ in range(2)]
        accepted = [_Accepted(listener, ours, ("test", 1)) for ours, _ in pairs]
        async with asyncio.timeout(PATIENCE_S):
            await accepted[0].gone.wait()
        assert pairs[0][0].fileno() == -1 and list(listener._connections) == accepted[1:]
        for _, theirs in pairs:
            theirs.close()
        async with asyncio.timeout(PATIENCE_S):
            await accepted[1].gone.wait()

    run(scenario)
