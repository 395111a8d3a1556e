"""The end of a tenant's period, asked of whole brokers: what is in the cut, what is kept of it, and why one is not."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import admin_pb2, methods
from data_plane.node.metering.cut_calls import CUT_ID_LENGTH_MAX
from data_plane.node.metering.usage_topic import USAGE_TOPIC
from data_plane.testkit.cluster import TENANT
from data_plane.testkit.swarm import TopicPlan
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import SYSTEM_TENANT, TenantId, TopicPartition
from penstock.records.cut import CutEnd, cut_sha256
from penstock.rules.names import AUDIT_TOPIC
from tests.unit.log.batches import made_batch
from tests.unit.node.brokers import SOON_S, TIMINGS, Brokers, Producing, topic
from tests.unit.node.storage import CALLER

METERED = replace(TIMINGS, session_ttl_ms=90_000, metering_tick_ms=100, reading_ms=500, call_ms=500)
CALL_S = METERED.call_ms / 1_000
MINUTE_S = 60.0
HASH = "a" * 64


class Period:
    """A tenant's period that ends when a test says."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.end_ms = self.previous_end_ms = 0
        self.cut_id = ""

    def now_ms(self) -> int:
        return self.brokers.broker().clock.now_ms()

    def end(self, cut_id: str = "cut_1") -> None:
        self.previous_end_ms = self.end_ms
        self.cut_id = cut_id
        self.end_ms = self.now_ms()

    async def cut(self, number: int = 0, **fields: Any) -> admin_pb2.CutResponse:
        values: dict[str, Any] = {"cut_id": self.cut_id, "tenant": TENANT, "end_ms": self.end_ms}
        request = admin_pb2.CutRequest(**values | {"previous_end_ms": self.previous_end_ms} | fields)
        call = self.brokers.node(number).internal_service.calls[methods.CUT]
        return admin_pb2.CutResponse.FromString(await call(CALLER, request.SerializeToString()))

    async def refused(self, number: int = 0, **fields: Any) -> tuple[int, str]:
        response = await self.cut(number, **fields)
        assert not response.readings and not response.sha256 and not response.outcome.revision
        return response.outcome.error, response.outcome.message

    async def complete(self, number: int = 0, **fields: Any) -> admin_pb2.CutResponse:
        """Asked for until it is."""
        async with asyncio.timeout(20):
            while True:
                response = await self.cut(number, **fields)
                assert not response.outcome.error, response.outcome.message
                if response.sha256:
                    return response
                await asyncio.sleep(0.1)

    async def produce(self, batches: int = 1, partition: int = 0, name: str = "orders") -> None:
        """Batches of two messages."""
        partition_id = TopicPartition(self.brokers.where(name).topic_id, partition)
        record = self.brokers.node().view.image.partition(partition_id)
        assert record is not None
        producing = Producing(await self.brokers.stream_to(record.leader), partition_id)
        for _ in range(batches):
            assert (await producing.send(made_batch(2, 100))).error == 0

    def ends(self, response: admin_pb2.CutResponse, name: str = "orders") -> dict[int, tuple[int, int, bool]]:
        """Partitions of the topic, each with its end, its messages, and whether this was its last reading."""
        topic_id = self.brokers.cluster.topic_ids[name]
        return {
            reading.partition: (reading.end_offset, reading.messages, reading.last)
            for reading in response.readings
            if reading.topic_id == topic_id and not reading.error
        }

    async def delete(self, name: str) -> None:
        request = admin_pb2.DeleteTopicRequest(tenant=TENANT, name=name)
        await self.brokers.cluster.admin_call(methods.DELETE_TOPIC, request.SerializeToString())
        await asyncio.sleep(SOON_S)

    def kept(self, number: int = 0) -> Any:
        return self.brokers.node(number).view.image.cuts.get(TenantId(TENANT))


def failures(response: admin_pb2.CutResponse) -> dict[int, tuple[int, str]]:
    """Error and message of each partition that has one."""
    assert not response.sha256
    by_partition = {
        reading.partition: (reading.error, reading.message) for reading in response.readings if reading.error
    }
    assert all(
        (reading.end_offset, reading.accepted_ms) == (-1, -1)
        for reading in response.readings
        if reading.error
    )
    return by_partition


def run(story: Callable[[Period], Any], *topics: TopicPlan, brokers: int = 1, usage: bool = True) -> None:
    async def whole(cluster: Brokers) -> None:
        if usage:
            await cluster.cluster.create_topic(
                replace(topic(USAGE_TOPIC, brokers), partitions=1), SYSTEM_TENANT
            )
            await asyncio.sleep(2)
        await story(Period(cluster))

    plans = topics or (replace(topic(replicas=brokers), partitions=2),)
    Brokers(brokers, *plans, timings=METERED, metered=True).run(whole)


# -- what is in it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1], ids=["the first broker", "the other one"])
def test_a_cut_counts_what_was_accepted_before_its_end_and_any_broker_keeps_and_repeats_it(
    number: int,
) -> None:
    async def story(period: Period) -> None:
        await period.produce(3)
        await period.produce(1, partition=1)
        period.end()
        response = await period.complete(number, billing_sequence=7, billing_hash=HASH)
        assert period.ends(response) == {0: (6, 6, False), 1: (2, 2, False)}
        assert all(
            reading.log_generation == 1 and reading.accepted_ms < period.end_ms
            for reading in response.readings
        )
        assert {reading.partition: reading.stored_bytes for reading in response.readings} == {
            0: 3 * len(made_batch(2, 100)),
            1: len(made_batch(2, 100)),
        }
        ends = [
            CutEnd(
                where=TopicPartition(reading.topic_id, reading.partition), log_generation=1,  # type: ignore[arg-type]
                end_offset=reading.end_offset, accepted_ms=reading.accepted_ms, messages=reading.messages,
                bytes=reading.stored_bytes, last=False,
            )
            for reading in response.readings
        ]  # fmt: skip
        assert response.sha256 == cut_sha256(TENANT, "cut_1", period.end_ms, ends)
        await asyncio.sleep(SOON_S)
        for broker in (0, 1):
            kept = period.kept(broker)
            assert (kept.cut_id, kept.start_ms, kept.end_ms, kept.sha256) == (
                "cut_1",
                0,
                period.end_ms,
                response.sha256,
            )
            assert (kept.billing_sequence, kept.billing_hash) == (7, HASH)
            assert period.end_ms <= kept.kept_ms <= period.now_ms()
        assert response.outcome.revision > 0
        await period.produce(2)
        again = await period.complete(1 - number, billing_sequence=7, billing_hash=HASH)
        assert (again.readings, again.sha256) == (response.readings, response.sha256), "as it is kept"

    run(story, brokers=2)


@pytest.mark.parametrize("later_s", [0.5, 3 * MINUTE_S], ids=["in the same minute", "minutes later"])
def test_what_comes_after_the_end_is_in_the_next_cut_however_late_this_one_is_asked_for(
    later_s: float,
) -> None:
    async def story(period: Period) -> None:
        await period.produce(2)
        await asyncio.sleep(1)
        period.end()
        await period.produce(3)
        await asyncio.sleep(later_s)
        await period.produce(1)
        assert period.ends(await period.complete()) == {0: (4, 4, False), 1: (0, 0, False)}
        await asyncio.sleep(1)
        period.end("cut_2")
        second = await period.complete()
        assert period.ends(second) == {0: (12, 12, False), 1: (0, 0, False)}
        assert period.kept().start_ms == period.previous_end_ms

    run(story)


def test_no_batch_is_stamped_before_an_end_that_was_cut_even_by_a_clock_that_goes_back() -> None:
    async def story(period: Period) -> None:
        await period.produce()
        period.end()
        await period.complete()
        image = period.brokers.node().view.image
        assert [
            reading.accepted_floor_ms for reading in image.topics.values() if reading.tenant == TENANT
        ] == [period.end_ms]
        period.brokers.broker().clock.jump(-3_600_000)
        await period.produce()
        period.brokers.broker().clock.correct()
        assert period.brokers.replica().log.usage.mark().accepted_ms >= period.end_ms  # type: ignore[union-attr]

    run(story)


def test_a_cut_of_many_partitions_has_all_of_them() -> None:
    async def story(period: Period) -> None:
        await period.produce(1, partition=449)
        period.end()
        ends = period.ends(await period.complete())
        assert sorted(ends) == list(range(450)) and ends[449] == (2, 2, False) and ends[0] == (0, 0, False)
        assert len((await period.complete()).readings) == 450

    run(story, replace(topic(), partitions=450))


def test_other_tenants_and_what_is_not_metered_are_in_no_cut() -> None:
    async def story(period: Period) -> None:
        await period.brokers.cluster.create_topic(topic(AUDIT_TOPIC))
        other = admin_pb2.PutTenantRequest(tenant="tn_other").SerializeToString()
        await period.brokers.cluster.admin_call(methods.PUT_TENANT, other)
        await period.brokers.cluster.create_topic(topic("theirs"), "tn_other")
        period.end()
        response = await period.complete()
        ids = period.brokers.cluster.topic_ids
        assert {reading.topic_id for reading in response.readings} == {ids["orders"]}
        empty = await period.complete(tenant="tn_other", cut_id="cut_9")
        assert {reading.topic_id for reading in empty.readings} == {ids["theirs"]}

    run(story)


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"cut_id": ""}, ErrorCode.INVALID_REQUEST, "cut_id: 0 characters, 1 to 100 required"),
        ({"cut_id": "c" * (CUT_ID_LENGTH_MAX + 1)}, ErrorCode.INVALID_REQUEST, "cut_id: 101 characters"),
        ({"tenant": "tn_nobody"}, ErrorCode.NOT_FOUND, "tenant 'tn_nobody' does not exist"),
        ({"end_ms": 0}, ErrorCode.INVALID_REQUEST, "end_ms: 0 is not in the past"),
        ({"end_ms": 1 << 50}, ErrorCode.INVALID_REQUEST, "is not in the past"),
        ({"billing_sequence": 1}, ErrorCode.INVALID_REQUEST, "billing_hash: ''"),
        ({"billing_sequence": 1, "billing_hash": HASH[1:]}, ErrorCode.INVALID_REQUEST, "64 hex digits"),
        ({"previous_end_ms": 1 << 49}, ErrorCode.INVALID_REQUEST, "is not after its start"),
    ],
)
def test_a_cut_that_cannot_be_is_refused_and_leaves_nothing(fields: Any, error: int, text: str) -> None:
    async def story(period: Period) -> None:
        period.end()
        revision = period.brokers.store.revision
        code, message = await period.refused(**fields)
        assert code == error and text in message
        assert period.brokers.store.revision == revision
        assert (await period.complete(cut_id="c" * CUT_ID_LENGTH_MAX)).sha256, "at its bounds it is taken"

    run(story)


def test_a_broker_without_the_topic_of_usage_ends_no_period() -> None:
    async def story(period: Period) -> None:
        period.end()
        code, message = await period.refused()
        assert code == ErrorCode.BROKER_UNAVAILABLE and message.startswith("__usage: does not exist here yet")

    run(story, usage=False)


def test_periods_follow_one_another_and_one_of_them_is_ended_at_a_time() -> None:
    async def story(period: Period) -> None:
        period.end()
        await period.complete()
        first_ms = period.end_ms
        for fields, text in (
            ({"cut_id": "cut_x"}, "cut cut_1 from 0 is kept"),
            ({"previous_end_ms": 5}, "cut cut_1 from 0 is kept"),
            ({"end_ms": first_ms - 1}, f"no cut is kept up to {first_ms - 1}, and the newest, cut_1"),
        ):
            code, message = await period.refused(**fields)
            assert code == ErrorCode.INVALID_REQUEST and text in message
        await asyncio.sleep(1)
        period.end("cut_2")
        code, message = await period.refused(previous_end_ms=first_ms - 1)
        assert code == ErrorCode.INVALID_REQUEST and "the tenant's newest kept cut, cut_1" in message
        period.brokers.cluster.pause(period.brokers.broker(1))
        assert failures(await period.cut())
        code, message = await period.refused(cut_id="cut_3")
        assert code == ErrorCode.INVALID_REQUEST and "cut cut_2 is under way" in message

    run_two(story)


# -- what cannot be read now --------------------------------------------------------------------------------


def test_a_leader_that_is_silent_leaves_its_partitions_open_and_the_cut_is_not_kept() -> None:
    async def story(period: Period) -> None:
        await period.produce(1)
        await period.produce(1, partition=1)
        leaders = [
            period.brokers.node()
            .view.image.partition(TopicPartition(period.brokers.where().topic_id, n))
            .leader  # type: ignore[union-attr]
            for n in range(2)
        ]
        assert sorted(leaders) == [0, 1]
        silent = leaders.index(1)
        period.brokers.cluster.pause(period.brokers.broker(1))
        period.end()
        began_s = period.brokers.loop.time()
        response = await period.cut()
        ((code, message),) = failures(response).values()
        assert (code, message[:26]) == (ErrorCode.BROKER_UNAVAILABLE, "broker 1 does not answer: ")
        assert list(failures(response)) == [silent]
        assert period.brokers.loop.time() - began_s <= 4 * CALL_S
        assert period.ends(response) == {1 - silent: (2, 2, False)} and period.kept() is None
        period.brokers.cluster.resume(period.brokers.broker(1))
        assert period.ends(await period.complete()) == {0: (2, 2, False), 1: (2, 2, False)}

    run_two(story)


def run_two(story: Callable[[Period], Any]) -> None:
    """Two brokers of which each leads one of the topic's partitions, which has no other replica; the first one leads
    the topic of usage alone."""

    async def whole(cluster: Brokers) -> None:
        plan = replace(topic(USAGE_TOPIC), partitions=1)
        await cluster.cluster.create_topic(plan, SYSTEM_TENANT)
        leader = cluster.node().view.image.partition(cluster.where(USAGE_TOPIC))
        if leader is not None and leader.leader == 1:
            request = admin_pb2.AlterReplicasRequest(
                topic_id=cluster.where(USAGE_TOPIC).topic_id, partition=0, replicas=[0]
            )
            await cluster.cluster.admin_call(methods.ALTER_REPLICAS, request.SerializeToString())
        await asyncio.sleep(5)
        await story(Period(cluster))

    Brokers(2, replace(topic(), partitions=2), timings=METERED, metered=True).run(whole)


def test_a_partition_without_a_leader_is_named_with_that() -> None:
    async def story(period: Period) -> None:
        await period.produce(1)
        period.brokers.cluster.kill(period.brokers.broker(1))
        period.brokers.store.expire(period.brokers.store.sessions_of("/live/000001")[0])
        lost = next(
            n for n in range(2)
            if period.brokers.store and period.brokers.node().view.image.partition(
                TopicPartition(period.brokers.where().topic_id, n)
            ).leader == 1  # type: ignore[union-attr]
        )  # fmt: skip
        await asyncio.sleep(2)
        period.end()
        assert failures(await period.cut()) == {lost: (ErrorCode.NO_LEADER, f"orders-{lost}")}

    run_two(story)


def test_a_leader_waits_for_what_was_accepted_until_it_is_committed() -> None:
    async def story(period: Period) -> None:
        await period.brokers.in_sync(2)
        leader = period.brokers.leader()
        assert period.brokers.leader(USAGE_TOPIC) == leader, "what is written there needs no other broker"
        await period.produce(1)
        await asyncio.sleep(1)
        other = period.brokers.broker(1 - leader)
        other.faults.extra_sync_ms = 3_000.0
        producing = await period.brokers.producing()
        sending = asyncio.create_task(producing.send(made_batch(2, 100)))
        await asyncio.sleep(0.1)
        period.end()
        assert failures(await period.cut(leader)) == {0: (ErrorCode.LEADER_NOT_READY, "not read in time")}
        other.faults.extra_sync_ms = 0.0
        assert (await sending).error == 0
        assert period.ends(await period.complete(leader))[0] == (4, 4, False)

    async def whole(cluster: Brokers) -> None:
        await cluster.cluster.create_topic(replace(topic(USAGE_TOPIC), partitions=1), SYSTEM_TENANT)
        await asyncio.sleep(2)
        await story(Period(cluster))

    Brokers(2, topic(replicas=2), topic("others"), timings=METERED, metered=True).run(whole)


def test_a_cut_whose_readings_wait_for_too_long_says_what_it_waits_for_and_is_done_by_the_next_call() -> None:
    async def story(period: Period) -> None:
        period.end("c")
        response = await period.complete(1)
        usage = period.brokers.leader(USAGE_TOPIC)
        period.brokers.cluster.pause(period.brokers.broker(usage))
        began_s = period.brokers.loop.time()
        code, message = await period.refused(1 - usage)
        assert code == ErrorCode.BROKER_UNAVAILABLE
        waiting = f"cut c: not done within {4 * METERED.call_ms} ms, "
        assert message.startswith(waiting) and f"wait to be committed in {USAGE_TOPIC}; ask again" in message
        assert 4 * CALL_S <= period.brokers.loop.time() - began_s < 4 * CALL_S + SOON_S
        period.brokers.cluster.resume(period.brokers.broker(usage))
        again = await period.complete(1 - usage)
        assert (again.readings, again.sha256) == (response.readings, response.sha256)

    run_two(story)


def test_readings_that_usage_does_not_take_in_time_are_errors_of_their_partitions() -> None:
    async def story(period: Period) -> None:
        await period.produce(1)
        await period.produce(1, partition=1)
        usage = period.brokers.leader(USAGE_TOPIC)
        period.brokers.broker(usage).faults.extra_sync_ms = 5_000.0
        period.end()
        for code, message in failures(await period.cut(1 - usage)).values():
            assert code == ErrorCode.BROKER_UNAVAILABLE and message.startswith(f"{USAGE_TOPIC}: "), message
        period.brokers.broker(usage).faults.extra_sync_ms = 0.0
        await asyncio.sleep(6)
        assert period.ends(await period.complete(1 - usage)) == {0: (2, 2, False), 1: (2, 2, False)}

    run_two(story)


def test_a_store_that_is_away_refuses_the_cut_and_one_that_loses_answers_keeps_it_all_the_same() -> None:
    async def story(period: Period) -> None:
        await period.produce(1)
        period.end()
        faults = period.brokers.store.faults
        faults.refused_chance = 1.0
        code, message = await period.refused()
        assert (code, message) == (
            ErrorCode.BROKER_UNAVAILABLE,
            "the metadata store does not answer; ask again",
        )
        faults.refused_chance, faults.answer_lost_chance, faults.timeout_ms = 0.0, 0.6, 20.0
        async with asyncio.timeout(30):
            while not (response := await period.cut()).sha256:
                assert response.outcome.error in (0, ErrorCode.BROKER_UNAVAILABLE), response.outcome.message
        faults.answer_lost_chance = 0.0
        await asyncio.sleep(SOON_S)
        assert period.kept().sha256 == response.sha256 and period.ends(response)[0] == (2, 2, False)

    run(story)


# -- deleted topics -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_deleted_topic_is_in_the_first_cut_after_it_with_its_last_reading_and_in_no_other(
    brokers: int,
) -> None:
    async def story(period: Period) -> None:
        await period.produce(2, name="gone")
        await period.produce(1)
        await period.delete("gone")
        await asyncio.sleep(2)
        period.end()
        response = await period.complete()
        assert period.ends(response, "gone") == {0: (4, 4, True)}
        assert period.ends(response) == {0: (2, 2, False)}
        assert (await period.complete()).readings == response.readings
        await asyncio.sleep(1)
        period.end("cut_2")
        assert period.ends(await period.complete(), "gone") == {}

    run(story, topic(replicas=brokers), topic("gone", brokers), brokers=brokers)


def test_a_topic_that_was_counted_before_ends_where_its_last_reading_did() -> None:
    async def story(period: Period) -> None:
        await period.produce(1, name="gone")
        period.end()
        assert period.ends(await period.complete(), "gone") == {0: (2, 2, False)}
        await period.produce(2, name="gone")
        await period.delete("gone")
        await asyncio.sleep(2)
        period.end("cut_2")
        assert period.ends(await period.complete(), "gone") == {0: (6, 6, True)}

    run(story, topic(), topic("gone"))


def test_a_deleted_topic_whose_broker_is_gone_is_waited_for_or_given_up_by_an_operator() -> None:
    async def story(period: Period) -> None:
        partition_id = period.brokers.where("gone")
        leader = period.brokers.leader("gone")
        other = 1 - leader
        await period.produce(1, name="gone")
        period.brokers.cluster.kill(period.brokers.broker(leader))
        for session_id in period.brokers.store.sessions_of(f"/live/{leader:06d}"):
            period.brokers.store.expire(session_id)
        await asyncio.sleep(1)
        request = admin_pb2.DeleteTopicRequest(tenant=TENANT, name="gone").SerializeToString()
        call = period.brokers.node(other).internal_service.calls[methods.DELETE_TOPIC]
        assert not admin_pb2.Outcome.FromString(await call(CALLER, request)).error
        await asyncio.sleep(5)
        period.end_ms, period.cut_id = period.brokers.broker(other).clock.now_ms(), "cut_1"
        code, message = failures(await period.cut(other))[0]
        assert code == ErrorCode.LEADER_NOT_READY
        assert message == "gone-0: was deleted, and no broker has reported its last reading yet"
        waived = [admin_pb2.CutPlace(topic_id=partition_id.topic_id, partition=0)]
        response = await period.complete(other, waived=waived)
        assert period.ends(response, "gone") == {}

    run_away(story)


def run_away(story: Callable[[Period], Any]) -> None:
    """Two brokers; the topic `gone` has its only replica on the one that does not lead the topic of usage."""

    async def whole(cluster: Brokers) -> None:
        await cluster.cluster.create_topic(replace(topic(USAGE_TOPIC), partitions=1), SYSTEM_TENANT)
        await asyncio.sleep(2)
        if cluster.leader(USAGE_TOPIC) == cluster.leader("gone"):
            request = admin_pb2.AlterReplicasRequest(
                topic_id=cluster.where(USAGE_TOPIC).topic_id,
                partition=0,
                replicas=[1 - cluster.leader("gone")],
            )
            await cluster.cluster.admin_call(methods.ALTER_REPLICAS, request.SerializeToString())
            await cluster.until(lambda: cluster.leader(USAGE_TOPIC) == 1 - cluster.leader("gone"))
            await asyncio.sleep(2)
        await story(Period(cluster))

    Brokers(2, topic("gone"), timings=METERED, metered=True).run(whole)
