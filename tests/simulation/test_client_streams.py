"""Streams of clients at one broker, said frame by frame: what is credited, metered and listened to, and what a second
stream changes of it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from google.protobuf.message import Message

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.metadata.model import TenantQuotas
from data_plane.node.config import Timings
from data_plane.node.replicas.replica import Replica
from data_plane.node.serving.consume_stream import ConsumeStream
from data_plane.testkit.cluster import TENANT
from data_plane.testkit.connection import Endpoint
from data_plane.testkit.transport import SimTransport
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import TenantId
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import split_batches
from penstock.rules.service_levels import FETCH, PRODUCE
from tests.simulation.test_cuts import METERED, Period, topic
from tests.unit.log.batches import made_batch

HOUR_MS = 3_600_000
KEPT = replace(METERED, metering_tick_ms=HOUR_MS)
"""Nothing is written of what is counted, so it can be looked at where it adds up."""
CONNECT_MS = 5_000
CREDIT = 64 << 10


class Streams:
    """One client that speaks to the leader of `orders-0`."""

    def __init__(self, period: Period) -> None:
        self.period = period
        self.where = period.where("orders")
        leader = period.leader(self.where)
        assert leader is not None and leader.node is not None
        self.address = leader.client_address
        self.node = leader.node
        process = period.loop.process("a client of streams")
        self._transport = SimTransport(
            period.cluster.network, process, "c0", authorization=f"Bearer {period.cluster.api_key}"
        )

    @property
    def replica(self) -> Replica:
        return self.node.replicas.by_partition[self.where]

    async def open(self, method: str) -> Endpoint:
        return await self._transport.connect(self.address, method, CONNECT_MS)

    async def call(self, method: str, request: Message, *, internal: bool = False) -> bytes:
        cluster = self.period.cluster
        if internal:
            leader = self.period.led_by(self.where)[0]
            return await cluster._admin.call(
                leader.internal_address, method, request.SerializeToString(), CONNECT_MS
            )
        return await self._transport.call(self.address, method, request.SerializeToString(), CONNECT_MS)

    async def producing(self) -> "Producing":
        stream = Producing(self, await self.open(methods.PRODUCE))
        await stream.hear()
        return stream

    async def consuming(self) -> "Consuming":
        return Consuming(self, await self.open(methods.CONSUME))

    def requests(self, operation: str) -> tuple[int, int]:
        """(answered, of those by our fault) of the ended streams of all minutes."""
        found = [
            sums
            for key, sums in self.node.usage.metering.clients.increments._requests.items()
            if key.operation == operation
        ]
        return sum(one.valid for one in found), sum(one.bad for one in found)

    def delivered(self) -> dict[str, tuple[int, int]]:
        """By group: messages and bytes that consumers have taken."""
        found: dict[str, tuple[int, int]] = {}
        self.node.usage.metering.clients._gather_delivered()
        for key, (messages, size, *_) in self.node.usage.metering.clients.increments._delivered.items():
            before = found.get(key.group, (0, 0))
            found[key.group] = (before[0] + messages, before[1] + size)
        return found

    def in_other_zones(self) -> dict[str, tuple[int, int]]:
        """As `delivered`, of what left the broker's zone."""
        rows = self.node.usage.metering.clients.increments._delivered
        return {key.group: (row[2], row[3]) for key, row in rows.items()}

    def throttled(self) -> dict[str, int]:
        """By topic (empty: of none): for how many ms a rate delayed what came or went."""
        found: dict[str, int] = {}
        for key, (_, throttled_ms, _) in self.node.usage.metering.clients.increments._elapsed.items():
            if throttled_ms:
                found[key.topic] = found.get(key.topic, 0) + throttled_ms
        return found

    def listeners(self) -> int:
        """Streams that a commit and a change of leadership are told to."""
        by_kind = [
            [owner for owner in listeners if isinstance(owner, ConsumeStream)]
            for listeners in (self.replica.on_commit, self.replica.on_role)
        ]
        assert by_kind[0] == by_kind[1]
        return len(by_kind[0])

    async def until(self, holds: Callable[[], bool]) -> None:
        await self.period.until("what the story waits for", holds)


class Producing:
    """One produce stream."""

    def __init__(self, streams: Streams, endpoint: Endpoint) -> None:
        self._streams = streams
        self.endpoint = endpoint
        self.credit = 0
        self.results: list[pb.ProduceResult] = []

    async def hear(self) -> None:
        _, head, _ = unpack_frame(await self.endpoint.receive())
        answer = pb.ProduceAnswerHead.FromString(bytes(head))
        self.credit += answer.credit_bytes
        self.results += answer.results

    async def send(self, *batches: bytes, acks: int = -1, partition: int = 0) -> None:
        head = pb.ProduceHead(acks=acks)
        for number, batch in enumerate(batches):
            head.batches.add(
                id=number,
                topic_id=self._streams.where.topic_id,
                partition=partition,
                leader_epoch=-1,
                size=len(batch),
            )
        self.credit -= sum(map(len, batches))
        await self.endpoint.send(pack_frame(FrameKind.PRODUCE, head.SerializeToString(), list(batches)))

    async def errors_of(self, results: int) -> list[int]:
        """The errors of all results once there are so many."""
        while len(self.results) < results:
            await self.hear()
        return [result.error for result in self.results]


class Consuming:
    """One consume stream."""

    def __init__(self, streams: Streams, endpoint: Endpoint) -> None:
        self._streams = streams
        self.endpoint = endpoint
        self.offsets: dict[tuple[int, int], list[int]] = {}
        """(handle, generation) -> base offsets of the batches that were pushed."""
        self.errors: list[tuple[int, int]] = []
        """(handle, error)."""
        self.bytes = self.throttled_ms = 0

    async def begin(
        self,
        handle: int = 1,
        *,
        generation: int = 1,
        offset: int = 0,
        group: str = "",
        credit: int = CREDIT,
        zone: str = "",
    ) -> None:
        where = self._streams.where
        head = pb.ConsumeOpenHead(group=group, zone=zone)
        head.partitions.add(
            handle=handle,
            topic_id=where.topic_id,
            partition=where.partition,
            generation=generation,
            offset=offset,
            last_epoch=-1,
            leader_epoch=-1,
            credit_bytes=credit,
        )
        await self.endpoint.send(pack_frame(FrameKind.CONSUME_OPEN, head.SerializeToString()))

    async def end(self, handle: int = 1) -> None:
        head = pb.ConsumeCloseHead(handles=[handle])
        await self.endpoint.send(pack_frame(FrameKind.CONSUME_CLOSE, head.SerializeToString()))

    async def give(self, credit: int, handle: int = 1, generation: int = 1) -> None:
        head = pb.ConsumeCreditHead()
        head.credits.add(handle=handle, generation=generation, credit_bytes=credit)
        await self.endpoint.send(pack_frame(FrameKind.CONSUME_CREDIT, head.SerializeToString()))

    async def hear(self) -> None:
        _, head, payload = unpack_frame(await self.endpoint.receive())
        pushed = pb.ConsumePushHead.FromString(bytes(head))
        self.bytes += len(payload)
        self.throttled_ms += pushed.throttled_ms
        at = 0
        for push in pushed.pushes:
            if push.error:
                self.errors.append((push.handle, push.error))
            part, at = payload[at : at + push.size], at + push.size
            offsets = [int.from_bytes(batch[:8], "big") for batch in split_batches(part)]
            self.offsets.setdefault((push.handle, push.generation), []).extend(offsets)

    async def given(self, batches: int, handle: int = 1, generation: int = 1) -> list[int]:
        while len(self.offsets.get((handle, generation), [])) < batches:
            await self.hear()
        return self.offsets[handle, generation]


def run_story(story: Callable[[Streams], Coroutine[Any, Any, None]], timings: Timings = KEPT) -> None:
    """The story with a client of three brokers; it must end within a simulated minute."""

    async def with_streams(period: Period) -> None:
        async with asyncio.timeout(60):
            await story(Streams(period))

    Period(timings, topic("orders", 2)).run(with_streams)


BATCH = made_batch(2, 100)


def test_each_batch_gives_its_credit_back_whatever_became_of_it() -> None:
    async def story(streams: Streams) -> None:
        stream = await streams.producing()
        assert stream.credit == limits.STREAM_CREDIT_BYTES
        broken = BATCH[:-1] + b"!"
        for count in range(1, 12):
            await stream.send(BATCH, broken)
            assert (await stream.errors_of(2 * count))[-2:] in (
                [0, ErrorCode.CORRUPT_BATCH],
                [ErrorCode.CORRUPT_BATCH, 0],
            )
        await stream.send(BATCH, acks=0)
        await stream.send(BATCH, partition=9)
        assert (await stream.errors_of(23))[-1] == ErrorCode.NOT_FOUND
        while stream.credit < limits.STREAM_CREDIT_BYTES:
            await stream.hear()
        assert stream.credit == limits.STREAM_CREDIT_BYTES

    run_story(story)


def test_a_stream_that_overdraws_its_credit_is_ended_and_the_next_one_begins_with_all_of_it() -> None:
    async def story(streams: Streams) -> None:
        for _ in range(2):
            stream = await streams.producing()
            assert stream.credit == limits.STREAM_CREDIT_BYTES
            await stream.send(made_batch(1, 400), acks=1)
            await stream.errors_of(1)
            stream.endpoint.close()

    run_story(story)


def test_requests_of_two_streams_add_up_and_are_counted_once_when_each_ends() -> None:
    async def story(streams: Streams) -> None:
        first, second = await streams.producing(), await streams.producing()
        tallies = streams.node.usage.metering.clients._tallies
        assert len(tallies) == 2
        await first.send(BATCH, BATCH, BATCH)
        await second.send(BATCH)
        await first.errors_of(3)
        await second.errors_of(1)
        first.endpoint.close()
        await streams.until(lambda: len(tallies) == 1)
        assert streams.requests(PRODUCE) == (3, 0)
        await second.send(BATCH)
        await second.errors_of(2)
        second.endpoint.close()
        await streams.until(lambda: not tallies)
        assert streams.requests(PRODUCE) == (5, 0)

    run_story(story)


def test_delivered_is_what_credit_came_back_for_and_each_streams_by_its_group() -> None:
    async def story(streams: Streams) -> None:
        producer = await streams.producing()
        for count in range(1, 12):
            await producer.send(BATCH)
            await producer.errors_of(count)
        first, second = await streams.consuming(), await streams.consuming()
        await first.begin(group="one")
        await second.begin(group="two", zone=streams.node.config.zone)
        assert await first.given(11) == await second.given(11) == list(range(0, 22, 2))
        size = len(BATCH)
        await first.give(size)
        await streams.until(lambda: streams.delivered() == {"one": (2, size)})
        await second.give(11 * size)
        await streams.until(lambda: streams.delivered() == {"one": (2, size), "two": (22, 11 * size)})
        await first.give(10 * size)
        await streams.until(lambda: streams.delivered() == {"one": (22, 11 * size), "two": (22, 11 * size)})
        assert streams.in_other_zones() == {"one": (22, 11 * size), "two": (0, 0)}, "one names no zone"
        before = streams.requests(FETCH)
        assert before == (0, 0), "counted when a stream ends, or a round gathers"
        for stream in (first, second):
            stream.endpoint.close()
        await streams.until(lambda: streams.requests(FETCH)[0] >= 2)

    run_story(story)


def test_credit_for_an_opening_of_before_counts_for_nothing() -> None:
    async def story(streams: Streams) -> None:
        producer = await streams.producing()
        await producer.send(BATCH, BATCH)
        await producer.errors_of(2)
        consumer = await streams.consuming()
        await consumer.begin(generation=1)
        await consumer.given(2)
        await consumer.begin(generation=2)
        await consumer.given(2, generation=2)
        await consumer.give(2 * len(BATCH), generation=1)
        await consumer.give(len(BATCH), generation=2)
        await streams.until(lambda: streams.delivered() != {})
        assert streams.delivered() == {"": (2, len(BATCH))}

    run_story(story)


def test_a_seek_after_a_seek_is_read_from_where_the_last_one_says() -> None:
    async def story(streams: Streams) -> None:
        producer = await streams.producing()
        await producer.send(*[BATCH] * 4)
        await producer.errors_of(4)
        consumer = await streams.consuming()
        for generation, (offset, expected) in enumerate([(0, [0, 2, 4, 6]), (6, [6]), (2, [2, 4, 6])], 1):
            await consumer.begin(generation=generation, offset=offset)
            assert await consumer.given(len(expected), generation=generation) == expected
            assert streams.listeners() == 1
        await producer.send(BATCH)
        assert await consumer.given(4, generation=3) == [2, 4, 6, 8]
        assert len(consumer.offsets[1, 2]) == 1

    run_story(story)


def test_a_partition_that_is_closed_is_not_pushed_and_listens_to_nothing_and_may_be_opened_again() -> None:
    async def story(streams: Streams) -> None:
        producer = await streams.producing()
        kept, closed = await streams.consuming(), await streams.consuming()
        await kept.begin()
        await closed.begin()
        await streams.until(lambda: streams.listeners() == 2)
        await closed.end()
        await streams.until(lambda: streams.listeners() == 1)
        await producer.send(BATCH)
        assert await kept.given(1) == [0]
        await closed.begin(generation=2, offset=0)
        assert await closed.given(1, generation=2) == [0]
        assert (1, 1) not in closed.offsets or closed.offsets[1, 1] == []
        for stream in (kept, closed):
            stream.endpoint.close()
        await streams.until(lambda: streams.listeners() == 0)
        assert not streams.node.serving.streams._consumers

    run_story(story)


def test_a_second_handle_on_a_partition_takes_the_place_of_the_first() -> None:
    async def story(streams: Streams) -> None:
        producer, consumer = await streams.producing(), await streams.consuming()
        await consumer.begin(1)
        await consumer.begin(2)
        await producer.send(BATCH)
        assert await consumer.given(1, handle=2) == [0]
        assert streams.listeners() == 1
        await consumer.end(2)
        await streams.until(lambda: streams.listeners() == 0)

    run_story(story)


def test_nothing_is_pushed_beyond_the_credit_and_the_rest_comes_when_it_returns() -> None:
    async def story(streams: Streams) -> None:
        producer, consumer = await streams.producing(), await streams.consuming()
        await producer.send(*[BATCH] * 5)
        await producer.errors_of(5)
        await consumer.begin(credit=2 * len(BATCH))
        assert await consumer.given(2) == [0, 2]
        await asyncio.sleep(1)
        pushed = streams.node.stats.pushed_bytes
        assert pushed == 2 * len(BATCH)
        await consumer.give(len(BATCH))
        assert await consumer.given(3) == [0, 2, 4]
        await consumer.give(2 * len(BATCH))
        assert await consumer.given(5) == [0, 2, 4, 6, 8]

    run_story(story)


def test_a_stream_that_reads_is_told_when_the_leadership_moves_and_no_longer_listens() -> None:
    async def story(streams: Streams) -> None:
        first, second = await streams.consuming(), await streams.consuming()
        await first.begin()
        await second.begin()
        await streams.until(lambda: streams.listeners() == 2)
        streams.replica.rest()
        for stream in (first, second):
            while not stream.errors:
                await stream.hear()
            assert stream.errors == [(1, ErrorCode.NOT_LEADER)]
        assert streams.listeners() == 0

    run_story(story)


async def paced(
    streams: Streams, bytes_per_s: int, consume_bytes_per_s: int = 0, requests_per_s: int = 0
) -> None:
    """The tenant has these rates at the broker from now on; 0 = none."""
    wanted = TenantQuotas(
        produce_bytes_per_s=bytes_per_s,
        consume_bytes_per_s=consume_bytes_per_s,
        requests_per_s=requests_per_s,
    )
    request = admin_pb2.PutTenantRequest(tenant=TENANT)
    request.quotas.produce_bytes_per_s = bytes_per_s
    request.quotas.consume_bytes_per_s = consume_bytes_per_s
    request.quotas.requests_per_s = requests_per_s
    await streams.call(own_methods.PUT_TENANT, request, internal=True)
    tenants = streams.node.view.image.tenants
    await streams.until(lambda: tenants[TenantId(TENANT)].quotas == wanted)


def test_what_a_rate_holds_back_comes_in_order_and_what_it_refuses_gives_its_credit_back_too() -> None:
    async def story(streams: Streams) -> None:
        await paced(streams, 600)
        stream = await streams.producing()
        credit = stream.credit
        assert credit < limits.STREAM_CREDIT_BYTES
        for count in (40, 80):
            await stream.send(*[BATCH] * 40)
            await stream.errors_of(count)
            while stream.credit < credit:
                await stream.hear()
            assert stream.credit == credit
            errors = [result.error for result in stream.results[count - 40 :]]
            assert set(errors) == {0, ErrorCode.THROTTLED}
        taken = [result.base_offset for result in stream.results if not result.error]
        assert taken == list(range(0, 2 * len(taken), 2))
        assert all(result.retry_after_ms > 0 for result in stream.results if result.error)
        assert streams.node.stats.throttled_batches > 2
        assert streams.throttled() == {streams.replica.topic.name: streams.node.stats.throttled_ms}
        await paced(streams, 0)
        for count in range(81, 84):
            await stream.send(BATCH)
            await stream.errors_of(count)
            while stream.credit < limits.STREAM_CREDIT_BYTES:
                await stream.hear()
            assert stream.credit == limits.STREAM_CREDIT_BYTES, "grown once"

    run_story(story)
