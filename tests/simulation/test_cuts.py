"""The end of a period on simulated brokers: a cut waits for every broker that may tell more of a deleted topic, and
counts the topic once, to the message.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.node.config import Timings
from data_plane.node.ports import CallFailed, ConnectionLost
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import TENANT, SimBroker, SimCluster
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.sdk_clients import SdkTransport
from data_plane.testkit.sealed import sealed
from data_plane.testkit.swarm import TopicPlan
from data_plane.testkit.timeline import Timeline
from data_plane.testkit.transport import SimTransport
from penstock.asyncio import Client
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicPartition
from tests.simulation.plans import SETTINGS, TIMINGS, plan_of

METERED = replace(TIMINGS, metering_tick_ms=100, reading_ms=500, call_ms=500)
PATIENT = replace(METERED, session_ttl_ms=600_000, suspicion_ms=600_000)
"""A broker that is silent stays registered for the length of a story."""
SILENT = replace(PATIENT, watermark_beat_ms=600_000)
"""And followers do not hear what was committed last."""
BOOT_S, SOON_S, TIME_LIMIT_S = 60.0, 60.0, 600.0
_CUT_MS, _LOOK_S = 20_000, 0.05
ANSWER_MS = 5 * METERED.call_ms
"""What a cut has for its answer, and the way there."""


class Period:
    """Three metered brokers and one tenant, whose periods a test ends. A test's story is a coroutine over this."""

    def __init__(self, timings: Timings, *topics: TopicPlan, seed: int = 0) -> None:
        plan = plan_of(seed, (), ())
        self.plan = replace(
            plan, topics=topics, producers=(), timings=timings, clock_skew_ms_max=0, metered=True
        )
        self.loop = SimLoop(seed, put_off_chance=plan.put_off_chance, time_limit_s=TIME_LIMIT_S)
        self.timeline = Timeline(self.loop.time)
        self._newest_id = ""
        self._newest_end_ms = 0
        self._before_ms = 0

    def run(self, story: Callable[["Period"], Any]) -> None:
        async def told() -> None:
            await self._boot()
            await story(self)

        try:
            with sealed():
                self.loop.run_until_complete(told())
        finally:
            self.loop.close()

    async def _boot(self) -> None:
        self.cluster = SimCluster(self.loop, self.plan, self.timeline)
        for broker in self.cluster.brokers:
            self.cluster.start(broker)
        set_up = asyncio.create_task(self.cluster.set_up())
        await self.until("the boot", lambda: set_up.done() and self.cluster.all_ready(), BOOT_S)
        set_up.result()
        await self.until("leaders", lambda: all(self.leader(where) is not None for where in self.places()))

    async def until(self, what: str, holds: Callable[[], bool], seconds: float = SOON_S) -> None:
        deadline = self.loop.time() + seconds
        while not holds():
            assert self.loop.time() < deadline, "\n".join(
                [f"after {seconds:g} s still not: {what}", *self.timeline.lines()[-30:]]
            )
            await asyncio.sleep(_LOOK_S)

    # -- who is there -----------------------------------------------------------------------------------------

    def places(self) -> list[TopicPartition]:
        """All partitions of the tenant's topics as they were made."""
        return [
            TopicPartition(self.cluster.topic_ids[topic.name], number)
            for topic in self.plan.topics
            for number in range(topic.partitions)
        ]

    def where(self, topic: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.cluster.topic_ids[topic], partition)

    def leader(self, where: TopicPartition) -> SimBroker | None:
        for broker in self.cluster.brokers:
            record = None if broker.node is None else broker.node.view.image.partition(where)
            if record is not None and record.leader >= 0:
                return self.cluster.broker(record.leader)
        return None

    def led_by(self, where: TopicPartition) -> tuple[SimBroker, SimBroker]:
        """The leader, and another broker."""
        leader = self.leader(where)
        assert leader is not None
        return leader, next(broker for broker in self.cluster.brokers if broker is not leader)

    def replica_of(self, broker: SimBroker, where: TopicPartition) -> Any:
        return None if broker.node is None else broker.node.replicas.by_partition.get(where)

    # -- what happens -----------------------------------------------------------------------------------------

    async def produce(self, topic: str, count: int, partitions: int = 1) -> None:
        """Acknowledged when this returns."""
        done: list[int] = []

        async def work() -> None:
            producer = client.producer(acks="all", compression="none", delivery_timeout_ms=30_000)
            for number in range(count):
                delivery = await producer.send(topic, b"%d" % number, partition=number % partitions)
                await delivery
                done.append(number)

        process = self.loop.process(f"producer of {topic}")
        transport = SimTransport(
            self.cluster.network, process, "c0", authorization=f"Bearer {self.cluster.api_key}"
        )
        client = Client.over(
            SdkTransport(transport),
            bootstrap=tuple(broker.client_address for broker in self.cluster.brokers),
            random=random.Random(0),
            wall_ms=SimClock(self.loop).now_ms,
        )
        self.loop.spawn(process, work())
        await self.until(f"{count} messages in {topic}", lambda: len(done) == count)

    async def delete(self, topic: str, asked: SimBroker) -> None:
        request = pb.DeleteTopicRequest(tenant=TENANT, name=topic)
        answer = await self._call(asked, methods.DELETE_TOPIC, request.SerializeToString())
        outcome = pb.Outcome.FromString(answer)
        assert not outcome.error, outcome.message
        topic_id = self.cluster.topic_ids[topic]
        await self.until(
            f"{asked.host} knows of it",
            lambda: asked.node is not None and topic_id in asked.node.view.image.buried,
        )

    def begin(self, cut_id: str) -> None:
        """The next period ends now."""
        self._before_ms = self._newest_end_ms
        self._newest_id, self._newest_end_ms = cut_id, SimClock(self.loop).now_ms()

    async def ask(self, asked: SimBroker) -> list[pb.CutReading]:
        """The newest period's cut, once. No answer in time is an error of no partition."""
        request = pb.CutRequest(
            cut_id=self._newest_id,
            tenant=TENANT,
            end_ms=self._newest_end_ms,
            previous_end_ms=self._before_ms,
        )
        try:
            answer = await self._call(asked, methods.CUT, request.SerializeToString())
        except (ConnectionLost, CallFailed) as error:
            return [pb.CutReading(error=ErrorCode.BROKER_UNAVAILABLE, message=str(error))]
        response = pb.CutResponse.FromString(answer)
        if response.outcome.error:
            return [pb.CutReading(error=response.outcome.error, message=response.outcome.message)]
        return list(response.readings)

    async def answered(self, asked: SimBroker) -> dict[tuple[str, int], tuple[int, int, bool]]:
        """Asked for until it is complete: (topic, partition) -> (end offset, messages, last)."""
        deadline = self.loop.time() + SOON_S
        while errors(found := await self.ask(asked)):
            assert self.loop.time() < deadline, errors(found)
            await asyncio.sleep(_LOOK_S)
        names = {topic_id: name for name, topic_id in self.cluster.topic_ids.items()}
        return {
            (names[one.topic_id], one.partition): (one.end_offset, one.messages, one.last)  # type: ignore[index]
            for one in found
        }

    async def _call(self, asked: SimBroker, method: str, request: bytes) -> bytes:
        return await self.cluster._admin.call(asked.internal_address, method, request, _CUT_MS)


def errors(readings: Sequence[pb.CutReading]) -> list[str]:
    return [reading.message for reading in readings if reading.error]


def topic(name: str, partitions: int = 1, replication: int = 3) -> TopicPlan:
    settings = replace(SETTINGS, replication=replication, min_insync_replicas=min(2, replication))
    return TopicPlan(name=name, partitions=partitions, settings=settings)


@pytest.mark.parametrize("replication", [1, 3])
def test_a_cut_waits_for_a_broker_that_is_silent_and_leads_nothing_since_its_topic_was_deleted(
    replication: int,
) -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 25)
        leader, other = period.led_by(where)
        period.cluster.pause(leader)
        await period.delete("orders", other)
        period.begin("cut_1")
        for _ in range(3):
            assert errors(await period.ask(other)), "the silent leader may know more"
        period.cluster.resume(leader)
        assert await period.answered(other) == {("orders", 0): (25, 25, True)}

    Period(SILENT, topic("orders", replication=replication)).run(story)


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_waits_for_the_only_replica_of_a_deleted_topic_until_its_broker_is_back(seed: int) -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 25)
        leader, other = period.led_by(period.where("orders"))
        node = other.node
        assert node is not None
        period.cluster.pause(leader)
        await period.until("it is not registered", lambda: not node.view.image.epoch_of(leader.broker_id))
        await period.delete("orders", other)
        period.begin("cut_1")
        for _ in range(3):
            told = errors(await period.ask(other))
            assert told == ["orders-0: was deleted, and no broker has reported its last reading yet"]
        period.cluster.resume(leader)
        assert await period.answered(other) == {("orders", 0): (25, 25, True)}

    Period(METERED, topic("orders", replication=1), seed=seed).run(story)


@pytest.mark.parametrize("seed", range(10))
def test_a_broker_that_comes_back_while_a_cut_asks_the_others_is_not_taken_for_one_that_holds_nothing(
    seed: int,
) -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 25)
        leader, other = period.led_by(period.where("orders"))
        third = next(broker for broker in period.cluster.brokers if broker not in (leader, other))
        assert other.node is not None
        image = other.node.view.image
        period.cluster.pause(leader)
        await period.until("it is not registered", lambda: not image.epoch_of(leader.broker_id))
        await period.delete("orders", other)
        period.begin("cut_1")
        period.cluster.pause(third)  # its answer takes so long
        asked = asyncio.create_task(period.ask(other))
        await period.until("the cut is begun", lambda: TenantId(TENANT) in image.begun_cuts)
        await asyncio.sleep(_LOOK_S)
        period.cluster.resume(leader)
        await period.until("it is registered", lambda: bool(image.epoch_of(leader.broker_id)))
        period.cluster.resume(third)
        assert errors(await asked)
        assert await period.answered(other) == {("orders", 0): (25, 25, True)}

    Period(METERED, topic("orders", replication=1), seed=seed).run(story)


def test_a_final_reading_that_a_follower_gave_first_is_raised_by_the_leaders() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 25)
        leader, other = period.led_by(where)
        period.cluster.pause(leader)
        await period.delete("orders", other)
        node = other.node
        assert node is not None
        finals = node.view.image.finals
        await period.until("a follower's final reading is kept", lambda: where in finals)
        assert finals[where].end_offset < 25, "it has not heard of the last ones"
        period.begin("cut_1")
        period.cluster.resume(leader)
        assert await period.answered(other) == {("orders", 0): (25, 25, True)}
        assert finals[where].end_offset == 25

    Period(SILENT, topic("orders")).run(story)


def test_a_cut_waits_for_a_last_reading_that_no_round_has_made_yet() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 25)
        _, other = period.led_by(period.where("orders"))
        await period.delete("orders", other)
        period.begin("cut_1")
        assert errors(await period.ask(other))
        assert await period.answered(other) == {("orders", 0): (25, 25, True)}

    Period(replace(PATIENT, metering_tick_ms=5_000), topic("orders")).run(story)


def test_a_cut_waits_for_last_readings_that_usage_does_not_take() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 25)
        where = period.where("orders")
        _, other = period.led_by(where)
        for broker in period.cluster.brokers:
            broker.faults.extra_sync_ms = 600_000.0  # nothing is committed any more
        await period.delete("orders", other)
        await period.until(
            "no replica leads or follows any more",
            lambda: all(period.replica_of(broker, where) is None for broker in period.cluster.brokers),
        )
        period.begin("cut_1")
        for _ in range(3):
            told = errors(await period.ask(other))
            assert any("its last reading is still to be made" in message for message in told), told
        assert other.node is not None
        assert where not in other.node.view.image.finals

    Period(replace(PATIENT, slow_sync_ms=600_000), topic("orders")).run(story)


def test_a_cut_beside_a_silent_broker_that_stays_registered_is_answered_in_time_and_names_it() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 25)
        leader, other = period.led_by(period.where("orders"))
        period.cluster.pause(leader)
        period.begin("cut_1")
        began = period.loop.time()
        told = errors(await period.ask(other))
        assert (period.loop.time() - began) * 1000 < ANSWER_MS
        assert any(f"broker {leader.broker_id} does not answer" in message for message in told), told
        period.cluster.resume(leader)
        assert await period.answered(other) == {("orders", 0): (25, 25, False)}

    Period(PATIENT, topic("orders")).run(story)


def test_a_kept_cut_is_answered_in_time_while_usage_takes_nothing() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 25)
        first = period.cluster.brokers[0]
        period.begin("cut_1")
        kept = await period.answered(first)
        for broker in period.cluster.brokers:
            broker.faults.extra_sync_ms = 600_000.0  # nothing is committed any more
        began = period.loop.time()
        told = errors(await period.ask(first))
        assert (period.loop.time() - began) * 1000 < ANSWER_MS
        assert len(told) == 1
        assert told[0].startswith("cut cut_1: not done within 2000 ms, ")
        assert "wait to be committed in __usage; ask again" in told[0]
        for broker in period.cluster.brokers:
            broker.faults.extra_sync_ms = 0.0
        assert kept == {("orders", 0): (25, 25, False)}

    Period(replace(PATIENT, slow_sync_ms=600_000), topic("orders")).run(story)


def test_a_deleted_topic_whose_replicas_forgot_what_a_cut_has_counted_ends_where_that_cut_did() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 25)
        leader, other = period.led_by(where)
        period.begin("cut_1")
        assert await period.answered(other) == {("orders", 0): (25, 25, False)}
        period.cluster.pause(leader)
        await period.delete("orders", other)
        node = other.node
        assert node is not None
        await period.until("a follower's last reading is kept", lambda: where in node.view.image.finals)
        assert node.view.image.finals[where].end_offset < 25
        period.cluster.kill(leader)
        await period.until("it is not registered", lambda: not node.view.image.epoch_of(leader.broker_id))
        period.begin("cut_2")
        assert await period.answered(other) == {("orders", 0): (25, 25, True)}
        period.begin("cut_3")
        assert await period.answered(other) == {}

    Period(replace(SILENT, session_ttl_ms=20_000), topic("orders")).run(story)


def test_topics_deleted_in_one_period_and_in_the_next_are_each_in_one_cut() -> None:
    async def story(period: Period) -> None:
        first = period.cluster.brokers[0]
        for number, name in enumerate(("one", "two", "three", "live"), 1):
            await period.produce(name, 10 * number)
        await period.delete("one", first)
        await period.delete("two", first)
        period.begin("cut_1")
        ends = {
            ("one", 0): (10, 10, True),
            ("two", 0): (20, 20, True),
            ("three", 0): (30, 30, False),
            ("live", 0): (40, 40, False),
        }
        assert await period.answered(first) == ends
        await period.delete("three", first)
        assert await period.answered(first) == ends, "a kept cut is answered from what is kept"
        period.begin("cut_2")
        assert await period.answered(first) == {
            ("three", 0): (30, 30, True),
            ("live", 0): (40, 40, False),
        }

    Period(METERED, *(topic(name) for name in ("one", "two", "three", "live"))).run(story)


@pytest.mark.pure
def test_a_cut_of_more_partitions_than_one_call_takes_has_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("data_plane.node.metering.cut_calls._PARTITIONS_PER_CALL", 2)
    monkeypatch.setattr("data_plane.controller.cuts.ENDS_PER_CHUNK", 3)

    async def story(period: Period) -> None:
        first = period.cluster.brokers[0]
        await period.produce("wide", 44, 11)
        await period.produce("gone", 10, 5)
        await period.delete("gone", first)
        period.begin("cut_1")
        ends = {("wide", number): (4, 4, False) for number in range(11)}
        ends |= {("gone", number): (2, 2, True) for number in range(5)}
        assert await period.answered(first) == ends
        assert await period.answered(period.cluster.brokers[1]) == ends, "as it is kept"

    Period(METERED, topic("wide", 11), topic("gone", 5)).run(story)


def test_a_cut_with_the_hash_of_its_bill_keeps_it_and_one_that_cannot_be_is_refused() -> None:
    async def story(period: Period) -> None:
        first = period.cluster.brokers[0]
        node = first.node
        assert node is not None
        await period.produce("orders", 5)
        period.begin("cut_1")
        request = pb.CutRequest(
            cut_id="cut_1",
            tenant=TENANT,
            end_ms=period._newest_end_ms,
            billing_sequence=7,
            billing_hash="a" * 64,
        )

        async def asked(**changed: Any) -> pb.CutResponse:
            other = pb.CutRequest()
            other.CopyFrom(request)
            for name, value in changed.items():
                setattr(other, name, value)
            answer = await period._call(first, methods.CUT, other.SerializeToString())
            return pb.CutResponse.FromString(answer)

        later_ms = SimClock(period.loop).now_ms() + 60_000
        for name, value, error in (
            ("billing_hash", "a" * 63, ErrorCode.INVALID_REQUEST),
            ("billing_hash", "A" * 64, ErrorCode.INVALID_REQUEST),
            ("billing_hash", "", ErrorCode.INVALID_REQUEST),
            ("cut_id", "", ErrorCode.INVALID_REQUEST),
            ("cut_id", "c" * 101, ErrorCode.INVALID_REQUEST),
            ("tenant", "tn_nobody", ErrorCode.NOT_FOUND),
            ("end_ms", 0, ErrorCode.INVALID_REQUEST),
            ("end_ms", later_ms, ErrorCode.INVALID_REQUEST),
        ):
            refused = await asked(**{name: value})
            assert (refused.outcome.error, list(refused.readings)) == (error, []), name
        assert TENANT not in node.view.image.cuts
        answers: list[pb.CutResponse] = []
        while not answers or any(reading.error for reading in answers[-1].readings):
            answers.append(await asked())
            assert not answers[-1].outcome.error, answers[-1].outcome.message
        kept = node.view.image.cuts[TenantId(TENANT)]
        assert (kept.cut_id, kept.billing_sequence, kept.billing_hash) == ("cut_1", 7, "a" * 64)
        again = await asked()
        assert again.sha256 == answers[-1].sha256 == kept.sha256
        assert again.readings == answers[-1].readings
        for name, value in (("cut_id", "cut_2"), ("previous_end_ms", 1), ("end_ms", request.end_ms - 1)):
            assert (await asked(**{name: value})).outcome.error == ErrorCode.INVALID_REQUEST

    Period(METERED, topic("orders")).run(story)
