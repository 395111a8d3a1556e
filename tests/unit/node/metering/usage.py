"""`__usage` as a broker writes to it: led by another broker, which commits each record at once."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from data_plane.contract import methods, usage_pb2
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue
from data_plane.metering.connection_time import ConnectionTime
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.metering.final_readings import FinalReadings
from data_plane.node.metering.metering import Metering
from data_plane.node.metering.usage_topic import USAGE_TOPIC, UsageTopic
from data_plane.node.ports import Clock, Connection, Peer
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.testkit.rng import SimRng
from penstock.contract.ids import SYSTEM_TENANT, BrokerId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.records.parse import records_of
from tests.unit.node.storage import CONFIG

T = TypeVar("T")

NOBODY: Any = None
LEADER = BrokerId(2)
TOPIC_ID = TopicId(b"u" * 16)


class Usage:
    """Its leader, and this broker's way to it. Entered, it has an event loop of its own, on which `run` goes on."""

    def __init__(self, clock: Clock, *, exists: bool = True, takes_records: bool = True) -> None:
        """`takes_records`: whether the leader is there."""
        self.records: list[usage_pb2.UsageRecord] = []
        image = _image(takes_records=takes_records) if exists else ClusterImage()
        self.topic = UsageTopic(CONFIG, image, lambda where: None, self, clock, SimRng(1), NodeStats())
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._writing = self._runner.get_loop().create_task(self.topic.run())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(story)

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        raise AssertionError("no streams are asked for")

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        assert method == methods.APPEND_USAGE
        for record in records_of(usage_pb2.AppendUsageRequest.FromString(request).batch):
            self.records.append(usage_pb2.UsageRecord.FromString(record.value or b""))
        return usage_pb2.AppendUsageResponse().SerializeToString()


def _image(*, takes_records: bool) -> ClusterImage:
    topic = model.TopicRecord(
        topic_id=TOPIC_ID,
        tenant=SYSTEM_TENANT,
        name=USAGE_TOPIC,
        partitions=1,
        settings=TopicSettings(replication=1, min_insync_replicas=1),
    )
    partition = model.PartitionRecord(
        partition=0,
        replicas=(LEADER,),
        replica_generations=(1,),
        leader=LEADER,
        leader_epoch=1,
        in_sync=(LEADER,),
    )
    broker = broker_records.BrokerRecord(
        broker_id=LEADER,
        directory_id="d",
        client_address="c:2",
        internal_address="i:2",
        peer_address="p:2",
        zone="z",
    )
    values = {
        model.topic_key(TOPIC_ID): topic.encode(),
        model.name_key(SYSTEM_TENANT, USAGE_TOPIC): TOPIC_ID.hex().encode(),
        model.block_key(TOPIC_ID, 0): model.encode_block({0: partition}),
        broker_records.broker_key(LEADER): broker.encode(),
    }
    if takes_records:
        values[broker_records.live_key(LEADER)] = broker_records.LiveRecord(
            incarnation="i", directory_id="d"
        ).encode()
    image = ClusterImage()
    image.load([KeyValue(key, value, 1) for key, value in values.items()], 1)
    return image


def metering_of(
    usage: Usage, clock: Clock, replicas: ReplicaSet | None = None, time: ConnectionTime | None = None
) -> Metering:
    """A broker's metering; the metadata store is not asked."""
    finals = FinalReadings(CONFIG, MetadataView(NOBODY, CONFIG.timings), NOBODY)
    return Metering(
        CONFIG,
        usage.topic,
        clock,
        NodeStats(),
        replicas or ReplicaSet(),
        dict,
        finals,
        time or ConnectionTime(),
    )
