"""Streams whose frames wait for their tenant's turn: they leave with their client, and it hears of them meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from daemon.handshakes import RefusedHandshakes
from daemon.hang_ups import HangUps
from data_plane.broker.clock import SystemRng
from data_plane.broker.server import Listener
from data_plane.broker.strangers import Strangers
from data_plane.metering.increments import RequestTally
from data_plane.node.admission.fairness import TenantTurns
from data_plane.node.admission.pace_lines import SIGN_MS
from data_plane.node.leasing.pacing import REQUEST_UNITS
from data_plane.node.ports import Caller, Connection, Service, anyone, at_once
from data_plane.node.replicas.committer import Committer
from data_plane.node.serving.consume_stream import ConsumeStream
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.pacing import Pace
from penstock.client.consuming.fetcher import PROBE_MS
from penstock.client.producing.producer import STALL_MS
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from penstock.rules.service_levels import FETCH
from tests.unit.authz.setup import ACME, key_number
from tests.unit.log.miniature import Miniature
from tests.unit.node.serving.allowances import KEY_ID, allowance, environment
from tests.unit.node.serving.delays import Delays
from tests.unit.node.serving.test_produce_stream import TOPIC_ID, Slow, frame, stream_of
from tests.unit.node.storage import committer_of

PRODUCE, CONSUME = "produce", "consume"
STREAMS = [PRODUCE, pytest.param(CONSUME, marks=pytest.mark.pure)]  # what meters its stream is a stand-in
PER_S = 0.02
WAIT_S = 1 / PER_S


def opening() -> bytes:
    head = pb.ConsumeOpenHead()
    head.partitions.add(handle=1, generation=1, topic_id=TOPIC_ID, partition=0)
    return pack_frame(FrameKind.CONSUME_OPEN, head.SerializeToString())


FRAMES = {PRODUCE: frame(), CONSUME: opening()}


class Client:
    """What grpc shows of one client to the listener."""

    def __init__(self, loop: SimLoop, *frames: bytes) -> None:
        self.heard: list[tuple[float, bytes]] = []
        self._loop = loop
        self._frames: asyncio.Queue[Any] = asyncio.Queue()
        for one in frames:
            self._frames.put_nowait(one)

    def ends_its_direction(self) -> None:
        self._frames.put_nowait(grpc.aio.EOF)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5000"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def send_initial_metadata(self, metadata: object) -> None:
        """It hears that it was admitted."""

    async def abort(self, status: object, message: str, trailing: object) -> None:
        raise AssertionError(message)

    async def read(self) -> Any:
        return await self._frames.get()

    async def write(self, written: bytes) -> None:
        self.heard.append((self._loop.time(), written))


class Broker:
    """The listener with streams of one tenant, the rate of which is used up."""

    def __init__(self, way: str) -> None:
        self.loop = SimLoop(1)
        self.slow = Slow(self.loop)
        self.pace = Pace(int(PER_S * REQUEST_UNITS))
        self.let_in = self.pace.let_in = self.pace.let_in + REQUEST_UNITS
        self.taken: list[float] = []
        self.committer: Committer | None = None
        self._requests = RequestTurns(
            lambda limit: self.pace, lambda tenant, key_id, name: None, self, self.slow.stats, Delays()
        )
        self._way = way
        self._opened = {PRODUCE: self._produce, CONSUME: self._consume}
        self.faults: list[BaseException] = []
        service = Service(streams={"/s": self._serve}, calls={}, watches={}, enter=anyone, turn=at_once)
        self.listener = Listener(
            service,
            handshakes=None,
            refused_handshakes=RefusedHandshakes(),
            strangers=Strangers(HangUps("client"), connections_max=100),
            fault=self.faults.append,
        )

    def now_ms(self) -> int:
        return self.slow.now_ms()

    def monotonic_ms(self) -> float:
        return self.loop.time() * 1000

    def client(self, count: int = 1) -> tuple[Client, "asyncio.Task[None]"]:
        """One that has sent so many frames; grpc cancels the task when it is gone."""
        made = Client(self.loop, *[FRAMES[self._way]] * count)
        serve: Any = self.listener.service(cast(Any, SimpleNamespace(method="/s")))
        return made, asyncio.create_task(serve.stream_stream(None, made))

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self.loop.run_until_complete(story())
        finally:
            self.loop.close()
        assert not self.faults

    @property
    def running(self) -> int:
        return self.listener._handlers.count

    async def _serve(self, caller: Caller, connection: Connection) -> None:
        await self._opened[self._way](connection)

    async def _produce(self, connection: Connection) -> None:
        stream = stream_of(self.slow, connection, requests=self._requests, committer=self.committer)
        stream._find = self._find
        await stream.serve()

    async def _consume(self, connection: Connection) -> None:
        given = allowance(self.slow, self.slow.stats)
        given.turns = cast(TenantTurns, AtOnce())
        given.requests = self._requests.of(ACME, KEY_ID, 1)
        await ConsumeStream(
            environment(self, SystemRng(), self.slow.stats),
            connection,
            self.slow.tenants.enter(key_number(1)),
            gate=self.slow.gate,
            find=self._find,
            confident=lambda: True,
            allowance=given,
            client_use=cast(Any, None),
            tally=RequestTally(ACME, FETCH),
        ).serve()

    def _find(self, where: TopicPartition) -> None:
        if where.partition == 0 and self.taken[-1:] != [self.loop.time()]:
            self.taken.append(self.loop.time())


class AtOnce:
    """Nobody uses more than their share."""

    async def turn(self, *_: object) -> int:
        """Now."""
        return 0

    def processor_pace(self) -> None:
        """There is no limit."""

    async def charged(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await work()


@pytest.mark.parametrize("way", STREAMS)
def test_a_client_that_is_gone_leaves_the_line_with_all_it_sent_and_the_next_one_goes(way: str) -> None:
    broker = Broker(way)

    async def story() -> None:
        _, first = broker.client(3)
        await asyncio.sleep(0.01)
        _, other = broker.client()
        _, last = broker.client()
        await asyncio.sleep(1.0)
        assert len(broker.pace.line) == broker.running == 3
        for gone in (other, first):
            gone.cancel()
            await asyncio.sleep(0.01)
        assert len(broker.pace.line) == broker.running == 1, "at once"
        assert broker.pace.let_in == broker.let_in, "what it sent is not counted"
        await asyncio.sleep(WAIT_S)
        assert len(broker.taken) == 1 and broker.pace.let_in == broker.let_in + REQUEST_UNITS
        last.cancel()
        await asyncio.sleep(2 * WAIT_S)
        assert len(broker.taken) == 1 and not broker.running and not broker.pace.line

    broker.run(story)


def test_a_client_that_only_ends_its_own_direction_has_all_taken_that_it_sent() -> None:
    broker = Broker(PRODUCE)

    async def story() -> None:
        client, serving = broker.client(3)
        client.ends_its_direction()
        await asyncio.wait_for(serving, 4 * WAIT_S)
        assert len(broker.taken) == 3 and not broker.running

    broker.run(story)


@pytest.mark.parametrize("way", STREAMS)
def test_a_client_whose_frame_waits_hears_that_the_broker_is_there(way: str) -> None:
    """Sooner than it takes the stream for a broken one, or asks once more and waits for that too."""
    assert min(STALL_MS, PROBE_MS) >= 2 * SIGN_MS
    broker = Broker(way)

    async def story() -> None:
        first, serving = broker.client()
        await asyncio.sleep(0.01)
        second, also = broker.client()
        await asyncio.sleep(2 * WAIT_S - 5.0)
        assert len(broker.taken) == 1
        signs = [(at, unpack_frame(frame)) for at, frame in second.heard[1 if way == PRODUCE else 0 :]]
        times = [0.0, *(at for at, _ in signs), 2 * WAIT_S - 5.0]
        assert max(late - soon for soon, late in pairwise(times)) <= SIGN_MS / 1000 + 0.5
        assert len(signs) <= 2 * WAIT_S * 1000 / SIGN_MS + 1
        kind = FrameKind.PRODUCE_ANSWER if way == PRODUCE else FrameKind.CONSUME_PUSH
        assert all((one[0], bytes(one[1]), bytes(one[2])) == (kind, b"", b"") for _, one in signs)
        until = broker.taken[0]
        after = [at for at, _ in first.heard if at > until + 0.1]
        assert not after, "who does not wait hears nothing without need"
        for task in (serving, also):
            task.cancel()
        await asyncio.sleep(0.1)

    broker.run(story)


def test_a_frame_that_has_waited_for_its_turn_still_waits_until_less_is_unwritten() -> None:
    broker = Broker(PRODUCE)

    async def story() -> None:
        broker.committer = committer = committer_of(Miniature(), broker.slow, broker.slow.stats)
        _, serving = broker.client()
        await asyncio.sleep(WAIT_S / 2)
        committer._below_bound.clear()
        await asyncio.sleep(WAIT_S)
        assert not broker.pace.line and not broker.taken
        committer._below_bound.set()
        await asyncio.sleep(0.1)
        assert len(broker.taken) == 1
        serving.cancel()
        await asyncio.sleep(0.1)

    broker.run(story)
