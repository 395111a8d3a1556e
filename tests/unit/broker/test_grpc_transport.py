"""Streams, calls and watches over real gRPC on the loopback address, and what hostile bytes do to a listener:
nothing."""

import asyncio
import contextlib
import os
import socket

import grpc
import pytest

from data_plane.broker.connection import READ_AHEAD_BYTES
from data_plane.broker.grpc_options import REQUEST_BYTES_MAX
from data_plane.broker.server import bind
from data_plane.broker.transport import GrpcTransport
from data_plane.contract.methods import CLUSTER_SECRET
from data_plane.node.ports import CallFailed, ConnectionLost
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.methods import AUTHORIZATION, ERROR_CODE, REQUEST_ID
from tests.unit.broker.listeners import (
    CONNECTIONS,
    LOOPBACK,
    MS,
    SECRET,
    World,
    channel,
    run,
    serving,
    with_secret,
)

# -- streams -----------------------------------------------------------------------------------------------


def test_frames_arrive_whole_and_in_order_in_both_directions() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/echo", MS)
        frames = [
            b"",
            b"x",
            *(os.urandom(size) for size in (100, 70_000, 3_000_000)),
            *(b"%d" % n for n in range(200)),
        ]

        async def send() -> None:
            for frame in frames:
                await connection.send(frame)

        sending = asyncio.create_task(send())
        assert [await connection.receive() for _ in frames] == frames
        await sending
        connection.close()

    run(scenario)


def test_a_frame_of_the_largest_size_passes() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/echo", MS)
        frame = bytes(limits.FRAME_BYTES_MAX)
        await connection.send(frame)
        assert len(await connection.receive()) == len(frame)
        connection.close()

    run(scenario)


def test_an_oversize_frame_ends_its_stream_and_harms_no_other() -> None:
    async def scenario(world: World) -> None:
        other = await world.transport.connect(world.internal, "/s/echo", MS)
        async with channel(world.internal) as opened:
            call = opened.stream_stream("/s/echo")(metadata=with_secret())
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


def test_a_refusal_in_mid_stream_carries_its_code() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/refuse", MS)
        await connection.send(b"x")
        with pytest.raises(ConnectionLost, match="RESOURCE_EXHAUSTED: tn_a: 60 failed logins"):
            await connection.receive()
        with pytest.raises(ConnectionLost):
            await connection.send(b"x")

    run(scenario)


def test_giving_up_a_receive_loses_no_frame() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/echo", MS)
        seen: list[bytes] = []
        for number in range(20):
            waiting = asyncio.create_task(connection.receive())
            await asyncio.sleep(0)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                seen.append(await waiting)
            await connection.send(b"%d" % number)
        while len(seen) < 20:
            seen.append(await connection.receive())
        assert seen == [b"%d" % number for number in range(20)]
        connection.close()

    run(scenario)


def test_a_peer_that_does_not_receive_holds_up_the_sender_within_a_bound() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/deaf", MS)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await connection.send(bytes(100_000))
                sent += 1

        flooding = asyncio.create_task(flood())
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        assert sent * 100_000 < 64 * limits.MIB  # what grpc and the kernel's socket buffers hold
        assert sent * 100_000 > READ_AHEAD_BYTES
        world.release.set()
        async with asyncio.timeout(10):
            while sent < before + 100:  # noqa: ASYNC110 - the flood is real
                await asyncio.sleep(0.01)
        flooding.cancel()

    run(scenario)


def test_closing_while_a_send_waits_is_a_lost_connection_and_no_cancellation() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/deaf", MS)

        async def flood() -> None:
            while True:
                await connection.send(bytes(1_000_000))

        flooding, listening = asyncio.create_task(flood()), asyncio.create_task(connection.receive())
        await asyncio.sleep(0.3)
        connection.close()
        for task in (flooding, listening):
            with pytest.raises(ConnectionLost, match="closed by this side"):
                await task

    run(scenario)


def test_a_stream_whose_client_is_gone_is_told_so_and_not_cancelled() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/echo", MS)
        await connection.send(b"x")
        await connection.receive()
        connection.close()
        await world.finished.wait()
        assert len(world.ends) == 1
        assert world.ends != ["cancelled"]

    run(scenario)


def test_a_served_connection_that_is_closed_ends_the_stream() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/echo", MS)
        await connection.send(b"hang up")
        with pytest.raises(ConnectionLost, match="the peer closed the stream"):
            await connection.receive()
        assert world.ends == ["127.0.0.1: closed by this side"]

    run(scenario)


def test_what_had_arrived_before_the_end_is_still_received() -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/echo", MS)
        await connection.send(b"one")
        await connection.send(b"two")
        await connection.send(b"hang up")
        await world.finished.wait()
        await asyncio.sleep(0.05)
        assert [await connection.receive() for _ in range(2)] == [b"one", b"two"]
        with pytest.raises(ConnectionLost):
            await connection.receive()

    run(scenario)


# -- connecting --------------------------------------------------------------------------------------------


def test_nobody_there_is_a_lost_connection() -> None:
    async def scenario(world: World) -> None:
        server, port = bind(LOOPBACK, None, CONNECTIONS, 100)
        await server.stop(None)
        with pytest.raises(ConnectionLost, match="UNAVAILABLE"):
            await world.transport.connect(f"127.0.0.1:{port}", "/s/echo", MS)
        with pytest.raises(ConnectionLost, match="UNAVAILABLE"):
            await world.transport.call(f"127.0.0.1:{port}", "/c/echo", b"", MS)

    run(scenario)


def test_a_peer_that_accepts_and_is_silent_costs_the_timeout_and_no_more() -> None:
    async def scenario(world: World) -> None:
        silent = socket.create_server(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionLost, match="no answer within 200 ms"):
            await world.transport.connect(address, "/s/echo", 200)
        with pytest.raises(ConnectionLost, match="DEADLINE_EXCEEDED"):
            await world.transport.call(address, "/c/echo", b"", 200)
        silent.close()

    run(scenario)


def test_a_broker_that_comes_back_is_reached_within_two_seconds() -> None:
    async def scenario() -> None:
        transport = GrpcTransport(SECRET)
        async with serving() as world:
            address = world.internal
            connection = await transport.connect(address, "/s/echo", MS)
        with pytest.raises(ConnectionLost):
            await connection.receive()
        for _ in range(20):
            with pytest.raises(ConnectionLost):
                await transport.connect(address, "/s/echo", MS)
        async with serving(address):
            began = asyncio.get_running_loop().time()
            while True:
                try:
                    await transport.connect(address, "/s/echo", MS)
                    break
                except ConnectionLost:
                    await asyncio.sleep(0.05)
            assert asyncio.get_running_loop().time() - began < 2
        await transport.close()

    asyncio.run(scenario())


def test_two_brokers_cannot_share_a_port() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(OSError, match="cannot be bound"):
            bind(world.client, None, CONNECTIONS, 100)

    run(scenario)


# -- who may call ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ((), ErrorCode.UNAUTHENTICATED),
        (((CLUSTER_SECRET, SECRET[:-1]),), ErrorCode.UNAUTHENTICATED),
        (((CLUSTER_SECRET, SECRET + "s"),), ErrorCode.UNAUTHENTICATED),
        (((CLUSTER_SECRET, ""),), ErrorCode.UNAUTHENTICATED),
        (((AUTHORIZATION, "Bearer penstock_test_key"),), ErrorCode.UNAUTHENTICATED),
        (((AUTHORIZATION, SECRET),), ErrorCode.UNAUTHENTICATED),
        (with_secret((AUTHORIZATION, "Bearer penstock_test_key")), ErrorCode.FORBIDDEN),
    ],
)
def test_the_internal_listener_takes_the_cluster_secret_and_nothing_else(
    metadata: tuple[tuple[str, str], ...], code: ErrorCode
) -> None:
    async def scenario(world: World) -> None:
        async with channel(world.internal) as opened:
            asked = [
                opened.unary_unary("/c/echo")(b"x", metadata=metadata),
                opened.stream_stream("/s/echo")(metadata=metadata),
                opened.unary_stream("/w/count")(b"3", metadata=metadata),
            ]
            for call in asked:
                assert dict(await call.trailing_metadata())[ERROR_CODE] == str(int(code))
                assert SECRET not in await call.details()
        assert world.callers == []
        assert not world.began.is_set()

    run(scenario)


def test_a_transport_with_the_wrong_secret_is_refused_with_the_reason() -> None:
    async def scenario(world: World) -> None:
        stranger = GrpcTransport("x" * 64)
        with pytest.raises(
            ConnectionLost, match="UNAUTHENTICATED: the internal listener demands the cluster secret"
        ):
            connection = await stranger.connect(world.internal, "/s/echo", MS)
            await connection.receive()
        with pytest.raises(CallFailed, match="demands the cluster secret"):
            await stranger.call(world.internal, "/c/echo", b"", MS)
        await stranger.close()

    run(scenario)


def test_a_clients_listener_offers_nothing_internal_whatever_the_caller_brings() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.client) as opened:
            for method in ("/c/echo", "/c/fail", "/nowhere"):
                call = opened.unary_unary(method)(b"x", metadata=with_secret())
                assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
            await opened.unary_unary("/c/tenant")(b"x", metadata=with_secret((AUTHORIZATION, "Bearer k")))
        (caller,) = world.callers
        assert caller.cluster_secret == ""
        assert caller.authorization == "Bearer k"
        assert not caller.internal
        assert caller.peer == "127.0.0.1"

    run(scenario)


def test_an_internal_caller_is_marked_as_such() -> None:
    async def scenario(world: World) -> None:
        await world.transport.call(world.internal, "/c/echo", b"", MS)
        assert world.callers[0].internal
        assert world.callers[0].cluster_secret == SECRET

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


def test_a_call_is_answered() -> None:
    async def scenario(world: World) -> None:
        assert await world.transport.call(world.internal, "/c/echo", b"x", MS) == b"answer x"

    run(scenario)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.OK])
def test_every_refusal_reaches_the_caller_with_its_code(code: ErrorCode) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed, match=f"^code {int(code)}: é+$") as refused:
            await world.transport.call(world.internal, "/c/fail", b"%d" % code, MS)
        assert refused.value.code == code
        assert world.faults == []

    run(scenario)


def test_a_refusal_of_the_error_table_is_one_too() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed, match="orders: no such topic") as refused:
            await world.transport.call(world.internal, "/c/fail", b"not found", MS)
        assert refused.value.code == ErrorCode.NOT_FOUND

    run(scenario)


def test_a_code_that_this_broker_does_not_know_is_passed_on() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed) as refused:
            await world.transport.call(world.internal, "/c/fail", b"9999", MS)
        assert refused.value.code == 9999

    run(scenario)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_our_own_bug_is_a_fault_once_and_tells_the_caller_only_where_to_look() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(
            CallFailed, match=r"the broker failed; see its log for request [0-9a-f]+"
        ) as refused:
            await world.transport.call(world.internal, "/c/bug", b"", MS)
        assert refused.value.code == ErrorCode.INTERNAL
        assert [repr(fault) for fault in world.faults] == ["KeyError('ours')"]
        with pytest.raises(ConnectionLost, match="INTERNAL"):  # at once, or when it is read
            connection = await world.transport.connect(world.internal, "/s/bug", MS)
            await connection.receive()
        assert len(world.faults) == 2

    run(scenario)


def test_an_oversize_request_is_refused() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed, match="at most") as refused:
            await world.transport.call(world.internal, "/c/echo", bytes(REQUEST_BYTES_MAX + 1), MS)
        assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
        assert len(await world.transport.call(world.internal, "/c/echo", bytes(REQUEST_BYTES_MAX), MS)) == 107

    run(scenario)


def test_a_call_that_was_begun_is_finished_although_its_caller_is_gone() -> None:
    async def scenario(world: World) -> None:
        calling = asyncio.create_task(world.transport.call(world.internal, "/c/slow", b"", MS))
        await world.began.wait()
        calling.cancel()
        await asyncio.sleep(0.1)
        assert world.ends == []
        world.release.set()
        await world.finished.wait()

    run(scenario)


def test_a_watch_ends_with_its_client() -> None:
    async def scenario(world: World) -> None:
        async with channel(world.internal) as opened:
            call = opened.unary_stream("/w/count")(b"3", metadata=with_secret())
            assert [await call.read() for _ in range(3)] == [b"0", b"1", b"2"]
            await world.began.wait()
            call.cancel()
            await world.finished.wait()
        assert world.ends == ["cancelled"]

    run(scenario)


# -- hostile bytes -----------------------------------------------------------------------------------------

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("listener", ["internal", "client"])
@pytest.mark.parametrize(
    "garbage",
    [
        os.urandom(5_000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"PS\x01\x01" + bytes(4_000),
        _PREFACE + os.urandom(2_000),
        _PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(1_000),
        _PREFACE[:10],
        b"",
    ],
    ids=[
        "random",
        "http",
        "tls",
        "frame",
        "http2-then-random",
        "http2-huge-frame",
        "half-preface",
        "nothing",
    ],
)
def test_garbage_on_a_port_harms_nothing(listener: str, garbage: bytes) -> None:
    async def scenario(world: World) -> None:
        connection = await world.transport.connect(world.internal, "/s/echo", MS)
        host, _, port = getattr(world, listener).partition(":")
        for _ in range(3):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(garbage)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()
        await connection.send(b"still there")
        assert await connection.receive() == b"still there"
        assert world.faults == []
        connection.close()

    run(scenario)
