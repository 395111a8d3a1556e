"""The asyncio SDK over real gRPC, against brokers that can be told to stall, die and refuse."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import penstock.asyncio
from penstock import MessageBatch
from penstock.asyncio import Client
from penstock.client.producing.producer import STALL_MS
from penstock.contract.errors import ErrorCode
from tests.integration.sdk.fake_brokers import FakeBrokers
from tests.unit.client.test_truncated_answers import Truncation
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.both_cores

Scene = Callable[[Client], Coroutine[None, None, None]]

LEFT_FOR_SILENCE_S = STALL_MS / 2_000
"""Half of the time after which a broker is left that owes an answer and says nothing."""


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    with FakeBrokers(api_key="key") as running:
        running.act(lambda cluster: cluster.create("orders", 3))
        yield running


def play(brokers: FakeBrokers, scene: Scene, api_key: str = "key") -> None:
    async def run() -> None:
        async with Client(bootstrap=brokers.bootstrap, api_key=api_key) as client:
            await asyncio.wait_for(scene(client), PATIENCE_S)

    asyncio.run(run())


def test_what_is_sent_is_read(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer() as producer:
            delivery = await producer.send("orders", b"one book", key=b"anna", headers=[("shop", b"north")])
            receipt = await delivery
        async with client.consumer(["orders"]) as consumer:
            (message,) = await consumer.poll(timeout=PATIENCE_S)
        assert message[:3] == receipt[:3]
        assert (message.key, message.value, message.headers) == (b"anna", b"one book", [("shop", b"north")])

    play(brokers, scene)


def test_another_thread_and_a_signal_stop_a_poll_that_waits_without_end(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        for stopped_by in ("thread", "signal"):
            consumer = client.consumer("orders")
            assert await consumer.poll(timeout=0.01) == []
            before = signal.signal(signal.SIGALRM, lambda *_: consumer.stop())  # noqa: B023 -- within its turn
            try:
                if stopped_by == "thread":
                    threading.Timer(0.1, consumer.stop).start()
                else:
                    signal.setitimer(signal.ITIMER_REAL, 0.1)
                assert await consumer.poll(timeout=None) == []
                assert consumer.stopped
            finally:
                signal.signal(signal.SIGALRM, before)

    play(brokers, scene)


def test_no_thread_is_started_and_no_task_stays_after_close(brokers: FakeBrokers) -> None:
    async def run() -> None:
        threads = set(threading.enumerate())
        client = Client(bootstrap=brokers.bootstrap, api_key="key")
        producer, consumer = client.producer(), client.consumer("orders")
        assert len(asyncio.all_tasks()) == 1
        await (await producer.send("orders", b"x"))
        await consumer.poll(timeout=PATIENCE_S)
        ours = [thread for thread in set(threading.enumerate()) - threads if "penstock" in thread.name]
        assert ours == []
        await client.close()
        await client.close()
        left = [task for task in asyncio.all_tasks() if "penstock" in task.get_name()]
        assert left == []
        with pytest.raises(penstock.Closed):
            await producer.send("orders", b"x")
        with pytest.raises(penstock.Closed):
            await consumer.poll()

    asyncio.run(run())


def test_a_caller_that_only_sends_does_not_starve_the_writers(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer(buffer_bytes=100_000, batch_bytes=5_000) as producer:
            deliveries = [await producer.send("orders", bytes(100), partition=0) for _ in range(20_000)]
            await producer.flush(PATIENCE_S)
            assert [(await delivery).offset for delivery in deliveries] == list(range(20_000))
            assert producer.buffered_bytes == 0

    play(brokers, scene)


def test_what_is_no_message_is_refused_at_the_send_and_harms_nothing(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer() as producer:
            nothing: Any = 5
            with pytest.raises(TypeError, match="value_serializer=TEXT"):
                await producer.send("orders", "text")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="key_serializer=JSON"):
                await producer.send("orders", b"x", key=5)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"timestamp_ms 1.5 is not a whole number"):
                await producer.send("orders", b"x", timestamp_ms=1.5)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="timestamp_ms 'now' is not a whole number"):
                await producer.send_many("orders", [b"x"], timestamp_ms="now")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="topic: 5 is not a name"):
                await producer.send(nothing, b"x")
            with pytest.raises(TypeError, match="value_serializer=TEXT"):
                await producer.send_many("orders", ["text"])  # type: ignore[list-item]
            sent = await producer.send("orders", bytearray(b"a"), headers={"shop": b"north"}, partition=0)
            (more,) = await producer.send_many("orders", [b"b"], headers={"shop": b"south"}, partition=0)
            assert [(await delivery).offset for delivery in (sent, more)] == [0, 1]

    play(brokers, scene)


def test_batches_columns_positions_and_iteration(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer(batch_messages=10) as producer:
            deliveries = await producer.send_many(
                "orders", [b"%d" % number for number in range(50)], partition=0, timestamp_ms=1_000
            )
            await producer.flush(PATIENCE_S)
            assert [delivery.result().offset for delivery in deliveries] == list(range(50))
        async with client.consumer("orders") as consumer:
            assert await consumer.assignment() == [("orders", 0), ("orders", 1), ("orders", 2)]
            assert (await consumer.end_offsets())["orders", 0] == 50
            assert (await consumer.beginning_offsets())["orders", 0] == 0
            found: list[MessageBatch] = []
            while sum(map(len, found)) < 50:
                found += await consumer.poll_batches(timeout=5)
            assert len(found) == 5
            await consumer.seek("orders", 0, offset=45)
            assert await consumer.position("orders", 0) == 45
            numbers = []
            async for message in consumer:
                numbers.append(message.offset)
                if len(numbers) == 5:
                    break
            assert numbers == [45, 46, 47, 48, 49]
            await consumer.seek("orders", to="beginning")
            await consumer.pause("orders", 0)
            assert await consumer.poll(timeout=0.2) == []
            await consumer.resume("orders")
            assert len(await consumer.poll(timeout=PATIENCE_S)) > 0
            consumer.assign([("orders", 1)])
            assert await consumer.poll(timeout=0.1) == []
            with pytest.raises(penstock.ConfigurationError, match="commit: needs a consumer group"):
                await consumer.commit()

    play(brokers, scene)


def test_a_killed_leader_is_replaced_without_an_error(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer(batch_messages=1) as producer, client.consumer("orders") as consumer:
            first = [await producer.send("orders", b"%d" % number, partition=0) for number in range(20)]
            await first[-1]
            await asyncio.to_thread(brokers.kill, 0)
            rest = [await producer.send("orders", b"%d" % number, partition=0) for number in range(20, 40)]
            assert [
                (await asyncio.wait_for(delivery, PATIENCE_S)).offset for delivery in first + rest
            ] == list(range(40))
            read: list[penstock.Message] = []
            while len(read) < 40:
                found = await consumer.poll(timeout=PATIENCE_S)
                assert found, f"only {len(read)} of 40 read"
                read += found
        assert [message.value for message in read] == [b"%d" % number for number in range(40)]

    play(brokers, scene)


def test_a_silent_leader_is_left_as_soon_as_another_broker_says_so(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer() as producer:
            await (await producer.send("orders", b"a", partition=0))
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.silent.update({0: None}))
            delivery = await producer.send("orders", b"b", partition=0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(delivery, 0.3)
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.unregister(0))
            assert (await asyncio.wait_for(delivery, LEFT_FOR_SILENCE_S)).offset == 1

    play(brokers, scene)


def test_a_description_that_cannot_be_read_is_asked_for_again(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        truncation = brokers.act(lambda cluster: Truncation(cluster, "Metadata"))
        assert [topic.name for topic in await client.topics()] == ["orders"]
        assert truncation.left == 0

    play(brokers, scene)


def test_offsets_that_a_silent_leader_does_not_tell_fail_in_time_and_hold_nothing_up(
    brokers: FakeBrokers,
) -> None:
    async def scene(client: Client) -> None:
        async with client.consumer(["orders"]) as consumer:
            assert await consumer.end_offsets(PATIENCE_S) == {
                ("orders", partition): 0 for partition in range(3)
            }
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.silent.update({0: None}))
            began = time.monotonic()
            with pytest.raises(penstock.PenstockError, match="in time"):
                await asyncio.wait_for(consumer.end_offsets(0.3), PATIENCE_S)
            assert time.monotonic() - began < 20
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.silent.clear())

    play(brokers, scene)


def test_refusals_and_callbacks(brokers: FakeBrokers, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(client: Client) -> None:
        seen: list[str] = []
        async with client.producer() as producer:
            await (await producer.send("orders", b"known", partition=0))
            await asyncio.to_thread(
                brokers.act, lambda cluster: cluster.refusals.append((ErrorCode.FORBIDDEN, "not yours"))
            )
            delivery = await producer.send("orders", b"b", partition=0)

            def fail(_: object) -> None:
                raise RuntimeError("the callback's own fault")

            delivery.add_done_callback(fail)
            delivery.add_done_callback(lambda done: seen.append(repr(done)))
            with pytest.raises(penstock.Forbidden, match="not yours"):
                await delivery
            assert isinstance(delivery.exception(), penstock.Forbidden)
            assert seen == ["<Delivery orders-0 Forbidden>"]
            assert producer.failed_count == 1

    play(brokers, scene)
    assert "the callback's own fault" in caplog.text


def test_a_wrong_key_is_said_at_once(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer() as producer:
            with pytest.raises(penstock.Unauthenticated, match="not valid"):
                await producer.send("orders", b"x")
        async with client.consumer("orders") as consumer:
            with pytest.raises(penstock.Unauthenticated):
                await consumer.poll(timeout=PATIENCE_S)
        with pytest.raises(penstock.Unauthenticated):
            await client.topics()

    play(brokers, scene, api_key="wrong")


def test_topics_and_brokers_are_described(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        assert [topic.name for topic in await client.topics()] == ["orders"]
        assert len((await client.topic("orders")).partitions) == 3
        assert [broker.address for broker in await client.brokers()] == brokers.bootstrap
        with pytest.raises(penstock.NotFound, match="nowhere"):
            await client.topic("nowhere")

    play(brokers, scene)


def test_with_all_brokers_down_the_error_names_them() -> None:
    async def run() -> None:
        async with Client(bootstrap=["127.0.0.1:1", "127.0.0.1:2"], api_key="key") as client:
            producer = client.producer(max_block_ms=700)
            with pytest.raises(penstock.BrokerUnavailable, match=r"127\.0\.0\.1:2"):
                await producer.send("orders", b"x")
            with pytest.raises(penstock.BrokerUnavailable):
                await client.topics(timeout=0.5)

    asyncio.run(run())


def test_a_full_buffer_makes_send_wait_then_fail(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer(buffer_bytes=10_000, max_block_ms=1_500, batch_messages=1) as producer:
            await (await producer.send("orders", b"x", partition=0))
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.silent.update({0: None}))
            for _ in range(9):
                await producer.send("orders", bytes(1_000), partition=0)
            began = time.monotonic()
            with pytest.raises(penstock.BufferFull, match="buffer_bytes=10000"):
                await producer.send("orders", bytes(1_000), partition=0)
            assert time.monotonic() - began >= 1.4
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.unregister(0))

    play(brokers, scene)


def test_a_send_into_a_full_buffer_goes_on_when_there_is_room(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer(
            buffer_bytes=10_000, max_block_ms=PATIENCE_S * 1000, batch_messages=1
        ) as producer:
            await (await producer.send("orders", b"x", partition=0))
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.silent.update({0: None}))
            for _ in range(9):
                await producer.send("orders", bytes(1_000), partition=0)
            waiting = asyncio.create_task(producer.send("orders", bytes(1_000), partition=0))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await asyncio.to_thread(brokers.act, lambda cluster: cluster.unregister(0))
            assert (await asyncio.wait_for(await waiting, PATIENCE_S)).offset == 10

    play(brokers, scene)


def test_a_client_belongs_to_the_loop_of_its_first_use(brokers: FakeBrokers) -> None:
    client = Client(bootstrap=brokers.bootstrap, api_key="key")

    async def use() -> None:
        await client.topics()

    with asyncio.Runner() as first:
        first.run(use())
        with (
            asyncio.Runner() as second,
            pytest.raises(penstock.ConfigurationError, match="another event loop"),
        ):
            second.run(use())
        first.run(client.close())


def test_a_close_or_flush_in_another_loop_is_refused_and_harms_nothing(brokers: FakeBrokers) -> None:
    client = Client(bootstrap=brokers.bootstrap, api_key="key")
    producer, consumer = client.producer(linger_ms=60_000), client.consumer("orders")

    async def use() -> penstock.asyncio.Delivery:
        await consumer.poll(timeout=0.01)
        return await producer.send("orders", b"a", partition=0)

    async def outcome(delivery: penstock.asyncio.Delivery) -> int:
        await client.close()
        return (await delivery).offset

    with asyncio.Runner() as first:
        delivery = first.run(use())
        for end in (producer.flush, producer.close, consumer.close, client.close):
            with (
                asyncio.Runner() as second,
                pytest.raises(penstock.ConfigurationError, match="another event loop"),
            ):
                second.run(asyncio.wait_for(end(), PATIENCE_S))
        assert first.run(outcome(delivery)) == 0


def test_a_callback_reads_the_outcome_as_that_of_a_future(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        read: list[object] = []

        def tell(done: penstock.asyncio.Delivery) -> None:
            error = done.exception()
            read.append(done.result().offset if error is None else error)

        async with client.producer() as producer:
            good = await producer.send("orders", b"a", partition=0)
            good.add_done_callback(tell)
            with pytest.raises(
                asyncio.InvalidStateError, match="orders-0: no outcome yet; await the delivery"
            ):
                good.exception()
            with pytest.raises(asyncio.InvalidStateError):
                good.result()
            await good
            await asyncio.to_thread(
                brokers.act, lambda cluster: cluster.refusals.append((ErrorCode.FORBIDDEN, "not yours"))
            )
            bad = await producer.send("orders", b"b", partition=0)
            bad.add_done_callback(tell)
            with pytest.raises(penstock.Forbidden):
                await bad
            with pytest.raises(penstock.Forbidden):
                bad.result()
        assert read == [0, bad.exception()]

    play(brokers, scene)


def test_a_cancelled_wait_leaves_the_message_under_way(brokers: FakeBrokers) -> None:
    async def scene(client: Client) -> None:
        async with client.producer(linger_ms=300) as producer:
            delivery = await producer.send("orders", b"x", partition=0)
            waiting = asyncio.ensure_future(delivery)
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert (await delivery).offset == 0

    play(brokers, scene)


def test_plaintext_beyond_this_machine_is_refused() -> None:
    async def run() -> None:
        async with Client(bootstrap="192.0.2.1:7461", api_key="key") as client:
            with pytest.raises(penstock.ConfigurationError, match="set ca_file"):
                await client.producer().send("orders", b"x")

    asyncio.run(run())
