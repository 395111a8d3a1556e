"""The leader's side of a replication stream: which of a follower's streams counts."""

import asyncio

from data_plane.contract import replication_pb2 as pb
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue
from data_plane.node.catch_up import CatchUp
from data_plane.node.config import NodeConfig
from data_plane.node.ports import ConnectionLost
from data_plane.node.push import FollowerStream
from data_plane.node.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.replication.leader import NO_EPOCH
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.ids import BrokerId, TenantId
from tests.unit.log.miniature import SMALL, TOPIC, Miniature, where

ME, FOLLOWER = BrokerId(1), BrokerId(2)
REGISTERED = 5
CONFIG = NodeConfig(
    broker_id=ME,
    cluster_id="c",
    client_address="",
    internal_address="",
    zone="",
    cluster_secret="",
    peppers={},
)


class StillClock:
    def now_ms(self) -> int:
        return 1_000

    def monotonic_ms(self) -> float:
        return 1_000.0


class Wire:
    """What the follower sends is put in; its end is `lost`."""

    peer = "follower"

    def __init__(self) -> None:
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answered = asyncio.Event()

    async def send(self, frame: bytes) -> None:
        self.answered.set()

    async def receive(self) -> bytes:
        frame = await self.frames.get()
        if frame is None:
            raise ConnectionLost("lost")
        return frame

    def close(self) -> None:
        self.lose()

    def lose(self) -> None:
        self.frames.put_nowait(None)

    def open(self, handle: int) -> None:
        head = pb.ReplicaOpenHead(broker_id=FOLLOWER, broker_epoch=REGISTERED)
        head.partitions.add(
            handle=handle,
            topic_id=TOPIC,
            partition=0,
            leader_epoch=1,
            last_epoch=NO_EPOCH,
            replica_generation=1,
        )
        self.frames.put_nowait(pack_frame(FrameKind.REPLICA_OPEN, head.SerializeToString()))


def led() -> Replica:
    topic = model.TopicRecord(
        topic_id=TOPIC, tenant=TenantId("t"), name="orders", partitions=1, settings=SMALL
    )
    replica = Replica(
        where(), topic, Miniature().create(), me=ME, clock=StillClock(), stats=NodeStats(),
        wrote=lambda replica, size: None, unsettled=lambda replica: None, stopped=lambda replica: None,
        replica_lag_ms_max=10_000,
    )  # fmt: skip
    replica.lead(
        model.PartitionRecord(
            partition=0,
            replicas=(ME, FOLLOWER),
            replica_generations=(1, 1),
            leader=ME,
            leader_epoch=1,
            in_sync=(ME,),
        )
    )
    return replica


def test_the_late_end_of_an_old_stream_says_nothing_of_a_follower_that_came_back() -> None:
    replica, image = led(), ClusterImage()
    live = model.LiveRecord(incarnation="i", directory_id="d").encode()
    image.load([KeyValue(model.live_key(FOLLOWER), live, REGISTERED)], REGISTERED)

    def follows() -> bool:
        assert replica.leading is not None
        (lag,) = replica.leading.describe(1_000.0)
        return lag.following

    async def story() -> None:
        wires = [Wire(), Wire()]
        streams = []
        for number, wire in enumerate(wires, start=1):
            stream = FollowerStream(
                wire, CONFIG, image, lambda _: replica, Miniature().disk, StillClock(), NodeStats(), lambda _: None,
                CatchUp(0, StillClock(), NodeStats()),
            )  # fmt: skip
            streams.append(asyncio.create_task(stream.serve()))
            wire.open(number)
            await wire.answered.wait()
            assert follows()
        for wire, still in zip(wires, (True, False), strict=True):
            wire.lose()
            await asyncio.wait(streams[:1], timeout=30)
            assert isinstance(streams.pop(0).exception(), ConnectionLost)
            assert follows() is still

    asyncio.run(story())
