"""Segments are read back, compared and reported once they are committed, not once they are closed (RL132)."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from data_plane.contract import replication_pb2
from data_plane.contract.admin_pb2 import DescribedDurability
from data_plane.log.outcomes import DamagedRange
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
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.rng import Chances, SimRng
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId
from tests.unit.log.miniature import TOPIC, Miniature, where
from tests.unit.node.replicas.test_follower_stream import FOLLOWER, OTHER
from tests.unit.node.replicas.uncommitted import COMMITTED, SEGMENT, WRITTEN, led_beyond_commit
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

SECOND_MS = 1_000
COMMITTED_SEGMENTS = [0, SEGMENT]
"""Their base offsets."""
CALLER = Caller(peer="p", authorization="", identity=None)
NOTHING: Any = None


def image() -> ClusterImage:
    """The two other brokers live."""
    items: list[KeyValue] = []
    for number in (FOLLOWER, OTHER):
        broker = broker_records.BrokerRecord(
            broker_id=number, directory_id="d", client_address="c", internal_address="i", peer_address="p", zone="z"
        )  # fmt: skip
        live = broker_records.LiveRecord(incarnation="i", directory_id="d")
        items.append(KeyValue(broker_records.broker_key(number), broker.encode(), 1))
        items.append(KeyValue(broker_records.live_key(number), live.encode(), 1))
    made = ClusterImage()
    made.load(items, 1)
    return made


@dataclass
class Scrubbing:
    """A broker that leads one partition, and the calls it makes to the others."""

    loop: SimLoop = field(default_factory=lambda: SimLoop(1))
    asked: list[list[int]] = field(default_factory=list)
    """Base offsets of the segments that another broker was asked for, of each call."""
    told: list[tuple[BrokerId, list[int]]] = field(default_factory=list)
    """Who was told of which segments that most hold them differently."""
    silent: set[BrokerId] = field(default_factory=set)
    differing: set[BrokerId] = field(default_factory=set)
    """They hold the second segment differently."""

    def __post_init__(self) -> None:
        self.clock, self.stats = SimClock(self.loop), NodeStats()
        self.storage = Miniature()
        self.replica: Replica = led_beyond_commit(self.storage, clock=self.clock)
        self.replicas = replicas = ReplicaSet()
        replicas.add(self.replica)
        self.scrubber = Scrubber(
            CONFIG, image(), self.storage.disk, self, self.clock, self.stats, NOTHING, replicas,
            begin_turn=lambda: Turn(self.clock, SimRng(1, Chances(1))),
        )  # fmt: skip

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        raise AssertionError("no streams are asked for")

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        asked = replication_pb2.CompareSegmentsRequest.FromString(request)
        bases = [segment.base_offset for segment in asked.segments]
        if peer.broker in self.silent:
            raise ConnectionLost("silent")
        response = replication_pb2.CompareSegmentsResponse()
        if asked.agreed:
            self.told.append((peer.broker, bases))
        else:
            self.asked.append(bases)
            response.segments.extend(asked.segments)
            if peer.broker in self.differing:
                response.segments[1].digest = bytes(32)
        return response.SerializeToString()

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
    assert scrubbing.asked == [COMMITTED_SEGMENTS] * 2, "of each other replica"


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


# -- what replicas hold differently -------------------------------------------------------------------------


def compare(scrubbing: Scrubbing, passed_ms: float = 0.0) -> int:
    """How many calls a round of comparing makes, so much later."""
    before = len(scrubbing.asked)

    async def story() -> None:
        await asyncio.sleep(passed_ms / SECOND_MS)
        await scrubbing.scrubber._compare_all()

    scrubbing.loop.run_until_complete(story())
    return len(scrubbing.asked) - before


def described(scrubbing: Scrubbing) -> tuple[int, int]:
    """(end of what is verified, by how many replicas)."""
    found = DescribedDurability()
    scrubbing.scrubber.describe(where(), found)
    return found.verified_end_offset, found.replicas


def test_what_all_replicas_hold_alike_is_verified_by_all_of_them(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    assert described(scrubbing) == (2 * SEGMENT, 1), "only this one has been looked at"
    assert compare(scrubbing) == 2
    assert described(scrubbing) == (2 * SEGMENT, 3)
    assert not scrubbing.told and not scrubbing.stats.scrub_damage


def test_replicas_are_compared_again_when_their_time_has_come(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    every_ms = CONFIG.timings.scrub_compare_ms
    assert compare(scrubbing) == 2
    assert compare(scrubbing, every_ms - 1_000) == 0
    assert compare(scrubbing, 1_001) == 2


def test_the_one_that_differs_from_most_is_told_and_verifies_less(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    scrubbing.differing.add(OTHER)
    compare(scrubbing)
    assert scrubbing.told == [(OTHER, [SEGMENT])]
    assert described(scrubbing) == (SEGMENT, 3)
    assert not scrubbing.stats.scrub_damage, "the leader is one of the most"


def test_a_leader_that_differs_from_most_gives_itself_up(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    scrubbing.differing |= {FOLLOWER, OTHER}
    compare(scrubbing)
    assert scrubbing.told == []
    assert scrubbing.stats.scrub_damage == 1
    (damage,) = scrubbing.replica.log.damage
    assert (damage.first_offset, damage.end_offset) == (SEGMENT, 2 * SEGMENT)


def test_of_two_that_differ_the_leaders_counts(scrubbing: Scrubbing) -> None:
    scrubbing.read_back_all()
    scrubbing.silent.add(FOLLOWER)
    scrubbing.differing.add(OTHER)
    compare(scrubbing)
    assert scrubbing.told == [(OTHER, [SEGMENT])]
    assert described(scrubbing) == (SEGMENT, 2), "the silent one has verified nothing"


@pytest.mark.parametrize(("agreed", "same"), [(True, True), (True, False), (False, False)])
def test_a_follower_gives_up_what_most_hold_differently(
    scrubbing: Scrubbing, agreed: bool, same: bool
) -> None:
    scrubbing.read_back_all()
    scrubbing.follow()
    (mine, *_) = scrubbing.replica.log.scrub.findings(COMMITTED)
    request = replication_pb2.CompareSegmentsRequest(
        topic_id=TOPIC, partition=0, leader_epoch=2, agreed=agreed
    )
    request.segments.add(base_offset=0, end_offset=mine.end_offset, digest=mine.digest if same else bytes(32))
    scrubbing.loop.run_until_complete(
        scrubbing.scrubber.compare_segments(CALLER, request.SerializeToString())
    )
    damage = [(one.first_offset, one.end_offset) for one in scrubbing.replica.log.damage]
    assert damage == ([(0, SEGMENT)] if agreed and not same else [])
    assert scrubbing.stats.scrub_damage == len(damage)


@pytest.mark.parametrize("leader_epoch", [1, 3])
def test_a_replica_tells_nothing_to_one_that_it_does_not_follow(
    scrubbing: Scrubbing, leader_epoch: int
) -> None:
    scrubbing.read_back_all()
    scrubbing.follow()
    request = replication_pb2.CompareSegmentsRequest(topic_id=TOPIC, partition=0, leader_epoch=leader_epoch)
    request.segments.add(base_offset=0)
    answer = replication_pb2.CompareSegmentsResponse.FromString(
        scrubbing.loop.run_until_complete(
            scrubbing.scrubber.compare_segments(CALLER, request.SerializeToString())
        )
    )
    assert answer.error == ErrorCode.FENCED_LEADER_EPOCH and not answer.segments


def test_damage_that_is_read_back_is_named_and_the_rest_is_read_on(scrubbing: Scrubbing) -> None:
    segment = scrubbing.replica.log.scrub.closed(COMMITTED)[0]
    assert isinstance(scrubbing.storage.disk, SimDisk)
    scrubbing.storage.disk.medium.flip(segment.data.path, 1_000, 4)
    for each in scrubbing.replica.log.scrub.closed(COMMITTED):
        scrubbing.loop.run_until_complete(
            scrubbing.scrubber._read_back(scrubbing.replica, each, 1_000_000_000)
        )
    assert [one.first_offset for one in scrubbing.replica.log.damage] == [2]
    assert scrubbing.stats.scrub_damage == 1


@pytest.mark.parametrize(
    ("damaged", "leaves", "gives_up"), [(False, False, False), (True, False, True), (True, True, False)]
)
def test_damage_that_a_log_found_itself_gives_its_replica_up_once_it_is_not_busy_unless_that_has_left(
    scrubbing: Scrubbing, damaged: bool, leaves: bool, gives_up: bool
) -> None:
    replica = scrubbing.replica
    if damaged:
        replica.log.scrub.found_damage(DamagedRange(4, 6, "read badly"))
    replica.busy = True

    async def story() -> None:
        running = asyncio.create_task(scrubbing.scrubber.run())
        await asyncio.sleep(3)
        assert not replica.stopped, "its log is being changed"
        if leaves:
            scrubbing.replicas.remove(replica.where)
        replica.no_longer_busy()
        await asyncio.sleep(3)
        running.cancel()
        await asyncio.wait([running])

    scrubbing.loop.run_until_complete(story())
    assert replica.stopped is gives_up


def test_what_was_read_back_is_due_again_after_a_period_and_what_never_was_comes_first(
    scrubbing: Scrubbing,
) -> None:
    timings = CONFIG.timings
    first, second = scrubbing.replica.log.scrub.closed(COMMITTED)
    scrubbing.loop.run_until_complete(scrubbing.scrubber._due())  # they are seen

    def due_after(passed_ms: float) -> list[int]:
        async def story() -> list[int]:
            await asyncio.sleep(passed_ms / SECOND_MS)
            due, _ = await scrubbing.scrubber._due()
            return [segment.base_offset for _, segment in due]

        return scrubbing.loop.run_until_complete(story())

    assert due_after(timings.scrub_delay_ms - 1_000) == []
    assert due_after(1_001) == [first.base_offset, second.base_offset]
    scrubbing.loop.run_until_complete(scrubbing.scrubber._read_back(scrubbing.replica, first, 1_000_000_000))
    assert due_after(0) == [second.base_offset]
    assert due_after(timings.scrub_period_ms) == [second.base_offset, first.base_offset]
