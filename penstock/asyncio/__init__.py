"""The SDK for asyncio: the names of `penstock`, to be awaited. What is no coroutine is the very same object.

    async with penstock.asyncio.Client(profile="dev") as client:
        async with client.producer() as producer:
            delivery = await producer.send("orders", b"one book", key=b"anna")
            print(await delivery)

`send` waits only for space in the buffer and the first news of a topic; its `Delivery` is awaited for the
receipt.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import penstock
import penstock.transport.process  # before grpc, whose settings for the process it makes

if TYPE_CHECKING:
    from penstock.admin.objects import NewTopic, TopicOutcome
    from penstock.asyncio.client import Client
    from penstock.asyncio.consumer import Consumer
    from penstock.asyncio.delivery import Delivery
    from penstock.asyncio.producer import Producer
    from penstock.client.consuming.malformed import SkippedBatch
    from penstock.client.descriptions import BrokerDescription, PartitionDescription, TopicDescription
    from penstock.client.groups.descriptions import GroupDescription, GroupMemberDescription, GroupSummary
    from penstock.client.messages import Message, MessageBatch
    from penstock.client.producing.delivery import Receipt
    from penstock.client.record_safety import PartitionDurability
    from penstock.contract.errors import (
        AlreadyExists,
        Belief,
        BrokerUnavailable,
        BufferFull,
        Closed,
        ConfigurationError,
        CoordinatorNotReady,
        CorruptBatch,
        CorruptLog,
        DeliveryTimeout,
        DiskFull,
        ErrorCode,
        ErrorKind,
        FencedInstanceId,
        FencedLeaderEpoch,
        FencedMemberEpoch,
        Forbidden,
        GroupNotEmpty,
        GroupNotFound,
        InternalError,
        InUse,
        InvalidRequest,
        LeaderNotReady,
        LimitExceeded,
        LogTruncated,
        MalformedBatch,
        MessageTooLarge,
        NoLeader,
        NotCoordinator,
        NotEnoughReplicas,
        NotFound,
        NotLeader,
        OffsetOutOfRange,
        OutcomeUnknown,
        OutOfOrderSequence,
        PenstockError,
        PreconditionFailed,
        ProducerFenced,
        ReceiptsNotWritten,
        SerializationFailed,
        ShuttingDown,
        Throttled,
        TimedOut,
        TimestampOutOfRange,
        Unauthenticated,
        UnknownLeaderEpoch,
        UnknownMember,
        UnknownProducer,
        UnsupportedCompression,
        UsedAfterFork,
    )

_HOME = {
    "Client": "penstock.asyncio.client",
    "Consumer": "penstock.asyncio.consumer",
    "Delivery": "penstock.asyncio.delivery",
    "Producer": "penstock.asyncio.producer",
}

__all__ = [  # noqa: RUF022 -- the SDK's own first, then the errors
    "Client",
    "Producer",
    "Delivery",
    "Receipt",
    "ProducerStats",
    "PartitionStats",
    "HotKey",
    "Consumer",
    "Message",
    "MessageBatch",
    "SkippedBatch",
    "TopicDescription",
    "PartitionDescription",
    "PartitionDurability",
    "BrokerDescription",
    "NewTopic",
    "TopicOutcome",
    "GroupSummary",
    "GroupDescription",
    "GroupMemberDescription",
    "PenstockError",
    "Belief",
    "ErrorCode",
    "ErrorKind",
    "AlreadyExists",
    "BrokerUnavailable",
    "BufferFull",
    "Closed",
    "ConfigurationError",
    "CoordinatorNotReady",
    "CorruptBatch",
    "CorruptLog",
    "DeliveryTimeout",
    "DiskFull",
    "FencedInstanceId",
    "FencedLeaderEpoch",
    "FencedMemberEpoch",
    "Forbidden",
    "GroupNotEmpty",
    "GroupNotFound",
    "InternalError",
    "InUse",
    "InvalidRequest",
    "LeaderNotReady",
    "LimitExceeded",
    "LogTruncated",
    "MalformedBatch",
    "MessageTooLarge",
    "NoLeader",
    "NotCoordinator",
    "NotEnoughReplicas",
    "NotFound",
    "NotLeader",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "PreconditionFailed",
    "OutcomeUnknown",
    "ProducerFenced",
    "ReceiptsNotWritten",
    "SerializationFailed",
    "ShuttingDown",
    "Throttled",
    "TimedOut",
    "TimestampOutOfRange",
    "Unauthenticated",
    "UnknownLeaderEpoch",
    "UnknownMember",
    "UnknownProducer",
    "UnsupportedCompression",
    "UsedAfterFork",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock.asyncio' has no attribute {name!r}")
    home = _HOME.get(name)
    value = getattr(penstock, name) if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
