"""A tenant's consume rate at one broker of three, on a virtual clock: what its streams are pushed, and when."""

import asyncio

from data_plane.leases.terms import LimitKey
from data_plane.node.leasing.pacing import CONSUME_RATE, FLOOR, REQUEST_RATE, REQUEST_UNITS
from data_plane.testkit.cluster import TENANT
from data_plane.throttling.pacing import BURST_MS
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from tests.simulation.test_client_streams import Consuming, Streams, paced, run_story
from tests.unit.log.batches import made_batch

RATE = 20_000
LARGE = made_batch(1, 900)
CREDIT = limits.FETCH_CREDIT_BYTES_MAX
CONSUMED = LimitKey(TenantId(TENANT), CONSUME_RATE)


async def filled(streams: Streams, bytes_least: int) -> int:
    """The topic's batches."""
    stream, count = await streams.producing(), 0
    while count * len(LARGE) < bytes_least:
        count += 40
        await stream.send(*[LARGE] * 40)
        assert not any(await stream.errors_of(count))
    return count


async def pushed_for(seconds: float, *streams: Consuming) -> list[int]:
    """The bytes that each is pushed in this time."""

    async def heard(stream: Consuming) -> None:
        while True:
            await stream.hear()

    before = [stream.bytes for stream in streams]
    tasks = [asyncio.create_task(heard(stream)) for stream in streams]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    return [stream.bytes - had for stream, had in zip(streams, before, strict=True)]


def test_one_partition_is_read_at_the_whole_rate_within_two_seconds_and_not_faster() -> None:
    async def story(streams: Streams) -> None:
        await filled(streams, 14 * RATE)
        await paced(streams, 0, RATE)
        stream = await streams.consuming()
        await stream.begin(credit=CREDIT)
        (first,) = await pushed_for(2.0, stream)
        assert first <= RATE * (2.0 + BURST_MS / 1000) * 1.04 + 2 * len(LARGE)
        for _ in range(5):
            (passed,) = await pushed_for(2.0, stream)
            assert 0.95 * RATE <= passed / 2 <= 1.05 * RATE, f"{passed / 2:,.0f} bytes a second"
        assert 0 < stream.throttled_ms <= streams.node.stats.consume_throttled_ms
        assert stream.throttled_ms > 9_000, "it waited for nearly all of the time"
        topic = streams.replica.topic.name
        assert streams.throttled() == {topic: streams.node.stats.consume_throttled_ms}
        assert not stream.errors

    run_story(story)


def test_streams_of_a_tenant_take_turns_and_come_to_the_rate_together() -> None:
    async def story(streams: Streams) -> None:
        await filled(streams, 3 * RATE)
        await paced(streams, 0, RATE)
        opened = [await streams.consuming() for _ in range(3)]
        for stream in opened:
            await stream.begin(credit=CREDIT)
        await pushed_for(2.0, *opened)
        passed = await pushed_for(6.0, *opened)
        assert 0.95 * RATE <= sum(passed) / 6 <= 1.05 * RATE
        assert min(passed) >= 0.9 * max(passed), passed
        for stream in opened[1:]:
            await stream.end()
        (alone,) = await pushed_for(1.0, opened[0])
        assert alone >= 0.9 * RATE, "who left the line holds no one up"

    run_story(story)


def test_what_the_rate_delays_comes_in_order_and_at_once_when_the_limit_ends() -> None:
    async def story(streams: Streams) -> None:
        count = await filled(streams, 100_000)
        await paced(streams, 0, 1_000)
        stream, other = await streams.consuming(), await streams.consuming()
        for each in (stream, other):
            await each.begin(credit=CREDIT)
        await pushed_for(3.0, stream, other)
        assert 0 < stream.bytes < 10_000
        await paced(streams, 0, 0)
        await pushed_for(0.5, stream, other)
        for each in (stream, other):
            assert each.offsets[1, 1] == list(range(count))

    run_story(story)


def test_errors_do_not_wait_for_the_rate() -> None:
    async def story(streams: Streams) -> None:
        await filled(streams, 20_000)
        await paced(streams, 0, 100)
        stream = await streams.consuming()
        await stream.begin(credit=CREDIT)
        await stream.hear()
        before = stream.bytes
        await stream.begin(handle=2, offset=-1)
        async with asyncio.timeout(0.5):
            while not stream.errors:
                await stream.hear()
        assert stream.errors == [(2, ErrorCode.INVALID_REQUEST)] and stream.bytes == before

    run_story(story)


def test_a_client_that_reads_nothing_holds_up_no_other_stream_of_its_tenant() -> None:
    async def story(streams: Streams) -> None:
        await filled(streams, 14 * RATE)
        await paced(streams, 0, RATE)
        unread, other = await streams.consuming(), await streams.consuming()
        for stream in (unread, other):
            await stream.begin(credit=CREDIT)
        await pushed_for(1.0, other)
        # Errors do not wait for the rate: these fill what the network takes while it stands in the line.
        for handle in range(2, 9_000):
            await unread.begin(handle=handle, offset=-1)
        (passed,) = await pushed_for(4.0, other)
        assert passed >= 0.45 * RATE * 4, "its turns are half of them at least"

    run_story(story)


def test_consumers_that_are_at_the_end_cost_no_request_and_wait_for_no_one() -> None:
    async def story(streams: Streams) -> None:
        count = await filled(streams, 20_000)
        await paced(streams, 0, RATE)
        stream = await streams.consuming()
        await stream.begin(credit=CREDIT)
        await stream.given(count)
        await asyncio.sleep(10.0)
        pacing = streams.node.leasing.pacing
        asked = streams.node.stats.lease_requests
        assert asked > 0 and not pacing.is_active
        producing = await streams.producing()
        await stream.give(1_000)
        await asyncio.sleep(10.0)
        assert streams.node.stats.lease_requests == asked and not pacing.is_active
        await producing.send(LARGE)
        async with asyncio.timeout(0.5):
            await stream.given(count + 1)
        pace = pacing.of(CONSUMED, asyncio.get_running_loop().time() * 1000)
        assert pace is not None and RATE // FLOOR // 3 <= pace.bytes_per_s <= RATE

    run_story(story)


def test_each_frame_that_opens_partitions_is_a_request_and_credit_is_none() -> None:
    async def story(streams: Streams) -> None:
        await paced(streams, 0, 0, requests_per_s=2)
        stream, loop = await streams.consuming(), asyncio.get_running_loop()
        began_s = loop.time()
        for handle in range(10):
            await stream.begin(handle=handle, offset=-1)
        while len(stream.errors) < 10:
            await stream.hear()
        least_s = (10 - 1 - 2 * BURST_MS / 1000) / 2 / (1 + 1 / FLOOR)
        assert least_s <= loop.time() - began_s <= 8.0
        pace = streams.node.leasing.pacing.of(LimitKey(TenantId(TENANT), REQUEST_RATE), loop.time() * 1000)
        assert pace is not None
        counted = pace.let_in
        for _ in range(20):
            await stream.give(1)
        await asyncio.sleep(0.5)
        assert pace.let_in == counted == 10 * REQUEST_UNITS

    run_story(story)
