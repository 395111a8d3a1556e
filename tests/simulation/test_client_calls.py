"""Calls of clients and operators at one broker: what they answer, what they count, and what the second one does."""

import asyncio
import json
from typing import Any

import pytest

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.node.ports import CallFailed
from data_plane.testkit.cluster import TENANT, BrokerState
from data_plane.throttling.shares import SHARED
from data_plane.throttling.spare import ALWAYS
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from penstock.rules.service_levels import METADATA
from tests.simulation.test_client_streams import BATCH, Streams, run_story
from tests.simulation.test_cuts import METERED, Period, topic
from tests.simulation.test_declared_losses import Doubtful, Silent
from tests.unit.log.batches import NOW_MS, made_batch

BEGINNING, END = -2, -1


async def listed(streams: Streams, timestamp_ms: int, partition: int = 0) -> tuple[int, int]:
    """(error, offset)."""
    request = pb.ListOffsetsRequest()
    request.partitions.add(
        topic_id=streams.where.topic_id, partition=partition, leader_epoch=-1, timestamp_ms=timestamp_ms
    )
    answer = pb.ListOffsetsResponse.FromString(await streams.call(methods.LIST_OFFSETS, request))
    return answer.partitions[0].error, answer.partitions[0].offset


async def deleted(streams: Streams, before: int) -> tuple[int, int]:
    """(error, log start), asked for until it is no longer only under way."""
    request = pb.DeleteRecordsRequest()
    request.partitions.add(
        topic_id=streams.where.topic_id, partition=0, leader_epoch=-1, before_offset=before
    )
    while True:
        answer = pb.DeleteRecordsResponse.FromString(await streams.call(methods.DELETE_RECORDS, request))
        (found,) = answer.partitions
        if found.error != ErrorCode.LEADER_NOT_READY:
            return found.error, found.log_start_offset


async def filled(streams: Streams) -> None:
    """Ten records in five batches, a second apart."""
    producer = await streams.producing()
    for count in range(5):
        await producer.send(made_batch(2, 100, timestamp_ms=NOW_MS + 1_000 * count))
        assert await producer.errors_of(count + 1) == [0] * (count + 1)


def test_offsets_are_listed_for_both_ends_and_for_times_between() -> None:
    async def story(streams: Streams) -> None:
        assert await listed(streams, BEGINNING) == await listed(streams, END) == (0, 0)
        await filled(streams)
        assert await listed(streams, BEGINNING) == (0, 0)
        assert await listed(streams, END) == (0, 10)
        for time_ms, offset in (
            (0, 0),
            (NOW_MS, 0),
            (NOW_MS + 1, 2),
            (NOW_MS + 4_000, 8),
            (NOW_MS + 4_001, 10),
        ):
            assert await listed(streams, time_ms) == (0, offset)
        assert (await listed(streams, -3))[0] == ErrorCode.INVALID_REQUEST
        assert (await listed(streams, END, partition=9))[0] == ErrorCode.NOT_FOUND

    run_story(story)


def test_calls_are_counted_one_by_one_and_those_that_ask_wrongly_are_not() -> None:
    async def story(streams: Streams) -> None:
        for count in range(1, 12):
            await listed(streams, END)
            assert streams.requests(METADATA) == (count, 0)
        await listed(streams, END, partition=9)
        await listed(streams, -3)
        assert streams.requests(METADATA) == (11, 0)

    run_story(story)


def test_producer_ids_are_never_given_twice_and_an_epoch_follows_its_own() -> None:
    async def story(streams: Streams) -> None:
        async def made(producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
            request = pb.InitProducerRequest(producer_id=producer_id, producer_epoch=epoch)
            answer = await streams.call(methods.INIT_PRODUCER, request)
            response = pb.InitProducerResponse.FromString(answer)
            return response.producer_id, response.producer_epoch

        ids = [await made() for _ in range(11)]
        assert len(set(ids)) == 11 and {epoch for _, epoch in ids} == {0}
        assert await made(ids[0][0], 0) == (ids[0][0], 1)
        assert await made(ids[0][0], 1) == (ids[0][0], 2)

    run_story(story)


def test_deleting_records_moves_the_start_and_a_second_time_further_and_never_back() -> None:
    async def story(streams: Streams) -> None:
        await filled(streams)
        assert await deleted(streams, 4) == (0, 4)
        assert await listed(streams, BEGINNING) == (0, 4)
        assert await deleted(streams, 8) == (0, 8)
        assert await deleted(streams, 2) == (0, 8)
        assert (await deleted(streams, 11))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await deleted(streams, -1) == (0, 10)
        assert await listed(streams, BEGINNING) == await listed(streams, END) == (0, 10)
        reader = await streams.consuming()
        await reader.begin(offset=9)
        while not reader.errors:
            await reader.hear()
        assert reader.errors == [(1, ErrorCode.OFFSET_OUT_OF_RANGE)]

    run_story(story, METERED)


def test_the_cluster_is_described_with_each_partition_and_who_leads_it() -> None:
    async def story(streams: Streams) -> None:
        async def described(*, partitions: bool) -> admin_pb2.DescribeClusterResponse:
            request = admin_pb2.DescribeClusterRequest(partitions=partitions)
            answer = await streams.call(own_methods.DESCRIBE_CLUSTER, request, internal=True)
            return admin_pb2.DescribeClusterResponse.FromString(answer)

        found = await described(partitions=True)
        mine = [one for one in found.partitions if one.tenant == TENANT]
        assert [(one.topic, one.partition) for one in mine] == [("orders", 0), ("orders", 1)]
        for one in mine:
            assert one.leader in one.in_sync and sorted(one.replicas) == [0, 1, 2]
        assert [(broker.id, broker.state) for broker in found.brokers] == [(n, "active") for n in range(3)]
        leads = [sum(one.leader == number for one in found.partitions) for number in range(3)]
        assert [broker.leaders for broker in found.brokers] == leads
        assert not (await described(partitions=False)).partitions

    run_story(story)


def test_each_change_of_a_watched_topic_is_told_and_nobody_is_told_twice_of_the_same() -> None:
    async def story(streams: Streams) -> None:
        request = pb.WatchMetadataRequest(topics=["orders", "nothing"]).SerializeToString()
        watch = streams._transport.watch(streams.address, methods.WATCH_METADATA, request)

        async def heard() -> pb.MetadataResponse:
            return pb.MetadataResponse.FromString(await anext(watch))

        first = await heard()
        assert [(one.name, one.error) for one in first.topics] == [
            ("orders", 0),
            ("nothing", ErrorCode.NOT_FOUND),
        ]
        partitions, revision = 2, first.revision
        assert len(first.topics[0].partitions) == partitions and revision > 0
        image = streams.node.view.image
        settings = json.dumps(image.topics[streams.where.topic_id].settings.to_dict())
        for name in ("aside", "beside"):
            await streams.period.cluster.create_topic(topic(name))
            request_to_grow = admin_pb2.UpdateTopicRequest(
                topic_id=streams.where.topic_id, tenant=TENANT, settings_json=settings
            )
            request_to_grow.added.add(brokers=[0, 1, 2])
            await streams.call(own_methods.UPDATE_TOPIC, request_to_grow, internal=True)
            partitions += 1
            found = await heard()
            while len(found.topics[0].partitions) < partitions:
                found = await heard()
            assert found.revision > revision
            revision = found.revision

    run_story(story)


async def stopped(period: Period, where: TopicPartition) -> None:
    """The leader stops in good order, another one leads, and it comes back."""
    leader, _ = period.led_by(where)
    period.cluster.drain(leader)
    await period.until("it has stopped", lambda: leader.state is BrokerState.DOWN)
    assert leader.ended == "drained"
    await period.until(
        "another one leads", lambda: all(period.leader(one) not in (None, leader) for one in period.places())
    )
    period.cluster.start(leader)
    await period.until("it is back", lambda: leader.ready)


def test_a_broker_that_stops_in_good_order_hands_over_and_the_next_one_does_too() -> None:
    async def story(streams: Streams) -> None:
        period = streams.period
        await period.produce("orders", 10, partitions=2)
        await stopped(period, streams.where)
        await period.produce("orders", 20, partitions=2)
        await stopped(period, streams.where)

    run_story(story)


def test_a_broker_that_stops_is_not_ready_from_the_first_moment_on_and_says_why() -> None:
    async def story(streams: Streams) -> None:
        period, node = streams.period, streams.node
        broker, _ = period.led_by(streams.where)
        assert (node.ready, node.ready_reason) == (True, "")
        period.cluster.drain(broker)
        await period.until("it says so", lambda: node.ready_reason == "draining")
        assert not node.ready and node.registration.in_force(), "it still hands over"
        await period.until("it has stopped", lambda: broker.state is BrokerState.DOWN)

    run_story(story)


def test_a_broker_that_cannot_ask_the_metadata_store_says_so_and_comes_when_it_can() -> None:
    async def story(streams: Streams) -> None:
        period = streams.period
        broker, _ = period.led_by(streams.where)
        for _ in range(2):
            period.cluster.kill(broker)
            period.cluster.store.cut(broker.host)
            period.cluster.start(broker)
            await period.until(
                "it says so",
                lambda: broker.node is not None and "cannot be asked" in broker.node.ready_reason,
            )
            assert not broker.ready
            period.cluster.store.heal(broker.host)
            await period.until("it is ready", lambda: broker.ready)
            assert broker.node is not None and broker.node.ready_reason == ""

    run_story(story)


def test_a_key_that_is_revoked_ends_what_is_open_and_opens_nothing_more() -> None:
    async def story(streams: Streams) -> None:
        producer, reader = await streams.producing(), await streams.consuming()
        await reader.begin()
        await producer.send(BATCH)
        await reader.given(1)
        key_id = next(iter(streams.node.view.image.keys))
        request = admin_pb2.RevokeKeyRequest(key_id=key_id)
        await streams.call(own_methods.REVOKE_KEY, request, internal=True)
        await streams.until(
            lambda: streams.listeners() == 0 and not streams.node.usage.metering.clients._tallies
        )
        with pytest.raises(CallFailed) as refused:
            await listed(streams, END)
        assert refused.value.code == ErrorCode.UNAUTHENTICATED

    run_story(story)


def test_followers_know_what_their_leader_has_metered_each_time() -> None:
    async def story(streams: Streams) -> None:
        period = streams.period
        for count in (25, 50):
            await period.produce("orders", 25)
            await period.until(
                "every replica knows it",
                lambda count=count: all(  # type: ignore[misc]
                    period.replica_of(broker, streams.where).metered_offset == count
                    for broker in period.cluster.brokers
                ),
            )

    run_story(story, METERED)


def test_questions_and_watches_are_charged_as_such_and_the_broker_sees_how_late_its_timers_are() -> None:
    async def story(streams: Streams) -> None:
        fairness = streams.node.fairness
        asked, now_ms = fairness._spare.asked, fairness._clock.monotonic_ms
        await streams.call(methods.METADATA, pb.MetadataRequest(all_topics=True))
        _, charged_ms = asked._all
        assert charged_ms > 0
        watch = await streams.open(methods.WATCH_METADATA)
        await watch.send(pb.WatchMetadataRequest(topics=["orders"]).SerializeToString())
        await watch.receive()
        assert asked._all[1] > charged_ms
        watch.close()
        await asyncio.sleep(1)  # who works is counted ten times a second
        fairness._spare.part = ALWAYS
        asked.charge(TenantId(TENANT), 500, now_ms())
        fairness._somebody_asked.set()
        await asyncio.sleep(2)
        assert ALWAYS < fairness._spare.part < SHARED


def test_partitions_that_were_added_without_an_answer_are_added_once() -> None:
    async def story(streams: Streams) -> None:
        node: Any = streams.node
        store = node.control.admin._store

        async def grown(by: int) -> admin_pb2.Outcome:
            request = admin_pb2.UpdateTopicRequest(topic_id=streams.where.topic_id, tenant=TENANT)
            for first in range(by):
                request.added.add(brokers=[(first + number) % 3 for number in range(3)])
            topic = streams.node.view.image.topics[streams.where.topic_id]
            request.settings_json = json.dumps(topic.settings.to_dict())
            answer = await streams.call(own_methods.UPDATE_TOPIC, request, internal=True)
            return admin_pb2.Outcome.FromString(answer)

        partitions = 2
        for applied in ([True], [False], [False, True]):
            node.control.admin._store = Doubtful(store, applied=list(applied))
            assert not (await grown(2)).error
            partitions += 2
            assert streams.node.view.image.topics[streams.where.topic_id].partitions == partitions
            assert not node.control.admin._store.applied
        node.control.admin._store = Doubtful(store, applied=[False] * 20)
        assert (await grown(1)).error == ErrorCode.OUTCOME_UNKNOWN
        node.control.admin._store = Silent(store, applied=[True] * 20)
        assert (await grown(1)).error == ErrorCode.BROKER_UNAVAILABLE
        node.control.admin._store = Silent(store, applied=[True] * 19)
        assert not (await grown(1)).error
        assert streams.node.view.image.topics[streams.where.topic_id].partitions == partitions + 1

    run_story(story)
