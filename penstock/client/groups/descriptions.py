"""What a client describes of consumer groups, and how it asks the brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from penstock.client.call_arguments import group_name, partition_offsets
from penstock.client.cluster_view import NO_LEADER
from penstock.client.conversations import BrokerCall, Conversation
from penstock.client.descriptions import (
    PartitionDescription,
    TopicDescription,
    brokers_in,
    metadata_call,
    topic_in,
)
from penstock.client.refusals import final, refusal
from penstock.contract import methods
from penstock.contract.errors import (
    BrokerUnavailable,
    NoLeader,
    NotFound,
    OffsetOutOfRange,
    PenstockError,
)
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import groups_pb2 as pb
from penstock.contract.v1 import log_pb2

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One consumer group of the key's tenant. `state` is empty, reconciling or stable."""

    group: str
    state: str
    members: int
    assignor: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberDescription:
    """One member: what it owns and what it is to own, as (topic, partition)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int
    topics: tuple[str, ...]
    assigned: tuple[NamedPartition, ...]
    target: tuple[NamedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members by id and its committed offsets, each the next one to be read."""

    group: str
    state: str
    assignor: str
    epoch: int
    members: tuple[GroupMemberDescription, ...]
    offsets: Mapping[NamedPartition, int]


def list_groups() -> Conversation[list[GroupSummary]]:
    """Every broker lists what it coordinates; while a coordinator moves, its groups may be missing."""
    while True:
        brokers = brokers_in((yield metadata_call(())))
        found: dict[str, GroupSummary] = {}
        try:
            for broker in brokers:
                asked = pb.ListGroupsRequest().SerializeToString()
                answer: pb.ListGroupsResponse = yield BrokerCall(
                    method=methods.LIST_GROUPS,
                    request=asked,
                    answer=pb.ListGroupsResponse,
                    broker=broker.broker,
                )
                if answer.error:
                    raise refusal(answer.error, answer.message)
                found.update({group.group: _summary(group) for group in answer.groups})
            return [found[name] for name in sorted(found)]
        except PenstockError as error:
            yield from _unless_final(error)


def describe_group(name: str) -> Conversation[GroupDescription]:
    """Raises `GroupNotFound`."""
    request = pb.DescribeGroupRequest(group=group_name(name)).SerializeToString()
    while True:
        answer = yield from _of_coordinator(name, methods.DESCRIBE_GROUP, request, pb.DescribeGroupResponse)
        if not answer.error:
            break
        yield from _unless_final(refusal(answer.error, answer.message))
    names = {topic.topic_id: topic.name for topic in answer.topics}
    summary = _summary(answer.summary)
    return GroupDescription(
        group=summary.group,
        state=summary.state,
        assignor=summary.assignor,
        epoch=summary.epoch,
        members=tuple(
            GroupMemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id or None,
                client_id=member.client_id,
                client_host=member.client_host,
                epoch=member.member_epoch,
                topics=tuple(member.topics),
                assigned=tuple((names.get(p.topic_id, ""), p.partition) for p in member.assigned),
                target=tuple((names.get(p.topic_id, ""), p.partition) for p in member.target),
            )
            for member in answer.members
        ),
        offsets={(names[o.topic_id], o.partition): o.offset for o in answer.offsets if o.topic_id in names},
    )


def reset_group(name: str, offsets: Mapping[NamedPartition, int]) -> Conversation[None]:
    """Raises `GroupNotFound`, `GroupNotEmpty`, `NotFound` for a topic or partition that does not exist, and
    `OffsetOutOfRange` for an offset beyond the end of its log. Such an offset would be read as the log's beginning.
    """
    request = pb.ResetOffsetsRequest(group=group_name(name))
    offsets = partition_offsets("reset_group", offsets)
    for topic in sorted({topic for topic, _ in offsets}):
        numbers = sorted(partition for named, partition in offsets if named == topic)
        topic_id, ends = yield from _ends(topic, numbers)
        for partition in numbers:
            offset = offsets[topic, partition]
            if not 0 <= offset <= ends[partition]:
                raise OffsetOutOfRange(
                    f"{topic}-{partition}: its next message has offset {ends[partition]}, and {offset} is beyond it"
                    if offset > 0
                    else f"{topic}-{partition}: offset {offset}; 0 or more required"
                )
            request.offsets.add(topic_id=topic_id, partition=partition, offset=offset, leader_epoch=-1)
    yield from _change(name, methods.RESET_OFFSETS, request.SerializeToString())


def _ends(topic: str, numbers: Sequence[int]) -> Conversation[tuple[bytes, dict[int, int]]]:
    """The topic's id and the end of each of these partitions, as their leaders say."""
    while True:
        try:
            described = topic_in((yield metadata_call((topic,))), topic)
            topic_id = bytes.fromhex(described.topic_id)
            by_leader: dict[int, list[PartitionDescription]] = {}
            for number in numbers:
                partition = _partition_of(described, number)
                by_leader.setdefault(partition.leader, []).append(partition)
            ends: dict[int, int] = {}
            for leader, partitions in sorted(by_leader.items()):
                ends |= yield from _ends_at(leader, topic_id, partitions)
            return topic_id, ends
        except PenstockError as error:
            yield from _unless_final(error)


def _partition_of(topic: TopicDescription, number: int) -> PartitionDescription:
    count = len(topic.partitions)
    if not 0 <= number < count:
        raise NotFound(f"{topic.name}: no partition {number}; it has {count}, 0 to {count - 1}")
    partition = topic.partitions[number]
    if partition.leader == NO_LEADER:
        raise NoLeader(f"{topic.name}-{number}: no leader now")
    return partition


def _ends_at(
    leader: int, topic_id: bytes, partitions: Sequence[PartitionDescription]
) -> Conversation[dict[int, int]]:
    request = log_pb2.ListOffsetsRequest()
    for partition in partitions:
        request.partitions.add(
            topic_id=topic_id,
            partition=partition.partition,
            leader_epoch=partition.leader_epoch,
            timestamp_ms=methods.END,
        )
    answer: log_pb2.ListOffsetsResponse = yield BrokerCall(
        method=methods.LIST_OFFSETS,
        request=request.SerializeToString(),
        answer=log_pb2.ListOffsetsResponse,
        broker=leader,
    )
    for listed in answer.partitions:
        if listed.error:
            raise refusal(listed.error, listed.message)
    if len(answer.partitions) != len(partitions):
        raise BrokerUnavailable("the broker answered for other partitions than asked")
    return {
        partition.partition: listed.offset
        for partition, listed in zip(partitions, answer.partitions, strict=True)
    }


def delete_group(name: str) -> Conversation[None]:
    """Raises `GroupNotFound`, `GroupNotEmpty`."""
    yield from _change(
        name, methods.DELETE_GROUP, pb.DeleteGroupRequest(group=group_name(name)).SerializeToString()
    )


def _change(name: str, method: str, request: bytes) -> Conversation[None]:
    while True:
        answer = yield from _of_coordinator(name, method, request, pb.GroupChangeResponse)
        if not answer.error:
            return
        yield from _unless_final(refusal(answer.error, answer.message))


def _of_coordinator(name: str, method: str, request: bytes, answer: type[_M]) -> Conversation[_M]:
    find = pb.FindCoordinatorRequest(group=name).SerializeToString()
    while True:
        found: pb.FindCoordinatorResponse = yield BrokerCall(
            method=methods.FIND_COORDINATOR, request=find, answer=pb.FindCoordinatorResponse
        )
        if found.error:
            yield from _unless_final(refusal(found.error, found.message))
            continue
        try:
            answered: _M = yield BrokerCall(
                method=method, request=request, answer=answer, broker=found.broker_id
            )
            return answered
        except PenstockError as error:
            yield from _unless_final(error)


def _unless_final(error: PenstockError) -> Conversation[None]:
    """Wait a little, or raise what waiting does not cure."""
    if final(error) or not error.retriable:
        raise error
    yield error


def _summary(group: pb.GroupSummary) -> GroupSummary:
    return GroupSummary(
        group=group.group,
        state=group.state,
        members=group.members,
        assignor=group.assignor,
        epoch=group.group_epoch,
    )
