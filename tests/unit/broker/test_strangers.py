"""Connections that were not admitted have a short time and a bound of their own; who was admitted is left alone."""

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from daemon.hang_ups import ADDRESS_HAS_ENOUGH, MADE_WAY, NOT_IN_TIME, HangUps
from data_plane.broker.strangers import (
    SPARED_S,
    STRANGER_S,
    AcceptedSocket,
    OpenSockets,
    PeerAddress,
    Strangers,
    peer_of_grpc,
    watch,
)
from data_plane.node.ports import ConnectionLost
from penstock.contract.methods import AUTHORIZATION
from penstock.rules.addresses import split_address
from tests.floods import DRIPPING, HOSTS, SAYINGS, attack
from tests.unit.broker.listeners import CONNECTIONS, GRPC, World, channel, run
from tests.waiting import PATIENCE_S

PORT = 9_000
PLACES = 64
"""16 of them for strangers, 4 of these for one address."""


def connection(number: int, host: str = "192.0.2.1") -> AcceptedSocket:
    return AcceptedSocket(number, number, PORT, PeerAddress(host, number))


class Look:
    """A listener, looked at again and again."""

    def __init__(self) -> None:
        self.strangers = Strangers(HangUps("client"), connections_max=PLACES)

    def __call__(self, now: float, *sockets: AcceptedSocket) -> dict[int, str]:
        """Who is hung up on, by number."""
        self.strangers.begin_look()
        return {accepted.descriptor: reason for accepted, reason in self.strangers.judge(now, sockets)}


def spread(numbers: range) -> list[AcceptedSocket]:
    """Connections of as many addresses."""
    return [connection(number, f"198.51.100.{number}") for number in numbers]


def test_who_is_admitted_stays_and_who_is_not_has_a_short_time() -> None:
    look = Look()
    look.strangers.admitted("ipv4:192.0.2.1:1")
    assert look(0.0, connection(1), connection(2)) == {}
    assert look(STRANGER_S - 0.1, connection(1), connection(2), connection(3)) == {}
    assert look(STRANGER_S, connection(1), connection(2), connection(3)) == {2: NOT_IN_TIME}
    assert look(2 * STRANGER_S, connection(1)) == {}
    assert look.strangers.count == 0


def test_a_connection_that_is_admitted_while_the_sockets_are_looked_at_stays_admitted() -> None:
    look = Look()
    look.strangers.begin_look()
    look.strangers.admitted("ipv4:192.0.2.1:7")
    look.strangers.judge(0.0, ())
    assert look(100.0, connection(7)) == {} and look(200.0, connection(7)) == {}


def test_the_port_of_an_admitted_connection_that_has_ended_is_a_strangers_again() -> None:
    look = Look()
    look.strangers.admitted("ipv4:192.0.2.1:1")
    look(0.0, connection(1))
    look(1.0)
    look(2.0, connection(1))
    assert look(2.0 + STRANGER_S, connection(1)) == {1: NOT_IN_TIME}


def test_an_address_has_few_strangers_the_newest_and_clients_that_have_just_come_are_spared() -> None:
    look = Look()
    first = [connection(number) for number in range(1, 11)]
    assert look(0.0, *first) == {}
    assert look(SPARED_S, *first, connection(11)) == dict.fromkeys(range(1, 8), ADDRESS_HAS_ENOUGH)


def test_beyond_the_strangers_of_all_addresses_the_oldest_make_way() -> None:
    look = Look()
    look(0.0, *spread(range(101, 111)))
    look(0.5, *spread(range(101, 121)))
    assert look(SPARED_S + 0.5, *spread(range(101, 121))) == dict.fromkeys(range(101, 105), MADE_WAY)


def test_beyond_the_strangers_of_all_addresses_those_with_the_most_give_way_to_who_has_one() -> None:
    look = Look()
    honest = connection(1, "192.0.2.99")
    flood = [connection(number, f"198.51.100.{number % 9}") for number in range(100, 127)]
    others = [connection(number, f"203.0.113.{number}") for number in range(200, 204)]
    look(0.0, honest)
    assert look(0.5, honest, *flood[:18], *others) == {}, "who has just come is spared"
    leaving = look(2.0, honest, *flood, *others)
    assert set(leaving) <= {accepted.descriptor for accepted in flood}
    assert set(leaving.values()) == {MADE_WAY} and len(leaving) == 18


def test_where_places_run_out_nobody_is_spared_and_the_listener_says_so() -> None:
    look = Look()
    leaving = look(0.0, *(connection(number) for number in range(PLACES)))
    assert len(leaving) == PLACES - 4 and set(leaving.values()) == {ADDRESS_HAS_ENOUGH}
    assert look.strangers.full == (
        "the client listener has 64 connections, as many as it takes: newcomers are refused"
    )
    look(1.0, connection(1))
    assert look.strangers.full == ""


def test_admitted_connections_alone_can_fill_a_listener_and_none_of_them_is_hung_up_on() -> None:
    look = Look()
    for number in range(PLACES):
        look.strangers.admitted(f"ipv4:192.0.2.1:{number}")
    assert look(0.0, *(connection(number) for number in range(PLACES))) == {}
    assert look.strangers.full


def test_each_is_counted_once_however_long_its_end_takes() -> None:
    look = Look()
    look(0.0, connection(1))
    for now in (10.0, 10.25, 10.5):
        assert look(now, connection(1)) == {1: NOT_IN_TIME}
    assert look.strangers.hang_ups.counts == {NOT_IN_TIME: 1}


@pytest.mark.parametrize(
    ("called", "peer"),
    [
        ("ipv4:192.0.2.1:5000", PeerAddress("192.0.2.1", 5000)),
        ("ipv6:%5B::1%5D:5000", PeerAddress("::1", 5000)),
        ("ipv6:[2001:db8::1]:5000", PeerAddress("2001:db8::1", 5000)),
        ("ipv6:%5B::ffff:192.0.2.1%5D:5000", PeerAddress("192.0.2.1", 5000)),
    ],
)
def test_a_peer_as_grpc_calls_it_is_that_of_its_socket(called: str, peer: PeerAddress) -> None:
    assert peer_of_grpc(called) == peer


def test_a_descriptor_that_is_another_socket_by_now_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sockets = OpenSockets([listening.getsockname()[1]])
        with (
            socket.create_connection(listening.getsockname()) as client,
            listening.accept()[0] as accepted,
        ):
            (open_socket,) = sockets.look()
            assert open_socket.peer == PeerAddress(*client.getsockname())
            other = AcceptedSocket(
                open_socket.descriptor, open_socket.inode + 1, open_socket.listener_port, open_socket.peer
            )
            sockets.hang_up_on(other)
            accepted.sendall(b"x")
            assert client.recv(1) == b"x"
            sockets.hang_up_on(open_socket)
            assert client.recv(1) == b""
        assert sockets.look() == []
        sockets.hang_up_on(open_socket)


# -- the real listener -------------------------------------------------------------------------------------

HUNG_UP_ON_BY_GRPC = ("half a request line", DRIPPING, "a TLS hello alone")
"""It knows at once that these are not HTTP/2."""


async def is_served(client: grpc.aio.Channel) -> bool:
    ask: Any = client.unary_unary("/c/tenant")
    try:
        answer = await ask(b"x", metadata=((AUTHORIZATION, "key"),), timeout=2.0)
    except grpc.aio.AioRpcError:
        return False
    return bool(answer == b"answer x")


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS.keys())
@pytest.mark.parametrize("saying", SAYINGS)
def test_a_newcomer_is_served_while_strangers_hold_every_connection_and_that_is_told_once(
    saying: str, hosts: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        host, port = split_address(world.client)
        hang_ups = world.strangers.hang_ups
        held = saying not in HUNG_UP_ON_BY_GRPC
        async with channel(world.client) as early:
            assert await is_served(early)
            with attack((host, port), saying, hosts, CONNECTIONS):
                watching = asyncio.create_task(watch({port: world.strangers}))
                async with channel(world.client) as newcomer:
                    while (held and not hang_ups.counts) or not await is_served(newcomer):
                        assert not watching.done()
                        await asyncio.sleep(0)
                assert await is_served(early), "who was admitted before has kept its connection"
                watching.cancel()
        if held:
            assert "the client listener" in hang_ups.crowded()
            told = [record for record in caplog.records if record.name == "penstock.connections"]
            assert [record.__dict__["listener"] for record in told] == ["client"]

    run(scenario)


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS.keys())
@pytest.mark.parametrize("saying", ["nothing", "a TLS hello alone"])
def test_an_operator_comes_in_while_strangers_hold_every_connection_of_the_internal_listener(
    saying: str, hosts: Sequence[str]
) -> None:
    """Whatever else they say is no handshake, which is known at once."""

    async def scenario(world: World) -> None:
        host, port = split_address(world.internal)
        with attack((host, port), saying, hosts, CONNECTIONS):
            watching = asyncio.create_task(watch({port: world.strangers}))
            served = False
            while not (served and world.strangers.hang_ups.counts):
                assert not watching.done()
                await asyncio.sleep(0)
                with contextlib.suppress(ConnectionLost):
                    served = await world.call(GRPC, "/c/echo", b"x") == b"answer x"
            watching.cancel()

    run(scenario)


def test_a_descriptor_that_is_used_again_is_another_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as open_sockets:
        address = listening.getsockname()
        sockets = OpenSockets({address[1]})
        first_client = open_sockets.enter_context(socket.create_connection(address))
        first = open_sockets.enter_context(listening.accept()[0])
        (ended,) = sockets.look()
        assert ended.peer.port == first_client.getsockname()[1]
        client = open_sockets.enter_context(socket.create_connection(address))
        with listening.accept()[0] as second:
            os.dup2(second.fileno(), first.fileno())
        (there,) = sockets.look()
        assert (there.descriptor, there.peer.port) == (ended.descriptor, client.getsockname()[1])
        sockets.hang_up_on(ended)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        sockets.hang_up_on(there)
        client.settimeout(PATIENCE_S)
        assert client.recv(1) == b""


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process can open nothing more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as first:
        resource.setrlimit(resource.RLIMIT_NOFILE, (first.fileno() + 1, before[1]))
        held: list[int] = []
        try:
            with pytest.raises(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY))
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for descriptor in held:
                os.close(descriptor)


def test_a_process_without_a_descriptor_left_looks_again_later() -> None:
    async def scenario() -> None:
        # One thread: what is asked of it after a look comes after it.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        await asyncio.to_thread(int)
        with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as open_sockets:
            port = listening.getsockname()[1]
            open_sockets.enter_context(socket.create_connection(("127.0.0.1", port)))
            open_sockets.enter_context(listening.accept()[0])
            strangers = Strangers(HangUps("client"), connections_max=PLACES)
            with no_descriptor_left():
                watching = asyncio.create_task(watch({port: strangers}))
                await asyncio.sleep(0)
                await asyncio.to_thread(int)
                await asyncio.sleep(0)
                assert not watching.done()
            while not strangers.count:
                assert not watching.done()
                await asyncio.sleep(0)
            watching.cancel()

    asyncio.run(scenario())


def test_without_a_look_strangers_keep_newcomers_out() -> None:
    """What gRPC does by itself, and why there is a look."""

    async def scenario(world: World) -> None:
        host, port = split_address(world.client)
        with attack((host, port), "the preface of HTTP/2 alone", HOSTS["one address"], CONNECTIONS):
            async with channel(world.client) as newcomer:
                assert not await is_served(newcomer)

    run(scenario)
