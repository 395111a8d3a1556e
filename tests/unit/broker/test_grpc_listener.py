"""Streams, calls and watches over real gRPC on the loopback address, and what hostile bytes do to a listener:
nothing."""

import grpc
import pytest

from daemon.tls import OwnIdentity
from data_plane.broker.server import bind
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.methods import AUTHORIZATION, ERROR_CODE, REQUEST_ID
from tests.certificates import identity
from tests.unit.broker.listeners import (
    CONNECTIONS,
    GRPC,
    World,
    channel,
    run,
)

# -- streams -----------------------------------------------------------------------------------------------


def test_an_oversize_frame_ends_its_stream_and_harms_no_other() -> None:
    async def scenario(world: World) -> None:
        other = await world.connect(GRPC, "/s/echo")
        async with channel(world.internal, identity("operator")) as opened:
            call = opened.stream_stream("/s/echo")()
            await call.write(bytes(limits.FRAME_BYTES_MAX + 2 * limits.MIB))
            assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await other.send(b"still there")
        assert await other.receive() == b"still there"
        assert world.seen == [b"still there"]
        other.close()

    run(scenario)


def test_a_stream_that_carries_no_frames_is_told_why() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            call = opened.stream_stream("/s/echo")()
            await call.write(b"no frame")
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "0x5053 required" in await call.details()
            assert dict(await call.trailing_metadata())[ERROR_CODE] == str(int(ErrorCode.INVALID_REQUEST))
        assert world.faults == []

    run(scenario)


# -- connecting --------------------------------------------------------------------------------------------


def test_two_brokers_cannot_share_a_port() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(OSError, match="cannot be bound"):
            bind(world.client, None, CONNECTIONS, 100)

    run(scenario)


# -- who may call ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caller", "metadata", "code"),
    [
        ("runner", (), ErrorCode.UNAUTHENTICATED),
        ("control-plane", (), ErrorCode.UNAUTHENTICATED),
        ("runner", ((AUTHORIZATION, "Bearer penstock_test_key"),), ErrorCode.UNAUTHENTICATED),
        ("operator", ((AUTHORIZATION, "Bearer penstock_test_key"),), ErrorCode.FORBIDDEN),
    ],
)
def test_the_internal_listener_takes_roles_that_may_call_the_method_and_no_others(
    caller: str, metadata: tuple[tuple[str, str], ...], code: ErrorCode
) -> None:
    async def scenario(world: World) -> None:
        async with channel(world.internal, identity(caller)) as opened:
            asked = [
                opened.unary_unary("/c/echo")(b"x", metadata=metadata),
                opened.stream_stream("/s/echo")(metadata=metadata),
                opened.unary_stream("/w/count")(b"3", metadata=metadata),
            ]
            for call in asked:
                assert dict(await call.trailing_metadata())[ERROR_CODE] == str(int(code))
        assert world.callers == []
        assert not world.began.is_set()
        refused = 3 if code is ErrorCode.UNAUTHENTICATED else 0
        assert world.refused_handshakes.counts["internal", "wrong_role"] == refused

    run(scenario)


@pytest.mark.parametrize(
    "caller", [None, identity("operator", "another-cluster")], ids=["plain", "another CA"]
)
def test_who_shows_no_certificate_of_the_authority_gets_no_connection(caller: OwnIdentity | None) -> None:
    async def scenario(world: World) -> None:
        async with channel(world.internal, caller) as opened:
            call = opened.unary_unary("/c/echo")(b"x")
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert world.callers == []

    run(scenario)


def test_a_clients_listener_offers_nothing_internal_whatever_the_caller_brings() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            for method in ("/c/echo", "/c/fail", "/nowhere"):
                call = opened.unary_unary(method)(b"x")
                assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
            await opened.unary_unary("/c/tenant")(b"x", metadata=((AUTHORIZATION, "Bearer k"),))
        (caller,) = world.callers
        assert caller.identity is None
        assert caller.authorization == "Bearer k"
        assert caller.peer == "127.0.0.1"

    run(scenario)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("job-7:a/b", True), ("x" * 100, True), ("x" * 101, False), ('a"b', False), ("", False)],
)
def test_a_request_id_is_kept_when_it_may_stand_in_a_log_and_else_made(sent: str, kept: bool) -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            call = opened.stream_stream("/s/echo")(metadata=((REQUEST_ID, sent),))
            told = dict(await call.initial_metadata())[REQUEST_ID]
            await world.began.wait()
            call.cancel()
        assert world.callers[0].request_id == told
        assert (told == sent) is kept
        assert len(told) >= 9 or kept

    run(scenario)


# -- calls and watches -------------------------------------------------------------------------------------


def test_a_watch_ends_with_its_client() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.internal, identity("operator")) as opened:
            call = opened.unary_stream("/w/count")(b"3")
            assert [await call.read() for _ in range(3)] == [b"0", b"1", b"2"]
            await world.began.wait()
            call.cancel()
            await world.finished.wait()
        assert world.ends == ["cancelled"]

    run(scenario)
