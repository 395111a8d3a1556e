"""Who is not admitted holds no place at a listener, and nobody holds more than there are."""

import asyncio
import socket
import subprocess
import sys

import grpc
import pytest

from data_plane.broker.server import bind
from penstock.contract import limits
from penstock.contract.methods import AUTHORIZATION
from tests.unit.broker.listeners import (
    LOOPBACK,
    World,
    channel,
    run,
)
from tests.waiting import until


@pytest.mark.parametrize("method", ["/c/tenant", "/w/count", "/s/echo"])
def test_who_may_not_enter_is_told_before_anything_of_his_request_is_waited_for(method: str) -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            call = opened.stream_stream(method)(metadata=((AUTHORIZATION, "stranger"),))
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
        assert world.listener.turned_away() == {"127.0.0.1": 1}
        assert world.listener.turned_away() == {}
        assert world.inside == 0

    run(scenario)


def test_a_call_that_waits_for_its_turn_ends_with_its_client() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            call = opened.unary_unary("/c/tenant")(b"left", metadata=((AUTHORIZATION, "patient"),))
            await world.began.wait()
            assert world.inside == world.listener._handlers.count == 1
            call.cancel()
            await until("no call is handled", lambda: world.listener._handlers.count == 0)
            world.release.set()
            stayed = opened.unary_unary("/c/tenant")(b"stayed", metadata=((AUTHORIZATION, "patient"),))
            assert await stayed == b"answer stayed"
            assert len(world.callers) == 1
        await until("no call is inside", lambda: world.inside == 0)

    run(scenario)


@pytest.mark.parametrize("method", ["/c/tenant", "/w/count"])
def test_a_call_whose_request_does_not_come_ends(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIRST_REQUEST_MS_MAX", 100)

    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            call = opened.stream_stream(method)()
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert await call.details() == "no request came within 100 ms"
        assert world.inside == 0

    run(scenario)


@pytest.mark.parametrize("method", ["/c/tenant", "/w/count"])
def test_a_call_that_ends_without_a_request_is_refused(method: str) -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            call = opened.stream_stream(method)()
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert await call.details() == "the call ended without a request"

    run(scenario)


def test_a_call_is_inside_until_it_has_ended() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            call = opened.stream_stream("/w/count")()
            await call.write(b"1")
            assert await call.read() == b"0"
            assert world.inside == 1
            call.cancel()
            await world.finished.wait()
            assert await opened.unary_unary("/c/tenant")(b"again") == b"answer again"
        assert world.inside == 0

    run(scenario)


def test_calls_tell_which_connection_they_came_on() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as one, channel(world.client) as other:
            for opened in (one, one, other):
                await opened.unary_unary("/c/tenant")(b"")
        first, second, third = (caller.connection for caller in world.callers)
        assert first == second != third
        assert {caller.peer for caller in world.callers} == {"127.0.0.1"}

    run(scenario)


def test_connections_above_the_bound_are_closed_and_the_others_go_on() -> None:
    def whether_closed(connection: socket.socket) -> bool:
        connection.settimeout(10)
        return connection.recv(1) == b""

    async def scenario() -> None:
        server, port = bind(LOOPBACK, None, 3, 100)
        await server.start()
        connections: list[socket.socket] = []
        for number in range(5):
            connections.append(socket.create_connection(("127.0.0.1", port)))
            closed = await asyncio.to_thread(whether_closed, connections[-1])
            assert closed is (number >= 3)
        connections[0].close()
        async with asyncio.timeout(30):
            while await asyncio.to_thread(
                whether_closed, again := socket.create_connection(("127.0.0.1", port))
            ):
                again.close()
        for connection in (again, *connections):
            connection.close()
        await server.stop(None)

    asyncio.run(scenario())


def test_the_descriptor_limit_is_raised_as_far_as_it_may_be() -> None:
    script = (
        "import resource; from data_plane.broker.descriptors import raise_descriptor_limit as raised;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 900)); print(raised(), raised());"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["900", "900", "900", "900"]
