"""What clients are told and given ends where what is committed ends, though more is written (RL20)."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from data_plane.authz.access import Principal
from data_plane.metadata.model import TopicRecord
from data_plane.node.groups.group_calls import GroupCalls
from data_plane.node.integrity.proof_reads import ProofReads
from data_plane.node.ports import Caller
from data_plane.node.replicas.replica import Replica
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.node.serving.key_reports import KeyReports
from data_plane.node.serving.record_deletion import RecordDeletion
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.testkit.clock import SimClock
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import Medium
from data_plane.testkit.rng import Chances, SimRng
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import PrincipalNumber, TenantId, TopicPartition
from penstock.contract.v1 import groups_pb2, log_pb2, proof_pb2
from penstock.records.stamp import STAMP_BYTES
from tests.unit.log.miniature import TOPIC, where
from tests.unit.node.replicas.test_follower_stream import held_by_other
from tests.unit.node.replicas.uncommitted import COMMITTED, WRITTEN, led_beyond_commit
from tests.unit.node.serving.test_follower_reads import Allowing, Reader
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # the gate is a stand-in

CALLER = Caller(peer="p", authorization="", identity=None)
NOTHING: Any = None
T = TypeVar("T")


class Gate(Allowing):
    """Lets everybody in."""

    def admit(self, caller: Caller) -> Principal:
        return Principal(
            tenant=TenantId("t"), number=PrincipalNumber(5), key_id="k", key_revision=1, expires_at_ms=0
        )


class Metering:
    """Notes up to where a partition is to be read, and has not read it."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def hurry(self, where: TopicPartition) -> None:
        """It reads nothing."""

    def is_read(self, where: TopicPartition, offset: int) -> bool:
        self.asked.append(offset)
        return False


class Broker:
    """Leads one partition."""

    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.clock = SimClock(self.loop)
        self.replica = led_beyond_commit()
        self.gate: Any = Gate()
        self.metering: Any = Metering()

    def find(self, where: TopicPartition) -> Replica:
        return self.replica

    def turn(self) -> Turn:
        return Turn(self.clock, SimRng(1, Chances(1)))

    def run(self, work: Awaitable[T]) -> T:
        async def story() -> T:
            return await work

        return self.loop.run_until_complete(story())

    def answer(self, handler: Callable[[Caller, bytes], Awaitable[bytes]], request: Any) -> bytes:
        return self.run(handler(CALLER, request.SerializeToString()))


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.loop.close()


@pytest.mark.parametrize("end_offset", [0, WRITTEN])
def test_proving_reads_give_what_is_committed(broker: Broker, end_offset: int) -> None:
    response = read_stamped(broker, COMMITTED - 4, end_offset)
    assert response.high_watermark == COMMITTED
    assert len(response.stamps) == 2 * STAMP_BYTES, "its segment holds two more batches"


def test_proving_reads_begin_within_what_is_committed(broker: Broker) -> None:
    response = read_stamped(broker, COMMITTED + 2)
    assert response.error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert f"0 to {COMMITTED} can be read" in response.message


def read_stamped(broker: Broker, offset: int, end_offset: int = 0) -> proof_pb2.ReadStampedResponse:
    reads = ProofReads(broker.gate, broker.find, SimDisk(Medium()), broker.clock, lambda: True)
    request = proof_pb2.ReadStampedRequest(topic_id=TOPIC, partition=0, offset=offset, end_offset=end_offset)
    return proof_pb2.ReadStampedResponse.FromString(broker.answer(reads.read_stamped, request))


@pytest.mark.parametrize("timestamp_ms", [-1, 1 << 60], ids=["the end", "after all messages"])
def test_the_end_of_a_partition_is_where_what_is_committed_ends(broker: Broker, timestamp_ms: int) -> None:
    calls = ClientCalls(
        CONFIG, NOTHING, broker.gate, NOTHING, broker.find, lambda tenant, error: None, NOTHING,
        requests=NOTHING, begin_turn=broker.turn,
    )  # fmt: skip
    request = log_pb2.ListOffsetsRequest(
        partitions=[
            log_pb2.ListOffset(topic_id=TOPIC, partition=0, leader_epoch=1, timestamp_ms=timestamp_ms)
        ]
    )
    response = log_pb2.ListOffsetsResponse.FromString(broker.answer(calls.list_offsets, request))
    assert [(listed.error, listed.offset) for listed in response.partitions] == [(0, COMMITTED)]


@pytest.mark.parametrize(("before_offset", "read_to"), [(-1, COMMITTED), (COMMITTED, COMMITTED), (6, 6)])
def test_all_records_of_a_partition_are_those_that_are_committed(
    broker: Broker, before_offset: int, read_to: int
) -> None:
    deleted = delete_records(broker, before_offset)
    assert deleted.error == ErrorCode.LEADER_NOT_READY, "metering has not read it"
    assert set(broker.metering.asked) == {read_to}


def test_records_that_are_not_committed_are_not_deleted(broker: Broker) -> None:
    deleted = delete_records(broker, COMMITTED + 2)
    assert deleted.error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert f"at most those before {COMMITTED} are committed" in deleted.message
    assert not broker.metering.asked


def delete_records(broker: Broker, before_offset: int) -> log_pb2.DeletedRecords:
    deletion = RecordDeletion(
        broker.gate,
        broker.find,
        lambda replica, offset: pytest.fail("nothing is trimmed"),
        broker.metering,
        broker.clock,
        lambda: True,
        broker.turn,
    )
    request = log_pb2.DeleteRecordsRequest(
        partitions=[
            log_pb2.DeleteRecords(topic_id=TOPIC, partition=0, leader_epoch=1, before_offset=before_offset)
        ]
    )
    response = log_pb2.DeleteRecordsResponse.FromString(broker.answer(deletion.delete_records, request))
    (deleted,) = response.partitions
    return deleted


def test_a_group_commits_no_offset_beyond_what_is_committed(broker: Broker) -> None:
    calls = GroupCalls(NOTHING, NOTHING, NOTHING, broker.gate, broker.find, NOTHING, broker.turn)
    calls._check_offset(where(), groups_pb2.OffsetCommit(offset=COMMITTED), None)
    with pytest.raises(errors.OffsetOutOfRange, match=f"beyond the committed end {COMMITTED}$"):
        calls._check_offset(where(), groups_pb2.OffsetCommit(offset=COMMITTED + 1), None)


def test_a_group_commits_no_offset_of_a_partition_that_the_topic_has_not(broker: Broker) -> None:
    calls = GroupCalls(NOTHING, NOTHING, NOTHING, broker.gate, broker.find, NOTHING, broker.turn)
    topic = broker.replica.topic
    assert topic.partitions == 1
    calls._check_offset(where(0), groups_pb2.OffsetCommit(offset=0), topic)
    with pytest.raises(errors.NotFound):
        calls._check_offset(where(1), groups_pb2.OffsetCommit(offset=0), topic)


def test_the_share_of_a_key_is_counted_over_all_that_is_written(broker: Broker) -> None:
    ends: list[int] = []

    def take(*asked: Any) -> bool:
        ends.append(asked[3])
        return False

    environment: Any = SimpleNamespace(clock=broker.clock, stats=NodeStats(), begin_turn=broker.turn)
    table: Any = SimpleNamespace(take=take)
    replicas: Any = broker
    reports = KeyReports(environment, broker.gate, replicas, table)
    request = log_pb2.ReportKeysRequest(partitions=[log_pb2.KeyReport(topic_id=TOPIC, partition=0)])
    broker.answer(reports.report_keys, request)
    assert ends == [WRITTEN], "a producer reports what it has sent"


def test_a_reader_of_the_leader_gets_what_is_committed_and_is_told_so(broker: Broker) -> None:
    reader = Reader(broker.replica, broker.loop)

    async def story() -> None:
        reader.open(0, from_follower=False, epoch=1)
        marks: list[int] = []
        while pushes := await reader.pushes():
            marks += [push.high_watermark for push in pushes]
            if reader.stream._opened[1].offset == COMMITTED:
                assert not reader.stream._ready, "there is nothing to look at until more is committed"
        assert set(marks) == {COMMITTED}
        assert reader.stream._opened[1].offset == COMMITTED
        reader.open(COMMITTED + 2, from_follower=False, epoch=1)
        assert not any(push.size or push.error for push in await reader.pushes()), "it is waited for"

    broker.run(story())


def test_a_reader_gets_all_that_is_committed_in_frames_that_hold_a_part_of_it(broker: Broker) -> None:
    reader = Reader(broker.replica, broker.loop)
    reader.stream._config = replace(CONFIG, push_bytes_max=2_500)

    async def story() -> None:
        reader.open(0, from_follower=False, epoch=1)
        sizes: list[int] = []
        while pushes := await reader.pushes():
            sizes += [push.size for push in pushes]
        assert len(sizes) > 3 and max(sizes) <= 2_500
        assert reader.stream._opened[1].offset == COMMITTED

    broker.run(story())


def test_a_reader_of_a_slowed_topic_waits_for_its_turn_only_while_there_is_something_to_read(
    broker: Broker,
) -> None:
    asked: list[int] = []

    def readable(handle: int, topic: TopicRecord, bytes_max: int) -> int:
        asked.append(handle)
        return bytes_max

    reader = Reader(broker.replica, broker.loop)
    budgets: Any = SimpleNamespace(slows_topics=True, any=False)
    topic_reads: Any = SimpleNamespace(
        readable=readable, read=lambda name, size: None, take_throttled_ms=lambda: 0, left=lambda handle: None
    )
    reader.stream._budgets, reader.stream._topic_reads = budgets, topic_reads

    async def story() -> None:
        reader.open(COMMITTED, from_follower=False, epoch=1)
        await reader.pushes()
        assert asked == [], "what is written and not committed is not read"
        held_by_other(broker.replica, WRITTEN)
        reader.stream._ready[1] = None
        await reader.pushes()
        assert asked == [1]

    broker.run(story())
