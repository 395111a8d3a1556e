"""Deleting records, and asking how safe they are: conversations with each partition's leader, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from penstock.client.call_arguments import partition_offsets
from penstock.client.conversations import BrokerCall, Conversation
from penstock.client.descriptions import TopicDescription, metadata_call, topic_in
from penstock.client.refusals import final, metadata_may_be_newer, refusal
from penstock.contract import methods
from penstock.contract.errors import NoLeader, NotFound, PenstockError
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import log_pb2 as pb

END = -1
"""As an offset to delete up to: everything that is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDurability:
    """What was read back from the disks of one partition: everything from `log_start_offset` to
    `verified_end_offset` (exclusive), whole and the same on `replicas` replicas, none of it checked before
    `verified_ms` (ms UTC; None = nothing yet). Only segments that are full are read back, within two weeks.
    """

    partition: int
    log_start_offset: int
    verified_end_offset: int
    high_watermark: int
    replicas: int
    verified_ms: int | None


def delete_records(before: Mapping[NamedPartition, int]) -> Conversation[dict[NamedPartition, int]]:
    """(topic, partition) -> offset below which everything goes; where each log begins then. Done on every in-sync
    replica when it returns. Raises `NotFound`, `Forbidden`, `OffsetOutOfRange` for what is not committed yet.
    """
    before = partition_offsets("delete_records", before)
    for (topic, partition), offset in before.items():
        if offset < END or partition < 0:
            raise ValueError(
                f"{topic}-{partition}: before offset {offset}; at least 0, or {END} for all, required"
            )

    def ask(
        asked: list[tuple[NamedPartition, bytes, int]], broker: int
    ) -> BrokerCall[pb.DeleteRecordsResponse]:
        request = pb.DeleteRecordsRequest()
        for tp, topic_id, epoch in asked:
            request.partitions.add(
                topic_id=topic_id, partition=tp[1], leader_epoch=epoch, before_offset=before[tp]
            )
        return BrokerCall(
            method=methods.DELETE_RECORDS,
            request=request.SerializeToString(),
            answer=pb.DeleteRecordsResponse,
            broker=broker,
        )

    found: dict[NamedPartition, pb.DeletedRecords] = yield from _of_leaders(sorted(before), ask)
    return {tp: deleted.log_start_offset for tp, deleted in found.items()}


def durability(topic: str) -> Conversation[list[PartitionDurability]]:
    """All partitions of a topic by number. Raises `NotFound`."""
    described = topic_in((yield metadata_call((topic,))), topic)

    def ask(
        asked: list[tuple[NamedPartition, bytes, int]], broker: int
    ) -> BrokerCall[pb.DescribeDurabilityResponse]:
        wanted = pb.DescribeDurabilityRequest()
        for tp, topic_id, epoch in asked:
            wanted.partitions.add(topic_id=topic_id, partition=tp[1], leader_epoch=epoch)
        return BrokerCall(
            method=methods.DESCRIBE_DURABILITY,
            request=wanted.SerializeToString(),
            answer=pb.DescribeDurabilityResponse,
            broker=broker,
        )

    found: dict[NamedPartition, pb.PartitionDurability] = yield from _of_leaders(
        [(topic, partition.partition) for partition in described.partitions], ask
    )
    return [
        PartitionDurability(
            partition=tp[1],
            log_start_offset=result.log_start_offset,
            verified_end_offset=result.verified_end_offset,
            high_watermark=result.high_watermark,
            replicas=result.replicas,
            verified_ms=result.verified_ms if result.verified_ms >= 0 else None,
        )
        for tp, result in sorted(found.items())
    ]


def _of_leaders(
    partitions: list[NamedPartition],
    ask: Callable[[list[tuple[NamedPartition, bytes, int]], int], BrokerCall[Message]],
) -> Conversation[dict[NamedPartition, Any]]:
    """Call each leader once, and again where leadership moved or the leader was not done yet. The results are the
    `partitions` of the answers, in the order asked.
    """
    unanswered, found = list(partitions), dict[NamedPartition, Any]()
    while unanswered:
        topics: dict[str, TopicDescription] = {}
        for name in sorted({topic for topic, _ in unanswered}):
            topics[name] = topic_in((yield metadata_call((name,))), name)
        by_leader: dict[int, list[tuple[NamedPartition, bytes, int]]] = {}
        for tp in unanswered:
            described = topics[tp[0]]
            if tp[1] >= len(described.partitions):
                raise NotFound(f"{tp[0]}: no partition {tp[1]}, it has {len(described.partitions)}")
            partition = described.partitions[tp[1]]
            entry = (tp, bytes.fromhex(described.topic_id), partition.leader_epoch)
            by_leader.setdefault(partition.leader, []).append(entry)
        for leader, asked in sorted(by_leader.items()):
            if leader < 0:
                yield from _unless_final(NoLeader(f"{asked[0][0][0]}-{asked[0][0][1]}: no leader now"))
                continue
            try:
                answered = yield ask(asked, leader)
            except PenstockError as error:
                yield from _unless_final(error)
                continue
            for (tp, _, _), answer in zip(asked, answered.partitions, strict=True):
                if answer.error:
                    yield from _unless_final(refusal(answer.error, answer.message))
                else:
                    found[tp] = answer
        unanswered = [tp for tp in unanswered if tp not in found]
    return found


def _unless_final(error: PenstockError) -> Conversation[None]:
    """Wait a little, or raise what waiting does not cure."""
    if not metadata_may_be_newer(error) and (final(error) or not error.retriable):
        raise error
    yield error
