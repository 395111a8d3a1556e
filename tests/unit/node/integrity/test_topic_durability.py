"""Durability of a whole topic: each partition is described by its leader, or says why nothing is known of it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.methods import TOPIC_DURABILITY
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue
from data_plane.node.integrity.topic_durability import TopicDurability
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, Connection, ConnectionLost, Peer
from penstock.contract.errors import ErrorCode, NotLeader
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId, TopicPartition
from tests.unit.node.storage import CONFIG, ME, SETTINGS, topic_id_of

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

NOBODY: Any = None
OTHER, DEAD, NEVER = BrokerId(2), BrokerId(3), BrokerId(4)
TOPIC = topic_id_of(1)
CALLER = Caller(peer="p", authorization="", identity=None)


def image(*leaders: BrokerId) -> ClusterImage:
    """A topic whose partitions have these leaders. Brokers 2 and 3 are known, and 2 alone is registered."""
    topic = model.TopicRecord(
        topic_id=TOPIC, tenant=TenantId("t"), name="orders", partitions=len(leaders), settings=SETTINGS
    )
    records = {
        number: model.PartitionRecord(
            partition=number, replicas=(ME,), replica_generations=(1,), leader=leader, in_sync=(ME,)
        )
        for number, leader in enumerate(leaders)
    }
    values = {
        model.topic_key(TOPIC): topic.encode(),
        model.block_key(TOPIC, 0): model.encode_block(records),
        broker_records.live_key(OTHER): broker_records.LiveRecord(incarnation="i", directory_id="d").encode(),
    }
    for number in (OTHER, DEAD):
        values[broker_records.broker_key(number)] = broker_records.BrokerRecord(
            broker_id=number, directory_id="d", client_address="c", internal_address="i",
            peer_address=f"p:{number}", zone="z",
        ).encode()  # fmt: skip
    made = ClusterImage()
    made.load([KeyValue(key, value, 1) for key, value in values.items()], 1)
    return made


@dataclass
class Cluster:
    """The other broker: its answers, and the calls that it gets."""

    fails: Exception | None = None
    asked: list[tuple[Peer, str, list[int]]] = field(default_factory=list)

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        assert timeout_ms == 2 * CONFIG.timings.heartbeat_ms
        asked = pb.TopicDurabilityRequest.FromString(request)
        assert asked.topic_id == TOPIC
        self.asked.append((peer, method, list(asked.partitions)))
        if self.fails is not None:
            raise self.fails
        described = [pb.DescribedDurability(partition=each, high_watermark=200) for each in asked.partitions]
        return pb.TopicDurabilityResponse(partitions=described).SerializeToString()

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        raise AssertionError("no streams are asked for")


class Scrubber:
    """Leads every partition of an even number."""

    def describe(self, partition: TopicPartition, described: pb.DescribedDurability) -> None:
        if partition.partition % 2:
            raise NotLeader(f"{partition.partition}: not here")
        described.high_watermark = 100


def described(
    cluster: Cluster, *leaders: BrokerId, partitions: tuple[int, ...] = ()
) -> pb.TopicDurabilityResponse:
    view = MetadataView(NOBODY, CONFIG.timings)
    view.image = image(*leaders)
    scrubber: Any = Scrubber()
    durability = TopicDurability(CONFIG, view, cluster, scrubber)
    request = pb.TopicDurabilityRequest(topic_id=TOPIC, partitions=partitions)
    answer = asyncio.run(durability.describe(CALLER, request.SerializeToString()))
    return pb.TopicDurabilityResponse.FromString(answer)


def test_each_leader_is_asked_once_for_all_that_it_leads_and_the_answer_is_in_order() -> None:
    cluster = Cluster()
    response = described(cluster, ME, OTHER, ME, NO_BROKER, OTHER)
    ((peer, method, partitions),) = cluster.asked
    assert (peer.address, method, partitions) == (f"p:{OTHER}", TOPIC_DURABILITY, [1, 4])
    assert [each.partition for each in response.partitions] == [0, 1, 2, 3, 4]
    assert [each.high_watermark for each in response.partitions] == [100, 200, 100, 0, 200]
    assert [each.error for each in response.partitions] == [0, 0, 0, ErrorCode.NO_LEADER, 0]
    assert [each.verified_ms for each in response.partitions] == [-1, 0, -1, -1, 0]
    assert not response.outcome.error


@pytest.mark.parametrize("fails", [ConnectionLost("lost"), CallFailed(ErrorCode.INTERNAL, "no")])
def test_of_a_leader_that_does_not_answer_nothing_is_known_and_the_others_are_described(
    fails: Exception,
) -> None:
    cluster = Cluster(fails)
    response = described(cluster, OTHER, DEAD, ME, NEVER)
    assert [partitions for _, _, partitions in cluster.asked] == [[0]], "who is not registered is not asked"
    lost = [each for each in response.partitions if each.error]
    assert [each.partition for each in lost] == [0, 1, 3]
    assert {(each.error, each.verified_ms) for each in lost} == {(ErrorCode.BROKER_UNAVAILABLE, -1)}
    assert [f"broker {leader}, does not answer" in each.message for each, leader in zip(
        lost, (OTHER, DEAD, NEVER), strict=True
    )] == [True] * 3  # fmt: skip
    assert response.partitions[2].high_watermark == 100


def test_partitions_that_are_named_are_described_here_whoever_leads_them() -> None:
    cluster = Cluster()
    response = described(cluster, OTHER, OTHER, OTHER, partitions=(2, 1))
    assert cluster.asked == []
    assert [(each.partition, each.error, each.high_watermark) for each in response.partitions] == [
        (2, 0, 100), (1, ErrorCode.NOT_LEADER, 0)
    ]  # fmt: skip


def test_a_topic_that_does_not_exist_is_refused() -> None:
    response = described(Cluster())
    assert not response.outcome.error and not response.partitions
    view = MetadataView(NOBODY, CONFIG.timings)
    durability = TopicDurability(CONFIG, view, Cluster(), NOBODY)
    request = pb.TopicDurabilityRequest(topic_id=TOPIC).SerializeToString()
    refused = pb.TopicDurabilityResponse.FromString(asyncio.run(durability.describe(CALLER, request)))
    assert refused.outcome.error == ErrorCode.NOT_FOUND and TOPIC.hex() in refused.outcome.message
