"""The simulated network: order, flow control, cuts, resets, power loss, and the three kinds of calls."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from daemon.identity import Identity, Role
from data_plane.authz.peers import PeerRules
from data_plane.node.ports import Caller, CallFailed, Connection, ConnectionLost, Service, anyone, at_once
from data_plane.testkit.connection import StreamRefused
from data_plane.testkit.loop import Process, SimLoop
from data_plane.testkit.network import LinkTiming, Listener, Network, NetworkSettings
from data_plane.testkit.transport import SimTransport
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameError
from penstock.contract.ids import BrokerId

ME = Identity(cluster_id="c1", role=Role.OPERATOR)


class World:
    """A server on host `s` and a client on host `c`."""

    def __init__(self, seed: int = 1, **settings: Any) -> None:
        settings.setdefault("cancel_chance", 0.0)
        self.loop = SimLoop(seed)
        self.network = Network(self.loop, seed, NetworkSettings(**settings))
        self.client = self.loop.process("client")
        self.server = self.loop.process("server")
        self.transport = SimTransport(self.network, self.client, "c", authorization="Bearer k", identity=ME)
        self.seen: list[bytes] = []
        self.callers: list[Caller] = []
        self.ends: list[str] = []
        self.serve(self.server)

    def serve(self, process: Process) -> None:
        service = Service(
            streams={"/echo": self._echo, "/collect": self._collect, "/refuse": self._refuse},
            calls={"/call": self._call, "/slow": self._slow, "/fail": self._fail, "/bad": self._bad_frame},
            watches={"/count": self._count},
            enter=anyone,
            turn=at_once,
        )
        self.network.listen("s:1", Listener(host="s", process=process, service=service, identity=None))

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.run_until_complete(self.loop.spawn(self.client, work()))
        self.loop.close()
        assert not self.loop.failures

    async def _echo(self, caller: Caller, connection: Connection) -> None:
        self.callers.append(caller)
        try:
            while True:
                await connection.send(await connection.receive())
        except ConnectionLost as lost:
            self.ends.append(str(lost))
            raise

    async def _collect(self, caller: Caller, connection: Connection) -> None:
        while True:
            self.seen.append(await connection.receive())
            await asyncio.sleep(1)

    async def _refuse(self, caller: Caller, connection: Connection) -> None:
        await connection.receive()
        raise CallFailed(ErrorCode.UNAUTHENTICATED, "no")

    async def _call(self, caller: Caller, request: bytes) -> bytes:
        self.seen.append(request)
        return request * 2

    async def _slow(self, caller: Caller, request: bytes) -> bytes:
        try:
            await asyncio.sleep(2)
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        self.seen.append(request)
        return b""

    async def _fail(self, caller: Caller, request: bytes) -> bytes:
        raise CallFailed(ErrorCode.NOT_FOUND, "gone")

    async def _bad_frame(self, caller: Caller, request: bytes) -> bytes:
        raise FrameError("not a frame")

    async def _count(self, caller: Caller, request: bytes, push: Callable[[bytes], Awaitable[None]]) -> None:
        for number in range(int(request)):
            await push(b"%d" % number)
            await asyncio.sleep(0.1)


def test_frames_of_one_direction_keep_their_order_for_every_seed() -> None:
    for seed in range(10):
        world = World(seed, timing=LinkTiming(base_ms=0.1, jitter_ms=20, tail_chance=0.2, tail_ms=200))

        async def work(world: World = world) -> None:
            connection = await world.transport.connect("s:1", "/echo", 1000)
            for number in range(30):
                await connection.send(b"%d" % number)
            assert [await connection.receive() for _ in range(30)] == [b"%d" % number for number in range(30)]

        world.run(work)


def test_the_caller_carries_what_the_peer_sent() -> None:
    world = World()

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/echo", 1000)
        await connection.send(b"x")
        await connection.receive()

    world.run(work)
    caller = world.callers[0]
    assert (caller.authorization, caller.identity) == ("Bearer k", None)
    assert caller.peer.startswith("c:")


def test_unary_calls_answer_fail_and_time_out() -> None:
    world = World()

    async def work() -> None:
        assert await world.transport.call("s:1", "/call", b"ab", 1000) == b"abab"
        with pytest.raises(CallFailed) as failed:
            await world.transport.call("s:1", "/fail", b"", 1000)
        assert failed.value.code == ErrorCode.NOT_FOUND
        with pytest.raises(CallFailed) as failed:
            await world.transport.call("s:1", "/bad", b"", 1000)
        assert failed.value.code == ErrorCode.INVALID_REQUEST
        with pytest.raises(CallFailed):
            await world.transport.call("s:1", "/none", b"", 1000)
        with pytest.raises(ConnectionLost):
            await world.transport.call("s:1", "/slow", b"done anyway", 1000)
        with pytest.raises(ConnectionLost):
            await world.transport.call("s:2", "/call", b"", 1000)
        await asyncio.sleep(3)

    world.run(work)
    assert world.seen == [b"ab", b"done anyway"]


def test_the_server_may_be_cancelled_when_the_client_is_gone() -> None:
    world = World(cancel_chance=1.0)

    async def work() -> None:
        with pytest.raises(ConnectionLost):
            await world.transport.call("s:1", "/slow", b"", 500)
        await asyncio.sleep(5)

    world.run(work)
    assert world.ends == ["cancelled"] and world.seen == []


def test_a_watch_pushes_until_the_server_ends_it() -> None:
    world = World()

    async def work() -> None:
        pushed = []
        with pytest.raises(ConnectionLost):
            async for item in world.transport.watch("s:1", "/count", b"3"):
                pushed.append(item)
        assert pushed == [b"0", b"1", b"2"]

    world.run(work)


def test_a_refused_stream_says_why() -> None:
    world = World()

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/refuse", 1000)
        await connection.send(b"x")
        with pytest.raises(StreamRefused) as refused:
            await connection.receive()
        assert refused.value.code == ErrorCode.UNAUTHENTICATED

    world.run(work)


def test_a_sender_waits_when_the_window_is_full() -> None:
    world = World(window_bytes=100)

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/collect", 1000)
        began = world.loop.time()
        for _ in range(5):
            await connection.send(b"x" * 60)
        assert world.loop.time() - began > 1.9

    world.run(work)


def test_closing_ends_the_peers_stream() -> None:
    for seed in range(10):
        world = World(seed)

        async def work(world: World = world) -> None:
            connection = await world.transport.connect("s:1", "/echo", 1000)
            connection.close()
            with pytest.raises(ConnectionLost):
                await connection.receive()
            with pytest.raises(ConnectionLost):
                await connection.send(b"x")
            await asyncio.sleep(1)
            assert len(world.ends) == 1

        world.run(work)


def test_a_cut_holds_frames_and_the_heal_delivers_them() -> None:
    world = World()

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/echo", 1000)
        world.network.cut("s", "c")
        await connection.send(b"one way")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await connection.receive()
        world.network.heal("s", "c")
        assert await connection.receive() == b"one way"
        world.network.cut("c", "s")
        await connection.send(b"held")
        with pytest.raises(ConnectionLost, match="no answer"):
            await world.transport.connect("s:1", "/echo", 500)
        with pytest.raises(ConnectionLost, match="no answer"):
            await world.transport.call("s:1", "/call", b"", 500)
        world.network.heal_all()
        assert await connection.receive() == b"held"

    world.run(work)


def test_a_connection_cut_for_too_long_is_given_up() -> None:
    world = World(give_up_ms=3000)

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/echo", 1000)
        world.network.cut("c", "s")
        await connection.send(b"x")
        with pytest.raises(ConnectionLost, match="timed out"):
            await connection.receive()
        assert 3 < world.loop.time() < 3.1
        world.network.heal("c", "s")
        await asyncio.sleep(1)
        assert len(world.ends) == 1

    world.run(work)


def test_a_reset_is_seen_on_both_ends() -> None:
    world = World()

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/echo", 1000)
        assert world.network.reset_between("c", "s") == 1
        with pytest.raises(ConnectionLost, match="reset"):
            await connection.receive()
        await asyncio.sleep(0.1)
        assert len(world.ends) == 1

    world.run(work)


def test_a_killed_server_resets_its_peers_and_refuses_new_ones() -> None:
    world = World()

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/echo", 1000)
        world.loop.crash(world.server)
        world.network.process_ended(world.server)
        with pytest.raises(ConnectionLost, match="reset"):
            await connection.receive()
        with pytest.raises(ConnectionLost, match="refused"):
            await world.transport.connect("s:1", "/echo", 1000)
        assert world.loop.time() < 0.1

    world.run(work)


def test_a_host_without_power_is_silent_until_it_is_up_again() -> None:
    world = World()

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/echo", 1000)
        world.loop.crash(world.server)
        world.network.power_lost("s", world.server)
        with pytest.raises(ConnectionLost, match="no answer"):
            await world.transport.connect("s:1", "/echo", 1000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await connection.receive()
        world.network.host_up("s")
        with pytest.raises(ConnectionLost, match="restarted"):
            await connection.receive()
        world.server = world.loop.process("server again")
        world.serve(world.server)
        assert await world.transport.call("s:1", "/call", b"a", 1000) == b"aa"

    world.run(work)


def test_an_eager_connect_to_a_host_without_power_is_reset_when_it_is_up() -> None:
    world = World(eager_connect_chance=1.0, give_up_ms=60_000)

    async def work() -> None:
        world.loop.crash(world.server)
        world.network.power_lost("s", world.server)
        connection = await world.transport.connect("s:1", "/echo", 1000)
        await connection.send(b"x")
        await asyncio.sleep(5)
        world.network.host_up("s")
        with pytest.raises(ConnectionLost, match="restarted"):
            await connection.receive()

    world.run(work)


def test_a_paused_server_answers_when_resumed() -> None:
    world = World()

    async def work() -> None:
        connection = await world.transport.connect("s:1", "/echo", 1000)
        world.loop.pause(world.server)
        await connection.send(b"x")
        with pytest.raises(ConnectionLost, match="no answer"):
            await world.transport.connect("s:1", "/echo", 1000)
        world.loop.resume(world.server)
        assert await connection.receive() == b"x"

    world.run(work)


def test_an_eager_connect_learns_of_failure_only_when_used() -> None:
    world = World(eager_connect_chance=1.0)

    async def work() -> None:
        connection = await world.transport.connect("s:9", "/echo", 1000)
        with pytest.raises(ConnectionLost):
            await connection.receive()
        connection = await world.transport.connect("s:1", "/echo", 1000)
        await connection.send(b"x")
        assert await connection.receive() == b"x"

    world.run(work)


def test_a_dead_process_sends_nothing_more() -> None:
    world = World()

    async def die_sending() -> None:
        connection = await world.transport.connect("s:1", "/collect", 1000)
        world.loop.crash(world.client)
        await connection.send(b"ghost")

    async def outside() -> None:
        world.loop.spawn(world.client, die_sending())
        await asyncio.sleep(1)

    world.loop.run_until_complete(outside())
    world.loop.close()
    assert world.seen == []


def test_a_failing_handler_is_a_failure_of_the_run_and_an_internal_error_to_the_caller() -> None:
    world = World()

    async def boom(caller: Caller, request: bytes) -> bytes:
        raise ZeroDivisionError("boom")

    service = Service(streams={}, calls={"/boom": boom}, watches={}, enter=anyone, turn=at_once)
    world.network.listen("s:2", Listener(host="s", process=world.server, service=service, identity=None))

    async def work() -> None:
        with pytest.raises(CallFailed) as failed:
            await world.transport.call("s:2", "/boom", b"", 1000)
        assert failed.value.code == ErrorCode.INTERNAL

    world.loop.run_until_complete(world.loop.spawn(world.client, work()))
    world.loop.close()
    assert [failure.process for failure in world.loop.failures] == ["server"]


def test_a_listener_within_the_cluster_takes_callers_by_their_identity() -> None:
    world = World()
    broker = Identity(cluster_id="c1", role=Role.BROKER, broker_id=1)
    rules = PeerRules(cluster_id="c1", roles={"/call": frozenset({Role.OPERATOR})})
    service = Service(streams={}, calls={"/call": world._call}, watches={}, enter=anyone, turn=at_once)
    world.network.listen(
        "s:2", Listener(host="s", process=world.server, service=service, identity=broker, rules=rules)
    )

    def caller(identity: Identity | None) -> SimTransport:
        return SimTransport(world.network, world.client, "c", identity=identity)

    async def work() -> None:
        assert await world.transport.call("s:2", "/call", b"ab", 1000) == b"abab"
        for stranger, said in (
            (None, "no certificate was shown"),
            (Identity(cluster_id="c1", role=Role.RUNNER), "runner may not call /call: operator required"),
            (Identity(cluster_id="c2", role=Role.OPERATOR), "is of another cluster"),
        ):
            with pytest.raises(CallFailed, match=said) as refused:
                await caller(stranger).call("s:2", "/call", b"ab", 1000)
            assert refused.value.code == ErrorCode.UNAUTHENTICATED
        with pytest.raises(ConnectionLost):
            await world.transport.call("s:2", "/call", b"ab", 1000, BrokerId(2))
        assert await world.transport.call("s:2", "/call", b"ab", 1000, BrokerId(1)) == b"abab"

    world.run(work)
