"""From a producer of the SDK to what the control plane is answered: which key is hot, and who may say so."""

import asyncio
import random
from typing import Any

import pytest

from daemon.identity import Identity, Role
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods as internal
from data_plane.node.ports import CallFailed
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import CLUSTER_ID, SimBroker
from data_plane.testkit.sdk_clients import SdkTransport
from data_plane.testkit.transport import SimTransport
from penstock.asyncio import Client
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2
from tests.simulation.test_cuts import METERED, Period, topic
from tests.simulation.test_load_calls import load_of
from tests.simulation.test_placement_calls import asked

CONTROL_PLANE = Identity(cluster_id=CLUSTER_ID, role=Role.CONTROL_PLANE)
CANARY = b"customer-4711@canary.example"


async def hot_keys_of(period: Period, broker: SimBroker, topic_id: bytes) -> list[pb.DescribedHotKeys]:
    request = pb.DescribeHotKeysRequest(topic_id=topic_id)
    loop, network = period.loop, period.cluster.network
    control_plane = SimTransport(network, loop.process("cp"), "cp", identity=CONTROL_PLANE)
    answer = await control_plane.call(
        broker.internal_address, internal.DESCRIBE_HOT_KEYS, request.SerializeToString(), 1_000
    )
    return list(pb.DescribeHotKeysResponse.FromString(answer).partitions)


async def sent(period: Period, rounds: int) -> None:
    """Half of the messages have one key; a round is 25 s."""
    loop, cluster = period.loop, period.cluster
    done: list[bool] = []

    async def produce() -> None:
        transport = SimTransport(cluster.network, process, "c", authorization=f"Bearer {cluster.api_key}")
        client = Client.over(
            SdkTransport(transport),
            bootstrap=tuple(broker.client_address for broker in cluster.brokers),
            random=random.Random(7),
            wall_ms=SimClock(loop).now_ms,
        )
        producer = client.producer(compression="none", linger_ms=50)
        for _ in range(rounds):
            for _ in range(50):
                for number in range(160):
                    key = CANARY if number % 2 else b"cold-%d" % number
                    await producer.send("orders", b"", key, partition=0)
                await asyncio.sleep(0.5)
        assert producer.stats().key_reports_failed == 0
        done.append(True)

    process = loop.process("producer")
    loop.spawn(process, produce())
    await period.until("all are sent", lambda: bool(done), 60 * rounds)


def test_the_leader_hears_of_a_hot_key_and_says_its_share() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        leader, other = period.led_by(where)
        await sent(period, 3)
        (found,) = await hot_keys_of(period, leader, where.topic_id)
        assert found.partition == 0 and found.messages > 4_000
        hot = found.keys[0]
        assert (hot.key, hot.size) == (CANARY, len(CANARY))
        assert 0.35 < hot.messages / found.messages < 0.6
        load = {(p.topic_id, p.partition): p for p in (await load_of(period, leader)).partitions}
        assert 35 < load[where.topic_id, 0].hot_key_percent < 60
        with pytest.raises(CallFailed, match="operator may not call"):
            request = pb.DescribeHotKeysRequest(topic_id=where.topic_id)
            await asked(period, leader, internal.DESCRIBE_HOT_KEYS, request, pb.DescribeHotKeysResponse)
        assert not await hot_keys_of(period, other, where.topic_id)
        assert not await hot_keys_of(period, leader, bytes(16))
        node = leader.node
        assert node is not None and node.stats.key_reports >= 2
        assert CANARY.decode() not in repr(node.stats)
        await asyncio.sleep(160)  # its last report may still come
        assert not await hot_keys_of(period, leader, where.topic_id), "without reports it is forgotten"

    Period(METERED, topic("orders")).run(story)


def test_hostile_reports_are_refused_each_on_its_own() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        leader, _ = period.led_by(where)
        cluster = period.cluster
        call = SimTransport(
            cluster.network, period.loop.process("liar"), "c", authorization=f"Bearer {cluster.api_key}"
        ).call
        key = log_pb2.ReportedKey(key=b"lie", size=3, messages=2**64 - 1)
        own: dict[str, Any] = {"topic_id": where.topic_id, "messages": 2**64 - 1, "over_ms": 2**32 - 1}
        request = log_pb2.ReportKeysRequest(
            partitions=[
                log_pb2.KeyReport(**own, keys=[key]),
                log_pb2.KeyReport(**own, keys=[key, key]),
                log_pb2.KeyReport(**own, keys=[log_pb2.ReportedKey(key=bytes(10_000), size=10_000)]),
                log_pb2.KeyReport(
                    **own, keys=[log_pb2.ReportedKey(key=b"%d" % n, size=9) for n in range(11)]
                ),
                log_pb2.KeyReport(topic_id=where.topic_id, partition=2**32 - 1),
                log_pb2.KeyReport(topic_id=bytes(16)),
                log_pb2.KeyReport(topic_id=b"short"),
            ]
        )
        answer = log_pb2.ReportKeysResponse.FromString(
            await call(leader.client_address, methods.REPORT_KEYS, request.SerializeToString(), 1_000)
        )
        refused, missing = ErrorCode.INVALID_REQUEST, ErrorCode.NOT_FOUND
        assert [one.error for one in answer.partitions] == [0, *[refused] * 3, *[missing] * 3]
        assert [part.messages for part in await hot_keys_of(period, leader, where.topic_id)] == [0]
        many = log_pb2.ReportKeysRequest(partitions=[log_pb2.KeyReport(topic_id=where.topic_id)] * 101)
        answer = log_pb2.ReportKeysResponse.FromString(
            await call(leader.client_address, methods.REPORT_KEYS, many.SerializeToString(), 1_000)
        )
        assert [one.error for one in answer.partitions] == [0] * 100 + [refused]

    Period(METERED, topic("orders")).run(story)
