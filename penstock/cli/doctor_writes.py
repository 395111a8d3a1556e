"""Whether the brokers take writes: asked of each broker that leads, with a batch that none ever stores."""

import contextlib
import queue
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from penstock.cli.display import counted
from penstock.cli.doctor_checks import Finding, doubtful, skipped, well, wrong
from penstock.client.settings import ConnectionSettings
from penstock.contract import methods
from penstock.contract.errors import (
    BrokerUnavailable,
    CorruptBatch,
    DiskFull,
    Forbidden,
    NotEnoughReplicas,
    PenstockError,
    error_class,
)
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.v1 import log_pb2 as pb
from penstock.transport import grpc_terms

if TYPE_CHECKING:
    from penstock import BrokerDescription, TopicDescription

_CHECK = "writes"
_NAMED_MAX = 5
_NO_BATCH = b"?"
"""Far too short for a batch. A leader looks at its disk and the key before it looks at what it was sent."""
_REQUEST_ID = "doctor"


def writes(
    given: ConnectionSettings,
    brokers: Sequence["BrokerDescription"],
    topics: Sequence["TopicDescription"],
    timeout_s: float,
) -> Iterator[Finding]:
    """That enough copies are in sync for `acks=all`, and that no leading broker refuses for want of disk space."""
    short = [
        f"{topic.name}-{partition.partition}: {len(partition.in_sync)} in sync, {needed} required"
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
        and len(partition.in_sync) < (needed := int(topic.settings.get("min_insync_replicas", 1)))
    ]
    if short:
        fact = f"{counted(len(short), 'partition')} refused to producers that ask for all copies: "
        yield wrong(
            _CHECK,
            NotEnoughReplicas(fact + "; ".join(short[:_NAMED_MAX])),
            "Start the brokers that are down (penstock dev status), or lower the topic's min_insync_replicas.",
        )
    led = {
        partition.leader: (topic.topic_id, partition.partition)
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
    }
    if not led:
        yield skipped(_CHECK, "no topic is led, so no broker is asked")
        return
    addresses = {broker.broker: broker.address for broker in brokers}
    taken = []
    for number in sorted(set(led) & set(addresses)):
        found = _finding(number, _refusal(given, addresses[number], *led[number], timeout_s))
        if found is None:
            taken.append(str(number))
        else:
            yield found
            if found.state.value == "skipped":
                return
    if taken and not short:
        yield well(_CHECK, f"taken by {counted(len(taken), 'broker')}: {', '.join(taken)}")


def _finding(broker: int, refusal: PenstockError) -> Finding | None:
    """What the answer says of writes; None = they are taken."""
    match refusal:
        case CorruptBatch():
            return None
        case Forbidden():
            return skipped(_CHECK, "the key may not send, so it is not known whether writes are taken")
        case DiskFull():
            return wrong(
                _CHECK,
                type(refusal)(f"broker {broker}: {refusal.message}"),
                "Free space on that broker's disk, shorten retention or add a broker. Reading goes on.",
            )
        case _ if refusal.retriable:
            return doubtful(_CHECK, f"broker {broker}: {refusal.message}", refusal.remedy)
        case _:
            return wrong(_CHECK, type(refusal)(f"broker {broker}: {refusal.message}"))


def _refusal(
    given: ConnectionSettings, address: str, topic_id: str, partition: int, timeout_s: float
) -> PenstockError:
    """How the leader refuses what is no batch; `CorruptBatch` where it would have taken a sound one."""
    head = pb.ProduceHead(acks=-1)
    head.batches.add(
        id=1, topic_id=bytes.fromhex(topic_id), partition=partition, size=len(_NO_BATCH), leader_epoch=-1
    )
    frame = pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [_NO_BATCH])
    secure, options = grpc_terms.credentials(given.ca_file), grpc_terms.CHANNEL_OPTIONS
    channel = (
        grpc.insecure_channel(address, options)
        if secure is None
        else grpc.secure_channel(address, secure, options)
    )
    with contextlib.closing(channel):
        # Left open until the answer is there: a broker ends what its caller has ended.
        frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        frames.put(frame)
        opened: Any = channel.stream_stream(methods.PRODUCE)
        answers: Any = opened(
            iter(frames.get, None),
            timeout=timeout_s,
            metadata=grpc_terms.call_metadata(given.api_key, _REQUEST_ID),
        )
        try:
            for answer in answers:
                kind, answer_head, _ = unpack_frame(answer)
                if kind is FrameKind.PRODUCE_ANSWER:
                    for result in pb.ProduceAnswerHead.FromString(bytes(answer_head)).results:
                        return error_class(result.error)(result.message)
        except grpc.RpcError as error:
            trailing = [(one.key, one.value) for one in error.trailing_metadata() or ()]
            code = grpc_terms.code_of(error.code(), trailing)
            message = grpc_terms.describe(address, error.code(), error.details(), _REQUEST_ID)
            return BrokerUnavailable(message) if code is None else error_class(code)(message)
        finally:
            frames.put(None)
            answers.cancel()
    return BrokerUnavailable(f"{address}: the stream ended without an answer")
