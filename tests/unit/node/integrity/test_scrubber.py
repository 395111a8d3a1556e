"""Segments are read back, compared and reported once they are committed, not once they are closed (RL132)."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from data_plane.contract import replication_pb2
from data_plane.contract.admin_pb2 import DescribedDurability
from data_plane.metadata import broker_records
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue
from data_plane.node.integrity.scrubber import Scrubber
from data_plane.node.ports import Caller, Connection, ConnectionLost, Peer
from data_plane.node.replicas.replica import Following, Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.rng import Chances, SimRng
from tests.unit.log.miniature import TOPIC, Miniature, where
from tests.unit.node.replicas.test_follower_stream import OTHER
from tests.unit.node.replicas.uncommitted import COMMITTED, SEGMENT, WRITTEN, led_beyond_commit
from tests.unit.node.storage import CONFIG

SECOND_MS = 1_000
COMMITTED_SEGMENTS = [0, SEGMENT]
"""Their base offsets."""
CALLER = Caller(peer="p", authorization="", identity=None)
NOTHING: Any = None


def image() -> ClusterImage:
    """The replica in sync lives."""
    broker = broker_records.BrokerRecord(
        broker_id=OTHER, directory_id="d", client_address="c", internal_address="i", peer_address="p", zone="z"
    )  # fmt: skip
    live = broker_records.LiveRecord(incarnation="i", directory_id="d")
    made = ClusterImage()
    made.load(
        [
            KeyValue(broker_records.broker_key(OTHER), broker.encode(), 1),
            KeyValue(broker_records.live_key(OTHER), live.encode(), 1),
        ],
        1,
    )
    return made


@dataclass
class Scrubbing:
    """A broker that leads one partition, and the calls it makes to the others."""

    loop: SimLoop = field(default_factory=lambda: SimLoop(1))
    asked: list[list[int]] = field(default_factory=list)
    """Base offsets of the segments that another broker was asked for, of each call."""

    def __post_init__(self) -> None:
        self.clock, self.stats = SimClock(self.loop), NodeStats()
        self.storage = Miniature()
        self.replica: Replica = led_beyond_commit(self.storage, clock=self.clock)
        replicas = ReplicaSet()
        replicas.add(self.replica)
        self.scrubber = Scrubber(
            CONFIG, image(), self.storage.disk, self, self.clock, self.stats, NOTHING, replicas,
            begin_turn=lambda: Turn(self.clock, SimRng(1, Chances(1))),
        )  # fmt: skip

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        raise AssertionError("no streams are asked for")

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        segments = replication_pb2.CompareSegmentsRequest.FromString(request).segments
        self.asked.append([segment.base_offset for segment in segments])
        raise ConnectionLost("silent")

    def read_back_all(self) -> None:
        """Every closed segment is found whole, as if all of them had been committed once."""
        scrub = self.replica.log.scrub
        for segment in scrub.closed(WRITTEN):
            check = scrub.begin(segment)
            while not check.done:
                check.step(segment.stamps.read_at, segment.data.read_at)
            assert scrub.end(check)
            scrub.found_whole(check, self.clock.now_ms())

    def follow(self) -> None:
        record = self.replica.record
        assert record is not None
        self.replica.follow(record.changed(leader=OTHER, leader_epoch=2))
        self.replica.accepted(Following(OTHER, 2))


@pytest.fixture
def scrubbing() -> Iterator[Scrubbing]:
    made = Scrubbing()
    yield made
    made.loop.close()


def test_what_is_committed_is_read_back_and_compared(scrubbing: Scrubbing) -> None:
    async def story() -> None:
        running = asyncio.create_task(scrubbing.scrubber.run())
        await asyncio.sleep(2 * CONFIG.timings.scrub_delay_ms / SECOND_MS)
        running.cancel()
        await asyncio.wait([running])

    scrubbing.loop.run_until_complete(story())
    assert scrubbing.stats.scrubbed_segments == len(COMMITTED_SEGMENTS)
    assert scrubbing.asked and scrubbing.asked[-1] == COMMITTED_SEGMENTS


def test_the_bytes_to_be_read_back_in_time_are_those_that_are_committed(scrubbing: Scrubbing) -> None:
    due, total_bytes = scrubbing.loop.run_until_complete(scrubbing.scrubber._due())
    assert due == [], "they were closed a moment ago"
    closed = scrubbing.replica.log.scrub.closed(COMMITTED)
    assert [segment.base_offset for segment in closed] == COMMITTED_SEGMENTS
    assert total_bytes == sum(segment.size for segment in closed)


def test_a_segment_that_is_not_committed_is_not_read_back(scrubbing: Scrubbing) -> None:
    committed, uncommitted = scrubbing.replica.log.scrub.closed(WRITTEN)[1:3]
    for segment, read in ((uncommitted, 0), (committed, 1)):
        scrubbing.loop.run_until_complete(
            scrubbing.scrubber._read_back(scrubbing.replica, segment, 1_000_000_000)
        )
        assert scrubbing.stats.scrubbed_segments == read


def test_a_segment_that_is_cut_while_it_is_read_back_was_not_found_whole(scrubbing: Scrubbing) -> None:
    segment = scrubbing.replica.log.scrub.closed(COMMITTED)[-1]

    async def story() -> None:
        reading = asyncio.create_task(scrubbing.scrubber._read_back(scrubbing.replica, segment, 1_000))
        await asyncio.sleep(1)
        assert not reading.done(), "it waits after what it has read"
        scrubbing.storage.truncate(segment.base_offset, declared=True)
        await reading

    scrubbing.loop.run_until_complete(story())
    assert scrubbing.stats.scrubbed_bytes > 0
    assert scrubbing.stats.scrubbed_segments == 0
    assert not scrubbing.replica.stopped and not scrubbing.replica.log.has_damage


def test_what_is_not_committed_is_compared_with_no_other_replica(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    scrubbing.loop.run_until_complete(scrubbing.scrubber._compare_all())
    assert scrubbing.asked == [COMMITTED_SEGMENTS]


def test_a_follower_tells_what_it_found_of_what_it_knows_to_be_committed(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    scrubbing.follow()
    request = replication_pb2.CompareSegmentsRequest(topic_id=TOPIC, partition=0, leader_epoch=2)
    for base_offset in range(0, WRITTEN, SEGMENT):
        request.segments.add(base_offset=base_offset)
    answer = replication_pb2.CompareSegmentsResponse.FromString(
        scrubbing.loop.run_until_complete(
            scrubbing.scrubber.compare_segments(CALLER, request.SerializeToString())
        )
    )
    assert [segment.base_offset for segment in answer.segments] == COMMITTED_SEGMENTS


def test_the_durability_that_a_tenant_sees_ends_with_what_is_committed(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    described = DescribedDurability()
    scrubbing.scrubber.describe(where(), described)
    assert described.high_watermark == COMMITTED
    assert described.verified_end_offset == SEGMENT * len(COMMITTED_SEGMENTS)
