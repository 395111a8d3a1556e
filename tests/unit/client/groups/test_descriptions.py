"""Questions of a client about groups, call by call: the coordinator is found first, and what waiting cures is tried
again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.conversations import BrokerCall, Conversation
from penstock.client.groups.descriptions import (
    GroupMemberDescription,
    GroupSummary,
    delete_group,
    describe_group,
    list_groups,
    reset_group,
)
from penstock.contract import errors, methods
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.v1 import groups_pb2 as pb
from penstock.contract.v1 import log_pb2

ORDERS, LOGS = b"o" * 16, b"l" * 16
PAUSE = "pause"
FOUND = pb.FindCoordinatorResponse(broker_id=2, address="b2")
BROKERS = log_pb2.MetadataResponse(
    brokers=[log_pb2.BrokerAddress(id=number, address=f"b{number}") for number in (2, 1)]
)
CHANGES: list[tuple[Callable[[], Conversation[None]], str]] = [
    (lambda: delete_group("readers"), methods.DELETE_GROUP),
    (lambda: reset_group("readers", {}), methods.RESET_OFFSETS),
]


def told(conversation: Conversation[Any], *answers: Any) -> tuple[Any, list[Any]]:
    """The result when brokers answer so (an exception: the call fails so), and what was asked in turn."""
    asked: list[Any] = []
    coming = iter(answers)
    try:
        step = next(conversation)
        while True:
            if isinstance(step, PenstockError):
                asked.append(PAUSE)
                step = next(conversation)
                continue
            asked.append(step)
            answer = next(coming)
            if isinstance(answer, PenstockError):
                step = conversation.throw(answer)
            else:
                assert isinstance(answer, step.answer)
                step = conversation.send(answer)
    except StopIteration as ended:
        assert next(coming, None) is None, "it was not asked for all of them"
        return ended.value, asked


def places(asked: list[Any]) -> list[Any]:
    """Who was asked what; None = any broker."""
    return [(step.method, step.broker) if isinstance(step, BrokerCall) else step for step in asked]


def test_a_group_is_described_by_its_coordinator_with_names_of_topics() -> None:
    answer = pb.DescribeGroupResponse(
        summary=pb.GroupSummary(group="readers", state="stable", members=1, assignor="range", group_epoch=7),
        topics=[pb.GroupTopic(topic_id=ORDERS, name="orders")],
    )
    answer.members.add(
        member_id="m1", client_id="c", client_host="h", member_epoch=6, topics=["orders"],
        assigned=[pb.GroupPartition(topic_id=ORDERS, partition=1)],
        target=[pb.GroupPartition(topic_id=LOGS, partition=2)],
    )  # fmt: skip
    answer.members.add(member_id="m2", instance_id="desk")
    answer.offsets.add(topic_id=ORDERS, partition=1, offset=9)
    answer.offsets.add(topic_id=LOGS, partition=0, offset=5)
    group, asked = told(describe_group("readers"), FOUND, answer)
    assert places(asked) == [(methods.FIND_COORDINATOR, None), (methods.DESCRIBE_GROUP, 2)]
    assert [type(call).__name__ for call in asked] == ["BrokerCall", "BrokerCall"]
    assert pb.FindCoordinatorRequest.FromString(asked[0].request).group == "readers"
    assert pb.DescribeGroupRequest.FromString(asked[1].request).group == "readers"
    assert (group.group, group.state, group.assignor, group.epoch) == ("readers", "stable", "range", 7)
    assert group.members == (
        GroupMemberDescription(
            member_id="m1", instance_id=None, client_id="c", client_host="h", epoch=6, topics=("orders",),
            assigned=(("orders", 1),), target=(("", 2),),
        ),
        GroupMemberDescription(
            member_id="m2", instance_id="desk", client_id="", client_host="", epoch=0, topics=(), assigned=(),
            target=(),
        ),
    )  # fmt: skip
    assert group.offsets == {("orders", 1): 9}, "a topic that is gone has no name"


def test_groups_of_all_brokers_are_listed_by_name_each_once() -> None:
    def of(*names: str, members: int) -> pb.ListGroupsResponse:
        return pb.ListGroupsResponse(groups=[pb.GroupSummary(group=name, members=members) for name in names])

    groups, asked = told(list_groups(), BROKERS, of("b", "a", members=1), of("b", "c", members=2))
    assert places(asked) == [(methods.METADATA, None), (methods.LIST_GROUPS, 1), (methods.LIST_GROUPS, 2)]
    assert [(group.group, group.members) for group in groups] == [("a", 1), ("b", 2), ("c", 2)]
    assert groups[0] == GroupSummary(group="a", state="", members=1, assignor="", epoch=0)


@pytest.mark.parametrize("by_answer", [True, False])
def test_a_list_begins_once_more_when_a_broker_is_away_for_a_while(by_answer: bool) -> None:
    away = (
        pb.ListGroupsResponse(error=ErrorCode.BROKER_UNAVAILABLE)
        if by_answer
        else errors.BrokerUnavailable("away")
    )
    empty = pb.ListGroupsResponse()
    groups, asked = told(list_groups(), BROKERS, empty, away, BROKERS, empty, empty)
    assert groups == [] and places(asked)[3] == PAUSE and len(asked) == 7
    with pytest.raises(errors.Forbidden):
        told(list_groups(), BROKERS, pb.ListGroupsResponse(error=ErrorCode.FORBIDDEN, message="no"))


def described(name: str, topic_id: bytes, *leaders: int) -> log_pb2.MetadataResponse:
    """A topic with a partition for each leader."""
    topic = log_pb2.TopicMetadata(name=name, topic_id=topic_id)
    for number, leader in enumerate(leaders):
        topic.partitions.add(partition=number, leader=leader, leader_epoch=4)
    return log_pb2.MetadataResponse(topics=[topic])


def ends(*offsets: int, error: ErrorCode = ErrorCode.OK) -> log_pb2.ListOffsetsResponse:
    """A leader's answer for partitions with these ends."""
    return log_pb2.ListOffsetsResponse(
        partitions=[log_pb2.ListedOffset(offset=offset, error=error) for offset in offsets]
    )


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (6, "orders-0: its next message has offset 5, and 6 is beyond it"),
        (10**15, "is beyond it"),
        (-1, "orders-0: offset -1; 0 or more required"),
    ],
)
def test_no_offset_is_moved_beyond_the_end_of_its_log(offset: int, said: str) -> None:
    offsets = {("orders", 0): offset, ("orders", 1): 0}
    with pytest.raises(errors.OffsetOutOfRange, match=said):
        told(reset_group("readers", offsets), described("orders", ORDERS, 1, 1), ends(5, 5))
    with pytest.raises(errors.NotFound, match="orders: no partition 1; it has 1, 0 to 0"):
        told(reset_group("readers", offsets), described("orders", ORDERS, 1))


def test_ends_are_asked_for_again_where_a_leader_moves() -> None:
    topic = described("orders", ORDERS, 2)
    _, asked = told(
        reset_group("readers", {("orders", 0): 5}),
        described("orders", ORDERS, -1),
        described("orders", ORDERS, 1),
        ends(0, error=ErrorCode.NOT_LEADER),
        topic,
        errors.BrokerUnavailable("away"),
        topic,
        ends(5, 5),
        topic,
        ends(5),
        FOUND,
        pb.GroupChangeResponse(),
    )
    assert [place for place in places(asked) if place == PAUSE] == [PAUSE] * 4
    assert places(asked)[-3:-2] == [(methods.LIST_OFFSETS, 2)]


def test_offsets_are_reset_by_the_ids_that_topics_have_now() -> None:
    offsets = {("orders", 1): 5, ("logs", 0): 7, ("orders", 0): 6}
    _, asked = told(
        reset_group("readers", offsets),
        described("logs", LOGS, 3),
        ends(7),
        described("orders", ORDERS, 2, 1),
        ends(5),
        ends(6),
        FOUND,
        pb.GroupChangeResponse(),
    )
    assert places(asked) == [
        (methods.METADATA, None), (methods.LIST_OFFSETS, 3), (methods.METADATA, None), (methods.LIST_OFFSETS, 1),
        (methods.LIST_OFFSETS, 2), (methods.FIND_COORDINATOR, None), (methods.RESET_OFFSETS, 2),
    ]  # fmt: skip
    (of_leader,) = log_pb2.ListOffsetsRequest.FromString(asked[3].request).partitions
    assert (of_leader.topic_id, of_leader.partition) == (ORDERS, 1)
    assert (of_leader.leader_epoch, of_leader.timestamp_ms) == (4, -1)
    request = pb.ResetOffsetsRequest.FromString(asked[6].request)
    assert request.group == "readers"
    assert [(o.topic_id, o.partition, o.offset, o.leader_epoch) for o in request.offsets] == [
        (LOGS, 0, 7, -1), (ORDERS, 0, 6, -1), (ORDERS, 1, 5, -1),
    ]  # fmt: skip
    with pytest.raises(errors.NotFound, match="orders: no such topic"):
        told(reset_group("readers", {("orders", 0): 1}), log_pb2.MetadataResponse())


@pytest.mark.parametrize(("change", "method"), CHANGES, ids=["delete", "reset"])
def test_a_change_finds_the_coordinator_again_until_it_answers(
    change: Callable[[], Conversation[None]], method: str
) -> None:
    find, ask = (methods.FIND_COORDINATOR, None), (method, 2)
    moved = pb.GroupChangeResponse(error=ErrorCode.NOT_COORDINATOR, message="moved")
    nowhere = pb.FindCoordinatorResponse(error=ErrorCode.COORDINATOR_NOT_READY, message="soon")
    away = errors.BrokerUnavailable("away")
    _, asked = told(change(), nowhere, FOUND, moved, FOUND, away, FOUND, pb.GroupChangeResponse())
    assert places(asked) == [find, PAUSE, find, ask, PAUSE, find, ask, PAUSE, find, ask]


@pytest.mark.parametrize(("change", "method"), CHANGES, ids=["delete", "reset"])
@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_NOT_FOUND, ErrorCode.GROUP_NOT_EMPTY, ErrorCode.OUTCOME_UNKNOWN]
)
def test_a_change_that_waiting_does_not_cure_is_refused(
    change: Callable[[], Conversation[None]], method: str, code: ErrorCode
) -> None:
    refused = pb.GroupChangeResponse(error=code, message="no")
    for answers in ([FOUND, refused], [pb.FindCoordinatorResponse(error=code, message="no")]):
        with pytest.raises(PenstockError) as raised:
            told(change(), *answers)
        assert raised.value.code is code
