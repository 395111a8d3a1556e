"""What a client describes of consumer groups, and how it asks the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from penstock.client.conversations import BrokerCall, Conversation
from penstock.client.descriptions import brokers_in, metadata_call, topic_in
from penstock.client.refusals import final, refusal
from penstock.contract import methods
from penstock.contract.errors import PenstockError
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import groups_pb2 as pb

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
    request = pb.DescribeGroupRequest(group=name).SerializeToString()
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
    """Raises `GroupNotFound`, `GroupNotEmpty`, `NotFound` for a topic that does not exist."""
    wanted = pb.ResetOffsetsRequest(group=name)
    ids: dict[str, bytes] = {}
    for topic in sorted({topic for topic, _ in offsets}):
        ids[topic] = bytes.fromhex(topic_in((yield metadata_call((topic,))), topic).topic_id)
    for (topic, partition), offset in sorted(offsets.items()):
        wanted.offsets.add(topic_id=ids[topic], partition=partition, offset=offset, leader_epoch=-1)
    yield from _change(name, methods.RESET_OFFSETS, wanted.SerializeToString())


def delete_group(name: str) -> Conversation[None]:
    """Raises `GroupNotFound`, `GroupNotEmpty`."""
    yield from _change(name, methods.DELETE_GROUP, pb.DeleteGroupRequest(group=name).SerializeToString())


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
