"""Streams and calls behave alike over gRPC and between brokers: the same handlers, asked on the loopback address."""

import asyncio
import contextlib
import os

import pytest

from data_plane.broker import peer_wire as wire
from data_plane.broker.connection import GrpcConnection
from data_plane.broker.handling import READ_AHEAD_BYTES, READ_AHEAD_FRAMES, REQUEST_BYTES_MAX
from data_plane.node.ports import CallFailed, ConnectionLost
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from tests.unit.broker.listeners import GRPC, PEER, WAYS, World, run


@pytest.mark.parametrize("way", WAYS)
def test_frames_arrive_whole_and_in_order_in_both_directions(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/echo")
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


@pytest.mark.parametrize("way", WAYS)
def test_a_frame_of_the_largest_size_passes(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/echo")
        frame = bytes(limits.FRAME_BYTES_MAX)
        await connection.send(frame)
        assert len(await connection.receive()) == len(frame)
        connection.close()

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_in_mid_stream_carries_its_code(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/refuse")
        await connection.send(b"x")
        with pytest.raises(ConnectionLost, match="tn_a: 60 failed logins"):
            await connection.receive()
        with pytest.raises(ConnectionLost):
            await connection.send(b"x")

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_giving_up_a_receive_loses_no_frame(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/echo")
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


@pytest.mark.parametrize("way", WAYS)
def test_a_peer_that_does_not_receive_holds_up_the_sender_within_a_bound(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/deaf")
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


def test_empty_messages_of_a_client_are_not_read_ahead_without_a_bound() -> None:
    async def scenario() -> None:
        reads = 0

        async def read() -> bytes:
            nonlocal reads
            reads += 1
            await asyncio.sleep(0)
            return b""

        async def write(frame: bytes) -> None:
            raise AssertionError("nothing is sent")

        connection = GrpcConnection("client", read=read, write=write)
        for _ in range(5 * READ_AHEAD_FRAMES):
            await asyncio.sleep(0)
        assert reads == READ_AHEAD_FRAMES
        assert await connection.receive() == b""
        for _ in range(10):
            await asyncio.sleep(0)
        assert reads == READ_AHEAD_FRAMES + 1
        connection.stop_reading()

    asyncio.run(scenario())


@pytest.mark.parametrize("way", WAYS)
def test_closing_while_a_send_waits_is_a_lost_connection_and_no_cancellation(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/deaf")

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


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_receives_nothing_learns_at_once_that_its_client_is_gone(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/leaves")
        await connection.send(bytes(2 * READ_AHEAD_BYTES))
        await world.began.wait()
        assert not connection.is_gone and not world.ends
        connection.close()
        await world.finished.wait()
        assert world.ends == ["is gone: True"]

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_whose_client_is_gone_is_told_so_and_not_cancelled(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/echo")
        await connection.send(b"x")
        await connection.receive()
        connection.close()
        await world.finished.wait()
        assert len(world.ends) == 1
        assert world.ends != ["cancelled"]

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_served_connection_that_is_closed_ends_the_stream(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/echo")
        await connection.send(b"hang up")
        with pytest.raises(ConnectionLost, match="the peer closed the stream"):
            await connection.receive()
        (end,) = world.ends
        assert end.startswith("127.0.0.1") and end.endswith(": closed by this side")

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_what_had_arrived_before_the_end_is_still_received(way: str) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(way, "/s/echo")
        await connection.send(b"one")
        await connection.send(b"two")
        await connection.send(b"hang up")
        await world.finished.wait()
        await asyncio.sleep(0.05)
        assert [await connection.receive() for _ in range(2)] == [b"one", b"two"]
        with pytest.raises(ConnectionLost):
            await connection.receive()

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_an_internal_caller_is_marked_as_such(way: str) -> None:
    async def scenario(world: World) -> None:
        await world.call(way, "/c/echo", b"")
        assert world.callers[0].identity is not None

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_is_answered(way: str) -> None:
    async def scenario(world: World) -> None:
        assert await world.call(way, "/c/echo", b"x") == b"answer x"

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.OK])
def test_every_refusal_reaches_the_caller_with_its_code(way: str, code: ErrorCode) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed, match=f"^code {int(code)}: é+$") as refused:
            await world.call(way, "/c/fail", b"%d" % code)
        assert refused.value.code == code
        assert world.faults == []

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_of_the_error_table_is_one_too(way: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed, match="orders: no such topic") as refused:
            await world.call(way, "/c/fail", b"not found")
        assert refused.value.code == ErrorCode.NOT_FOUND

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_code_that_this_broker_does_not_know_is_passed_on(way: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed) as refused:
            await world.call(way, "/c/fail", b"9999")
        assert refused.value.code == 9999

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_our_own_bug_is_a_fault_once_and_tells_the_caller_only_where_to_look(way: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(
            CallFailed, match=r"the broker failed; see its log for request [0-9a-f]+"
        ) as refused:
            await world.call(way, "/c/bug", b"")
        assert refused.value.code == ErrorCode.INTERNAL
        assert [repr(fault) for fault in world.faults] == ["KeyError('ours')"]
        with pytest.raises(ConnectionLost, match="INTERNAL"):  # at once, or when it is read
            connection = await world.connect(way, "/s/bug")
            await connection.receive()
        assert len(world.faults) == 2

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_an_oversize_request_is_refused(way: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CallFailed, match="at most") as refused:
            await world.call(way, "/c/echo", bytes(REQUEST_BYTES_MAX + 1))
        assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
        assert len(await world.call(way, "/c/echo", bytes(REQUEST_BYTES_MAX))) == 107

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_was_begun_is_finished_although_its_caller_is_gone(way: str) -> None:
    async def scenario(world: World) -> None:
        calling = asyncio.create_task(world.call(way, "/c/slow", b""))
        await world.began.wait()
        calling.cancel()
        await asyncio.sleep(0.1)
        assert world.ends == []
        world.release.set()
        await world.finished.wait()

    run(scenario)


# -- hostile bytes -----------------------------------------------------------------------------------------

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("listener", ["internal", "client", "peer"])
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
        wire.MAGIC + bytes(4_000),
        b"PSTP\x01\x01\xff\xff\xff\xff\xff\xff",
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
        "magic-of-peers-then-zeros",
        "hello-of-peers-that-is-too-long",
    ],
)
def test_garbage_on_a_port_harms_nothing(listener: str, garbage: bytes) -> None:
    async def scenario(world: World) -> None:
        connection = await world.connect(PEER if listener == "peer" else GRPC, "/s/echo")
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
