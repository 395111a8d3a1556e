"""Operators' calls about where partitions are: leaders and replicas moved and moved back, brokers taken out of use."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import Message

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.testkit.cluster import TENANT, SimBroker
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicPartition
from tests.simulation.test_cuts import METERED, Period, topic
from tests.simulation.test_declared_losses import one_left_behind, record_at

Answer = TypeVar("Answer", bound=Message)
SLOW = replace(METERED, session_ttl_ms=600_000, suspicion_ms=600_000)
"""A broker that is silent stays registered for the length of a story."""


async def asked(
    period: Period, broker: SimBroker, method: str, request: Message, kind: type[Answer]
) -> Answer:
    return kind.FromString(await period._call(broker, method, request.SerializeToString()))


async def led_to(period: Period, at: SimBroker, where: TopicPartition, to: int) -> pb.Outcome:
    request = pb.MoveLeaderRequest(topic_id=where.topic_id, partition=where.partition, broker=to)
    return await asked(period, at, methods.MOVE_LEADER, request, pb.Outcome)


async def altered(
    period: Period, at: SimBroker, where: TopicPartition, replicas: Sequence[int], *, cancel: bool = False
) -> pb.Outcome:
    request = pb.AlterReplicasRequest(
        topic_id=where.topic_id, partition=where.partition, replicas=replicas, cancel=cancel
    )
    return await asked(period, at, methods.ALTER_REPLICAS, request, pb.Outcome)


async def moves(period: Period, at: SimBroker) -> list[pb.DescribedMove]:
    answer = await asked(
        period, at, methods.DESCRIBE_MOVES, pb.DescribeMovesRequest(), pb.DescribeMovesResponse
    )
    return list(answer.moves)


async def durable(
    period: Period, at: SimBroker, topic_id: bytes
) -> tuple[pb.Outcome, list[pb.DescribedDurability]]:
    request = pb.TopicDurabilityRequest(topic_id=topic_id)
    answer = await asked(period, at, methods.TOPIC_DURABILITY, request, pb.TopicDurabilityResponse)
    return answer.outcome, list(answer.partitions)


def test_a_leader_is_moved_to_a_replica_in_sync_and_back_whoever_is_asked() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        first, other = period.led_by(where)
        await period.until("all are in sync", lambda: len(record_at(period, first, where).in_sync) == 3)
        for at, to in ((other, other), (first, first), (other, first), (first, other)):
            outcome = await led_to(period, at, where, to.broker_id)
            assert not outcome.error, outcome.message
            await period.until("it leads", lambda to=to: period.leader(where) is to)  # type: ignore[misc]
            await period.produce("orders", 5)
        nowhere = TopicPartition(where.topic_id, 9)
        assert (await led_to(period, first, nowhere, 0)).error == ErrorCode.NOT_FOUND
        outsider = await led_to(period, first, where, 7)
        assert outsider.error == ErrorCode.BROKER_UNAVAILABLE
        assert "its leader stays" in outsider.message
        assert period.leader(where) is other

    Period(METERED, topic("orders")).run(story)


def test_a_leader_that_is_silent_is_not_moved_and_the_answer_names_it() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        leader, other = period.led_by(where)
        period.cluster.pause(leader)
        outcome = await led_to(period, other, where, other.broker_id)
        assert outcome.error == ErrorCode.BROKER_UNAVAILABLE
        assert f"its leader, broker {leader.broker_id}, does not answer" in outcome.message
        assert not (await led_to(period, other, where, leader.broker_id)).error, "it leads already"
        period.cluster.resume(leader)

    Period(SLOW, topic("orders")).run(story)


def test_what_nobody_leads_is_not_moved() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        behind, _ = await one_left_behind(period, where)
        outcome = await led_to(period, behind, where, behind.broker_id)
        assert outcome.error == ErrorCode.BROKER_UNAVAILABLE
        assert outcome.message == "orders-0: it has no leader now"

    Period(METERED, topic("orders")).run(story)


def test_replicas_are_moved_one_after_the_other_and_described_while_they_move() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        leader, other = period.led_by(where)
        brokers = [broker.broker_id for broker in period.cluster.brokers]
        assert await moves(period, other) == []
        refused = await altered(period, other, where, [leader.broker_id, 9])
        assert refused.error
        targets = [broker for broker in brokers if broker != leader.broker_id]
        for target in (*targets, leader.broker_id):
            before = record_at(period, other, where).replicas
            slow = period.cluster.broker(target)
            slow.faults.extra_sync_ms = 2_000.0
            outcome = await altered(period, other, where, [target])
            assert not outcome.error, outcome.message
            for at in period.cluster.brokers:
                (move,) = await moves(period, at)
                assert (move.tenant, move.topic, move.topic_id) == (TENANT, "orders", where.topic_id)
                assert (move.partition, list(move.target), list(move.adding)) == (0, [target], [target])
                assert list(move.removing) == list(before)
                assert [one.broker for one in move.progress] == [target]
                (one,) = move.progress
                assert not one.in_sync and (
                    one.offsets_left == one.bytes_left == -1 or one.offsets_left <= 10
                )
            slow.faults.extra_sync_ms = 0.0
            await period.until(
                "it has moved",
                lambda target=target: (  # type: ignore[misc]
                    record_at(period, other, where).replicas == (target,)
                    and record_at(period, other, where).leader == target
                    and not record_at(period, other, where).target
                ),
            )
            assert await moves(period, other) == []
        await period.produce("orders", 5)
        period.begin("cut_1")
        assert await period.answered(other) == {("orders", 0): (15, 15, False)}

    Period(METERED, topic("orders", replication=1)).run(story)


def test_a_move_that_is_called_off_leaves_the_replicas_as_they_were() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        leader, other = period.led_by(where)
        for _ in range(2):
            other.faults.extra_sync_ms = 5_000.0
            assert not (await altered(period, other, where, [other.broker_id])).error
            assert not (await altered(period, other, where, [], cancel=True)).error
            other.faults.extra_sync_ms = 0.0
            await period.until(
                "the leader is the only replica again",
                lambda: record_at(period, other, where).replicas == (leader.broker_id,),
            )
            assert await moves(period, other) == []
        await period.produce("orders", 5)

    Period(METERED, topic("orders", replication=1)).run(story)


def test_a_broker_is_cordoned_and_taken_back_and_forgotten_only_when_it_holds_nothing() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        leader, other = period.led_by(where)
        node = other.node
        assert node is not None

        async def cordoned(on: bool, generation: int) -> pb.Outcome:
            request = pb.CordonBrokerRequest(broker=leader.broker_id, cordoned=on, generation=generation)
            return await asked(period, other, methods.CORDON_BROKER, request, pb.Outcome)

        async def forgotten(broker: int) -> pb.Outcome:
            request = pb.ForgetBrokerRequest(broker=broker)
            return await asked(period, other, methods.FORGET_BROKER, request, pb.Outcome)

        for on, generation in ((True, 1), (False, 2), (True, 3)):
            assert not (await cordoned(on, generation)).error
            assert node.view.image.cordoned(leader.broker_id) == on
        older = await cordoned(False, 2)
        assert older.ignored and node.view.image.cordoned(leader.broker_id)
        assert (await forgotten(leader.broker_id)).error == ErrorCode.INVALID_REQUEST
        assert leader.broker_id in node.view.image.brokers

    Period(METERED, topic("orders")).run(story)


def test_the_durability_of_a_topic_is_told_by_each_leader_and_a_silent_ones_partitions_as_not_known() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 12, partitions=3)
        topic_id = period.where("orders").topic_id
        leader, other = period.led_by(period.where("orders", 1))
        for at in period.cluster.brokers:
            outcome, found = await durable(period, at, topic_id)
            assert not outcome.error
            assert [one.partition for one in found] == [0, 1, 2]
            assert [(one.error, one.high_watermark, one.log_start_offset) for one in found] == [(0, 4, 0)] * 3
        outcome, found = await durable(period, other, b"n" * 16)
        assert (outcome.error, found) == (ErrorCode.NOT_FOUND, [])
        period.cluster.pause(leader)
        _, found = await durable(period, other, topic_id)
        for one in found:
            silent = period.leader(period.where("orders", one.partition)) is leader
            assert bool(one.error) == silent
            assert (one.verified_ms, silent) in ((-1, True), (one.verified_ms, False))
            assert silent == (f"broker {leader.broker_id}, does not answer" in one.message)
        period.cluster.resume(leader)

    Period(SLOW, topic("orders", 3)).run(story)
