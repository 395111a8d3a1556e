"""Handshakes of the internal listener that no call follows are counted once, and no other is."""

import asyncio

import grpc

from daemon.tls import OwnIdentity
from data_plane.broker.internal_handshakes import InternalHandshakes
from data_plane.contract.broker_channels import BrokerChannels
from tests.certificates import identity
from tests.unit.broker.listeners import World, run


def test_a_handshake_that_no_call_follows_in_time_counts_once() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    handshakes.began()
    handshakes.began()
    handshakes.called("ipv4:127.0.0.1:1")
    handshakes.called("ipv4:127.0.0.1:1")
    assert handshakes.take_failed() == 0
    clock[0] = 14.0
    handshakes.began()
    assert handshakes.take_failed() == 0
    clock[0] = 16.0
    assert handshakes.take_failed() == 1
    assert handshakes.take_failed() == 0
    clock[0] = 30.0
    assert handshakes.take_failed() == 1


def test_calls_on_connections_that_are_known_excuse_no_other_handshake() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    handshakes.began()
    handshakes.called("ipv4:127.0.0.1:1")
    handshakes.began()
    for _ in range(100):
        handshakes.called("ipv4:127.0.0.1:1")
    clock[0] = 16.0
    assert handshakes.take_failed() == 1


def test_a_port_that_another_connection_had_before_is_one_of_its_own() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    for _ in range(3):
        handshakes.began()
        handshakes.called("ipv4:127.0.0.1:1")
        clock[0] += 61.0
        assert handshakes.take_failed() == 0


def test_a_connection_that_calls_now_and_then_excuses_no_other_handshake() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    handshakes.began()
    handshakes.called("ipv4:127.0.0.1:1")
    for _ in range(10):
        clock[0] += 59.0
        handshakes.began()
        handshakes.called("ipv4:127.0.0.1:1")
        clock[0] += 0.5
    clock[0] += 16.0
    assert handshakes.take_failed() == 10


def test_handshakes_of_callers_that_looked_at_the_certificate_first_are_no_failed_ones() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    for _ in range(4):
        handshakes.began()
    handshakes.called("ipv4:127.0.0.1:1")
    handshakes.looked(1)
    handshakes.looked(0)
    clock[0] = 16.0
    assert handshakes.take_failed() == 2
    handshakes.looked(7)
    handshakes.began()
    clock[0] = 32.0
    assert handshakes.take_failed() == 1, "none is excused before it began"


def test_an_operator_that_looks_and_calls_leaves_no_failed_handshake() -> None:
    def look(world: World, who: OwnIdentity, *, calls: bool) -> None:
        channels = BrokerChannels(who)
        channel, metadata = channels.to(world.internal, 10.0)
        if calls:
            echo: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/c/echo")
            echo(b"x", timeout=10.0, metadata=metadata)
        channels.close()

    async def scenario(world: World) -> None:
        for _ in range(3):
            await asyncio.to_thread(look, world, identity("operator"), calls=True)
        world.now_s = 16.0
        assert world.handshakes.take_failed() == 0
        await asyncio.to_thread(look, world, identity("operator"), calls=False)
        world.now_s = 32.0
        assert world.handshakes.take_failed() == 1

    run(scenario)
