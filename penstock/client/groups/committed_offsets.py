"""The offsets that a group has committed, asked of its coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.groups.coordinator_calls import CoordinatorCalls
from penstock.client.ports import Network
from penstock.client.refusals import final, refusal
from penstock.client.timing import Backoff
from penstock.contract.errors import PenstockError
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import groups_pb2 as pb


@dataclass(slots=True, eq=False)
class CommittedOffsets:
    """`done` with `error` None: `offsets` is what is committed."""

    offsets: dict[NamedPartition, int]
    done: bool = False
    error: PenstockError | None = None


def fetch_request(
    group: str, partitions: Mapping[NamedPartition, bytes], member_id: str = "", member_epoch: int = 0
) -> pb.FetchCommittedRequest:
    """For these partitions (with their topic ids), as this member or as no member."""
    request = pb.FetchCommittedRequest(group=group, member_id=member_id, member_epoch=member_epoch)
    for (_, partition), topic_id in partitions.items():
        request.partitions.add(topic_id=topic_id, partition=partition)
    return request


def ask_committed(
    core: Network,
    calls: CoordinatorCalls,
    group: str,
    partitions: Mapping[NamedPartition, bytes],
    deadline: float,
    backoff: Backoff,
) -> CommittedOffsets:
    """Ask for these partitions (with their topic ids); tried again, with pauses that grow, until `deadline`."""
    committed = CommittedOffsets({})
    failures = 0
    request = fetch_request(group, partitions)

    def answered(response: bytes, now: float) -> None:
        answer = pb.FetchCommittedResponse.FromString(response)
        if answer.error:
            failed(refusal(answer.error, answer.message), now)
            return
        offsets = {(offset.topic_id, offset.partition): offset.offset for offset in answer.offsets}
        for tp, topic_id in partitions.items():
            if offsets.get((topic_id, tp[1]), -1) >= 0:
                committed.offsets[tp] = offsets[topic_id, tp[1]]
        committed.done = core.changed = True

    def failed(error: PenstockError, now: float) -> None:
        nonlocal failures
        calls.not_answered(error)
        if final(error) or now >= deadline:
            committed.error, committed.done = error, True
            core.changed = True
        else:
            failures += 1
            calls.ask("fetch", request, min(now + backoff.delay_ms(failures), deadline), answered, failed)

    if partitions:
        calls.ask("fetch", request, 0.0, answered, failed)
    else:
        committed.done = True
    return committed
