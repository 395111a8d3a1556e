"""A topic whose creation was acknowledged is never said not to exist, also by a broker whose image is behind."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable

import pytest

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.node.ports import CallFailed
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import TENANT
from data_plane.testkit.sdk_clients import SdkTransport
from data_plane.testkit.store import SimulatedStore
from data_plane.testkit.transport import SimTransport
from penstock.asyncio.client import Client
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.topic_settings import TopicSettings
from penstock.contract.v1 import log_pb2 as pb
from tests.simulation.test_client_streams import Streams, run_story

NEW = "new"


def lag(streams: Streams, seconds: float) -> None:
    """The broker that the client asks hears nothing of the metadata store's changes for so long."""
    until = asyncio.get_running_loop().time() + seconds
    for watch in streams.period.cluster.store._watches:
        if watch.node == host(streams):
            watch.due = max(watch.due, until)


def host(streams: Streams) -> str:
    return streams.period.led_by(streams.where)[0].host


async def create(streams: Streams) -> None:
    """By another broker; acknowledged when this returns."""
    other = streams.period.led_by(streams.where)[1]
    settings = TopicSettings(replication=1, min_insync_replicas=1)
    request = admin_pb2.CreateTopicRequest(
        tenant=TENANT, name=NEW, settings_json=json.dumps(settings.to_dict())
    )
    request.assignments.add(brokers=[other.broker_id])
    answer = await streams.period._call(other, own_methods.CREATE_TOPIC, request.SerializeToString())
    outcome = admin_pb2.CreateTopicResponse.FromString(answer).outcome
    assert not outcome.error, outcome.message


async def described(streams: Streams, *names: str) -> dict[str, int]:
    """The error of each."""
    answer = pb.MetadataResponse.FromString(
        await streams.call(methods.METADATA, pb.MetadataRequest(topics=names))
    )
    return {topic.name: topic.error for topic in answer.topics}


def knows(streams: Streams) -> bool:
    return any(name == NEW for _, name in streams.node.view.image.names)


def test_a_broker_that_is_a_second_behind_waits_until_it_knows_the_topic() -> None:
    async def story(streams: Streams) -> None:
        lag(streams, 1.0)
        await create(streams)
        assert not knows(streams)
        assert await described(streams, NEW, "orders") == {NEW: 0, "orders": 0}

    run_story(story)


def test_a_broker_that_stays_behind_says_that_it_does_not_know() -> None:
    async def story(streams: Streams) -> None:
        lag(streams, 3.0)
        await create(streams)
        with pytest.raises(CallFailed) as refused:
            await described(streams, NEW)
        assert refused.value.code == ErrorCode.BROKER_UNAVAILABLE and not knows(streams)
        assert await described(streams, "orders") == {"orders": 0}, "what it knows it tells"
        assert await described(streams, NEW) == {NEW: 0}

    run_story(story)


def test_a_topic_that_nobody_made_is_said_not_to_exist_at_once() -> None:
    async def story(streams: Streams) -> None:
        before = streams.period.loop.time()
        assert await described(streams, NEW) == {NEW: ErrorCode.NOT_FOUND}
        assert streams.period.loop.time() - before < 0.5

    run_story(story)


def test_nothing_is_said_not_to_exist_while_the_store_does_not_answer() -> None:
    async def story(streams: Streams) -> None:
        streams.period.cluster.store.cut(host(streams))
        with pytest.raises(CallFailed) as refused:
            await described(streams, NEW)
        assert refused.value.code == ErrorCode.BROKER_UNAVAILABLE
        streams.period.cluster.store.heal(host(streams))
        assert await described(streams, NEW) == {NEW: ErrorCode.NOT_FOUND}

    run_story(story)


def test_many_who_ask_at_once_share_a_question_to_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(streams: Streams) -> None:
        asked = 0
        ask = SimulatedStore.ask

        def counted(
            store: SimulatedStore, node: str, apply: Callable[[], object], unknown: type[Exception]
        ) -> Awaitable[object]:
            nonlocal asked
            asked += node == host(streams)
            return ask(store, node, apply, unknown)

        monkeypatch.setattr(SimulatedStore, "ask", counted)
        found = await asyncio.gather(*(described(streams, f"none-{number}") for number in range(50)))
        assert all(set(errors.values()) == {ErrorCode.NOT_FOUND} for errors in found)
        assert 1 <= asked <= 10, "and the broker's own heartbeats"

    run_story(story)


def test_a_watch_leaves_out_what_the_broker_does_not_know_and_tells_it_later() -> None:
    async def story(streams: Streams) -> None:
        lag(streams, 3.0)
        await create(streams)
        request = pb.WatchMetadataRequest(topics=[NEW, "orders"]).SerializeToString()
        pushes = []
        async for pushed in streams._transport.watch(streams.address, methods.WATCH_METADATA, request):
            errors = {topic.name: topic.error for topic in pb.MetadataResponse.FromString(pushed).topics}
            assert ErrorCode.NOT_FOUND not in errors.values()
            pushes.append(errors)
            if errors.get(NEW) == ErrorCode.OK:
                break
        assert pushes[0] == {"orders": 0}

    run_story(story)


def test_a_producer_that_asks_a_broker_behind_sends_its_first_message_all_the_same() -> None:
    async def story(streams: Streams) -> None:
        lag(streams, 3.0)
        await create(streams)
        process = streams.period.loop.process("a producer")
        transport = SimTransport(
            streams.period.cluster.network,
            process,
            "c0",
            authorization=f"Bearer {streams.period.cluster.api_key}",
        )
        client = Client.over(
            SdkTransport(transport),
            bootstrap=(streams.address,),
            random=random.Random(0),
            wall_ms=SimClock(streams.period.loop).now_ms,
        )
        sent: list[int] = []

        async def work() -> None:
            delivery = await (await client.producer(compression="none").send(NEW, b"first"))
            sent.append(delivery.offset)

        streams.period.loop.spawn(process, work())
        await streams.until(lambda: bool(sent))
        assert sent == [0]

    run_story(story)
