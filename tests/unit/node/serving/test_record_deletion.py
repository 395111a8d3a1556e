"""Deleting records: metering comes first, then all that may lead next, then the own log."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.node.replicas.replica import Replica
from data_plane.node.serving.record_deletion import RecordDeletion
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from tests.unit.log.miniature import TOPIC
from tests.unit.node.replicas.uncommitted import COMMITTED
from tests.unit.node.serving.test_committed_end import Broker

pytestmark = pytest.mark.pure  # the gate is a stand-in
BEFORE = 10


class Deleting(Broker):
    """Its followers hold no log start that this one wants, unless a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.read_to = 0
        self.hurried: list[TopicPartition] = []
        self.trimmed: list[int] = []
        self.confident = True
        metering: Any = SimpleNamespace(
            hurry=self.hurried.append, is_read=lambda where, offset: offset <= self.read_to
        )
        self.deletion = RecordDeletion(
            self.gate, self.find, self.trim, metering, self.clock, lambda: self.confident, self.turn
        )

    def trim(self, replica: Replica, offset: int) -> None:
        self.trimmed.append(offset)
        replica.log.log_start_offset = offset

    def agree(self) -> None:
        """All that may lead next begin where this one wants."""
        leading = self.replica.leading
        assert leading is not None
        leading.start.look(recorded=leading.start.wanted, starts=[], now_ms=0)

    async def delete(self, *before_offsets: int) -> list[pb.DeletedRecords]:
        request = pb.DeleteRecordsRequest(
            partitions=[
                pb.DeleteRecords(topic_id=TOPIC, partition=0, leader_epoch=1, before_offset=offset)
                for offset in before_offsets
            ]
        )
        answer = await self.deletion.delete_records(self.caller, request.SerializeToString())
        return list(pb.DeleteRecordsResponse.FromString(answer).partitions)

    caller: Any = None


@pytest.fixture
def deleting() -> Iterator[Deleting]:
    made = Deleting()
    made.agree()
    yield made
    made.loop.close()


def test_records_go_once_they_are_metered_and_all_that_may_lead_next_begin_there(deleting: Deleting) -> None:
    async def story() -> None:
        asked = asyncio.create_task(deleting.delete(BEFORE))
        await asyncio.sleep(0.1)
        assert deleting.replica.log_start_target == 0, "it is not metered"
        deleting.read_to = BEFORE
        await asyncio.sleep(0.1)
        assert deleting.replica.log_start_target == BEFORE
        assert not asked.done() and not deleting.trimmed, "others may lead that begin before"
        deleting.agree()
        (deleted,) = await asked
        assert (deleted.error, deleted.log_start_offset) == (0, BEFORE)
        assert deleting.trimmed == [BEFORE]
        assert len(deleting.hurried) == 1

    deleting.run(story())


@pytest.mark.parametrize(
    ("read_to", "missing"), [(0, "it is metered"), (BEFORE, "all who may lead next have moved")]
)
def test_what_takes_longer_is_said_and_may_be_asked_again(
    deleting: Deleting, read_to: int, missing: str
) -> None:
    deleting.read_to = read_to
    (deleted,) = deleting.run(deleting.delete(BEFORE))
    assert deleted.error == ErrorCode.LEADER_NOT_READY
    assert f"records go as soon as {missing}" in deleted.message
    assert deleted.log_start_offset == -1
    assert 1 < deleting.loop.time() < 60


def test_what_is_gone_already_is_answered_at_once(deleting: Deleting) -> None:
    deleting.replica.log.log_start_offset = BEFORE
    leading = deleting.replica.leading
    assert leading is not None
    leading.start.wanted = BEFORE
    deleting.agree()
    for before_offset in (0, BEFORE):
        (deleted,) = deleting.run(deleting.delete(before_offset))
        assert (deleted.error, deleted.log_start_offset) == (0, BEFORE)
    assert deleting.hurried == [] and deleting.loop.time() < 0.001


def test_each_partition_of_a_call_has_its_own_answer(deleting: Deleting) -> None:
    deleting.read_to = COMMITTED
    beyond, negative, within = deleting.run(deleting.delete(COMMITTED + 1, -2, 0))
    assert (beyond.error, negative.error) == (ErrorCode.OFFSET_OUT_OF_RANGE,) * 2
    assert (within.error, within.log_start_offset) == (0, 0)


def test_a_leader_that_lost_the_store_deletes_nothing(deleting: Deleting) -> None:
    deleting.confident = False
    (deleted,) = deleting.run(deleting.delete(BEFORE))
    assert deleted.error == ErrorCode.LEADER_NOT_READY and not deleting.hurried


def test_a_leadership_that_ends_meanwhile_deletes_no_more(deleting: Deleting) -> None:
    async def story() -> None:
        asked = asyncio.create_task(deleting.delete(BEFORE))
        await asyncio.sleep(0.1)
        deleting.replica.rest()
        (deleted,) = await asked
        assert deleted.error == ErrorCode.NOT_LEADER

    deleting.run(story())


def test_a_log_that_is_being_changed_is_trimmed_later(deleting: Deleting) -> None:
    deleting.read_to = BEFORE
    replica = deleting.replica
    assert not deleting.deletion.advance(replica, BEFORE)
    deleting.agree()
    replica.busy = True
    assert not deleting.deletion.advance(replica, BEFORE) and not deleting.trimmed
    replica.busy = False
    assert not deleting.deletion.advance(replica, BEFORE) and deleting.trimmed == [BEFORE]
    assert deleting.deletion.advance(replica, BEFORE)
