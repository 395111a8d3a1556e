"""Conversations about records: each partition's leader is asked, and asked again where it could not answer yet."""

from typing import TypeVar

import pytest
from google.protobuf.message import Message

from penstock.client.conversations import BrokerCall, Conversation
from penstock.client.record_safety import END, delete_records, durability
from penstock.contract import methods
from penstock.contract.errors import (
    BrokerUnavailable,
    ErrorCode,
    NoLeader,
    NotFound,
    OffsetOutOfRange,
    PenstockError,
)
from penstock.contract.v1 import log_pb2 as pb
from tests.unit.client.fake_cluster import FakeCluster

T = TypeVar("T")


class Leaders:
    """Brokers that lead partitions of `orders`, and what went between them and one conversation."""

    def __init__(self, partitions: int = 3) -> None:
        self.cluster = FakeCluster({0: "b0", 1: "b1"})
        self.topic = self.cluster.create("orders", partitions)
        for number, partition in enumerate(self.topic.partitions):
            partition.leader = number % 2
        self.asked: list[tuple[int, list[int]]] = []
        """(broker, partitions) of each question but those for metadata."""
        self.errors: dict[int, list[ErrorCode]] = {}
        """By partition, what its next answers are instead."""
        self.lost = 0
        """So many questions are not answered at all."""
        self.waits: list[PenstockError] = []
        """Errors that it heard before it waited."""

    def hear(self, conversation: Conversation[T]) -> T:
        """Answer until the conversation ends."""
        try:
            question = next(conversation)
            while True:
                if isinstance(question, PenstockError):
                    self.waits.append(question)
                    question = conversation.send(b"")
                elif question.method != methods.METADATA and self.lost:
                    self.lost -= 1
                    question = conversation.throw(BrokerUnavailable("it does not answer"))
                else:
                    question = conversation.send(question.answer.FromString(self._answer(question)))
        except StopIteration as done:
            found: T = done.value
            return found

    def _answer(self, question: BrokerCall[Message]) -> bytes:
        if question.method == methods.METADATA:
            return self.cluster.metadata(["orders"])
        assert question.broker is not None
        if question.method == methods.DELETE_RECORDS:
            deletions = pb.DeleteRecordsRequest.FromString(question.request).partitions
            self._note(question.broker, [one.partition for one in deletions])
            deleted = pb.DeleteRecordsResponse()
            for one in deletions:
                start = 100 if one.before_offset == END else one.before_offset
                deleted.partitions.add(error=self._error(one.partition), message="no", log_start_offset=start)
            return deleted.SerializeToString()
        asked = pb.DescribeDurabilityRequest.FromString(question.request).partitions
        self._note(question.broker, [one.partition for one in asked])
        told = pb.DescribeDurabilityResponse()
        for place in asked:
            told.partitions.add(
                error=self._error(place.partition),
                message="no",
                log_start_offset=place.partition,
                verified_end_offset=10,
                high_watermark=20,
                replicas=2,
                verified_ms=place.partition - 1,
            )
        return told.SerializeToString()

    def _note(self, broker: int, partitions: list[int]) -> None:
        assert all(self.topic.partitions[number].leader == broker for number in partitions)
        self.asked.append((broker, partitions))

    def _error(self, partition: int) -> int:
        waiting = self.errors.get(partition)
        return int(waiting.pop(0)) if waiting else 0


def test_each_leader_is_asked_once_for_all_it_leads() -> None:
    leaders = Leaders()
    begins = leaders.hear(delete_records({("orders", 2): 7, ("orders", 0): 5, ("orders", 1): END}))
    assert begins == {("orders", 0): 5, ("orders", 1): 100, ("orders", 2): 7}
    assert leaders.asked == [(0, [0, 2]), (1, [1])]


@pytest.mark.parametrize("error", [ErrorCode.LEADER_NOT_READY, ErrorCode.NOT_LEADER])
def test_only_what_is_not_done_yet_is_asked_for_a_second_and_a_third_time(error: ErrorCode) -> None:
    leaders = Leaders()
    leaders.errors[2] = [error, error]
    begins = leaders.hear(delete_records({("orders", number): 5 for number in range(3)}))
    assert begins == {("orders", number): 5 for number in range(3)}
    assert leaders.asked == [(0, [0, 2]), (1, [1]), (0, [2]), (0, [2])]
    assert [heard.code for heard in leaders.waits] == [error, error]


def test_a_leader_that_does_not_answer_or_is_not_there_is_waited_for() -> None:
    leaders = Leaders(2)
    leaders.lost = 1
    conversation = delete_records({("orders", 0): 5, ("orders", 1): 5})
    assert set(leaders.hear(conversation).values()) == {5}
    assert leaders.asked == [(1, [1]), (0, [0])]
    leaders.topic.partitions[0].leader = -1
    waiting = delete_records({("orders", 0): 5})
    assert isinstance(next(waiting), BrokerCall)
    assert isinstance(waiting.send(_metadata(leaders)), NoLeader), "there is nobody to ask"
    leaders.topic.partitions[0].leader = 1
    assert isinstance(waiting.send(b""), BrokerCall)
    assert leaders.hear(_going_on(waiting, leaders)) == {("orders", 0): 5}


def _metadata(leaders: Leaders) -> pb.MetadataResponse:
    return pb.MetadataResponse.FromString(leaders.cluster.metadata(["orders"]))


def _going_on(conversation: Conversation[T], leaders: Leaders) -> Conversation[T]:
    """What follows an answer for metadata."""
    question = conversation.send(_metadata(leaders))
    while True:
        try:
            question = conversation.send((yield question))
        except StopIteration as done:
            found: T = done.value
            return found


def test_what_waiting_does_not_cure_is_raised() -> None:
    leaders = Leaders()
    leaders.errors[1] = [ErrorCode.OFFSET_OUT_OF_RANGE]
    with pytest.raises(OffsetOutOfRange):
        leaders.hear(delete_records({("orders", 1): 500}))
    with pytest.raises(NotFound, match="no partition 3, it has 3"):
        leaders.hear(delete_records({("orders", 3): 5}))
    assert not leaders.waits


@pytest.mark.parametrize(("partition", "offset"), [(0, END - 1), (-1, 5)])
def test_a_place_that_cannot_be_is_refused_before_anybody_is_asked(partition: int, offset: int) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        next(delete_records({("orders", partition): offset}))


def test_durability_is_told_of_every_partition_and_nothing_yet_is_none() -> None:
    leaders = Leaders()
    leaders.errors[1] = [ErrorCode.LEADER_NOT_READY]
    told = leaders.hear(durability("orders"))
    assert [one.partition for one in told] == [0, 1, 2]
    assert [one.verified_ms for one in told] == [None, 0, 1]
    assert {(one.verified_end_offset, one.high_watermark, one.replicas) for one in told} == {(10, 20, 2)}
    assert [one.log_start_offset for one in told] == [0, 1, 2]
