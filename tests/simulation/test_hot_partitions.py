"""One partition at ten times its neighbours' load, on slow disks: its producers slow down for it, and for no other."""

import asyncio
import random
from dataclasses import dataclass, field, replace
from statistics import median

import pytest

from data_plane.node.replicas.produce_answers import ProduceAnswers
from data_plane.testkit.clock import SimClock
from data_plane.testkit.disk import DiskTiming
from data_plane.testkit.network import LinkTiming, NetworkSettings
from data_plane.testkit.sdk_clients import SdkTransport
from data_plane.testkit.transport import SimTransport
from penstock.asyncio import Client, Delivery
from penstock.contract import limits
from tests.simulation.test_cuts import METERED, Period, topic

PARTITIONS = 6
HOT = 0
VALUE_BYTES = 1_000
EACH_S = 0.02
"""Between two messages to a neighbour."""
HOT_PRODUCERS = 8
HOT_EACH = 6
"""Messages at once of each of these, as often: together 48 times a neighbour's, more than the partition can take."""
SECONDS = 3.0
WARM_UP = 25
"""Messages of a partition that are not looked at."""


@dataclass
class Seen:
    """What a story saw of its messages."""

    ack_ms: list[list[float]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    offsets: list[list[int]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    kept_order: bool = True
    slow_downs: int = 0
    slowed_ms: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    seconds: float = 0.0

    def p99_ms(self) -> float:
        """Of the neighbours, once all partitions are known to all."""
        found = sorted(
            ms for number in range(PARTITIONS) if number != HOT for ms in self.ack_ms[number][WARM_UP:]
        )
        return found[len(found) * 99 // 100]

    @property
    def bytes_per_s(self) -> float:
        return sum(map(len, self.offsets)) * VALUE_BYTES / self.seconds


class Story:
    """One producer that sends to all partitions alike, and some that send to the hot one alone."""

    def __init__(self, period: Period, hot_producers: int) -> None:
        self.period = period
        self.hot_producers = hot_producers
        self.seen = Seen()
        self._done = 0

    async def run(self) -> None:
        loop, cluster = self.period.loop, self.period.cluster
        began = loop.time()
        for name in range(1 + self.hot_producers):
            process = loop.process(f"producer {name}")
            transport = SimTransport(
                cluster.network, process, f"c{name}", authorization=f"Bearer {cluster.api_key}"
            )
            client = Client.over(
                SdkTransport(transport),
                bootstrap=tuple(broker.client_address for broker in cluster.brokers),
                random=random.Random(name),
                wall_ms=SimClock(loop).now_ms,
            )
            loop.spawn(process, self._produce(client, [HOT] * HOT_EACH if name else list(range(PARTITIONS))))
        await self.period.until("all are acknowledged", lambda: self._done == 1 + self.hot_producers)
        self.seen.seconds = loop.time() - began
        nodes = [broker.node for broker in cluster.brokers if broker.node is not None]
        self.seen.slow_downs = sum(node.stats.slow_downs for node in nodes)

    async def _produce(self, client: Client, partitions: list[int]) -> None:
        loop = self.period.loop
        producer = client.producer(compression="none", linger_ms=2, batch_bytes=8_000, buffer_bytes=100_000)
        until = loop.time() + SECONDS
        sent: list[asyncio.Task[int]] = []
        while loop.time() < until:
            for number in partitions:
                began = loop.time()
                delivery = await producer.send("orders", bytes(VALUE_BYTES), partition=number)
                sent.append(asyncio.create_task(self._acked(number, began, delivery)))
            await asyncio.sleep(EACH_S)
        offsets = await asyncio.gather(*sent)
        for number in dict.fromkeys(partitions):
            mine = [offset for at, offset in enumerate(offsets) if partitions[at % len(partitions)] == number]
            self.seen.kept_order &= mine == sorted(mine)
            self.seen.offsets[number] += mine
        for one in producer.stats().partitions:
            self.seen.slowed_ms[one.partition] += one.slowed_ms
        self._done += 1

    async def _acked(self, number: int, began: float, delivery: Delivery) -> int:
        receipt = await delivery
        self.seen.ack_ms[number].append((self.period.loop.time() - began) * 1000)
        return receipt.offset


def seen_with(hot_producers: int) -> Seen:
    period = Period(METERED, topic("orders", partitions=PARTITIONS))
    sizes = replace(
        period.plan.sizes,
        journal_bytes=limits.MIB,
        replica_window_bytes=32 * limits.KIB,
        unsynced_bytes_max=96 * limits.KIB,
    )
    timing = LinkTiming(base_ms=0.5, jitter_ms=0.5, bytes_per_ms=1_000.0)
    period.plan = replace(
        period.plan,
        sizes=sizes,
        disk=DiskTiming(sync_ms=8.0, sync_jitter_ms=4.0),
        network=NetworkSettings(timing=timing, give_up_ms=3_000.0),
    )
    stories: list[Story] = []

    async def told(period: Period) -> None:
        stories.append(Story(period, hot_producers))
        await stories[0].run()

    period.run(told)
    return stories[0].seen


@pytest.mark.pure
@pytest.mark.slow
def test_a_hot_partition_is_slowed_and_its_neighbours_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, hot = seen_with(0), seen_with(HOT_PRODUCERS)
    with monkeypatch.context() as patch:
        patch.setattr(ProduceAnswers, "_slow_down", lambda answers, due: None)
        unslowed = seen_with(HOT_PRODUCERS)
    assert unslowed.slow_downs == 0 < hot.slow_downs
    assert hot.slowed_ms[HOT] > 20 * max(hot.slowed_ms[HOT + 1 :])
    for seen in (alone, hot, unslowed):
        assert seen.kept_order
        assert all(sorted(offsets) == list(range(len(offsets))) for offsets in seen.offsets), (
            "nothing is lost"
        )
    assert len(hot.offsets[HOT]) > 10 * len(hot.offsets[HOT + 1])
    assert hot.p99_ms() <= 2 * alone.p99_ms(), f"{hot.p99_ms():.0f} ms, alone {alone.p99_ms():.0f} ms"
    assert hot.bytes_per_s >= 0.95 * unslowed.bytes_per_s
    assert median(hot.ack_ms[HOT]) < 0.75 * median(unslowed.ack_ms[HOT]), "the queue is shorter"
