"""Calls of clients at whole brokers: what they hear of topics and ends, and what is told of what is not known."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.node.ports import Caller, CallFailed
from data_plane.testkit.cluster import CLUSTER_ID, TENANT
from data_plane.testkit.swarm import TopicPlan
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2 as pb
from tests.unit.log.batches import made_batch
from tests.unit.node.brokers import SOON_S, TIMINGS, Brokers, topic

BEGINNING, END = -2, -1
ANSWERS: dict[str, Any] = {
    methods.METADATA: pb.MetadataResponse,
    methods.LIST_OFFSETS: pb.ListOffsetsResponse,
    methods.INIT_PRODUCER: pb.InitProducerResponse,
}


class Client:
    """Asks one broker of several."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.pushed: list[pb.MetadataResponse] = []

    @property
    def _caller(self) -> Caller:
        authorization = f"Bearer {self.brokers.cluster.api_key}"
        return Caller(peer="10.0.0.7", authorization=authorization, identity=None)

    async def call(self, method: str, request: Any, number: int = 0) -> Any:
        call = self.brokers.node(number).client_service.calls[method]
        return ANSWERS[method].FromString(await call(self._caller, request.SerializeToString()))

    async def metadata(self, *topics: str, number: int = 0, **fields: Any) -> pb.MetadataResponse:
        answer: pb.MetadataResponse = await self.call(
            methods.METADATA, pb.MetadataRequest(topics=topics, **fields), number
        )
        return answer

    def watch(self, *topics: str) -> "asyncio.Task[None]":
        async def push(answer: bytes) -> None:
            self.pushed.append(pb.MetadataResponse.FromString(answer))

        request = pb.WatchMetadataRequest(topics=topics).SerializeToString()
        watches = self.brokers.node().client_service.watches
        watching: Any = watches[methods.WATCH_METADATA](self._caller, request, push)
        return asyncio.create_task(watching)

    async def listed(self, *timestamps: int, number: int = 0, **fields: Any) -> list[tuple[int, int, int]]:
        """Error, offset and leader epoch of each."""
        request = pb.ListOffsetsRequest()
        for timestamp_ms in timestamps:
            values: dict[str, Any] = {"topic_id": self.brokers.where().topic_id, "leader_epoch": -1}
            request.partitions.add(timestamp_ms=timestamp_ms, **values | fields)
        answer = await self.call(methods.LIST_OFFSETS, request, number)
        return [(entry.error, entry.offset, entry.leader_epoch) for entry in answer.partitions]


def run(story: Callable[[Client], Any], *topics: TopicPlan, brokers: int = 1, **options: Any) -> None:
    async def whole(cluster: Brokers) -> None:
        await story(Client(cluster))

    Brokers(brokers, *topics or (topic(),), **options).run(whole)


# -- metadata -----------------------------------------------------------------------------------------------


def test_metadata_name_the_brokers_that_run_and_each_topic_that_is_asked_for() -> None:
    async def story(client: Client) -> None:
        await client.brokers.in_sync(2)
        answer = await client.metadata("orders", "nowhere", "orders")
        assert answer.cluster_id == CLUSTER_ID
        assert answer.revision == client.brokers.node().view.image.revision
        assert [(entry.id, entry.address, entry.zone, entry.host) for entry in answer.brokers] == [
            (0, "b0:9092", "z0", ""),
            (1, "b1:9092", "z1", ""),
        ]
        orders, nowhere = answer.topics
        assert (orders.name, orders.topic_id) == ("orders", client.brokers.where().topic_id)
        settings = client.brokers.node().view.image.topics[client.brokers.where().topic_id].settings
        assert json.loads(orders.settings_json) == settings.to_dict()
        (partition,) = orders.partitions
        assert (partition.partition, partition.leader) == (0, client.brokers.leader())
        assert (sorted(partition.replicas), sorted(partition.in_sync)) == ([0, 1], [0, 1])
        assert (partition.leader_epoch, partition.log_generation) == (
            client.brokers.replica().leadership(-1).leader_epoch,
            1,
        )
        assert (nowhere.name, nowhere.error) == ("nowhere", ErrorCode.NOT_FOUND) and nowhere.message
        every = await client.metadata(all_topics=True)
        assert [entry.name for entry in every.topics] == ["orders"]
        assert list((await client.metadata()).topics) == []

    run(story, topic(replicas=2), brokers=2)


def test_a_leader_that_is_not_registered_is_no_leader_and_no_broker() -> None:
    async def story(client: Client) -> None:
        gone = client.brokers.leader()
        client.brokers.cluster.kill(client.brokers.broker(gone))
        for session_id in client.brokers.store.sessions_of(f"/live/{gone:06d}"):
            client.brokers.store.expire(session_id)
        image, topic_partition, early = client.brokers.node(1 - gone).view.image, client.brokers.where(), 0
        deadline_s = client.brokers.loop.time() + 1
        while True:
            assert client.brokers.loop.time() < deadline_s
            await asyncio.sleep(0.0002)
            record = image.partition(topic_partition)
            if record is None or image.epoch_of(client.brokers.broker(gone).broker_id):
                continue
            answer = await client.metadata("orders", number=1 - gone)
            assert [entry.id for entry in answer.brokers] == [1 - gone]
            assert [entry.leader for entry in answer.topics[0].partitions] == [-1]
            if record.leader != gone:
                break
            early += 1
        assert early, "before the record says so"

    run(story, topic(), brokers=2)


def test_topics_of_other_tenants_do_not_exist() -> None:
    async def story(client: Client) -> None:
        other = admin_pb2.PutTenantRequest(tenant="tn_other").SerializeToString()
        await client.brokers.cluster.admin_call(own_methods.PUT_TENANT, other)
        await client.brokers.cluster.create_topic(topic("theirs"), "tn_other")
        assert [entry.error for entry in (await client.metadata("theirs")).topics] == [ErrorCode.NOT_FOUND]
        assert [entry.name for entry in (await client.metadata(all_topics=True)).topics] == ["orders"]

    run(story)


def test_metadata_of_many_topics_and_partitions_are_whole() -> None:
    async def story(client: Client) -> None:
        answer = await client.metadata("nowhere", "wide", "orders")
        assert [len(entry.partitions) for entry in answer.topics] == [0, 450, 1]
        assert [entry.partition for entry in answer.topics[1].partitions] == list(range(450))
        many = [f"t{number}" for number in range(limits.FRAME_ENTRIES_MAX + 1)]
        with pytest.raises(CallFailed):
            await client.metadata(*many)
        assert len((await client.metadata(*many[:-1])).topics) == limits.FRAME_ENTRIES_MAX

    run(story, topic(), replace(topic("wide"), partitions=450))


@pytest.mark.parametrize("late_ms", [200, 60_000], ids=["a little behind", "far behind"])
def test_a_topic_that_was_just_made_is_waited_for_and_not_said_not_to_exist(late_ms: int) -> None:
    async def story(client: Client) -> None:
        store = client.brokers.store
        store.faults.watch_delayed_chance, store.faults.watch_delay_ms = 1.0, late_ms
        creating = asyncio.create_task(client.brokers.cluster.create_topic(topic("new")))
        await client.brokers.until(lambda: bool(store.snapshot(f"/names/{TENANT}/new").items))
        began_s = client.brokers.loop.time()
        if late_ms < TIMINGS.catch_up_wait_ms:
            assert [entry.error for entry in (await client.metadata("new", "orders")).topics] == [0, 0]
        else:
            with pytest.raises(CallFailed, match="new: this broker's metadata is behind") as refused:
                await client.metadata("orders", "new")
            assert refused.value.code == ErrorCode.BROKER_UNAVAILABLE
            waited_s = client.brokers.loop.time() - began_s
            assert TIMINGS.catch_up_wait_ms / 1_000 <= waited_s < TIMINGS.catch_up_wait_ms / 1_000 + SOON_S
            assert [entry.error for entry in (await client.metadata("orders")).topics] == [0], (
                "it knows this one"
            )
        creating.cancel()

    run(story)


# -- watching -----------------------------------------------------------------------------------------------


def test_a_watcher_hears_the_whole_first_and_then_what_concerns_it() -> None:
    async def story(client: Client) -> None:
        watching = client.watch("orders", "later")
        await asyncio.sleep(SOON_S)
        (first,) = client.pushed
        assert [(entry.name, entry.error) for entry in first.topics] == [
            ("orders", 0),
            ("later", ErrorCode.NOT_FOUND),
        ]
        assert first.revision > 0 and len(first.brokers) == 1
        await client.brokers.cluster.create_topic(topic("others"))
        await client.brokers.put_tenant()
        await asyncio.sleep(SOON_S)
        assert len(client.pushed) == 1, "nothing of what it hears of changed"
        await client.brokers.cluster.create_topic(topic("later"))
        await asyncio.sleep(1)
        last = client.pushed[-1]
        assert [(entry.name, entry.error) for entry in last.topics] == [("orders", 0), ("later", 0)]
        assert last.topics[1].partitions[0].leader == 0 and last.revision > first.revision
        heard = len(client.pushed)
        client.brokers.fence()
        await asyncio.sleep(2)
        assert len(client.pushed) > heard, "its broker was away"
        listeners = len(client.brokers.node().view._listeners)
        watching.cancel()
        await asyncio.wait([watching])
        assert len(client.brokers.node().view._listeners) == listeners - 1

    run(story)


def test_a_watcher_whose_key_ends_is_told_so() -> None:
    async def story(client: Client) -> None:
        watching = client.watch("orders")
        await asyncio.sleep(SOON_S)
        (key_id,) = client.brokers.node().view.image.keys
        request = admin_pb2.RevokeKeyRequest(key_id=key_id, generation=1).SerializeToString()
        await client.brokers.cluster.admin_call(own_methods.REVOKE_KEY, request)
        with pytest.raises(CallFailed) as refused:
            await asyncio.wait_for(watching, 2)
        assert refused.value.code == ErrorCode.UNAUTHENTICATED and len(client.pushed) == 1

    run(story)


# -- offsets and producers ----------------------------------------------------------------------------------


def test_offsets_are_listed_by_place_and_by_time_and_what_cannot_be_told_says_why() -> None:
    async def story(client: Client) -> None:
        producing, clock = await client.brokers.producing(), client.brokers.broker().clock
        stamps = list[int]()
        for _ in range(3):
            stamps.append(clock.now_ms())
            assert (await producing.send(made_batch(2, 40, timestamp_ms=stamps[-1]))).error == 0
            await asyncio.sleep(1)
        epoch = client.brokers.replica().leadership(-1).leader_epoch
        assert await client.listed(BEGINNING, END) == [(0, 0, epoch), (0, 6, epoch)]
        times = (0, stamps[1], stamps[1] + 1, clock.now_ms())
        assert [offset for _, offset, _ in await client.listed(*times)] == [0, 2, 4, 6]
        assert await client.listed(-3) == [(ErrorCode.INVALID_REQUEST, -1, epoch)]
        assert await client.listed(END, partition=7) == [(ErrorCode.NOT_FOUND, -1, -1)]
        assert await client.listed(END, topic_id=b"?" * 16) == [(ErrorCode.NOT_FOUND, -1, -1)]
        assert await client.listed(END, leader_epoch=epoch) == [(0, 6, epoch)]
        assert await client.listed(END, leader_epoch=epoch + 1) == [(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)]
        assert await client.listed(END, leader_epoch=epoch - 1) == [(ErrorCode.FENCED_LEADER_EPOCH, -1, -1)]
        with pytest.raises(CallFailed):
            await client.listed(*[END] * (limits.FRAME_ENTRIES_MAX + 1))
        client.brokers.broker().faults.extra_sync_ms = 1_000.0
        sending = asyncio.create_task(producing.send(made_batch(2, 40)))
        await asyncio.sleep(0.1)
        assert client.brokers.replica().log.log_end_offset == 8
        assert await client.listed(END) == [(0, 6, epoch)], "it is not committed"
        assert (await sending).error == 0 and await client.listed(END) == [(0, 8, epoch)]

    run(story)


def test_who_does_not_lead_tells_no_offsets() -> None:
    async def story(client: Client) -> None:
        other = 1 - client.brokers.leader()
        assert await client.listed(END, number=other) == [(ErrorCode.NOT_LEADER, -1, -1)]

    run(story, topic(replicas=2), brokers=2)


def test_a_producer_gets_a_new_id_or_the_next_epoch_of_its_own() -> None:
    async def story(client: Client) -> None:
        async def made(number: int, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
            request = pb.InitProducerRequest(producer_id=producer_id, producer_epoch=epoch)
            answer = await client.call(methods.INIT_PRODUCER, request, number)
            return answer.producer_id, answer.producer_epoch

        ids = [(await made(number % 2))[0] for number in range(6)]
        assert len(set(ids)) == 6 and min(ids) >= 0
        assert await made(1, ids[0], 0) == (ids[0], 1)
        assert await made(0, ids[0], 32_766) == (ids[0], 32_767)
        for epoch in (32_767, -1):
            fresh, first = await made(0, ids[0], epoch)
            assert fresh not in ids and first == 0, "its epochs are used up, or it has none"

    run(story, brokers=2)
