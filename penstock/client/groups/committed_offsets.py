"""What a group has committed, asked of its coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.cluster_view import TopicPartition
from penstock.client.groups.coordinator_calls import GroupCalls
from penstock.client.ports import Network
from penstock.client.refusals import final, refusal
from penstock.contract.errors import PenstockError
from penstock.contract.v1 import groups_pb2 as pb


@dataclass(slots=True, eq=False)
class CommittedAnswer:
    """`done` with `error` None: `offsets` is what is committed."""

    offsets: dict[TopicPartition, int]
    done: bool = False
    error: PenstockError | None = None


def fetch_request(
    group: str, places: Mapping[TopicPartition, bytes], member_id: str = "", member_epoch: int = 0
) -> pb.FetchCommittedRequest:
    """Of these places (topic id by place); as this member, or as nobody in particular."""
    request = pb.FetchCommittedRequest(group=group, member_id=member_id, member_epoch=member_epoch)
    for (_, partition), topic_id in places.items():
        request.partitions.add(topic_id=topic_id, partition=partition)
    return request


def ask_committed(
    core: Network, calls: GroupCalls, group: str, places: Mapping[TopicPartition, bytes], deadline: float
) -> CommittedAnswer:
    """Ask for these places (topic id by place); tried again until `deadline`."""
    answer = CommittedAnswer({})
    request = fetch_request(group, places)

    def answered(response: bytes, now: float) -> None:
        told = pb.FetchCommittedResponse.FromString(response)
        if told.error:
            failed(refusal(told.error, told.message), now)
            return
        found = {(offset.topic_id, offset.partition): offset.offset for offset in told.offsets}
        for place, topic_id in places.items():
            if found.get((topic_id, place[1]), -1) >= 0:
                answer.offsets[place] = found[topic_id, place[1]]
        answer.done = core.changed = True

    def failed(error: PenstockError, now: float) -> None:
        calls.forget_coordinator()
        if final(error) or now >= deadline:
            answer.error, answer.done = error, True
            core.changed = True
        else:
            calls.ask("fetch", request, now, answered, failed)

    if places:
        calls.ask("fetch", request, 0.0, answered, failed)
    else:
        answer.done = True
    return answer
