"""Topics that a budget slows: what waits of one delays no other topic of the same stream, produced or consumed."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.metadata.model import TopicRecord
from data_plane.node.leasing.pacing import PRODUCE_RATE
from data_plane.node.serving.batch_turns import Waiting
from data_plane.node.serving.topic_reads import TopicReads
from data_plane.node.stats import NodeStats
from data_plane.testkit.loop import SimLoop
from data_plane.throttling.pacing import DELAYED_OF_TOPIC_MAX, Pace
from data_plane.throttling.queues import SLOW_DOWN_MS_MAX
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.contract.v1 import log_pb2 as pb
from tests.unit.authz.setup import ACME, GLOBEX
from tests.unit.node.serving.allowances import PRINCIPAL, GivenPaces, allowances
from tests.unit.node.serving.delays import Delays
from tests.unit.node.serving.test_produce_stream import Slow, stream_of

SIZE = 1_000
SLOWED, FREE = b"s" * 16, b"f" * 16


def slowed_to(per_s: int, name: str = "slowed") -> Pace:
    pace = Pace(per_s)
    pace.topic = name
    return pace


class Timed(Slow):
    """Its clock is the loop's, and it finds nothing at once."""

    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def find(self, where: TopicPartition) -> None:
        return None


class Sent:
    """One stream; each answer's batch id, and when it came in ms."""

    def __init__(self, topic: Pace | None, tenants: Pace | None = None, own: Pace | None = None) -> None:
        self.topics = [] if topic is None else [topic]
        self.broker = Timed()
        self.stream = stream_of(self.broker, paces=GivenPaces(tenants, own, lambda topic: self.topics))

    def send(self, number: int, topic: bytes, *, acks: int = -1, size: int = SIZE) -> None:
        wanted = pb.ProduceBatch(id=number, topic_id=topic, partition=0, size=size)
        now_ms = self.broker.monotonic_ms()
        paces = self.topics if topic == SLOWED else ()
        self.stream._batch_turns.look()
        if self.stream._batch_turns.take(
            Waiting(acks, wanted, memoryview(bytes(size)), now_ms, paces), now_ms
        ):
            self.stream._hold()

    def answers(self) -> list[int]:
        """Of the batches that were tried: what no broker has here is refused as unknown."""
        return [result.id for result in self.stream._results if result.error != ErrorCode.THROTTLED]

    def end(self) -> None:
        if self.stream._releaser is not None:
            self.stream._releaser.cancel()


def run(story: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop(1)
    try:
        loop.run_until_complete(story)
    finally:
        loop.close()


def test_what_waits_of_a_slowed_topic_delays_no_other_topic_of_the_stream() -> None:
    async def story() -> None:
        sent = Sent(slowed_to(SIZE))
        for number in range(4):
            sent.send(number, SLOWED)
        sent.send(100, FREE)
        assert sent.answers() == [0, 100], "one of the slowed topic passes, and all of the other"
        await asyncio.sleep(3.5)
        assert sent.answers() == [0, 100, 1, 2, 3], "in the order they came, one each second"
        assert [result.throttled_ms // 1_000 for result in sent.stream._results] == [0, 0, 0, 1, 2]
        assert sent.stream._results[1].slow_down_ms == 0, (
            "nor does it ask the producer of another topic to wait"
        )
        sent.end()

    run(story())


def test_a_slowed_topics_refusal_says_whose_it_is_and_gives_the_streams_credit_back_at_once() -> None:
    async def story() -> None:
        sent = Sent(slowed_to(SIZE))
        for number in range(8):
            sent.send(number, SLOWED)
        refused = [result for result in sent.stream._results if result.error == ErrorCode.THROTTLED]
        assert refused and "produce_bytes_per_s: topic slowed may use" in refused[0].message
        assert refused[0].retry_after_ms > 0 and refused[0].slow_down_ms == SLOW_DOWN_MS_MAX
        assert sent.stream._granted == SIZE * (len(refused) + 1), "of what was refused, and what has passed"
        assert sent.broker.stats.limit_refusals.of(ACME, f"topic:{PRODUCE_RATE}") == len(refused)
        await asyncio.sleep(2.0)
        sent.send(99, SLOWED)
        assert sent.stream._results[-1].error == ErrorCode.THROTTLED, (
            "nothing slips in before what was refused"
        )
        sent.end()

    run(story())


def test_what_may_wait_of_a_slowed_topic_is_bounded_in_bytes_at_any_rate() -> None:
    async def story() -> None:
        for per_s in (SIZE, 50 * DELAYED_OF_TOPIC_MAX):
            sent = Sent(slowed_to(per_s))
            before = sent.topics[0].let_in
            for number in range(1_000):
                sent.send(number, SLOWED, size=64_000)
            waiting = sent.topics[0].let_in - before
            burst = per_s * 0.25
            assert waiting <= burst + DELAYED_OF_TOPIC_MAX + 2 * 64_000, per_s
            sent.end()

    run(story())


def test_without_acknowledgements_a_slowed_topic_is_delayed_and_never_refused() -> None:
    async def story() -> None:
        sent = Sent(slowed_to(100 * SIZE))
        for number in range(1_000):
            sent.send(number, SLOWED, acks=0)
        assert not sent.stream._results
        await asyncio.sleep(11.0)
        assert sent.stream._granted == 1_000 * SIZE, "all of them have passed, and given their credit back"
        sent.end()

    run(story())


@pytest.mark.pure
def test_what_is_refused_anyway_takes_nothing_of_its_topics_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        pace, there = slowed_to(SIZE), record("slowed")
        sent, find = Sent(pace), SimpleNamespace(topic=there)
        monkeypatch.setattr(sent.stream, "_find", lambda where: find)
        wanted = pb.ProduceBatch(id=1, topic_id=SLOWED, partition=0, size=SIZE)
        assert sent.stream._topic_of(wanted) == [pace]
        for find.topic in (replace(there, binned=True), replace(there, tenant=GLOBEX)):
            assert not sent.stream._topic_of(wanted)

    run(story())


def test_what_a_stream_that_ends_had_waiting_delays_no_one_else() -> None:
    async def story() -> None:
        own, tenants = Pace(100 * SIZE), Pace(100 * SIZE)
        for paces in ((slowed_to(SIZE), None, None), (None, tenants, None), (None, tenants, own)):
            gone, other = Sent(*paces), Sent(*paces)
            other.send(0, SLOWED)
            for number in range(10_000):
                gone.send(number, SLOWED, acks=0)
            other.send(1, SLOWED)
            assert other.stream._results[-1].error == ErrorCode.THROTTLED, "there is no end to what waits"
            gone.end()
            gone.stream._batch_turns.leave(gone.broker.monotonic_ms())
            assert gone.stream._batch_turns.move(gone.broker.monotonic_ms()) is None
            await asyncio.sleep(1.1)
            other.send(2, SLOWED)
            await asyncio.sleep(1.1)
            assert other.answers() == [0, 2], paces
            other.end()

    run(story())


def test_a_batch_passes_its_topics_pace_then_its_principals_and_its_tenants() -> None:
    async def story() -> None:
        own, tenants = Pace(2 * SIZE), Pace(2 * SIZE)
        own.principal = "service_account:sa_robot"
        sent = Sent(slowed_to(SIZE), tenants, own)
        for number in range(4):
            sent.send(number, SLOWED)
        assert own.let_in == tenants.let_in == SIZE, "what waits for its topic has no place in the other two"
        sent.send(100, FREE)
        await asyncio.sleep(4.5)
        assert sent.answers() == [0, 100, 1, 2, 3]
        assert own.let_in == tenants.let_in == 5 * SIZE
        sent.end()

    run(story())


def test_a_topic_that_is_slowed_no_more_lets_go_in_order() -> None:
    async def story() -> None:
        sent = Sent(slowed_to(SIZE))
        for number in range(4):
            sent.send(number, SLOWED)
        sent.topics[0].change(10**12, sent.broker.monotonic_ms())
        sent.topics = []
        sent.send(4, SLOWED)
        assert sent.stream._batch_turns.move(sent.broker.monotonic_ms() + 1.0) == 0
        assert sent.answers() == [0], "what waited begins a batch at a time, and not all in one turn"
        await asyncio.sleep(0.2)
        assert sent.answers() == [0, 1, 2, 3, 4]
        sent.end()

    run(story())


def record(name: str) -> TopicRecord:
    topic_id = TopicId(name.encode().ljust(16, b"."))
    return TopicRecord(topic_id=topic_id, tenant=ACME, name=name, partitions=1, settings=TopicSettings())


class Reader:
    """One consume stream's look at topics; its own clock."""

    def __init__(self, **paces: Pace) -> None:
        self.passed_ms = 0.0
        self.woken = 0
        self.paces = paces
        self._delays = Delays()
        given = GivenPaces(topic_paces=lambda topic: [self.paces[topic]] if topic in self.paces else [])
        allowance = allowances(self, NodeStats(), given, throttled=self._delays).to_consume(PRINCIPAL)
        self.reads = TopicReads(allowance, self._wake, self)

    @property
    def delayed(self) -> list[tuple[int, str]]:
        return [(milliseconds, topic) for _, _, milliseconds, topic in self._delays.told]

    def processor_ms(self) -> float:
        return self.passed_ms

    def _wake(self) -> None:
        self.woken += 1

    def now_ms(self) -> int:
        return int(self.passed_ms)

    def monotonic_ms(self) -> float:
        return self.passed_ms


def test_partitions_of_a_slowed_topic_are_parked_until_its_pace_is_clear() -> None:
    reader = Reader(slowed=slowed_to(1_000))
    slowed, free = record("slowed"), record("free")
    assert reader.reads.readable(1, slowed, 500) == 50, "as much as passes in 50 ms"
    reader.reads.read("slowed", 1_250)
    assert reader.reads.readable(1, slowed, 500) == reader.reads.readable(2, slowed, 500) == 0
    assert reader.reads.readable(3, free, 500) == 500 and reader.reads.due() == []
    assert reader.reads.wait_ms() == 250.0, "looked at now and then: it may be slowed no more"
    assert len(reader.paces["slowed"].line) == 1, "its pace knows that more could be used"
    reader.passed_ms = 1_000.0
    assert reader.reads.due() == [1, 2] and reader.reads.wait_ms() is None
    assert reader.delayed == [(1_000, "slowed")] and reader.reads.take_throttled_ms() == 1_000
    assert not reader.paces["slowed"].line


def test_what_is_parked_is_due_once_its_topic_is_slowed_no_more_and_forgotten_when_closed() -> None:
    reader = Reader(a=slowed_to(1_000, "a"), b=slowed_to(1_000, "b"))
    for handle, name in ((1, "a"), (2, "b")):
        reader.reads.read(name, 10_000)
        assert reader.reads.readable(handle, record(name), 500) == 0
    lines = [pace.line for pace in reader.paces.values()]
    del reader.paces["a"]
    assert reader.reads.due() == [1]
    reader.reads.closed(2)
    assert reader.reads.wait_ms() is None and not any(lines)
    reader.reads.leave()


def test_one_who_leaves_waits_in_no_line_and_the_slowest_topic_still_passes_a_batch() -> None:
    reader = Reader(slowed=slowed_to(1))
    slowed = record("slowed")
    assert reader.reads.readable(1, slowed, 1_000) == 1, "which means one batch"
    reader.reads.read("slowed", SIZE)
    assert reader.reads.readable(1, slowed, 1_000) == 0 and len(reader.paces["slowed"].line) == 1
    reader.reads.leave()
    assert len(reader.paces["slowed"].line) == 0 and reader.reads.wait_ms() is None
