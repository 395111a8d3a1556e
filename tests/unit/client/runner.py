"""Drives the client's core against a fake cluster in virtual time: no threads, no loop, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from penstock.client.actions import CloseStream, OpenStream, OpenWatch, StartCall
from penstock.client.arguments import consumer_settings, producer_settings
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.consuming.fetch_collector import FetchCollector
from penstock.client.consuming.malformed import SkippedBatch, skipped_batch
from penstock.client.core import ClientCore
from penstock.client.messages import Message
from penstock.client.producing.batch import ProducerBatch, ReceiptsLedger
from penstock.client.producing.delivery import BatchDelivery, Receipt
from penstock.client.producing.producer import ProducerCore
from penstock.client.telling import write_lines
from penstock.contract import methods
from tests.unit.client.fake_cluster import ConsumeSession, FakeCluster, Refused

PRODUCER = {
    "acks": "all",
    "compression": "none",
    "linger_ms": 0,
    "batch_bytes": 64 * 1024,
    "batch_messages": 1_000,
    "idempotent": True,
    "delivery_timeout_ms": 30_000,
    "buffer_bytes": 1 << 20,
    "on_full": "fail",
    "max_block_ms": 1_000,
    "max_attempts": None,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 100,
    "partitioner": None,
}
CONSUMER = {
    "group": None,
    "auto_offset_reset": "earliest",
    "auto_commit": False,
    "fetch_bytes": 1 << 20,
    "partition_fetch_bytes": 64 * 1024,
}


class SyncDelivery(BatchDelivery, eq=False, gc=False):
    """A delivery that is only ever asked when it is done."""

    @property
    def batch(self) -> ProducerBatch:
        return self._batch

    def receipt(self) -> Receipt:
        assert self.done(), "no outcome yet"
        return self._receipt()

    @property
    def error(self) -> Exception | None:
        assert self.done(), "no outcome yet"
        return self._batch.error


@dataclass(slots=True)
class _Stream:
    broker: int
    method: str
    request: bytes = b""
    session: ConsumeSession | None = None
    held: list[bytes] = field(default_factory=list)
    """Frames that a silent broker took in."""
    look_at: float = 0.0
    """When its writer looks for a frame, unless it is woken before."""


class Runner:
    """`brokers` brokers at addresses b0, b1, ... A broker in `cluster.silent` takes frames in and answers nothing.

    As idle as the real runtimes: the core has its step when it asked for attention or the time has come that it named,
    and a stream's writer looks for a frame when it was woken or likewise.
    """

    def __init__(self, brokers: int = 3, seed: int = 1) -> None:
        self.cluster = FakeCluster({number: f"b{number}" for number in range(brokers)})
        self.core = ClientCore(tuple(self.cluster.brokers.values()), Random(seed))
        self.now = 1_000.0
        self.streams: dict[int, _Stream] = {}
        self.down: dict[int, None] = {}
        """Brokers that refuse connections."""
        self.calls: list[tuple[int, str]] = []
        self.ghosts: list[tuple[int, int, bytes]] = []
        """(token, broker, PRODUCE frame) taken in by a broker on a stream that is gone for the client."""
        self.answered: deque[tuple[int, bytes]] = deque(maxlen=3)
        """The newest answers to PRODUCE frames, with the tokens of their streams."""
        self.settled: list[ProducerBatch] = []
        self.skipped: list[SkippedBatch] = []
        self._planned = 0.0
        """When the core wants its next step."""
        self._call_ends: dict[int, float] = {}
        self._metadata_moved = False
        self.cluster.listeners.append(self._moved)

    def _moved(self) -> None:
        self._metadata_moved = True

    # ---- what tests use -----------------------------------------------------------------------------------

    def producer(self, ledger: ReceiptsLedger | None = None, **changed: object) -> ProducerCore:
        return self.core.add_producer(producer_settings(**{**PRODUCER, **changed}), ledger)  # type: ignore[arg-type]

    def consumer(self, *topics: str, **changed: object) -> ConsumerCore:
        names, settings = consumer_settings(topics=topics, **{**CONSUMER, **changed})  # type: ignore[arg-type]
        return self.core.add_consumer(names, settings)

    def send(
        self,
        producer: ProducerCore,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int = 1_700_000_000_000,
    ) -> SyncDelivery:
        """Append one message; the topic becomes known first if it must."""
        route = producer.route(topic)
        if route is None:
            self.run(0)
            route = producer.route(topic)
        assert route is not None, "the topic is not known yet"
        delivery = producer.accumulator.append(
            route, value, key, None, timestamp_ms, partition, lambda: self.now, SyncDelivery
        )
        assert delivery is not None, "the buffer is full"
        return delivery

    def poll(self, consumer: ConsumerCore, count: int = 1_000) -> list[Message]:
        """Everything that can be read now, up to `count`; raises as a consumer would."""
        gathered: list[Message] = []
        collector = FetchCollector(
            consumer.next_fetched,
            lambda fetched: consumer.finished(fetched, self.now),
            consumer.skipping.unreadable,
            consumer.skipping.malformed,
            consumer.skipping.undecodable,
        )
        for _ in range(50):
            consumer.prepare()
            self.run(0)
            found = collector.messages(count - len(gathered))
            gathered += found
            malformed = collector.found_malformed
            if malformed is not None and not found:
                self.skipped.append(skipped_batch(malformed))
                consumer.skip(malformed, self.now)
                continue
            if not found and consumer.prepare() is None and len(gathered) <= count:
                if gathered:
                    break
                consumer.raise_halted()
                self.run(20)
        return gathered

    def lose_streams(self, broker: int) -> None:
        """The broker's process dies: every stream to it breaks."""
        for token, stream in list(self.streams.items()):
            if stream.broker == broker:
                self._drop(token)
                self.core.stream_lost(token, None, f"b{broker}: connection reset", self.now)

    def _drop(self, token: int) -> None:
        stream = self.streams.pop(token, None)
        if stream is not None and stream.method == methods.PRODUCE:
            self.ghosts += [(token, stream.broker, frame) for frame in stream.held]

    def let_ghosts_in(self, *, heard: bool = False) -> None:
        """Brokers work off what came on streams that are gone. `heard`: a thread had read the answers just before
        the core closed the stream, and hands them over after it."""
        ghosts, self.ghosts = self.ghosts, []
        for token, broker, frame in ghosts:
            answer = self.cluster.produce(broker, frame)
            if heard:
                self.core.frame_received(token, answer, self.now)

    def answer_withheld(self, broker: int) -> None:
        """A silent broker wakes up and works off what it took in, in order, on streams old and new."""
        self.cluster.silent.pop(broker, None)
        for token, stream in list(self.streams.items()):
            if stream.broker == broker:
                held, stream.held = stream.held, []
                for frame in held:
                    self._broker_takes(token, stream, frame)

    def answer_again(self) -> None:
        """Answers that the core has had are handed over once more, on the stream that they came on."""
        for token, answer in self.answered:
            self.core.frame_received(token, answer, self.now)

    def run(self, ms: float) -> None:
        """Let everything happen that happens within `ms` of virtual time."""
        end = self.now + ms
        while True:
            self._complete_now()
            looks = [
                stream.look_at for stream in self.streams.values() if stream.method != methods.WATCH_METADATA
            ]
            at = min([self._planned, end, *looks, *self._call_ends.values()])
            if at > end or (at >= end and self.now >= end):
                return
            self.now = max(at, self.now + 0.001)
            if self.now >= end:
                self.now = end
            for token, when in list(self._call_ends.items()):
                if when <= self.now:
                    del self._call_ends[token]
                    self.core.call_failed(token, None, "deadline exceeded", self.now)

    # ---- turning ------------------------------------------------------------------------------------------

    def _complete_now(self) -> None:
        for _ in range(10_000):
            if self._core_is_due():
                self.core.step(self.now)
                self._planned = max(self.core.next_step_at(), self.now + 0.001)
            write_lines()
            actions, self.core.actions = self.core.actions, []
            for action in actions:
                self._perform(action)
            moved = self._pump()
            moved |= self._wake_writers()
            self.settled += self.core.completed
            self.core.completed = []
            self.core.changed = False
            if not actions and not moved and not self.core.attention:
                return
        raise AssertionError("the core never comes to rest")

    def _core_is_due(self) -> bool:
        core = self.core
        return core.attention or bool(core.actions or core.completed) or self.now >= self._planned

    def _wake_writers(self) -> bool:
        """Whether one looks at once."""
        woken, self.core.woken = self.core.woken, {}
        found = False
        for token, at in woken.items():
            stream = self.streams.get(token)
            if stream is not None and at < stream.look_at:
                stream.look_at, found = 0.0, True
        return found

    def _perform(self, action: object) -> None:
        core, cluster = self.core, self.cluster
        if isinstance(action, CloseStream):
            self._drop(action.token)
            return
        assert isinstance(action, OpenStream | OpenWatch | StartCall)
        broker = int(action.address[1:])
        if isinstance(action, StartCall):
            self.calls.append((broker, action.method.rsplit("/", 1)[1]))
            if broker in self.down:
                core.call_failed(action.token, None, "connection refused", self.now)
            elif broker in cluster.silent:
                self._call_ends[action.token] = self.now + action.timeout_ms
            else:
                try:
                    answer = cluster.call(broker, action.method, action.request)
                except Refused as refused:
                    core.call_failed(action.token, refused.code, refused.message, self.now)
                else:
                    core.call_answered(action.token, answer, self.now)
            return
        if broker in self.down:
            core.stream_lost(action.token, None, "connection refused", self.now)
            return
        stream = _Stream(broker, action.method)
        self.streams[action.token] = stream
        if isinstance(action, OpenWatch):
            stream.request = action.request
            if broker not in cluster.silent:
                core.frame_received(action.token, self._watch_answer(stream), self.now)
        elif action.method == methods.PRODUCE:
            if broker not in cluster.silent:
                core.frame_received(action.token, cluster.opening(), self.now)
        else:
            stream.session = ConsumeSession(cluster, broker)

    def _watch_answer(self, stream: _Stream) -> bytes:
        from penstock.contract.v1 import log_pb2

        wanted = log_pb2.WatchMetadataRequest.FromString(stream.request)
        return self.cluster.metadata(list(wanted.topics))

    def _pump(self) -> bool:
        """Send what streams have to send and deliver what brokers answer; whether anything moved."""
        moved = False
        if self._metadata_moved:
            self._metadata_moved = False
            for token, stream in list(self.streams.items()):
                if stream.method == methods.WATCH_METADATA and stream.broker not in self.cluster.silent:
                    self.core.frame_received(token, self._watch_answer(stream), self.now)
                    moved = True
        for token, stream in list(self.streams.items()):
            if stream.method == methods.WATCH_METADATA:
                continue
            while token in self.streams and stream.look_at <= self.now:
                out, at = self.core.next_frame(token, self.now)
                if out is None:
                    stream.look_at = max(at, self.now + 0.001)
                    break
                moved = True
                if isinstance(out, bytes):
                    frame = out
                else:
                    frame = out.encode()
                    self.core.encoded(token, out)
                self._broker_takes(token, stream, frame)
            if stream.session is not None and stream.broker not in self.cluster.silent:
                for push in stream.session.pushes():
                    moved = True
                    self.core.frame_received(token, push, self.now)
        return moved

    def _broker_takes(self, token: int, stream: _Stream, frame: bytes) -> None:
        if stream.broker in self.cluster.silent:
            stream.held.append(frame)
        elif stream.session is not None:
            stream.session.take(frame)
        else:
            answer = self.cluster.produce(stream.broker, frame)
            self.answered.append((token, answer))
            self.core.frame_received(token, answer, self.now)
