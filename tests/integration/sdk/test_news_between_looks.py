"""What changes while a poll has given its lock or its turn away, between its looks and its wait, is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import penstock
import penstock.asyncio
from tests.integration.sdk.fake_brokers import FakeBrokers
from tests.waiting import PATIENCE_S


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    with FakeBrokers() as running:
        running.act(lambda cluster: cluster.create("orders"))
        with penstock.Client(bootstrap=running.bootstrap) as client, client.producer() as producer:
            producer.send("orders", b"one book").result(PATIENCE_S)
        yield running


def all_is_told(core: Any) -> bool:
    """The topic was described by all who were asked: nothing more comes by itself."""
    watches = core._metadata_watches._watches
    return "orders" in core.view.topics and not core._topics_asked and all(watch.heard for watch in watches)


class Before:
    """Stands before a consumer's collector: the first gathering does `first`, and finds nothing."""

    def __init__(self, collector: Any, first: Any) -> None:
        self._collector = collector
        self._first = first

    @property
    def found_malformed(self) -> Any:
        return self._collector.found_malformed

    @property
    def found_undecodable(self) -> Any:
        return self._collector.found_undecodable

    def messages(self, count_max: int) -> list[penstock.Message]:
        if self._first is not None:
            first, self._first = self._first, None
            first()
            return []
        found: list[penstock.Message] = self._collector.messages(count_max)
        return found


def test_a_poll_sees_a_topic_that_was_described_while_it_gathered(brokers: FakeBrokers) -> None:
    with penstock.Client(bootstrap=brokers.bootstrap) as client, client.consumer("orders") as consumer:
        inside: Any = consumer
        runtime: Any = inside._runtime

        def until_all_is_told() -> None:
            with runtime.lock:
                assert runtime.changed.wait_for(lambda: all_is_told(runtime.core), PATIENCE_S)

        inside._collector = Before(inside._collector, until_all_is_told)
        assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"one book"]


def test_a_poll_ends_with_a_client_that_was_closed_while_it_gathered(brokers: FakeBrokers) -> None:
    with penstock.Client(bootstrap=brokers.bootstrap) as client, ThreadPoolExecutor(1) as polling:
        inside: Any = client.consumer("orders")
        inside._collector = Before(inside._collector, client.close)
        polled = polling.submit(inside.poll, timeout=10 * PATIENCE_S)
        assert isinstance(polled.exception(PATIENCE_S), penstock.Closed)


def test_an_awaited_poll_sees_a_topic_that_was_described_while_it_gave_way(brokers: FakeBrokers) -> None:
    async def scene() -> None:
        async with (
            penstock.asyncio.Client(bootstrap=brokers.bootstrap) as client,
            client.consumer("orders") as consumer,
        ):
            inside: Any = consumer
            runtime: Any = inside._runtime
            give_way = inside._give_way

            async def until_all_is_told() -> None:
                inside._give_way = give_way
                while not all_is_told(runtime.core):
                    await runtime.wait(runtime.now_ms() + PATIENCE_S * 1000)

            inside._give_way = until_all_is_told
            assert [message.value for message in await consumer.poll(timeout=PATIENCE_S)] == [b"one book"]

    asyncio.run(scene())


def test_an_awaited_poll_ends_with_a_client_that_was_closed_while_it_gave_way(brokers: FakeBrokers) -> None:
    async def scene() -> None:
        async with penstock.asyncio.Client(bootstrap=brokers.bootstrap) as client:
            inside: Any = client.consumer("orders")
            inside._give_way = client.close
            with pytest.raises(penstock.Closed):
                await asyncio.wait_for(inside.poll(timeout=None), PATIENCE_S)

    asyncio.run(scene())
